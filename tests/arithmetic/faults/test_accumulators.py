"""Accumulators that are too narrow stop where their format says; a stale buffer makes runs differ."""

import numpy as np
import pytest

from tests.arithmetic.faults.planting import arithmetic, run, same_bits

ONES = np.ones((1, 4096), np.float32)


def by_loop(x):
    total = x[:, 0]
    for k in range(1, x.shape[1]):
        total = total + x[:, k]
    return total


def by_loop_in_place(x):
    total = x[:, 0] * 1
    for k in range(1, x.shape[1]):
        total += x[:, k]
    return total


def by_product(x):
    return np.matmul(x, np.ones((4096, 1), np.float32))[:, 0]


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: x.sum(-1),
        lambda x: x.cumsum(-1)[:, -1],
        lambda x: x.mean(-1) * 4096,
        by_loop,
        by_loop_in_place,
        by_product,
    ],
    ids=["sum", "cumsum", "mean", "loop", "loop in place", "product"],
)
@pytest.mark.parametrize(("fault", "stops"), [("narrow_float16", 2048), ("narrow_bfloat16", 256)])
def test_a_sum_of_ones_stops_where_one_is_half_a_unit(kernel, fault, stops):
    """With p bits, 2**p + 1 is a tie that goes to the even 2**p: p is 11 and 8."""
    assert run(fault, kernel, ONES) == stops
    assert kernel(ONES) == 4096


def test_partial_sums_are_rounded_one_by_one():
    x = np.random.default_rng(1).normal(size=50).astype(np.float32)
    total = x[0]
    for term in x[1:]:
        total = np.float32(np.float16(np.float32(total + term)))
    assert run("narrow_float16", np.sum, x) == total


def test_a_format_that_is_no_narrower_has_no_effect():
    x = np.random.default_rng(2).normal(size=(3, 64)).astype(np.float16)
    assert same_bits(run("narrow_float16", by_loop, x), by_loop(x))


def test_additions_that_are_no_running_sum_are_not_narrowed():
    x, y = np.random.default_rng(3).normal(size=(2, 5, 9)).astype(np.float32)
    assert same_bits(run("narrow_bfloat16", lambda x, y: (x + y) * 2 + x, x, y), (x + y) * 2 + x)


def test_overflow_of_the_accumulator():
    x = np.full(4, 30000, np.float32)
    assert run("narrow_float16", np.sum, x) == np.inf


def test_a_stale_buffer_differs_from_run_to_run():
    x = np.arange(1, 9, dtype=np.float64)
    computing = arithmetic("stale_buffer")
    runs = [run("stale_buffer", np.sum, x, with_arithmetic=computing) for _ in range(3)]
    share = 2.0**-22
    assert runs == [36, 36 + 36 * share, 36 + (36 + 36 * share) * share]
    assert run("stale_buffer", np.sum, x) == 36


def test_the_next_sum_of_one_run_finds_what_the_first_left():
    x = np.ones((2, 8), np.float64)
    result = run("stale_buffer", lambda x: np.stack([x[0].sum(), x[1].cumsum()[-1]]), x)
    assert result.tolist() == [8, 8 + 8 * 2.0**-22]


def test_a_buffer_does_not_keep_what_is_not_finite():
    computing = arithmetic("stale_buffer")
    run("stale_buffer", np.sum, np.array([np.inf, 1]), with_arithmetic=computing)
    assert run("stale_buffer", np.sum, np.array([1.0, 1]), with_arithmetic=computing) == 2
