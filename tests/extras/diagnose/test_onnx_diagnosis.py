"""`precreg diagnose` of ONNX models: another model file, and the node or the weights that are named for it."""

import json

import numpy as np
import pytest

from tests.e2e.command import accept_on_main, git, repository, started
from tests.extras.diagnose.test_onnx_rewrites import SQUARE, block
from tests.extras.onnx_models import save

SUITE = """\
suite: net
subject: {onnx: net.onnx}
inputs:
  x: {shape: [20, 48], dtype: float32, normal: {}}
tolerance: none
"""


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Return a repository with an accepted model."""
    folder = tmp_path_factory.mktemp("accepted") / "project"
    save(folder / "suites/unit/net.onnx", block())
    (folder / "suites/unit/net.yaml").write_text(SUITE)
    return accept_on_main(repository(folder))


def diagnosed(accepted, tmp_path, made):
    project = tmp_path / "project"
    git(tmp_path, "clone", "-q", str(accepted), str(project))
    save(project / "suites/unit/net.onnx", made)
    done = started(project, "diagnose", "unit/net", "--json", "-", "--seconds", "120")
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout)


def with_weights():
    """Return the model with other weights in one row."""
    other = SQUARE.copy()
    other[7] *= np.float32(1.01)
    return block(square=other)


CHANGES = {
    "attribute": (lambda: block(epsilon=1e-3), "other_option", "norm"),
    "constant": (lambda: block(root=5.71), "other_constant", "scale"),
    "step of quantization": (lambda: block(step=0.03), "other_constant", "quantize"),
    "cast": (lambda: block(hop=True), "hop_result", "key"),
    "weights": (with_weights, "other_weights", "linear"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_changed_node_is_named_first(accepted, tmp_path, name):
    make, rewrite, module = CHANGES[name]
    done, found = diagnosed(accepted, tmp_path, make())
    assert found["status"] == "found", found
    cause = found["causes"][0]
    assert (cause["rewrite"], cause["place"]["site"]["module"]) == (rewrite, module), found
    assert cause["is_changed"]
    assert cause["evidence"]["reproduced"] == cause["evidence"]["elements"]
    assert (done.returncode, "cause: " in done.stderr) == (0, True)


def test_a_file_that_is_no_model_is_said_plainly(accepted, tmp_path):
    made = block()
    made.graph.node[0].op_type = "Unheard"
    done, found = diagnosed(accepted, tmp_path, made)
    assert (done.returncode, found["status"]) == (2, "failed")
    assert "Unheard" in found["problem"]


def test_an_operator_that_no_rewrite_gives_has_an_answer(accepted, tmp_path):
    made = block()
    (size,) = (node for node in made.graph.node if node.op_type == "Abs")
    size.op_type = "Softplus"
    _, found = diagnosed(accepted, tmp_path, made)
    assert found["status"] in ("partial", "unknown"), found
    assert "accepted" in {base["base"] for base in found["bases"]}
