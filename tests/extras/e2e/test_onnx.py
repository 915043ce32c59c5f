"""ONNX models by the real command in a real repository: baseline, loss, rewrite, pairs and changed files."""

import json
import os

import numpy as np
import pytest

from tests.e2e.command import git, precreg, repository, started, with_suite
from tests.extras.onnx_models import gelu_net, lossy_net, rewritten_net, save

SUITE = """\
suite: net
subject: {onnx: net.onnx}
inputs:
  x: {shape: [16, 64], dtype: float32, normal: {mean: 0, std: 1}}
tolerance: {rtol: 1e-2, atol: 1e-4}
"""
OTHER = """\
suite: other
subject: k:same
reference: k:same
inputs:
  x: {shape: [8], dtype: float32, constant: {value: 1}}
"""


@pytest.fixture
def project(tmp_path):
    folder = with_suite(tmp_path / "project", SUITE, name="net")
    with_suite(folder, OTHER, name="other")
    save(folder / "suites/unit/net.onnx", gelu_net(), external="net.bin")
    return repository(folder)


@pytest.fixture
def accepted(project):
    """The project with accepted baselines, in a commit."""
    precreg(project, "run")
    done = precreg(project, "baseline", "accept", "--all", "--reason", "first version")
    assert done.returncode == 0, done.stdout + done.stderr
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "baselines")
    return project


def replace(project, made):
    (project / "suites/unit/net.bin").unlink()
    save(project / "suites/unit/net.onnx", made, external="net.bin")


def results(project):
    record = json.loads((project / "reports/record.json").read_text())
    return {result["id"]: result for result in record["results"]}


def reason(project, name="unit/net/default"):
    return results(project)[name]["verdict"]["reason"]


def test_the_same_model_gives_the_same_bits(accepted):
    assert precreg(accepted, "run", CI="true").returncode == 0
    assert reason(accepted) == "identical"


def test_a_cast_to_float16_fails(accepted):
    replace(accepted, lossy_net())
    assert precreg(accepted, "run", CI="true").returncode == 1
    assert reason(accepted) == "regressed"


def test_other_nodes_with_the_same_results_pass(accepted):
    replace(accepted, rewritten_net())
    assert precreg(accepted, "run", CI="true").returncode == 0
    assert reason(accepted) in ("identical", "within_tolerance")


@pytest.mark.parametrize(("made", "code"), [(rewritten_net, 0), (lossy_net, 1)])
def test_a_pair_compares_the_models_of_both_versions(project, made, code):
    replace(project, made())
    done = precreg(project, "run", "--pair", "HEAD", "net", CI="true")
    assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.parametrize("file", ["net.onnx", "net.bin"])
def test_a_changed_file_of_the_model_selects_its_case(accepted, file):
    path = accepted / "suites/unit" / file
    path.write_bytes(path.read_bytes() + (b"\x00" * 4 if file == "net.bin" else b""))
    os.utime(path)
    if file == "net.onnx":
        save(path, rewritten_net(), external="net.bin.new")
    precreg(accepted, "run", "--changed-since", "HEAD")
    assert list(results(accepted)) == ["unit/net/default"]


def test_a_changed_file_of_another_suite_does_not(accepted):
    (accepted / "suites/unit/k.py").write_text("def same(x):\n    return x + 0\n")
    precreg(accepted, "run", "--changed-since", "HEAD")
    assert list(results(accepted)) == ["unit/other/default"]


def test_a_plain_case_leaves_nothing_in_its_worker(accepted):
    done = started(accepted, "run", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    execution = results(accepted)["unit/net/default"]["outcome"]["execution"]
    assert execution["left"] == []
    assert "leaves" not in done.stdout
    assert "left" not in done.stdout


def test_a_missing_file_of_weights_is_one_error(project):
    (project / "suites/unit/net.bin").unlink()
    assert precreg(project, "run").returncode != 0
    assert reason(project) == "subject_error"
    message = results(project)["unit/net/default"]["verdict"]["message"]
    assert message == "expected the weights of the model in suites/unit/net.bin but the file is not there"


def test_an_absent_device_skips_the_case_and_require_makes_it_an_error(project):
    path = project / "suites/unit/net.yaml"
    path.write_text(SUITE.replace("net.onnx}", "net.onnx, providers: ROCMExecutionProvider}"))
    done = precreg(project, "run", "net")
    assert reason(project) == "unavailable"
    assert "needs ROCMExecutionProvider, but onnxruntime" in done.stdout + done.stderr
    assert precreg(project, "run", "net", "--require").returncode != 0
    assert results(project)["unit/net/default"]["verdict"]["status"] == "error"


def test_rows_of_a_matrix_compare_optimization_levels_and_a_node_is_an_output(project):
    path = project / "suites/unit/net.yaml"
    options = "nodes: [linear, erf], optimization: $level}\nmatrix: {level: [disabled, all]}"
    path.write_text(SUITE.replace("net.onnx}", f"net.onnx, {options}"))
    precreg(project, "run", "net")
    assert {result["verdict"]["reason"] for result in results(project).values()} == {"new"}
    outputs = [list(result["outcome"]["execution"]["outputs"]) for result in results(project).values()]
    assert outputs == [["h", "erf", "y"]] * 2


def test_export_writes_nodes_in_the_order_of_execution(project, tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    model, file = project / "suites/unit/net.onnx", tmp_path / "nodes.npz"
    done = precreg(project, "export", model, "--node", "gelu", "--node", "h", "--input", tmp_path / "x.npy", "-o", file)
    assert done.returncode == 0, done.stdout + done.stderr
    with np.load(file) as stored:
        assert stored.files == ["h", "gelu"]
        assert stored["h"].shape == (2, 32)
    done = precreg(project, "export", model, "--node", "lineer", "--input", tmp_path / "x.npy", "-o", file)
    assert done.returncode == 2
    assert (
        'error[unknown-node]: expected a node or a tensor of the graph but got node=lineer; did you mean "linear"?'
        in done.stderr
    )


def test_the_files_of_a_reference_are_in_the_outcome(project):
    (project / "suites/unit/net.yaml").write_text(SUITE + "reference: {onnx: net.onnx, optimization: disabled}\n")
    started(project, "run", "net", "--jobs", "1")
    files = results(project)["unit/net/default"]["outcome"]["execution"]["oracle_files"]
    assert files == ["suites/unit/net.bin", "suites/unit/net.onnx"]
