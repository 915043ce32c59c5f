"""`precreg reduce` as the real command: numpy cases whose reduced suite fails, and passes without the fault."""

import json

import numpy as np
import pytest

from tests.e2e.command import change, git, precreg, repository, with_suite
from tests.e2e.test_trace import KERNEL, SUITE

ADAM = """\
suite: adam
subject: k:update
golden: k:golden
matrix: {dtype: [float32]}
inputs:
  w: {shape: [16, 64], dtype: $dtype, normal: {mean: 0, std: 0.01}}
  m: {shape: [16, 64], dtype: $dtype, normal: {mean: 0, std: 0.2}}
  v: {shape: [16, 64], dtype: $dtype, uniform: {low: 0.5, high: 0.7}}
params: {rate: 0.01, eps: 1.0e-8}
tolerance: {rtol: 0, atol: 0}
"""

ADAM_KERNEL = """\
import numpy as np


def update(w, m, v, rate, eps):
    rate, denominator = w.dtype.type(rate), np.sqrt(v) + w.dtype.type(eps)
    return w - (rate * m) / denominator


def golden(w, m, v, rate, eps):
    quotient = np.divide(m, np.sqrt(v) + w.dtype.type(eps))
    return w - np.multiply(w.dtype.type(rate), quotient)
"""

SUM = """\
suite: total
subject: k:total
reference: k:exact
inputs:
  x: {shape: [64], dtype: float32, normal: {mean: 1, std: 0.01}}
tolerance: {rtol: 1.0e-3, atol: 0}
"""


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE, KERNEL, "block"))


def plant(project, before, after):
    """Change the subject of the block, and not its reference."""
    file = project / "suites" / "unit" / "k.py"
    subject, mark, reference = file.read_text().partition("def exact")
    assert subject.count(before) == 1
    file.write_text(subject.replace(before, after) + mark + reference)


def reduced(project, *arguments, code=0):
    """Reduce a case, and return its JSON and the text."""
    done = precreg(project, "reduce", *arguments, "--json", "reduction.json")
    assert (done.returncode, done.stderr) == (code, ""), done.stdout + done.stderr
    return json.loads((project / "reduction.json").read_text()), done.stdout


def run_reduced(project, code):
    done = precreg(project, "--project", "reduced", "run", "--require")
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def module(project):
    (file,) = (project / "reduced" / "suites" / "unit").glob("*.py")
    return file


def test_a_cast_among_27_operations_becomes_a_suite_that_fails_until_it_is_fixed(project):
    plant(project, "scores - scores.max(-1, keepdims=True)", "(scores + 64).astype(np.float16).astype(scores.dtype)")
    found, text = reduced(project, "block/float32")
    assert (found["status"], found["error_kind"], found["engine"]) == ("reduced", "rounding", "numpy")
    assert found["operations"] == 25
    (part,) = found["parts"]
    assert [(kept["name"], kept["site"]["line"]) for kept in part["kept"]] == [("astype", 19)]
    # All other operations round in float32, which the bounds of 1e-3 do not see.
    assert part["alone"] == pytest.approx(found["factor"], rel=0.02)
    assert part["others"] < 0.1
    assert part["proof"] > 1
    assert part["max_ulp"] <= 0.5001
    assert "25 operations reduced to 1" in text
    assert "FAILED   unit/reduced_block_float32/default   out_of_tolerance" in run_reduced(project, 1)
    change(module(project), 'dtype("float16")', 'dtype("float32")')
    assert "PROPOSED unit/reduced_block_float32/default   new" in run_reduced(project, 2)
    assert precreg(project, "--project", "reduced", "baseline", "accept", "--all", "--reason", "fixed").returncode == 0
    run_reduced(project, 0)


def test_the_boundary_has_the_values_of_the_case(project):
    plant(project, "np.exp(scores -", "np.exp(8 * scores -")
    plant(project, "variance + x.dtype.type(eps)", "variance.astype(np.float16) + x.dtype.type(eps)")
    found, _ = reduced(project, "block/float32", "--seed", "2")
    (part,) = found["parts"]
    inputs = {each["name"]: each for each in part["tensors"] if each["role"] == "input"}
    assert inputs
    for name, tensor in inputs.items():
        array = np.load(project / "reduced" / tensor["file"])
        assert (array.dtype.name, [*array.shape]) == (tensor["dtype"], tensor["shape"]), name


def test_a_dropped_epsilon_is_reduced_to_the_operation_that_lacks_it(project):
    plant(project, "np.sqrt(variance + x.dtype.type(eps))", "np.sqrt(variance)")
    found, text = reduced(project, "block/float32")
    assert (found["status"], found["error_kind"]) == ("reduced", "formula")
    (part,) = found["parts"]
    assert [kept["name"] for kept in part["kept"]] == ["sqrt"]
    assert "compute something else than the oracle" in text
    run_reduced(project, 1)
    change(module(project), "np.sqrt(v5)", "np.sqrt(v5 + np.float32(1e-5))")
    run_reduced(project, 2)


def test_the_larger_loss_decides_between_rounding_and_formula(project):
    plant(project, "x.dtype.type(0.25)", "x.dtype.type(0.2)")
    found, _ = reduced(project, "block/float16")
    assert found["error_kind"] == "formula"
    # float16 rounds the epsilon by a thousandth, so that the products differ from the reference's, too.
    assert [kept["name"] for kept in found["parts"][0]["kept"]] == ["matmul", "multiply"]


def test_an_order_of_operations_is_reduced_to_the_steps_that_the_golden_takes_otherwise(tmp_path):
    project = repository(with_suite(tmp_path, ADAM, ADAM_KERNEL, "adam"))
    found, text = reduced(project, "adam")
    assert (found["status"], found["error_kind"], found["factor"]) == ("reduced", "order", "inf")
    assert [kept["name"] for kept in found["parts"][0]["kept"]] == ["multiply", "divide"]
    assert "take other steps than the oracle" in text
    run_reduced(project, 1)
    text = module(project).read_text()
    before, after = text[: text.index("    v5 =")], text[text.index("    return") :]
    steps = "    v5 = np.divide(m, v4)\n    v6 = np.multiply(np.float32(0.01), v5)\n"
    module(project).write_text(before + steps + after)
    run_reduced(project, 2)


def test_two_parts_are_two_suites_the_larger_loss_first(project):
    plant(project, "q @ k.T * x.dtype", "(q @ k.T + 64).astype(np.float16).astype(x.dtype) * x.dtype")
    plant(project, "return centered * (1", "return centered.astype(np.float16).astype(x.dtype) * (1")
    one, text = reduced(project, "block/float32")
    assert one["parts"][0]["others"] > 1
    assert "--parts 2 reduces the other operations" in text
    found, _ = reduced(project, "block/float32", "--parts", "2")
    assert [part["kept"][0]["site"]["line"] for part in found["parts"]] == [7, 15]
    assert found["parts"][0]["alone"] > found["parts"][1]["alone"] > 1
    assert found["parts"][1]["others"] < 1
    assert [part["case"] for part in found["parts"]] == [
        "unit/reduced_block_float32/default",
        "unit/reduced_block_float32_2/default",
    ]
    run_reduced(project, 1)


def test_tensors_of_bfloat16_are_stored_by_their_name(tmp_path):
    suite = SUM.replace("[64], dtype: float32", "[2048], dtype: bfloat16")
    kernel = "import numpy as np\n\n\ndef total(x):\n    return np.add.accumulate(x * x)[-1:]\n"
    kernel += "\n\ndef exact(x):\n    return (x * x).sum(keepdims=True)\n"
    project = repository(with_suite(tmp_path, suite, kernel, "total"))
    found, _ = reduced(project, "total")
    (part,) = found["parts"]
    assert [kept["name"] for kept in part["kept"]] == ["add.accumulate"]
    assert part["tensors"][0]["file"].endswith(".bfloat16.npy")
    run_reduced(project, 1)


def test_a_case_on_a_simulated_device_is_reduced_on_the_device(tmp_path):
    suite = SUM.replace("[64], dtype: float32", "[4096], dtype: float16").replace("1.0e-3", "1.0e-4")
    kernel = "import numpy as np\n\n\ndef total(x):\n    return (x * x).sum() / np.float32(2)\n"
    kernel += "\n\ndef exact(x):\n    return (x * x).sum() / 2\n"
    project = repository(with_suite(tmp_path, f"{suite}device: mlu370\n", kernel, "total"))
    done = precreg(project, "reduce", "total", "--json", "-")
    found = json.loads(done.stdout)
    assert found["status"] in ("reduced", "unproven"), done.stderr
    assert "device: mlu370" in (project / "reduced" / "suites" / "unit" / "reduced_total_default.yaml").read_text()


def test_a_regression_within_the_bounds_is_reduced_by_the_baseline(tmp_path):
    project = repository(with_suite(tmp_path, SUITE.replace("rtol: 1e-3", "rtol: 1e-1"), KERNEL, "block"))
    precreg(project, "run")
    accepted = precreg(project, "baseline", "accept", "--all", "--reason", "first")
    assert accepted.returncode == 0, accepted.stderr
    assert reduced(project, "block/float32", code=1)[0]["status"] == "passed"
    plant(project, "return centered * (1", "return centered.astype(np.float16).astype(x.dtype) * (1")
    found, text = reduced(project, "block/float32")
    assert (found["status"], found["limit"]) == ("reduced", "baseline")
    assert [kept["name"] for kept in found["parts"][0]["kept"]] == ["astype"]
    assert "keeps its bounds, but its errors are" in text
    assert "FAILED   unit/reduced_block_float32/default" in run_reduced(project, 1)


def test_a_case_that_passes_has_nothing_to_reduce(project):
    found, text = reduced(project, "block/float32", code=1)
    assert found["status"] == "passed"
    assert found["factor"] < 1
    assert "nothing to reduce" in text
    assert not (project / "reduced").exists()


def test_an_error_that_all_operations_share_is_not_reduced(tmp_path):
    """Eight roundings to float16, all in one direction, where seven are within the bounds."""
    kernel = "import numpy as np\n\n\ndef total(x):\n    y = np.float16(1) + (x * 0).astype(np.float16)\n"
    kernel += "    for _ in range(8):\n        y = y + np.float16(0.00048)\n    return y\n"
    kernel += "\n\ndef exact(x):\n    return 1 + x * 0 + 8 * 0.00048\n"
    project = repository(with_suite(tmp_path, SUM.replace("1.0e-3", "3.7e-3"), kernel, "total"))
    found, text = reduced(project, "total", code=1)
    assert found["status"] == "whole"
    assert "nothing smaller fails" in text


def test_a_nondeterministic_case_is_refused(tmp_path):
    kernel = "import itertools\nimport numpy as np\n\ncalls = itertools.count(1)\n\n\n"
    kernel += "def total(x):\n    return x.sum() * next(calls)\n\n\ndef exact(x):\n    return x.sum()\n"
    project = repository(with_suite(tmp_path, SUM, kernel, "total"))
    found, text = reduced(project, "total", code=2)
    assert found["status"] == "nondeterministic"
    assert "gave other bits" in text


def test_a_case_without_numpy_is_refused_without_a_traceback(tmp_path):
    kernel = "def total(x):\n    return {'out': float(sum(x.tolist())) * 2}\n\n\ndef exact(x):\n    return x.sum()\n"
    project = repository(with_suite(tmp_path, SUM, kernel, "total"))
    done = precreg(project, "reduce", "total")
    assert done.returncode == 2
    assert done.stderr.startswith("error[irreducible]: ")
    assert "Traceback" not in done.stderr


def test_a_suite_of_somebody_else_is_not_replaced(project):
    plant(project, "return centered * (1", "return centered.astype(np.float16).astype(x.dtype) * (1")
    taken = project / "ours" / "suites" / "unit" / "reduced_block_float32.yaml"
    taken.parent.mkdir(parents=True)
    taken.write_text("suite: mine\n")
    done = precreg(project, "reduce", "block/float32", "--output", "ours")
    assert done.returncode == 2
    assert done.stderr.startswith("error[bad-value]: expected a folder without reduced_block_float32.yaml")
    assert taken.read_text() == "suite: mine\n"


@pytest.mark.parametrize("folder", ["suites", "suites/unit/part"])
def test_a_project_inside_the_folder_of_suites_is_refused(project, folder):
    done = precreg(project, "reduce", "block/float32", "--output", folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error[bad-value]: expected a folder outside of")
    assert precreg(project, "list").returncode == 0


def test_two_reductions_write_the_same_bytes(project):
    plant(project, "return centered * (1", "return centered.astype(np.float16).astype(x.dtype) * (1")
    for folder in ("one", "two"):
        reduced(project, "block/float32", "--output", folder)
    git(project, "add", "one", "two")
    assert git(project, "diff", "--no-index", "--stat", "one", "two") == ""
