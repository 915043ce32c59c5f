"""A program that runs a session of ONNX Runtime itself: the trace names the line, and takes nothing there as exact."""

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

import precreg


def session():
    node = helper.make_node("Exp", ["x"], ["y"])
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([node], "graph", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def by_run(network, x):
    return network.run(None, {"x": x})[0]


def by_values(network, x):
    value = onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(x))
    return network.run_with_ort_values(["y"], {"x": value})[0].numpy()


def by_binding(network, x):
    binding = network.io_binding()
    binding.bind_cpu_input("x", np.asarray(x))
    binding.bind_output("y")
    network.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0]


@pytest.mark.parametrize("way", [by_run, by_values, by_binding])
def test_a_run_of_a_session_is_untraced_and_its_result_is_not_exact(way):
    network = session()
    x = np.linspace(0.1, 1, 8, dtype=np.float32)
    plain = way(network, x * 3)
    usual = onnxruntime.InferenceSession.run
    with precreg.trace() as t:
        y = t.output("y", way(network, t.array(x) * 3))
    assert onnxruntime.InferenceSession.run is usual
    np.testing.assert_array_equal(np.asarray(y), plain)
    (event,) = [each for each in t.trace.events if (each.kind, each.name) == ("untraced", "onnxruntime")]
    assert "network.run" in event.site.code
    assert t.trace.outputs[0].rounding is None


def test_a_tensor_of_a_session_is_not_exact():
    network = session()
    with precreg.trace() as t:
        hidden = torch.linspace(0.1, 1, 8) * 3
        late = torch.from_numpy(by_run(network, hidden.numpy())[2:])
        scaled = late * 1.1
        t.output("y", scaled + torch.ones(6))
        t.output("known", hidden * 1.1)
    assert ("untraced", "onnxruntime") in {(each.kind, each.name) for each in t.trace.events}
    assert [each.rounding is None for each in t.trace.outputs] == [True, False]
    assert all(each.sum_of_shares is None for each in t.trace.outputs[:1])
    product = t.operations[[each.site.code for each in t.operations].index("scaled = late * 1.1")]
    # Its own error needs no exact input.
    assert product.own.relative > 0
    assert (product.total, product.inherited) == (None, None)


ON_RESULTS = {
    "a copy": lambda y, x: np.array(y),
    "a copy of a part": lambda y, x: np.array(y[2:], np.float64),
    "a copy of a computed array": lambda y, x: np.ascontiguousarray(np.tanh(y) * 2),
    "a list": lambda y, x: np.array([y, y]),
    "a product": lambda y, x: y * x,
    "a product from the other side": lambda y, x: x * y,
    "a function": lambda y, x: np.concatenate([x, y]),
    "a method": lambda y, x: np.atleast_1d(x.dot(y)),
    "an operation after a copy": lambda y, x: np.array(y) * x + 1,
    "a tensor of a copy": lambda y, x: torch.from_numpy(np.array(y)) * 1.1,
    "a tensor of a computed array": lambda y, x: torch.from_numpy(np.tanh(y)) * 1.1,
}


@pytest.mark.parametrize("way", ON_RESULTS)
def test_arrays_made_of_a_result_are_not_exact(way):
    network, drawn = session(), np.linspace(0.1, 1, 8, dtype=np.float32)
    expected = ON_RESULTS[way](by_run(network, drawn * np.float32(3)), drawn)
    with precreg.trace() as t:
        x = t.array(drawn)
        made = t.output("y", ON_RESULTS[way](by_run(network, x * np.float32(3)), x))
        t.output("known", np.array(x) * np.float32(1.1))
    np.testing.assert_array_equal(np.asarray(made), np.asarray(expected))
    assert [each.rounding is None for each in t.trace.outputs] == [True, False]
    assert "onnxruntime" in {each.name for each in t.trace.events if each.kind == "untraced"}
