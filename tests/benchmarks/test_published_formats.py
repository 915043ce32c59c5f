"""The figures of benchmarks/published/ that precreg's own formats give, against other libraries and plain formulas."""

import sys
from math import floor, log2

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic import FORMATS, block_operand_named
from tests.e2e.command import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from published import block_formats, clipping, fp8, hifloat8, loss_scale, split_products


def figure(figures, start):
    found = [each for each in figures if each.what.startswith(start)]
    assert len(found) == 1, [each.what for each in found]
    return found[0]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float16", "bfloat16"])
def test_binades_are_those_of_ml_dtypes(name):
    info = ml_dtypes.finfo(getattr(ml_dtypes, name, np.float16))
    whole = floor(log2(float(info.max))) - round(log2(float(info.smallest_subnormal))) + 1
    assert hifloat8.binades(FORMATS[name]) == whole


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "float8_e3m4"]
)
def test_bits_of_an_element_are_those_of_ml_dtypes(name):
    assert block_formats.element_bits(FORMATS[name]) == ml_dtypes.finfo(getattr(ml_dtypes, name)).bits


@pytest.mark.parametrize(("name", "dtype"), [("mxfp4", "float4_e2m1fn"), ("mxfp6_e3m2", "float6_e3m2fn")])
def test_signal_over_noise_is_that_of_a_plain_formula(name, dtype):
    x = block_formats.values().reshape(-1, 32)
    largest = float(ml_dtypes.finfo(getattr(ml_dtypes, dtype)).max)
    scales = np.exp2(np.floor(np.log2(np.abs(x).max(1, keepdims=True))) - floor(log2(largest))).astype(np.float32)
    rounded = np.clip(x / scales, -largest, largest).astype(getattr(ml_dtypes, dtype)).astype(np.float32) * scales
    noise = np.square(rounded.astype(np.float64) - x).sum()
    expected = 10 * np.log10(np.square(x.astype(np.float64)).sum() / noise)
    assert block_formats.noise_ratio(block_operand_named(name)) == pytest.approx(expected, abs=1e-9)


def test_more_bits_of_integers_give_less_noise():
    ratios = [block_formats.noise_ratio(block_formats.block_of_integers(bits)) for bits in range(3, 9)]
    assert ratios == sorted(ratios)


@pytest.mark.parametrize(("exponent", "text"), [(0, "2^0"), (-9, "2^-9"), (15, "2^15")])
def test_powers_of_two(exponent, text):
    assert block_formats.power(2.0**exponent) == text


def test_a_number_that_is_no_power_stays():
    assert block_formats.power(1.5) == "1.5"


def test_a_shorter_group_before_the_cut_has_a_larger_error():
    """Each cut takes half of a last place of 14 bits off, so the error grows with the number of cuts."""
    found = [each for each in fp8.sums() if "added before" in each.what]
    errors = [float(each.measured.rstrip("%")) / 100 for each in found]
    assert errors == sorted(errors)
    for length, error in zip((32, 16, 8, 4), errors, strict=True):
        cuts = fp8.TERMS / length
        # The last place of a growing sum is between 2^-14 and 2^-13 of it: on average half of that at half of the sum.
        assert 2**-15 * cuts / 2 < error < 2**-13 * cuts / 2


def test_the_fitted_gradients_have_the_published_shares():
    mean, deviation = loss_scale.fitted()
    made = np.exp2(np.random.default_rng(9).normal(mean, deviation, 10**6))
    lost = loss_scale.LOST / (loss_scale.LOST + loss_scale.KEPT)
    assert np.mean(made.astype(np.float16) == 0) == pytest.approx(lost, abs=0.002)
    assert np.mean((made * 2.0**15).astype(np.float16) == 0) == pytest.approx(lost / 1000, abs=2e-4)


def test_counts_of_the_network_are_those_of_numpy():
    gradients = np.concatenate([each.ravel() for each in loss_scale.activation_gradients(loss_scale.network())])
    nonzero = gradients[gradients != 0]
    total = loss_scale.swept(gradients).total
    assert total.nonzero == nonzero.size
    for exponent in (0, 3, 15):
        scaled = nonzero * np.float32(2.0**exponent)
        assert total.zero[exponent] == np.count_nonzero(scaled.astype(np.float16) == 0)


def loss_of(net, hidden=None, deep=None):
    """Return the loss in float64 of activations of the first or of the second hidden layer, before their relu."""
    first, second, last = (each.astype(np.float64) for each in net.layers)
    hidden = net.x.astype(np.float64) @ first if hidden is None else hidden
    deep = np.maximum(hidden, 0) @ second if deep is None else deep
    scores = np.maximum(deep, 0) @ last
    scores[:, 0] += net.known
    peak = scores.max(1)
    right = scores[np.arange(len(scores)), net.truth]
    return float(np.mean(np.log(np.exp(scores - peak[:, None]).sum(1)) + peak - right))


def test_the_gradients_of_the_network_are_its_derivatives():
    net = loss_scale.network(places=24)
    of_hidden, of_deep = loss_scale.activation_gradients(net)
    hidden = net.x.astype(np.float64) @ net.layers[0]
    deep = np.maximum(hidden, 0) @ net.layers[1]
    step = 1e-5
    for place, unit in [(int(net.truth.argmax()), 3), (5, 8), (11, 40), (23, 63)]:
        for found, name, values in ((of_hidden, "hidden", hidden), (of_deep, "deep", deep)):
            moved = [values.copy(), values.copy()]
            moved[0][place, unit] += step
            moved[1][place, unit] -= step
            slope = (loss_of(net, **{name: moved[0]}) - loss_of(net, **{name: moved[1]})) / (2 * step)
            assert found[place, unit] == pytest.approx(slope, rel=1e-3, abs=1e-10)


def test_the_limit_that_acts_is_the_limit_over_the_scale():
    found = figure(clipping.orders(), "the limit that acts")
    assert float(found.measured) == pytest.approx(2 / clipping.SCALE, rel=0.05)


def test_a_product_of_splits_is_as_exact_as_numpy_says():
    a, b = split_products.operands()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert split_products.error(exact, a, b) == 0
    off = exact + np.linalg.norm(exact) / np.sqrt(exact.size) * 1e-3
    assert split_products.error(off, a, b) == pytest.approx(1e-3)


@pytest.mark.parametrize("module", [block_formats, clipping, fp8, hifloat8, loss_scale, split_products])
def test_what_is_not_checked_has_no_mark(module):
    for each in module.figures():
        assert each.measured
        assert (each.reproduces is None) or each.published
        assert each.reproduces is None or each.measured != "not checked"


def test_bits_of_a_scale_are_shared():
    assert block_formats.bits_of(block_operand_named("fp8_1x128")) == 8 + 32 / 128
