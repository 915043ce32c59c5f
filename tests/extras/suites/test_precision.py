"""8-bit layers, against whole numbers of numpy, and the errors that they carry on a stream."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from tests.suites.kernel_files import load

PRECISION, STREAM = load("networks/precision"), load("networks/compensated_resnet")
COMPENSATION, SEEDED = load("networks/compensation"), load("networks/seeded")
RANDOM = np.random.default_rng(18)


def normal(*shape):
    return torch.from_numpy(RANDOM.standard_normal(shape).astype(np.float32))


def eight_bit(layer):
    return PRECISION.EightBit(layer.requires_grad_(False))


def by_hand(x, weight, bias):
    """Return the 8-bit product of numpy: codes to nearest even, sums in int64, both steps and the bias in float32."""
    step, steps = np.abs(x).max() / np.float32(127), np.abs(weight).max(1) / np.float32(127)
    sums = np.rint(x / step).astype(np.int64) @ np.rint(weight / steps[:, None]).astype(np.int64).T
    return sums.astype(np.float32) * (steps * step) + bias


def test_a_linear_layer_adds_whole_numbers():
    layer, x = nn.Linear(700, 30), normal(9, 700)
    expected = by_hand(x.numpy(), layer.weight.detach().numpy(), layer.bias.detach().numpy())
    assert np.array_equal(eight_bit(layer)(x).numpy(), expected)


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 0), (2, 1)])
def test_a_convolution_is_the_linear_layer_of_its_windows(stride, padding):
    layer, x = nn.Conv2d(5, 7, 3, stride, padding), normal(2, 5, 8, 8)
    columns = nn.functional.unfold(x, 3, padding=padding, stride=stride).transpose(1, 2).reshape(-1, 45).numpy()
    expected = by_hand(columns, layer.weight.detach().flatten(1).numpy(), layer.bias.detach().numpy())
    result = eight_bit(layer)(x)
    assert np.array_equal(result.permute(0, 2, 3, 1).reshape(-1, 7).numpy(), expected)


def test_sums_are_exact_at_the_largest_codes():
    layer = nn.Linear(4608, 1, bias=False)
    nn.init.constant_(layer.weight, 0.5)
    form = eight_bit(layer)
    sums = form.sums(torch.full((1, 4608), 127.0, dtype=torch.float64))
    assert sums.item() == 127 * 127 * 4608 > 2**24


def test_zeros_stay_zero():
    assert torch.equal(eight_bit(nn.Linear(4, 4, bias=False))(torch.zeros(2, 4)), torch.zeros(2, 4))


def test_every_product_of_a_network_is_8_bit_and_can_be_restored():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sequential(nn.ReLU(), nn.Linear(4, 2))).requires_grad_(False)
    form, x = PRECISION.with_eight_bits(model), normal(1, 1, 6, 6)
    assert [type(part) for part in (form[0], form[1][1], model[0])] == [PRECISION.EightBit] * 2 + [nn.Conv2d]
    assert not torch.equal(form(x), model(x))
    assert torch.equal(PRECISION.restored(form)(x), model(x))


@pytest.mark.parametrize("compensated", [True, False])
def test_a_stream_carries_what_the_shipped_rule_carries(compensated):
    layer = STREAM.EightBit(nn.Linear(8, 8, bias=False).requires_grad_(False))
    with torch.no_grad():
        layer.made_of[0].weight.copy_(torch.eye(8))
    carrying = STREAM.Carrying(layer, compensated=compensated)
    stream = normal(10, 4, 8)
    step = np.abs(stream[0].numpy()).max() * np.float32(1.25 / 127)
    shares = COMPENSATION.Coefficients(0.1, 0.9) if compensated else COMPENSATION.NOT_CARRIED
    quantizer = COMPENSATION.Quantizer(step, shares)
    for values in stream:
        expected = quantizer(values.numpy())
        np.testing.assert_allclose(carrying(values).numpy(), expected, rtol=1e-6)


def test_carried_errors_pay_for_the_mean_of_a_single_layer():
    """The mean over ten steps is nearer by several times; the 53 layers of ResNet-50 gain less (its suite)."""
    weight = nn.Linear(64, 64, bias=False).requires_grad_(False)
    weight.weight.copy_(torch.eye(64))
    base = normal(16, 64)
    errors = {}
    for compensated in (True, False):
        layer = STREAM.Carrying(STREAM.EightBit(weight), compensated=compensated)
        results = torch.stack([layer(base) for _ in range(10)])
        errors[compensated] = float((results.double().mean(0) - base).abs().mean())
    assert errors[True] < errors[False] / 3


def test_weights_are_whole_numbers_times_a_half_width():
    """Each is a draw of 24 bits, centred, times the half-width, rounded once: as exact rationals say."""
    draws = SEEDED.filters("layer.weight", (3, 5), 0.3)
    words = SEEDED._whole_numbers("layer.weight", (3, 5))
    factor = Fraction(float(np.float32(0.3 * 2**-23)))
    for row, numbers in zip(draws, words.tolist(), strict=True):
        mean = sum(numbers) // len(numbers)
        assert row.tolist() == [float(np.float32(float((number - mean) * factor))) for number in numbers]
    assert np.abs(draws.mean(1)).max() < 1e-7
    spread = SEEDED.uniform("other", (100_000,), 2.0)
    assert (spread.min() >= -2, spread.max() < 2) == (True, True)
    assert spread.std() == pytest.approx(2 / np.sqrt(3), rel=0.01)
