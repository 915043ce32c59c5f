"""`precreg bisect CASE --precision` on a transformer with two fragile layers, in torch and in ONNX."""

import json

import onnx
import pytest
import yaml

from benchmarks.precision_bisection import FRAGILE_NORM, FRAGILE_WEIGHTS, TORCH, TORCH_SUITE
from tests.e2e.command import change, precreg, repository, with_suite
from tests.extras.diagnose.precision.fragile import ONNX_SUITE, onnx_transformer
from tests.extras.onnx_models import save

FRAGILE = {FRAGILE_NORM, FRAGILE_WEIGHTS}
MAX_RUNS = 8


@pytest.fixture
def torch_project(tmp_path):
    return repository(with_suite(tmp_path, TORCH_SUITE.replace("OPTIONS\n", ""), TORCH, "net"))


@pytest.fixture
def onnx_project(tmp_path):
    folder = with_suite(tmp_path, ONNX_SUITE.replace("OPTIONS\n", ""), name="net")
    save(folder / "suites/unit/net.onnx", onnx_transformer())
    return repository(folder)


def bisected(project, *arguments, code=0):
    done = precreg(project, "bisect", "net", "--precision", *arguments, "--json", "found.json")
    assert (done.returncode, done.stderr) == (code, ""), done.stdout + done.stderr
    return json.loads((project / "found.json").read_text()), done.stdout


def runs(found):
    """Return the number of runs, the proof included."""
    return len(found["trials"]) + (found["proof"] is not None)


def kept_bound(project):
    """Return whether a run breaks no bound: the case is new."""
    shown = precreg(project, "run", "net").stdout
    assert ("1 proposed" in shown) != ("out_of_tolerance" in shown or "non_finite" in shown), shown
    return "1 proposed" in shown


def with_option(project, after, text):
    indented = "".join(f"  {line}\n" for line in text.rstrip().splitlines())
    change(project / "suites/unit/net.yaml", after, after + indented)


def test_both_fragile_modules_are_found_in_few_runs(torch_project):
    found, text = bisected(torch_project)
    assert (found["status"], set(found["kept"])) == ("found", FRAGILE)
    assert len(found["parts"]) == 61
    assert runs(found) <= MAX_RUNS
    assert f"2 of 61 modules in float32 keep the bound: {', '.join(found['kept'])}" in text


def test_the_printed_option_makes_the_case_pass(torch_project):
    found, _ = bisected(torch_project)
    assert not kept_bound(torch_project)
    with_option(torch_project, "  dtype: float16\n", found["configuration"]["text"])
    assert kept_bound(torch_project)
    assert bisected(torch_project)[0]["status"] == "passed"


def test_a_module_that_the_suite_keeps_already_stays(torch_project):
    with_option(torch_project, "  dtype: float16\n", f"keep_in: {{float32: [{FRAGILE_NORM}]}}\n")
    found, _ = bisected(torch_project)
    assert found["kept"] == [FRAGILE_WEIGHTS]
    assert set(yaml.safe_load(found["configuration"]["text"])["keep_in"]["float32"]) == FRAGILE


def test_the_costs_of_a_module(torch_project):
    found, _ = bisected(torch_project)
    norm = next(part for part in found["parts"] if part["name"] == FRAGILE_NORM)
    weights = next(part for part in found["parts"] if part["name"] == FRAGILE_WEIGHTS)
    # A weight and a bias of 64, in two bytes more each. The softmax has none.
    assert (norm["parameters"], norm["weight_bytes"]) == (128, 256)
    assert (weights["parameters"], weights["weight_bytes"]) == (0, 0)
    # Products, scaled and raised, their differences, exponentials and quotients of 8 x 16 x 16; maxima and sums.
    assert weights["result_bytes"] == 2 * weights["elements"] == 2 * (6 * 8 * 16 * 16 + 2 * 8 * 16)


def test_flat_shares_are_no_dominating_module(torch_project):
    found, text = bisected(torch_project, "--bound", "mean_abs_error<=3e-4", code=1)
    assert (found["status"], found["kept"]) == ("spread", [])
    assert "No module dominates the error: half of the 61 modules in float32" in text
    assert runs(found) <= MAX_RUNS


def test_the_rounding_of_the_output_stays(torch_project):
    found, _ = bisected(torch_project, "--bound", "mean_abs_error<=1e-7", code=1)
    assert found["status"] == "insufficient"


def test_overflows_are_traced_one_behind_the_other(torch_project):
    """A variance beyond float16 makes zeros, and products beyond it NaN: no trace of the whole has shares."""
    kernel = torch_project / "suites/unit/k.py"
    change(
        kernel,
        "logits = q @ k.mT * 0.2 + self.offset",
        "logits = (q * (self.offset + 1)) @ (k * 2).mT / (self.offset + 1) * 0.2",
    )
    change(kernel, "x = x + self.shift", "x = x * (1 + self.shift)")
    change(kernel, "offset=400.0, shift=20.0", "offset=60000.0, shift=1000.0")
    found, text = bisected(torch_project)
    assert set(found["kept"]) == FRAGILE
    assert (found["trials"][0]["metric"], found["traces"]) == ("non_finite_mismatch", 2)
    assert runs(found) <= MAX_RUNS
    assert "overflow" in text


def test_autocast_computes_the_fragile_norm_in_float32_and_the_softmax_not(torch_project):
    suite = torch_project / "suites/unit/net.yaml"
    change(suite, "  dtype: float16\n", "  autocast: float16\n")
    change(suite, "dtype: float16, normal", "dtype: float32, normal")
    found, _ = bisected(torch_project)
    assert (found["narrow"], found["kept"]) == ("float16", [FRAGILE_WEIGHTS])
    assert runs(found) <= MAX_RUNS
    # The weights of such a module are float32 in any case.
    assert all(part["weight_bytes"] == 0 for part in found["parts"])
    with_option(torch_project, "  autocast: float16\n", found["configuration"]["text"])
    assert kept_bound(torch_project)


def test_a_module_of_float32_can_be_kept_in_float64_only(torch_project):
    suite = torch_project / "suites/unit/net.yaml"
    change(suite, "  dtype: float16\n", "  dtype: float32\n")
    change(suite, "dtype: float16, normal", "dtype: float32, normal")
    change(suite, "mean_abs_error: 1e-3", "mean_abs_error: 1.3e-7")
    done = precreg(torch_project, "bisect", "net", "--precision")
    assert done.returncode == 2
    assert "error[untraceable]: expected a module with dtype or autocast of float16, bfloat16 but" in done.stderr
    found, _ = bisected(torch_project, "--keep-in", "float64")
    assert set(found["kept"]) == FRAGILE


def test_a_function_of_torch_has_no_modules(torch_project):
    kernel, suite = torch_project / "suites/unit/k.py", torch_project / "suites/unit/net.yaml"
    kernel.write_text(f"{TORCH}\n\ndef plain(x):\n    return x * 3\n")
    change(suite, "  torch: k:Net\n  dtype: float16\n", "  torch: k:plain\n")
    done = precreg(torch_project, "bisect", "net", "--precision")
    assert (done.returncode, "error[untraceable]" in done.stderr) == (2, True), done.stderr


def test_a_module_that_cannot_be_built(torch_project):
    kernel = torch_project / "suites/unit/k.py"
    change(kernel, "        self.head = nn.Linear(width, width)\n", "        raise KeyError('weights')\n")
    done = precreg(torch_project, "bisect", "net", "--precision")
    assert done.returncode == 2
    assert "error[trace-failed]: expected the subject of unit/net/default to return arrays but: KeyError" in done.stderr


def test_both_fragile_groups_of_nodes_are_found_in_few_runs(onnx_project):
    found, text = bisected(onnx_project)
    assert {name.removeprefix("/").replace("/", ".") for name in found["kept"]} == FRAGILE
    assert runs(found) <= MAX_RUNS
    assert "2 of 73 groups of nodes in float32 keep the bound: " in text


def test_the_printed_nodes_make_the_case_pass(onnx_project):
    found, _ = bisected(onnx_project)
    assert not kept_bound(onnx_project)
    with_option(onnx_project, "  round_nodes: true\n", found["configuration"]["text"])
    assert kept_bound(onnx_project)


def test_the_written_model_computes_its_nodes_in_float32(onnx_project):
    found, text = bisected(onnx_project, "--write", "suites/unit/mixed.onnx")
    assert "written: suites/unit/mixed.onnx" in text
    mixed = onnx.load(onnx_project / "suites/unit/mixed.onnx")
    onnx.checker.check_model(mixed, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(mixed).graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*inferred.value_info, *inferred.output)}
    kept = set(yaml.safe_load(found["configuration"]["text"])["keep_in"]["float32"])
    of_nodes = {node.name: types[node.output[0]] for node in mixed.graph.node if node.op_type != "Cast"}
    assert {name for name, kind in of_nodes.items() if kind == onnx.TensorProto.FLOAT} == kept
    # Its other nodes round their results, as those of the first model do, and then the case passes.
    change(onnx_project / "suites/unit/net.yaml", "onnx: net.onnx", "onnx: mixed.onnx")
    assert kept_bound(onnx_project)


def test_the_runtime_hides_the_roundings_of_a_narrow_model(onnx_project):
    change(onnx_project / "suites/unit/net.yaml", "  round_nodes: true\n", "")
    found, text = bisected(onnx_project)
    assert (found["status"], found["widened_by_runtime"]) == ("passed", True)
    assert "round_nodes: true beside the model rounds the result of each node" in text


def test_a_model_without_narrow_nodes(onnx_project):
    suite = onnx_project / "suites/unit/net.yaml"
    done = precreg(onnx_project, "bisect", "net", "--precision", "--keep-in", "float64")
    assert (done.returncode, "error[bad-value]" in done.stderr) == (2, True), done.stderr
    from tests.extras.onnx_models import gelu_net

    save(onnx_project / "suites/unit/net.onnx", gelu_net())
    change(suite, "  round_nodes: true\n", "")
    change(suite, "shape: [8, 16, 64], dtype: float16", "shape: [8, 64], dtype: float32")
    done = precreg(onnx_project, "bisect", "net", "--precision")
    assert (done.returncode, "error[untraceable]" in done.stderr) == (2, True), done.stderr
