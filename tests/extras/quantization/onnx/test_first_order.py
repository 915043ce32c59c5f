"""First-order estimates of ONNX models against torch's forward mode on the same network."""

import numpy as np
import pytest
import torch

from precreg.quantization import GivenGraph, QuantizationOptions, quantize_graph
from precreg.quantization.onnx import load_graph, read_feeds, simulate_graph
from precreg.quantization.torch import simulate_module
from tests.extras.onnx_models import constant, model, node, save, value
from tests.extras.quantization.onnx.made import float_net, images
from tests.extras.quantization.onnx.test_simulated import INPUTS, WEIGHTS, Twin
from tests.extras.quantization.test_gradient import exact_first_order

OPTIONS = QuantizationOptions(WEIGHTS, INPUTS, with_sensitivity=True)
LAYERS = ("conv", "up", "head")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return load_graph(float_net(tmp_path_factory.mktemp("net") / "float.onnx"))


def feeds(graph, array):
    return read_feeds([array[at : at + 16] for at in range(0, len(array), 16)], graph, "test", 32)


def test_differences_are_the_derivatives_along_the_errors(graph):
    data = feeds(graph, images()).batches
    ours = simulate_graph(graph, data, data, WEIGHTS, INPUTS)
    batches = [torch.from_numpy(each["x"]) for each in data]
    theirs = simulate_module(Twin(), batches, batches, WEIGHTS, INPUTS)
    for name in LAYERS:
        found = ours.first_order(name, set(LAYERS), set(LAYERS))
        # A part of 1/16 leaves the line of tanh by its third derivative alone; float32 keeps four digits of it.
        assert found == pytest.approx(exact_first_order(theirs, name), rel=2e-3)


def test_a_layer_that_is_linear_in_its_errors_has_its_measured_error(graph):
    data = feeds(graph, images())
    record = quantize_graph(GivenGraph(graph, None), data, data, OPTIONS, "test")
    found = {each.layer: each for each in record.sensitivity.layers}
    assert found["head"].first_order == pytest.approx(found["head"].alone, rel=2e-3)
    assert max(found.values(), key=lambda each: each.first_order).layer == "up"
    assert record.sensitivity.first_order_alone == 1.0
    assert (record.sensitivity.step, record.sensitivity.probes) == (2.0**-4, 0)
    assert "no_derivative" not in {each.kind for each in record.events}


def test_results_in_float16_have_no_small_differences_and_are_counted(tmp_path):
    weight = np.random.default_rng(2).standard_normal((6, 4)).astype(np.float16)
    made = model(
        [node("MatMul", ["x", "w"], ["y"], "only")],
        [value("x", 10, shape=("n", 6))],
        [value("y", 10, shape=("n", 4))],
        [constant("w", weight)],
        opset=17,
    )
    graph = load_graph(save(tmp_path / "half.onnx", made))
    array = np.random.default_rng(3).standard_normal((32, 6)).astype(np.float16)
    data = feeds(graph, array)
    record = quantize_graph(GivenGraph(graph, None), data, data, OPTIONS, "test")
    assert [each.first_order for each in record.sensitivity.layers] == [None]
    assert [each.name for each in record.events if each.kind == "no_derivative"] == ["only"]
    assert record.sensitivity.step is None
