"""A float ONNX model, quantized in simulation, against numpy, the torch side and the scales of ONNX Runtime."""

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnxruntime import InferenceSession
from onnxruntime.quantization import CalibrationMethod
from torch import nn

from precreg.errors import UserError
from precreg.quantization import (
    BitBudget,
    GivenGraph,
    QuantizationOptions,
    make_quantizer,
    quantize_array,
    quantize_graph,
)
from precreg.quantization.onnx import load_graph, read_feeds, simulate_graph
from precreg.quantization.torch import simulate_module
from tests.extras.onnx_models import model, node, save, value
from tests.extras.quantization.onnx.made import float_net, images, quantized_net, weights

WEIGHTS = make_quantizer("int8", granularity="channel")
INPUTS = make_quantizer("int8")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return load_graph(float_net(tmp_path_factory.mktemp("net") / "float.onnx"))


def feeds(graph):
    return read_feeds([images()[at : at + 16] for at in range(0, 64, 16)], graph, "test", 32)


class Twin(nn.Module):
    """The same net in torch."""

    def __init__(self):
        super().__init__()
        first, second, third = (torch.from_numpy(each) for each in weights())
        self.conv, self.up, self.head = nn.Conv2d(3, 6, 3), nn.Linear(6, 32, bias=False), nn.Linear(32, 5, bias=False)
        with torch.no_grad():
            self.conv.weight.copy_(first)
            self.conv.bias.copy_(torch.linspace(-0.5, 0.5, 6))
            self.up.weight.copy_(second.T)
            self.head.weight.copy_(third.T)

    def forward(self, x):
        return self.head(torch.tanh(self.up(torch.relu(self.conv(x)).mean((2, 3)))))


ACTIVATIONS = [
    INPUTS,
    make_quantizer("int8", zero_point=True),
    make_quantizer("int4"),
    make_quantizer("int8", zero_point=True, dynamic=True),
    make_quantizer("float8_e4m3fn"),
    make_quantizer("hif8", dynamic=True),
    make_quantizer("mxfp8_e4m3"),
    make_quantizer("nvfp4"),
]


@pytest.mark.parametrize("inputs", ACTIVATIONS, ids=lambda each: f"{each.format}-{each.dynamic}")
def test_results_are_those_of_the_module_with_the_same_layers_quantized(graph, inputs):
    data = feeds(graph).batches
    ours = simulate_graph(graph, data, data, WEIGHTS, inputs)
    batches = [torch.from_numpy(each["x"]) for each in data]
    theirs = simulate_module(Twin(), batches, batches, WEIGHTS, inputs)
    for names in ({"conv"}, {"up"}, {"conv", "up", "head"}):
        exact = np.concatenate(ours.run(set(), set()).outputs)
        found, other = (np.concatenate(each.run(names, names).outputs) for each in (ours, theirs))
        if names == {"conv"}:
            # Its inputs have the same bits.
            np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-5)
        # Sums in another order move a value across the middle of two codes, or a block's maximum across a power of two.
        assert np.linalg.norm(found - other) < 0.2 * np.linalg.norm(found - exact)
        np.testing.assert_allclose(exact, np.concatenate(theirs.run(set(), set()).outputs), rtol=1e-4, atol=1e-5)


def test_quantized_weights_alone_are_numpys(graph):
    data = feeds(graph).batches
    found = simulate_graph(graph, data, data, WEIGHTS, None)
    assert [each.name for each in found.layers] == ["conv", "up", "head"]
    array = weights()[1].astype(np.float64)
    scale = np.float32(np.abs(array).max(axis=0) / 127).astype(np.float64)
    direct = np.linalg.norm(np.rint(array / scale) * scale - array) / np.linalg.norm(array)
    assert found.layers[1].weight.figures.relative_error == pytest.approx(direct, rel=1e-12)


def test_a_layer_without_a_format_stays_float(graph):
    data = feeds(graph).batches
    found = simulate_graph(graph, data, data, WEIGHTS, INPUTS, format_of={"up": "int4"}.get)
    assert [(each.name, each.weight.quantizer.format) for each in found.layers] == [("up", "int4")]


def test_a_proposal_keeps_its_budget_as_measured(graph):
    data = feeds(graph)
    budget = BitBudget(max_error=0.02, formats=("int4", "int8", "float32"))
    options = QuantizationOptions(WEIGHTS, INPUTS, with_sensitivity=True, budget=budget)
    record = quantize_graph(GivenGraph(graph), data, data, options, "test")
    proposal = record.proposal
    assert proposal.measured.relative <= 0.02
    assert proposal.bits < 32
    assert [each.format for each in proposal.uniform] == ["int4", "int8"]
    chosen = {each.layer: each.format for each in proposal.layers if each.format != "float32"}
    again = simulate_graph(graph, data.batches, data.batches, WEIGHTS, INPUTS, format_of=chosen.get)
    exact = np.concatenate(again.run(set(), set()).outputs).astype(np.float64)
    changed = np.concatenate(again.run(set(chosen), set(chosen)).outputs).astype(np.float64)
    assert proposal.measured.relative == pytest.approx(np.linalg.norm(changed - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize(
    ("method", "ours", "rel"),
    [
        (CalibrationMethod.MinMax, "max", 1e-6),
        # ONNX Runtime takes the percentile from a histogram of 2,048 bins.
        (CalibrationMethod.Percentile, "p99.9", 0.02),
    ],
)
def test_scales_are_those_of_the_calibrators_of_onnx_runtime(graph, tmp_path, method, ours, rel):
    more = {"extra_options": {"ActivationSymmetric": True, "CalibPercentile": 99.9, "CalibTensorRangeSymmetric": True}}
    path = quantized_net(tmp_path / "q.onnx", float_net(tmp_path / "f.onnx"), method=method, **more)
    arrays = {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    scale = float(arrays["x_scale"])
    found = quantize_array(images(), "int8", calibration=ours)
    threshold = next(each.threshold for each in found.calibrations if each.method == ours)
    # Both give the threshold to code 127.
    assert scale * 127 == pytest.approx(threshold, rel=rel)


def test_a_graph_without_layers_and_an_unknown_layer_are_refused(graph, tmp_path):
    path = save(tmp_path / "m.onnx", model([node("Relu", ["x"], ["y"])], [value("x")], [value("y")]))
    with pytest.raises(UserError, match="got Relu"):
        simulate_graph(load_graph(path), [], [], WEIGHTS, INPUTS)
    with pytest.raises(UserError, match='layers=upp; did you mean "up"'):
        simulate_graph(graph, [], [], WEIGHTS, INPUTS, ["upp"])


def test_the_users_graph_stays_as_it_is(graph):
    before = graph.model.SerializeToString()
    data = feeds(graph).batches
    simulate_graph(graph, data, data, WEIGHTS, INPUTS).run({"up"}, {"up"})
    assert graph.model.SerializeToString() == before
    InferenceSession(before).run(None, data[0])
