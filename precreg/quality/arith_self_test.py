"""Whether the form of rounding and adding that serves here gives results that are known without it."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, ldexp, nan

import numpy as np

from precreg.arithmetic import accumulate
from precreg.arithmetic.arith_rounding import round_to
from precreg.arithmetic.named import format_named
from precreg.arithmetic.roundings import Rounding
from precreg.arithmetic.unit import Order, Unit

_ROUNDED: tuple[tuple[str, str, float, float], ...] = (
    ("fp16", "nearest_even", 0.1, 0.0999755859375),
    ("fp16", "nearest_even", 2049.0, 2048.0),
    ("fp16", "nearest_away", 2049.0, 2050.0),
    ("fp16", "odd", 2049.0, 2050.0),
    ("fp16", "nearest_even", ldexp(1.0, -25), 0.0),
    ("fp16", "up", ldexp(1.0, -26), ldexp(1.0, -24)),
    ("fp16", "nearest_even", 65520.0, inf),
    ("fp16", "toward_zero", 65520.0, 65504.0),
    ("bf16", "nearest_even", 1.00390625, 1.0),
    ("bf16", "down", -1.00390625, -1.0078125),
    ("bf16", "away", -1.00390625, -1.0078125),
    ("fp8_e4m3fn", "nearest_even", 500.0, nan),
    ("fp8_e5m2", "nearest_even", 0.3, 0.3125),
    ("float32_m20", "toward_zero", 1.0 - ldexp(1.0, -24), 1.0 - ldexp(1.0, -21)),
    ("float32_m20", "nearest_even", ldexp(1.0, -127), 0.0),
)
"""Format, rounding, value and result: worked out by hand."""


_ONES = 4096

_SUMS: tuple[tuple[str, str, Order, int, float, float], ...] = (
    ("fp16", "nearest_even", Order.SEQUENTIAL, 1, 1.0, 2048.0),
    ("fp16", "nearest_even", Order.BLOCKS, 16, 1.0, 4096.0),
    ("fp16", "up", Order.SEQUENTIAL, 1, 1.0, 8192.0),
    ("fp16", "odd", Order.SEQUENTIAL, 1, 1.0, 2050.0),
    ("fp32", "nearest_even", Order.LANES, 8, 1.0, 4096.0),
    ("float32_m20", "toward_zero", Order.PAIRWISE, 1, 0.5, 2048.0),
)
"""Accumulator, rounding, order, its width, each of 4096 terms, and their sum."""


def self_test() -> tuple[int, list[str]]:
    """Return how many results were held against known ones, and which are others: `0.1 to float16, nearest_even`."""
    outcomes = [*_roundings(), *_sums()]
    return len(outcomes), [name for name, is_right in outcomes if not is_right]


def _roundings() -> Iterator[tuple[str, bool]]:
    for name, rounding, value, expected in _ROUNDED:
        for dtype in (np.float32, np.float64):
            found = round_to(np.full(99, value, dtype), format_named(name), Rounding(rounding))
            yield f"{value} to {name}, {rounding}", np.array_equal(found, np.full(99, expected, dtype), equal_nan=True)


def _sums() -> Iterator[tuple[str, bool]]:
    for name, rounding, order, width, term, expected in _SUMS:
        format = format_named(name)
        unit = Unit(format_named("fp16"), format, format, rounding=Rounding(rounding), order=order, width=width)
        found = accumulate.matmul(np.full((3, _ONES), term, np.float32), np.ones((_ONES, 5), np.float32), unit)
        yield f"{_ONES} times {term} in {name}, {rounding}, {order}", bool(np.all(found == expected))
