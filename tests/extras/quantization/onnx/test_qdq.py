"""ONNX models that are quantized already: their scales, and layers alone."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime import InferenceSession

from precreg.errors import UserError
from precreg.quantization import GivenGraph, QuantizationOptions, quantize_graph
from precreg.quantization.onnx import load_graph, read_feeds, read_qdq
from tests.extras.onnx_models import constant, model, node, save, value
from tests.extras.quantization.onnx.made import float_net, images, quantized_net, weights

PLAIN = QuantizationOptions(None, None, with_sensitivity=True)


def feeds(graph, array=None):
    array = images() if array is None else array
    return read_feeds([array[at : at + 16] for at in range(0, len(array), 16)], graph, "test", 32)


@pytest.fixture(scope="module", params=[False, True], ids=["tensor", "channel"])
def nets(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nets")
    source = float_net(folder / "float.onnx")
    return source, quantized_net(folder / "int8.onnx", source, per_channel=request.param)


def recorded(source, quantized):
    graph = load_graph(quantized)
    data = feeds(graph)
    twin = None if source is None else load_graph(source)
    return quantize_graph(GivenGraph(graph, twin), data, data, PLAIN, "test")


def run(path, **options):
    return InferenceSession(path, **options).run(None, {"x": images()})[0].astype(np.float64)


def test_without_its_pairs_the_graph_is_the_float_model(nets):
    source, quantized = nets
    graph = load_graph(quantized)
    found = read_qdq(graph, feeds(graph).batches, feeds(graph).batches, load_graph(source))
    exact = np.concatenate(found.run(frozenset(), frozenset()).outputs)
    np.testing.assert_allclose(exact, run(source), rtol=1e-5, atol=1e-6)


def test_with_all_pairs_the_graph_is_the_quantized_model(nets):
    source, quantized = nets
    record = recorded(source, quantized)
    changed, exact = run(quantized), run(source)
    direct = np.linalg.norm(changed - exact) / np.linalg.norm(exact)
    assert record.executed.relative == pytest.approx(direct, rel=1e-3)
    assert record.total.relative == pytest.approx(direct, rel=0.05)
    assert record.source == "onnx"


def test_a_relu_that_the_pairs_replaced_is_restored_and_counted(nets):
    record = recorded(*nets)
    assert "Relu" not in {each.op_type for each in onnx.load(nets[1]).graph.node}
    assert [each.name for each in record.events if each.kind == "relu_restored"] == ["r"]
    assert "float_differs" not in {each.kind for each in record.events}


def test_another_float_model_is_counted(nets, tmp_path):
    other = onnx.load(nets[0])
    for each in other.graph.initializer:
        if each.name == "b1":
            each.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(each) + 1, "b1"))
    other.graph.node[1].op_type = "Abs"
    onnx.save(other, tmp_path / "other.onnx")
    events = recorded(tmp_path / "other.onnx", nets[1]).events
    assert [float(each.detail) > 0.01 for each in events if each.kind == "float_differs"] == [True]


def test_the_figures_of_weights_are_those_of_the_stored_codes(nets):
    source, quantized = nets
    rows = {row.layer: row for row in recorded(source, quantized).rows}
    arrays = {each.name: numpy_helper.to_array(each) for each in onnx.load(quantized).graph.initializer}
    for layer, name, array, axis in (("conv", "w1", weights()[0], 0), ("up", "w2", weights()[1], 1)):
        codes, scale = arrays[f"{name}_quantized"].astype(np.float64), arrays[f"{name}_scale"].astype(np.float64)
        shape = [-1 if at == axis else 1 for at in range(codes.ndim)]
        values = codes * scale.reshape(shape if scale.size > 1 else [1] * codes.ndim)
        direct = np.linalg.norm(values - array) / np.linalg.norm(array.astype(np.float64))
        figures = rows[layer].weight.figures
        assert figures.relative_error == pytest.approx(direct, rel=1e-6)
        assert figures.codes_used == len(np.unique(codes))
        assert rows[layer].weight.quantizer.granularity == ("channel" if scale.size > 1 else "tensor")


def test_a_layer_alone_is_the_float_model_with_its_pairs(nets):
    """The weights of one layer alone, against a float model with the dequantized weights in place."""
    source, quantized = nets
    row = {row.layer: row for row in recorded(source, quantized).rows}["up"]
    parsed = onnx.load(quantized)
    arrays = {each.name: numpy_helper.to_array(each) for each in parsed.graph.initializer}
    edited = onnx.load(source)
    for each in edited.graph.initializer:
        if each.name == "w2":
            values = arrays["w2_quantized"].astype(np.float32) * arrays["w2_scale"]
            each.CopyFrom(numpy_helper.from_array(values, "w2"))
    exact, changed = run(source), run(edited.SerializeToString())
    direct = np.linalg.norm(changed - exact) / np.linalg.norm(exact)
    assert row.weight_alone.relative == pytest.approx(direct, rel=1e-3)


def test_the_layer_with_outliers_costs_most_with_one_scale(tmp_path):
    source = float_net(tmp_path / "float.onnx")
    record = recorded(source, quantized_net(tmp_path / "int8.onnx", source))
    with_weights = [each for each in record.rows if each.weight is not None]
    assert max(with_weights, key=lambda row: row.weight_alone.relative).layer == "up"
    estimates = {each.layer: each.first_order for each in record.sensitivity.layers if each.first_order is not None}
    assert max(estimates, key=estimates.get) == "up"


def test_without_the_float_model_weights_have_no_error_and_are_counted(nets):
    record = recorded(None, nets[1])
    rows = {row.layer: row for row in record.rows}
    assert rows["up"].weight.figures.relative_error is None
    assert rows["up"].weight.figures.codes_used > 10
    assert rows["up"].weight_alone is None
    assert rows["up"].activation_alone.relative > 0
    assert "up" in [each.name for each in record.events if each.kind == "no_float_twin"]


def test_blocks_of_a_weight_have_scales_of_their_own(tmp_path):
    rng = np.random.default_rng(5)
    array = rng.standard_normal((8, 4)).astype(np.float32)
    scale = (np.abs(array).reshape(2, 4, 4).max(axis=1) / 7).astype(np.float32)
    codes = np.clip(np.rint(array / np.repeat(scale, 4, 0)), -8, 7).astype(np.int8)
    nodes = [
        node("DequantizeLinear", ["w_quantized", "w_scale"], ["w_dq"], axis=0, block_size=4),
        node("MatMul", ["x", "w_dq"], ["y"], "product"),
    ]
    stored = constant("w_quantized", codes)
    inputs, outputs = [value("x", shape=("n", 8))], [value("y", shape=("n", 4))]
    made = model(nodes, inputs, outputs, [stored, constant("w_scale", scale)], opset=21)
    made.ir_version = 10
    path = save(tmp_path / "blocks.onnx", made)
    twin = save(
        tmp_path / "float.onnx",
        model([node("MatMul", ["x", "w"], ["y"], "product")], inputs, outputs, [constant("w", array)]),
    )
    graph = load_graph(path)
    data = read_feeds([rng.standard_normal((16, 8)).astype(np.float32)], graph, "test", 4)
    record = quantize_graph(GivenGraph(graph, load_graph(twin)), data, data, PLAIN, "test")
    (row,) = record.rows
    direct = np.linalg.norm(codes * np.repeat(scale, 4, 0).astype(np.float64) - array) / np.linalg.norm(array)
    assert row.weight.figures.relative_error == pytest.approx(direct, rel=1e-6)
    assert (row.weight.quantizer.granularity, row.weight.quantizer.group) == ("group", 4)


def test_a_quantized_result_of_the_graph_is_a_layer(tmp_path):
    scale, zero = constant("s", np.float32(0.1)), constant("z", np.int8(3))
    nodes = [
        node("Relu", ["x"], ["r"], "relu"),
        node("QuantizeLinear", ["r", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", model(nodes, [value("x")], [value("y")], [scale, zero]))
    graph = load_graph(path)
    x = np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32)
    data = read_feeds([x], graph, "test", 4)
    (row,) = quantize_graph(GivenGraph(graph), data, data, PLAIN, "test").rows
    exact = np.maximum(x, 0).astype(np.float64)
    direct = (np.clip(np.rint(exact / np.float32(0.1)) + 3, -128, 127) - 3) * float(np.float32(0.1))
    assert row.kind == "Output"
    assert row.both_alone.relative == pytest.approx(np.linalg.norm(direct - exact) / np.linalg.norm(exact), rel=1e-5)


def test_a_computed_scale_is_refused(tmp_path):
    nodes = [
        node("ReduceMax", ["x"], ["s"], keepdims=0),
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("Relu", ["d"], ["y"], "relu"),
    ]
    path = save(tmp_path / "m.onnx", model(nodes, [value("x")], [value("y")], [constant("z", np.int8(0))]))
    graph = load_graph(path)
    data = read_feeds([np.ones((2, 4), np.float32)], graph, "test", 4)
    with pytest.raises(UserError, match="got computed s"):
        quantize_graph(GivenGraph(graph), data, data, PLAIN, "test")


def test_integer_operators_are_counted_and_refused_alone(tmp_path):
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "w", "z"], ["i"]),
        node("Cast", ["i"], ["y"], to=1),
    ]
    made = model(nodes, [value("x")], [value("y")], [constant("w", np.ones((4, 4), np.uint8))])
    graph = load_graph(save(tmp_path / "m.onnx", made))
    data = read_feeds([np.ones((2, 4), np.float32)], graph, "test", 4)
    with pytest.raises(UserError, match="got DynamicQuantizeLinear, MatMulInteger"):
        quantize_graph(GivenGraph(graph), data, data, PLAIN, "test")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "got 0 from test"),
        (3, "got test of type int"),
        ([images(), images(count=0)], r"batch 1 of test has no inputs: x: float32 \(0, 3, 8, 8\)"),
        ([{"z": images()}], "inputs x but got z"),
        ([np.full((2, 3, 8, 8), np.nan, np.float32)], "got 384 of 384 NaN"),
    ],
)
def test_data_that_does_not_fit_is_refused(nets, given, message):
    with pytest.raises(UserError, match=message):
        read_feeds(given, load_graph(nets[0]), "test", 32)


def test_images_of_another_shape_name_the_batch(nets):
    graph = load_graph(nets[1])
    data = read_feeds([np.ones((2, 4, 8, 8), np.float32)], graph, "test", 4)
    with pytest.raises(UserError, match=r"batch 0: x: float32 \(2, 4, 8, 8\)\n  .*\b4\b"):
        quantize_graph(GivenGraph(graph), data, data, PLAIN, "test")
