"""Watches, breakpoints, probes and precreg.trace on torch: modules, backward passes, the thread that entered."""

import io
import sys
import threading

import numpy as np
import pytest
import torch

import precreg


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)).bfloat16()


@pytest.fixture
def x():
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(1)).bfloat16()


def test_a_block_traces_a_module_with_its_layers_and_its_result(model, x):
    expected = model(x)
    with precreg.trace(model) as t:
        y = model(x)
    assert torch.equal(y, expected)
    (output,) = t.trace.outputs
    exact = model.double()(x.double()).detach()
    error = torch.linalg.norm(y.detach().double() - exact) / torch.linalg.norm(exact)
    assert (output.name, output.dtype, t.trace.dtype) == ("out", "bfloat16", "bfloat16")
    assert output.rounding.relative == pytest.approx(float(error), rel=1e-6)
    assert output.sum_of_shares == pytest.approx(1, abs=0.05)
    assert {"0", "1", "2"} <= {each.site.module for each in t.operations}


def test_layers_operations_and_variables_are_watched(model, x):
    with precreg.trace(model, watch=["2[0, :2]", "gelu", "h"]) as t:
        h = model(x)
    shown = {watch: [value for value in t.trace.watched if value.watch == watch] for watch in ("2[0, :2]", "gelu", "h")}
    layer = shown["2[0, :2]"][-1]
    assert layer.actual == tuple(h[0, :2].tolist())
    assert layer.exact == pytest.approx(h[0, :2].tolist(), rel=0.05)
    assert [value.name for value in shown["gelu"]] == ["aten.gelu"]
    assert shown["h"][-1].actual == tuple(h.flatten()[:8].tolist())
    # The watch itself adds nothing to the trace.
    with precreg.trace(model) as plain:
        model(x)
    assert [each.name for each in t.operations] == [each.name for each in plain.operations]
    assert t.trace.events == plain.trace.events


def test_a_traced_module_returns_its_own_result(model, x):
    traced = precreg.trace(model)
    y = traced(x)
    assert type(y) is torch.Tensor
    assert torch.equal(y, model(x))
    assert traced.trace.outputs[0].name == "out"


def test_backward_inside_a_block(model, x):
    with precreg.trace(model) as t:
        model(x).float().square().mean().backward()
    assert {"forward", "backward"} <= {each.phase for each in t.operations}


def test_a_probe_of_a_tensor_has_its_error_and_no_cut(x):
    with precreg.trace() as t:
        y = precreg.probe("third", x / 3)
    (probe,) = [each for each in t.operations if each.note == "probe"]
    exact = x.double() / 3
    error = torch.linalg.norm(y.double() - exact) / torch.linalg.norm(exact)
    assert probe.total.relative == pytest.approx(float(error), rel=1e-9)
    assert (probe.dtype, probe.shape, probe.engine) == ("bfloat16", (4, 8), "torch")
    assert not [event for event in t.trace.events if event.kind == "cut"]


def test_the_debugger_has_tensors(monkeypatch, capsys, x):
    monkeypatch.setattr(sys, "stdin", io.StringIO("p operation.name, actual.dtype, exact.dtype\nc\n"))
    with precreg.trace(breaks=["own > 0.1 ulp"]):
        x / 3
    printed = capsys.readouterr().out
    assert "-> x / 3" in printed
    assert "('aten.div', torch.bfloat16, torch.float64)" in printed


def test_only_the_thread_that_entered_is_traced(x):
    def other():
        precreg.probe("elsewhere", x * 2)

    with precreg.trace() as t:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        x + 1
    assert [each.name for each in t.operations] == ["aten.add"]
    assert "elsewhere" in [event.name for event in t.trace.events if event.kind == "untraced"]


def test_numpy_and_torch_in_one_block():
    array = np.float32([1, 2, 4])
    with precreg.trace(watch=["divide", "div"]) as t:
        t.array(array) / np.float32(3)
        torch.tensor(array) / 3
    values = [(value.actual, value.exact, value.digest) for value in t.trace.watched]
    assert len(values) == 2
    assert values[0] == values[1]
