"""precreg trace of subjects of torch: modules, gradients, autocast, compiled ones, and functions that use torch."""

import json

import pytest

from tests.e2e.command import repository, started, with_suite
from tests.extras.e2e.test_torch_road import KERNEL as NET

SUITE = """\
suite: s
subject: {torch: "k:Net", dtype: $dtype}
matrix: {dtype: [float32, bfloat16]}
inputs:
  x: {shape: [8, 48], dtype: $dtype, normal: {}}
tolerance: none
"""
KERNEL = f"""\
{NET}

def through_torch(x):
    return torch.from_numpy(x).exp().softmax(-1).numpy()
"""


def traced(folder, pattern):
    done = started(folder, "trace", pattern, "--json", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = with_suite(tmp_path_factory.mktemp("traced"), SUITE, KERNEL)
    extra = {
        "gradients": 'subject: {torch: "k:Net", gradients: [inputs, parameters]}',
        "autocast": 'subject: {torch: "k:Net", autocast: bfloat16}',
        "compiled": 'subject: {torch: "k:Net", compile: {backend: eager}}',
        "function": "subject: k:through_torch",
    }
    for name, subject in extra.items():
        text = f"suite: {name}\n{subject}\ninputs: {{x: {{shape: [8, 48], dtype: float32, normal: {{}}}}}}\n"
        reference = "reference: k:through_torch\n" if name == "function" else ""
        (folder / f"suites/unit/{name}.yaml").write_text(text + reference + "tolerance: none\n")
    return repository(folder)


def test_a_module_has_lines_layers_errors_and_shares(project):
    trace = traced(project, "unit/s/bfloat16")
    assert trace["same_bits"] is True
    names = [each["name"] for each in trace["operations"]]
    assert names == ["aten.addmm", "aten.relu", "aten.native_layer_norm", "aten.addmm"]
    first, last = trace["operations"][0], trace["operations"][-1]
    assert (first["site"]["module"], last["site"]["module"]) == ("inner", "outer")
    assert last["site"]["code"] == "return self.outer(hidden)"
    assert last["site"]["file"].startswith("suites/")
    (output,) = trace["outputs"]
    assert output["sum_of_shares"] == pytest.approx(1, abs=0.05)
    assert 1e-3 < output["rounding"]["relative"] < 1e-1


def test_gradients_are_outputs_with_errors_and_shares(project):
    trace = traced(project, "unit/gradients")
    assert trace["same_bits"] is True
    outputs = {each["name"]: each for each in trace["outputs"]}
    assert {*outputs} == {"out", "grad.x", "grad.matrices", "grad.vectors"}
    for each in outputs.values():
        assert 0 < each["rounding"]["relative"] < 1e-5
        assert each["sum_of_shares"] == pytest.approx(1, abs=0.05)
    assert {each["phase"] for each in trace["operations"]} == {"forward", "backward"}


def test_autocast_shows_its_casts(project):
    trace = traced(project, "unit/autocast")
    assert trace["same_bits"] is True
    casts = [each for each in trace["operations"] if each["name"] == "aten._to_copy" and each["dtype"] == "bfloat16"]
    assert len(casts) >= 4
    assert all(each["own"]["relative"] > 1e-4 for each in casts)


def test_a_compiled_module_runs_eagerly_and_the_trace_says_so(project):
    trace = traced(project, "unit/compiled")
    assert [each["name"] for each in trace["events"] if each["kind"] == "eager"] == ["torch.compile"]
    assert trace["operations"][0]["site"]["module"] == "inner"


def test_a_function_on_arrays_may_use_torch_inside(project):
    trace = traced(project, "unit/function")
    assert trace["same_bits"] is True
    assert [each["name"] for each in trace["operations"] if each["engine"] == "torch"] == ["aten.exp", "aten._softmax"]
    (output,) = trace["outputs"]
    assert 0 < output["rounding"]["relative"] < 1e-6
    assert [each for each in trace["events"] if each["kind"] == "cut"] == []
