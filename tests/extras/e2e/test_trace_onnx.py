"""`precreg trace` of ONNX models by the real command in a real repository.

In processes of their own: the package onnx cannot be imported twice in one.
"""

import numpy as np
import onnx
import pytest

from tests.e2e.command import repository, started, with_suite
from tests.extras.e2e.test_onnx import SUITE
from tests.extras.onnx_models import FLOAT, gelu_net, lossy_net, model, node, save, value

NODES = """\
suite: nodes
onnx_tests: nodes
"""


@pytest.fixture
def project(tmp_path):
    folder = with_suite(tmp_path / "project", SUITE, name="net")
    save(folder / "suites/unit/net.onnx", lossy_net(), external="net.bin")
    return repository(folder)


def test_a_cast_in_a_model_is_the_first_loss(project):
    done = started(project, "trace", "unit/net")
    assert done.returncode == 0, done.stderr
    assert "first loss: narrow, Cast" in done.stdout
    assert "bits equal a plain run's" in done.stdout


def test_an_honest_model_has_no_loss(project):
    save(project / "suites/unit/net.onnx", gelu_net())
    done = started(project, "trace", "unit/net")
    assert done.returncode == 0, done.stderr
    assert "first loss:" not in done.stdout


def test_a_backend_test_is_traced(project):
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    folder = project / "suites/unit/nodes/exp"
    made = model([node("Exp", ["x"], ["y"])], [value("x", FLOAT, (3, 4))], [value("y", FLOAT, (3, 4))])
    save(folder / "model.onnx", made)
    for number in (0, 1):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for name, array in (("input_0", x + number), ("output_0", np.exp(x + number))):
            (data / f"{name}.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
    (project / "suites/unit/nodes.yaml").write_text(NODES)
    done = started(project, "trace", "nodes/exp")
    assert done.returncode == 0, done.stderr
    assert "set1.y" in done.stdout


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: path.write_bytes(b"no model"), "expected a model"),
        (
            lambda path: save(path, model([], [value("x", FLOAT, (16, 64))], [value("x", FLOAT, (16, 64))])),
            "without nodes",
        ),
        (lambda path: save(path, gelu_net([node("Unknown", ["h"], ["g"])])), "Unknown"),
    ],
    ids=["damaged", "empty", "unknown operator"],
)
def test_a_mistake_in_a_model_is_a_message(project, change, reason):
    change(project / "suites/unit/net.onnx")
    done = started(project, "trace", "unit/net")
    assert done.returncode == 2
    assert reason in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_weights_that_are_gone_are_a_message(project):
    (project / "suites/unit/net.bin").unlink()
    done = started(project, "trace", "unit/net")
    assert done.returncode == 2
    assert "net.bin" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_subject_in_float64_is_refused(project):
    text = SUITE.replace("{onnx: net.onnx}", "{onnx: net.onnx, precision: float64}\ngolden: {onnx: net.onnx}")
    (project / "suites/unit/net.yaml").write_text(text)
    done = started(project, "trace", "unit/net")
    assert done.returncode == 2
    assert "precision: float64" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_nodes_that_another_machine_stored_are_compared_in_order(project):
    """The other machine has a fault at one node, which later nodes inherit."""
    import json

    from onnx.reference import ReferenceEvaluator

    from precreg.run import draw_inputs
    from precreg.suite import load_cases

    save(project / "suites/unit/net.onnx", gelu_net())
    cases = {case.id: case for case in load_cases(project)}
    x = draw_inputs(cases["unit/net/default"], 0, project / "suites/unit", project)["x"]
    narrow = [node("Cast", ["h"], ["n"], to=onnx.TensorProto.BFLOAT16), node("Cast", ["n"], ["g"], "copy", to=FLOAT)]
    other = gelu_net(narrow)
    (project / "dumps").mkdir()
    for each in other.graph.node:
        if each.name:
            del other.graph.output[:]
            other.graph.output.append(value(each.output[0], shape=None))
            found = ReferenceEvaluator(other).run(None, {"x": x})[0]
            np.save(project / "dumps" / f"{each.name}.npy", found)
    done = started(project, "trace", "unit/net", "--dumps", "dumps", "--json", "trace.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((project / "trace.json").read_text())["dumps"]
    unexplained = {each["name"]: each["unexplained"] for each in found["layers"]}
    # Fused nodes have names of their own.
    assert next(iter(unexplained.items())) == ("linear", False)
    assert unexplained["head"] is True
    assert all(unexplained[name] for name in unexplained if name != "linear")
    assert "copy" in {*unexplained, *found["only_dumped"]}
