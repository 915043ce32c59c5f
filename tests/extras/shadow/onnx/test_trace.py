"""Traces of ONNX models: the program that runs, its shadow, its shares, and what a trace cannot see."""

import gc
import weakref
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from precreg.shadow.ledger import coverage_of, find_first_loss
from precreg.shadow.onnx.trace import trace_onnx_call
from precreg.shadow.recorder import Detail, Recorder
from precreg.subject import Call
from precreg.subject.onnx.double import widen_model
from precreg.subject.onnx.model import run_model
from precreg.subject.onnx.reference import run_reference
from precreg.types import Trace
from tests.extras.onnx_models import DOUBLE, FLOAT, FLOAT16, INT64, constant, gelu_net, model, node, save, value
from tests.extras.shadow.onnx.networks import INPUTS, NETWORKS, convolutions, encoder, hop, hopping_scores

BOOL = onnx.TensorProto.BOOL
LEVELS = ("disabled", "basic", "extended", "all")
X = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)


def traced(tmp_path, made, inputs, recorder=None, **spec):
    recorder = recorder or Recorder()
    save(tmp_path / "m.onnx", made)
    call = Call(inputs, {}, tmp_path, tmp_path)
    found = trace_onnx_call({"model": "m.onnx", **spec}, call, recorder)
    trace = Trace(
        case="net",
        dtype="float32",
        operations=tuple(recorder.operations),
        events=recorder.events,
        outputs=found.outputs,
    )
    return found, trace


def events(trace, kind):
    return [event for event in trace.events if event.kind == kind]


def square(name="y", kind=FLOAT):
    return value(name, kind, (4, 4))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_traced_program_gives_the_bits_of_the_deployed_session(tmp_path, network, level):
    found, trace = traced(tmp_path, NETWORKS[network](), INPUTS[network], optimization=level)
    spec = {"model": "m.onnx", "optimization": level}
    plain = run_model(spec, Call(INPUTS[network], {}, tmp_path, tmp_path)).arrays
    for name, array in plain.items():
        assert found.traced.arrays[name].tobytes() == array.tobytes()
    assert trace.events == ()
    assert all(each.own is not None for each in trace.operations)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_shadow_is_an_independent_run_in_float64(tmp_path, network):
    found, _ = traced(tmp_path, NETWORKS[network](), INPUTS[network], optimization="disabled")
    call = Call(INPUTS[network], {}, tmp_path, tmp_path)
    exact = run_reference({"model": "m.onnx", "precision": "float64"}, call).arrays
    for name, expected in exact.items():
        assert np.abs(found.shadows[name] - expected).max() <= 1e-13 * np.abs(expected).max()


@pytest.mark.parametrize("network", NETWORKS)
def test_shadows_of_the_optimized_program_are_those_of_the_model(tmp_path, network):
    """Folded weights are rounded to float32 when the program is made, so the shadows differ by such roundings."""
    found, trace = traced(tmp_path, NETWORKS[network](), INPUTS[network])
    written, _ = traced(tmp_path, NETWORKS[network](), INPUTS[network], optimization="disabled")
    assert len(trace.operations) < len(NETWORKS[network]().graph.node)
    for name, shadow in written.shadows.items():
        assert np.abs(found.shadows[name] - shadow).max() <= 1e-6 * np.abs(shadow).max()


class OwnErrors:
    """Keep the own error of each operation by the name of its result."""

    def __init__(self):
        self.by_number = {}

    def see(self, observed):
        if observed.own_exact is not None and np.asarray(observed.actual).dtype == np.float32:
            self.by_number[observed.operation.number] = np.asarray(observed.actual, np.float64) - observed.own_exact


@pytest.mark.parametrize("network", NETWORKS)
def test_shares_are_those_of_runs_with_one_error_each(tmp_path, network):
    """A model in float64 adds the own error of one operation at a time."""
    own = OwnErrors()
    made = NETWORKS[network]()
    found, trace = traced(tmp_path, made, INPUTS[network], Recorder(listeners=[own]), optimization="disabled")
    name = next(iter(found.shadows))
    error = found.traced.arrays[name] - found.shadows[name]
    # ONNX Runtime orders the nodes anew.
    written = {each.name or each.output[0]: each for each in made.graph.node}
    for operation in trace.operations:
        if operation.note == "moved" or operation.number not in own.by_number:
            continue
        tensor = written[operation.site.module].output[0]
        output = with_error(made, tensor, own.by_number[operation.number], INPUTS[network], name)
        expected = float(np.sum((output - found.shadows[name]) * error) / np.sum(error * error))
        assert operation.shares[name] == pytest.approx(expected, abs=2e-4), operation
    assert found.outputs[0].sum_of_shares == pytest.approx(1, abs=1e-3)


def with_error(made, tensor, error, inputs, name):
    """Return an output of the model in float64, where an error is added to one tensor."""
    wide = widen_model(made)
    for each in wide.graph.node:
        each.output[:] = [f"{tensor}_before" if output == tensor else output for output in each.output]
    at = next(place for place, each in enumerate(wide.graph.node) if f"{tensor}_before" in each.output)
    nodes = [*wide.graph.node]
    nodes.insert(at + 1, node("Add", [f"{tensor}_before", "error"], [tensor]))
    del wide.graph.node[:]
    wide.graph.node.extend(nodes)
    wide.graph.initializer.append(constant("error", error))
    return ReferenceEvaluator(wide).run([name], {key: each.astype(np.float64) for key, each in inputs.items()})[0]


@pytest.mark.parametrize("level", ["disabled", "all"])
def test_a_product_in_float16_is_the_first_loss_where_the_program_has_one(tmp_path, level):
    """ONNX Runtime computes it in float32 on a processor without kernels for float16, and drops the casts."""
    _, trace = traced(tmp_path, encoder(3, faulty=[1]), INPUTS["encoder"], optimization=level)
    loss = find_first_loss(trace)
    narrow = [each.number for each in trace.operations if each.dtype == "float16" and each.own.relative > 0]
    assert (None if loss is None else loss.operation.number) == next(iter(narrow), None)


@pytest.mark.parametrize("level", ["disabled", "all"])
def test_queries_in_float16_are_the_first_loss(tmp_path, level):
    found, trace = traced(
        tmp_path, encoder(3, faulty=[1], scores=hopping_scores), INPUTS["encoder"], optimization=level
    )
    loss = find_first_loss(trace)
    assert loss is not None
    assert (loss.operation.name, loss.operation.site.module) == ("Cast", "layers.1.hop")
    assert found.outputs[0].sum_of_shares == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("level", ["disabled", "all"])
def test_a_cast_between_convolutions_is_the_first_loss_and_has_the_share(tmp_path, level):
    _, trace = traced(tmp_path, convolutions(hop()), INPUTS["convolutions"], optimization=level)
    loss = find_first_loss(trace)
    assert loss is not None
    assert loss.operation.site.module == "hop"
    assert loss.operation.shares["logits"] > 0.99


@pytest.mark.parametrize("network", NETWORKS)
def test_an_honest_network_has_no_loss(tmp_path, network):
    assert find_first_loss(traced(tmp_path, NETWORKS[network](), INPUTS[network])[1]) is None


def test_own_errors_are_those_of_single_operations(tmp_path):
    made = model([node("MatMul", ["x", "x"], ["a"]), node("Exp", ["a"], ["y"])], [square("x")], [square()])
    found, trace = traced(tmp_path, made, {"x": X}, Recorder(Detail.ELEMENTS))
    exact = X.astype(np.float64) @ X.astype(np.float64)
    product = run_model({"model": "m.onnx", "nodes": ["a"]}, Call({"x": X}, {}, tmp_path, tmp_path)).arrays["a"]
    expected = np.linalg.norm(product - exact) / np.linalg.norm(exact)
    assert trace.operations[0].own.relative == pytest.approx(expected, rel=1e-6)
    raised = np.exp(product.astype(np.float64))
    actual = found.traced.arrays["y"]
    assert trace.operations[1].own.relative == pytest.approx(
        np.linalg.norm(actual - raised) / np.linalg.norm(raised), rel=1e-6
    )
    assert trace.operations[1].own.max_ulp is not None
    assert trace.operations[1].sources == (1,)


def test_other_classes_of_the_shadow_are_flips_of_an_output(tmp_path):
    x = np.ones((4, 4), np.float32)
    x[:, 1] += np.float32(1e-6)
    nodes = [
        node("Mul", ["x", "third"], ["a"]),
        node("Add", ["a", "large"], ["b"]),
        node("ArgMax", ["b"], ["y"], axis=1, keepdims=0),
    ]
    numbers = [constant("third", np.float32(1 / 3)), constant("large", np.float32(3000))]
    made = model(nodes, [square("x")], [value("y", INT64, (4,))], numbers)
    found, trace = traced(tmp_path, made, {"x": x})
    assert found.traced.arrays["y"].tolist() == [0] * 4
    assert found.shadows["y"].tolist() == [1] * 4
    [flip] = events(trace, "flip")
    assert (flip.name, flip.changed, flip.elements) == ("ArgMax", 4, 4)


def test_values_follow_the_indices_of_the_run(tmp_path):
    x = np.ones((4, 4), np.float32) + np.arange(4, dtype=np.float32) * np.float32(1e-6)
    nodes = [node("Add", ["x", "large"], ["a"]), node("TopK", ["a", "k"], ["y", "i"], axis=1)]
    made = model(
        nodes,
        [square("x")],
        [value("y", FLOAT, (4, 1)), value("i", INT64, (4, 1))],
        [constant("large", np.float32(3000)), constant("k", np.array([1], np.int64))],
    )
    found, trace = traced(tmp_path, made, {"x": x})
    assert found.traced.arrays["i"].tolist() == [[0]] * 4
    assert found.shadows["y"].tolist() == [[float(x[0, 0]) + 3000]] * 4
    assert events(trace, "flip")[0].name == "TopK"


def test_an_overflow_is_an_event(tmp_path):
    nodes = [node("Exp", ["x"], ["e"]), node("Cast", ["e"], ["y"], to=FLOAT16)]
    _, trace = traced(tmp_path, model(nodes, [square("x")], [square("y", FLOAT16)]), {"x": np.abs(X) + 12})
    [event] = events(trace, "overflow")
    assert (event.name, event.changed) == ("Cast", 16)


@pytest.mark.parametrize("kind", [onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT8E4M3FN])
def test_a_cast_to_a_narrow_format_is_a_rounding(tmp_path, kind):
    nodes = [node("Cast", ["x"], ["c"], to=kind), node("Cast", ["c"], ["y"], to=FLOAT)]
    found, trace = traced(tmp_path, model(nodes, [square("x")], [square()], opset=19), {"x": X})
    assert found.shadows["y"].tolist() == X.tolist()
    assert trace.operations[0].own.relative > 1e-4
    assert found.outputs[0].sum_of_shares == pytest.approx(1)


def test_a_model_in_float64_has_a_shadow_in_longdouble(tmp_path):
    nodes = [node("MatMul", ["x", "x"], ["a"]), node("Softmax", ["a"], ["y"])]
    made = model(nodes, [square("x", DOUBLE)], [square("y", DOUBLE)])
    found, trace = traced(tmp_path, made, {"x": X.astype(np.float64)})
    assert found.shadow == "longdouble"
    assert found.shadows["y"].dtype == np.longdouble
    assert 0 < trace.operations[0].own.relative < 1e-15
    assert found.outputs[0].sum_of_shares == pytest.approx(1, abs=1e-3)


def branches():
    then = onnx.helper.make_graph([node("MatMul", ["a", "a"], ["t"])], "then", [], [square("t")])
    other = onnx.helper.make_graph([node("Exp", ["a"], ["e"])], "else", [], [square("e")])
    return [
        node("MatMul", ["x", "x"], ["a"]),
        node("ReduceSum", ["a"], ["r"], keepdims=0),
        node("Greater", ["r", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]


def loop():
    body = onnx.helper.make_graph(
        [node("MatMul", ["h", "x"], ["h2"]), node("Tanh", ["h2"], ["h3"]), node("Identity", ["c"], ["c2"])],
        "body",
        [value("i", INT64, ()), value("c", BOOL, ()), square("h")],
        [value("c2", BOOL, ()), square("h3")],
    )
    return [node("Exp", ["x"], ["e"]), node("Loop", ["three", "yes", "e"], ["y"], body=body)]


CONSTANTS = [
    constant("zero", np.float32(0)),
    constant("three", np.int64(3)),
    constant("yes", np.bool_(True)),
]


@pytest.mark.parametrize(("name", "nodes"), [("If", branches()), ("Loop", loop())])
def test_control_flow_is_one_opaque_operation_that_cuts_shares(tmp_path, name, nodes):
    made = model(nodes, [square("x")], [square()], CONSTANTS)
    found, trace = traced(tmp_path, made, {"x": X})
    [operation] = [each for each in trace.operations if each.name == name]
    assert operation.note == "opaque"
    assert 0 < operation.own.relative < 1e-6
    assert [event.name for event in events(trace, "shares_cut")] == [name]
    exact = ReferenceEvaluator(widen_model(made)).run(None, {"x": X.astype(np.float64)})[0]
    assert np.abs(found.shadows["y"] - exact).max() < 1e-14 * np.abs(exact).max()


RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(name):
    """Return a layer of 5 hidden numbers on (time, batch, 4) that a product and an addition enclose."""
    gates, rng = RECURRENT[name], np.random.default_rng(8)
    weights = [
        constant(key, (rng.standard_normal((1, gates * 5, size)) / 3).astype(np.float32))
        for key, size in (("w", 4), ("r", 5))
    ]
    layer = node(name, ["s", "w", "r"], ["h"], hidden_size=5)
    return [node("Exp", ["x"], ["a"]), node("Unsqueeze", ["a", "first"], ["s"]), layer, node("Exp", ["h"], ["y"])], [
        *weights,
        constant("first", np.int64([0])),
    ]


def resized():
    scales = constant("scales", np.float32([1, 1.75]))
    return [node("Exp", ["x"], ["a"]), node("Resize", ["a", "", "scales"], ["h"], mode="linear"),
            node("Exp", ["h"], ["y"])], [scales]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "parts", "shape"),
    [*((name, recurrent(name), (1, 1, 4, 5)) for name in RECURRENT), ("Resize", resized(), (4, 7))],
)
def test_a_node_without_a_derivative_is_named_and_counted(tmp_path, name, parts, shape):
    """Its own error has a share; operations before it have none, and the coverage counts them."""
    nodes, constants = parts
    made = model(nodes, [square("x")], [value("y", FLOAT, shape)], constants)
    found, trace = traced(tmp_path, made, {"x": X}, optimization="disabled")
    wide = ReferenceEvaluator(widen_model(made)).run(None, {"x": X.astype(np.float64)})[0]
    assert np.abs(found.shadows["y"] - wide).max() < 1e-6 * np.abs(wide).max()
    assert [event.name for event in events(trace, "shares_cut")] == [name]
    by_name = {(each.name, each.site.module): each for each in trace.operations}
    before, layer, after = (by_name[key] for key in by_name if key[0] in ("Exp", name))
    assert before.shares == {}
    assert layer.own.relative < 1e-6
    assert "y" in layer.shares
    assert "y" in after.shares
    coverage = coverage_of(trace)
    assert (coverage.shares_cut, coverage.not_shadowed) == (1, 0)
    assert coverage.without_share >= 1


def test_sequences_are_traced_and_cut_shares(tmp_path):
    nodes = [
        node("MatMul", ["x", "x"], ["a"]),
        node("SplitToSequence", ["a"], ["s"], axis=0),
        node("ConcatFromSequence", ["s"], ["c"], axis=0),
        node("MatMul", ["c", "x"], ["y"]),
    ]
    found, trace = traced(tmp_path, model(nodes, [square("x")], [square()]), {"x": X})
    wide = X.astype(np.float64)
    assert np.abs(found.shadows["y"] - wide @ wide @ wide).max() < 1e-14
    assert events(trace, "shares_cut")


def test_texts_pass_through(tmp_path):
    nodes = [node("Cast", ["x"], ["s"], to=onnx.TensorProto.STRING), node("Cast", ["s"], ["y"], to=FLOAT)]
    found, _ = traced(tmp_path, model(nodes, [square("x")], [square()]), {"x": X})
    assert found.outputs[0].name == "y"


def test_integers_of_a_quantized_model_are_those_of_the_run(tmp_path):
    numbers = [
        constant("scale", np.float32(0.0213)),
        constant("zero", np.uint8(128)),
        constant("w", np.random.default_rng(1).integers(-63, 63, (4, 4)).astype(np.int8)),
        constant("w_scale", np.float32(0.0117)),
        constant("w_zero", np.int8(0)),
    ]
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("QLinearMatMul", ["q", "scale", "zero", "w", "w_scale", "w_zero", "scale", "zero"], ["r"]),
        node("DequantizeLinear", ["r", "scale", "zero"], ["d"]),
        node("Exp", ["d"], ["y"]),
    ]
    found, trace = traced(tmp_path, model(nodes, [square("x")], [square()], numbers), {"x": X})
    assert [each.name for each in trace.operations if each.own is None] == []
    assert found.outputs[0].rounding.relative < 1e-6
    assert found.outputs[0].sum_of_shares == pytest.approx(1, abs=1e-3)


def test_an_operator_without_a_form_in_float64_is_not_shadowed(tmp_path):
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Unsqueeze", ["e", "axes"], ["image"]),
        node("CropAndResize", ["image", "boxes", "places", "size"], ["c"], domain="com.microsoft"),
        node("Exp", ["c"], ["y"]),
    ]
    numbers = [
        constant("axes", np.array([0, 1], np.int64)),
        constant("boxes", np.array([[0.1, 0.1, 0.8, 0.7]], np.float32)),
        constant("places", np.zeros(1, np.int32)),
        constant("size", np.array([3, 3], np.int32)),
    ]
    made = model(nodes, [square("x")], [value("y", FLOAT, (1, 1, 3, 3))], numbers, domains=["com.microsoft"])
    found, trace = traced(tmp_path, made, {"x": X})
    [operation] = [each for each in trace.operations if each.note == "not_shadowed"]
    assert operation.own is None
    assert operation.shares == {}
    assert [event.name for event in events(trace, "not_shadowed")] == [operation.name]
    assert [event.name for event in events(trace, "shares_cut")] == [operation.name]
    assert found.outputs[0].rounding is not None


def test_a_graph_that_folds_away_has_no_operation(tmp_path):
    made = model([node("Exp", ["w"], ["y"])], [], [square()], [constant("w", X)])
    found, trace = traced(tmp_path, made, {})
    assert trace.operations == ()
    assert found.outputs[0].rounding.relative == 0


def test_weights_in_a_file_beside_the_model_are_read(tmp_path):
    save(tmp_path / "m.onnx", gelu_net(), external="m.bin")
    recorder = Recorder()
    call = Call({"x": np.random.default_rng(2).standard_normal((5, 64)).astype(np.float32)}, {}, tmp_path, tmp_path)
    found = trace_onnx_call({"model": "m.onnx"}, call, recorder)
    assert found.outputs[0].sum_of_shares == pytest.approx(1, abs=1e-3)


def test_a_node_has_the_line_that_the_exporter_wrote(tmp_path):
    made = model(
        [node("MatMul", ["x", "x"], ["a"], "node_mm"), node("Softmax", ["a"], ["y"])], [square("x")], [square()]
    )
    stack = (
        'File "/home/me/net.py", line 12, in forward\n    return self.attend(x)\n'
        'File "/home/me/attention.py", line 7, in attend\n    scores = q @ k\n'
        'File "/v/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1778, in _wrapped\n    return call()'
    )
    scopes = "['', 'layers.3', 'layers.3.attention', 'mm']"
    for key, text in (("stack_trace", stack), ("name_scopes", scopes)):
        made.graph.node[0].metadata_props.add(key=f"pkg.torch.onnx.{key}", value=text)
    _, trace = traced(tmp_path, made, {"x": X})
    site = trace.operations[0].site
    assert (site.file, site.line, site.code) == ("/home/me/attention.py", 7, "scores = q @ k")
    assert site.module == "layers.3.attention"


class AliveValues:
    """Count the bytes of the run's own values that are alive after each operation."""

    def __init__(self):
        self.references, self.most = [], 0

    def see(self, observed):
        self.references.append(weakref.ref(observed.actual))
        gc.collect()
        alive = (reference() for reference in self.references)
        self.most = max(self.most, sum(each.nbytes for each in alive if each is not None))


def test_values_are_dropped_after_their_last_use(tmp_path):
    names = [f"h{place}" for place in range(65)]
    nodes = [node("Sin", [before], [after]) for before, after in pairwise(names)]
    made = model(nodes, [square("h0")], [square("h64")])
    alive = AliveValues()
    traced(tmp_path, made, {"h0": X}, Recorder(listeners=[alive]))
    # One value between two windows stays for the second pass, and those of one window.
    assert alive.most <= (8 + 9) * X.nbytes


@pytest.mark.parametrize("detail", Detail)
def test_each_level_of_detail_measures_more(tmp_path, detail):
    _, trace = traced(tmp_path, encoder(1), INPUTS["encoder"], Recorder(detail))
    product = next(each for each in trace.operations if each.name in ("MatMul", "FusedMatMul"))
    assert (product.total is not None) == (detail >= Detail.TOTALS)
    assert (product.own is not None) == (detail >= Detail.OWN)
    assert bool(product.shares) == (detail >= Detail.OWN)
    assert trace.outputs[0].rounding is not None
