"""The sizes of errors of tensors: one pass of the compiled core against single passes, and against numpy."""

import math

import pytest
import torch

from precreg.shadow.sizes import error_size
from precreg.shadow.torch.measure import Meter, OpResult, measure_range

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def result(dtype, shape, draw, scale=1.0):
    low, first, second = (draw(1, *shape, seed=seed)[0].double() for seed in range(3))
    low = (scale * low).to(dtype)
    return OpResult(low, low.double() * (1 + 1e-4 * first), low.double() * (1 + 1e-5 * second))


def values(size):
    return (size.relative, size.worst_row, size.max_abs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (3, 1), (4, 6, 5), (2, 3, 70)])
def test_one_pass_and_single_passes_agree(dtype, shape, draw):
    given = result(dtype, shape, draw)
    meter = Meter(elements=False)
    assert meter.is_fast
    one, other = meter._by_core(given, True), meter._by_torch([given], True)[0]
    pairs = ((given.low, given.exact), (given.own_exact, given.exact), (given.low, given.own_exact))
    for name, (actual, exact) in zip(("total", "inherited", "own"), pairs, strict=True):
        sizes = values(getattr(one, name))
        assert sizes == pytest.approx(values(getattr(other, name)), rel=1e-12)
        assert sizes == pytest.approx(values(error_size(actual.double().numpy(), exact.numpy())), rel=1e-12)
    assert torch.equal(one.own_errors, other.own_errors)
    assert one.own_errors.dtype == other.own_errors.dtype
    assert one.range == measure_range(given.low, given.exact)


@pytest.mark.parametrize("layout", ["transposed", "channels_last", "strided"])
def test_layouts_of_memory_do_not_matter(layout, draw):
    low, exact, own = (each for each in result(torch.float32, (2, 3, 4, 6), draw))
    change = {
        "transposed": lambda each: each.transpose(1, 3),
        "channels_last": lambda each: each.contiguous(memory_format=torch.channels_last),
        "strided": lambda each: each[..., ::2],
    }[layout]
    found = Meter(elements=False)._by_core(OpResult(change(low), change(exact), change(own)), False)
    expected = error_size(change(low).numpy(), change(own).numpy())
    assert values(found.own) == pytest.approx(values(expected), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e20])
def test_sizes_of_tiny_and_of_large_values(scale, draw):
    low = (scale * draw(4, 8)).float()
    exact = low.double() * (1 + 1e-7 * draw(4, 8, seed=2).double())
    found = Meter(elements=False).measure([OpResult(low, exact, exact)], keeps_own=False)[0]
    assert values(found.total) == pytest.approx(values(error_size(low.numpy(), exact.numpy())), rel=1e-12)


def test_errors_whose_squares_underflow_are_no_zeros():
    low = torch.zeros(2, 3)
    exact = torch.full((2, 3), 1e-170, dtype=torch.float64)
    found = Meter(elements=False).measure([OpResult(low, exact, exact)], keeps_own=False)[0]
    assert found.total.relative == pytest.approx(1)
    assert found.total.max_abs == 1e-170


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 3e38, 1e-40])
def test_values_that_need_a_look_at_each_element(value, draw):
    low = draw(3, 5)
    low[1, 2] = value
    exact = low.double() * (1 + 1e-7)
    for beside in (exact, exact * (1 + 1e-8)):
        found = Meter(elements=False).measure([OpResult(low, exact, beside)], keeps_own=False)[0]
        assert values(found.total) == pytest.approx(values(error_size(low.numpy(), exact.numpy())), rel=1e-9)
        assert values(found.own) == pytest.approx(values(error_size(low.numpy(), beside.numpy())), rel=1e-9)
        assert found.range == measure_range(low, exact)


@pytest.mark.parametrize("value", [-math.inf, -3e38])
def test_masks_are_measured_with_the_others(value, draw):
    low = draw(6, 8)
    low[0, 3:] = value
    exact = low.double() * (1 + 1e-7 * draw(6, 8, seed=2).double())
    own = low.double() * (1 + 1e-7 * draw(6, 8, seed=3).double())
    found = Meter(elements=False).measure([OpResult(low, exact, own)], keeps_own=True)[0]
    pairs = ((low.double(), exact, found.total), (own, exact, found.inherited), (low.double(), own, found.own))
    for actual, wide, size in pairs:
        assert values(size) == pytest.approx(values(error_size(actual.numpy(), wide.numpy())), rel=1e-12)
    assert found.own_errors[0, 3:].count_nonzero() == 0
