"""The layers of few bits of benchmarks/compensation beside direct computations."""

import pytest
import torch
from torch import nn

from benchmarks.compensation.__main__ import extra_operations, flips
from benchmarks.compensation.arithmetic import Arithmetic, FewBits, begin_stream, truncated, with_few_bits


def codes(values, step, largest):
    return (values.double() / step.double()).round().clamp(-largest, largest)


@pytest.mark.parametrize("shape", ["linear", "convolution"])
def test_int8_sums_are_exact(shape):
    torch.manual_seed(0)
    layer = nn.Linear(4000, 8) if shape == "linear" else nn.Conv2d(256, 8, 3, padding=1)
    x = torch.randn(2, 4000) if shape == "linear" else torch.randn(2, 256, 5, 5)
    few = FewBits(layer, Arithmetic("int8", False))
    with torch.no_grad():
        found = few(x)
        inputs = codes(x, few.step, 127)
        weights = few.weight.double()
        if shape == "linear":
            sums, scale = inputs @ weights.T, few.weight_step * few.step
            bias = layer.bias
        else:
            sums = nn.functional.conv2d(inputs, weights, None, 1, 1)
            scale, bias = (few.weight_step * few.step).view(-1, 1, 1), layer.bias.view(-1, 1, 1)
        assert torch.equal(found, sums.float() * scale + bias)
        assert set(torch.unique(few.weight).tolist()) <= set(range(-127, 128))


def test_the_carried_error_bounds_the_mean_of_a_stream():
    torch.manual_seed(1)
    layer = nn.Linear(64, 64, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(64))
    x = torch.randn(16, 64)
    errors = {}
    for is_compensated in (False, True):
        few = FewBits(layer, Arithmetic("int8", is_compensated))
        with torch.no_grad():
            mean = torch.stack([few(x) for _ in range(10)]).mean(0)
        errors[is_compensated] = float((mean - x).abs().max() / few.step)
    assert errors[False] > 0.45
    # Half a step over 1 - alpha, of ten steps: suites/networks/compensation.py.
    assert errors[True] <= 0.5 / 0.9 / 10 + 1e-3


def test_a_new_stream_begins_without_errors():
    model = with_few_bits(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), Arithmetic("int8", True))
    x = torch.randn(3, 8)
    with torch.no_grad():
        first = model(x)
        assert not torch.equal(model(x), first)
        begin_stream(model)
        assert torch.equal(model(x), first)


def test_the_model_itself_keeps_its_layers():
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 4)))
    few = with_few_bits(model, Arithmetic("20 bits", False))
    assert isinstance(few[1][0], FewBits)
    assert isinstance(model[1][0], nn.Linear)


def test_truncation_clears_three_bits():
    x = torch.randn(1000)
    found = truncated(x)
    assert torch.equal(found, (x.view(torch.int32) & ~7).view(torch.float32))


def test_flips_are_counted_over_frames():
    exact = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    assert flips(exact, exact) == 0.0
    assert flips(exact.flip(-1), exact) == 1.0
    assert flips(torch.tensor([[[0.0, 1.0], [0.0, 1.0]]]), exact) == 0.5


def test_extra_operations_are_those_of_inputs():
    model = nn.Sequential(nn.Conv2d(3, 10, 1))
    # 1024 places: 3 inputs with 5 operations each, over 10 products of 6 and 3 roundings of 4.
    assert extra_operations(model) == pytest.approx(5 * 3 / (60 + 12))
