"""Whether the form of measuring that serves here gives what the readable one gives, on pairs made to break it.

Whether the form of rounding and adding that serves here gives results that are known without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf, isfinite, ldexp, nan

import numpy as np

from precreg.arithmetic import Order, Rounding, Unit, format_named, matmul, numpy_dtype, round_to
from precreg.measure import Array, Backend, Groups, MeasureRules, Sums, Tally, round_expansion, tally_reference

SUM_SLACK = Fraction(1, 2**60)
"""How far the expansions of two exact sums may lie apart, relative to the sum: beyond what a float64 can show."""


_RULES = MeasureRules(rtol=1e-3, atol=1e-5, worst=20)

_SIZE = 150
"""More than the core takes at once, and no multiple of it."""


_PAIRS = (
    ("float32", "float32"),
    ("float32", "float64"),
    ("float64", "float64"),
    ("float16", "float32"),
    ("bfloat16", "float64"),
    ("float8_e4m3fn", "float32"),
    ("int32", "int32"),
)

_SMALL_EDGES = (0.0, -0.0, 5e-324, 1e-310, -1e-155, 2.0**-149, 2.0**-133, 1e-12, 2.0**-24)

_EDGES = (*_SMALL_EDGES, 1.0, 448.0, 65520.0, 3.5e38, 1e155, 1.7e308, -1.7e308, inf, -inf, nan)


def self_test_measure(form: Backend) -> tuple[int, list[str]]:
    """Return how many pairs were measured, and what came out otherwise: `float32 against float64: sketches`."""
    wrong, measured = [], 0
    for actual, reference in adversarial_pairs():
        measured += actual.size
        tallies = (each(actual, reference, 0, (3, actual.size // 3), _RULES) for each in (form, tally_reference))
        names = tally_differences(*tallies)
        if names:
            wrong.append(f"{actual.dtype} against {reference.dtype}: {', '.join(names)}")
    return measured, wrong


def adversarial_pairs() -> Iterator[tuple[Array, Array]]:
    """Yield pairs of flat arrays: any bits against any bits, with edges of formats among them; and near ones."""
    generator = np.random.default_rng(0)
    for names in _PAIRS:
        yield _wild(names[0], generator), _wild(names[1], generator)
        reference = generator.normal(size=_SIZE) * 10.0 ** generator.integers(-3, 4, _SIZE)
        with np.errstate(all="ignore"):
            actual = (reference * (1 + generator.normal(size=_SIZE) * 1e-3)).astype(numpy_dtype(names[0]))
            yield actual, reference.astype(numpy_dtype(names[1]))


def _wild(name: str, generator: np.random.Generator) -> Array:
    dtype = numpy_dtype(name)
    raw = generator.integers(0, 256, _SIZE * dtype.itemsize, np.uint8)
    numbers: Array = raw.view(dtype).copy()
    if dtype.kind != "i":
        with np.errstate(all="ignore"):
            numbers[generator.permutation(_SIZE)[: len(_EDGES)]] = np.array(_EDGES).astype(dtype)
    return numbers


def tally_differences(first: Tally, second: Tally) -> list[str]:
    """Name what differs between two tallies of the same pairs; sums by more than SLACK, those of groups by rounding."""
    exact = ("counts", "maxima", "places", "sketches", "errors", "worst", "non_finite")
    found = [name for name in exact if repr(getattr(first, name)) != repr(getattr(second, name))]
    found += [name for name in Sums._fields if not _agree(exact_sum(first, name), exact_sum(second, name))]
    return found if _groups_agree(first.groups, second.groups) else [*found, "groups"]


def exact_sum(tally: Tally, name: str) -> Fraction | float:
    """Return one of the Sums as the rational number it is; an infinite one and NaN as a float."""
    parts = {0: getattr(tally.sums, name)} | {scale: parts for (of, scale), parts in tally.scaled.items() if of == name}
    every = [part for expansion in parts.values() for part in expansion]
    if not all(map(isfinite, every)):
        return round_expansion(every)
    scaled = (Fraction(2) ** scale * sum(map(Fraction, expansion)) for scale, expansion in parts.items())
    return sum(scaled, Fraction(0))


def _agree(first: Fraction | float, second: Fraction | float) -> bool:
    if isinstance(first, float) or isinstance(second, float):
        return repr(first) == repr(second)
    return abs(first - second) <= SUM_SLACK * max(abs(first), abs(second))


def _groups_agree(first: tuple[Groups, ...], second: tuple[Groups, ...]) -> bool:
    """Allow sums of groups to differ as those in another order do, and to overflow elsewhere."""
    if [axis.n for axis in first] != [axis.n for axis in second]:
        return False
    for one, other in zip(first, second, strict=True):
        for sums, others in zip(one[1:], other[1:], strict=True):
            scale = max(map(abs, others), default=0.0)
            if isfinite(scale) and not np.allclose(sums, others, rtol=1e-9, atol=1e-9 * scale):
                return False
    return True


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


def self_test_arithmetic() -> tuple[int, list[str]]:
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
        found = matmul(np.full((3, _ONES), term, np.float32), np.ones((_ONES, 5), np.float32), unit)
        yield f"{_ONES} times {term} in {name}, {rounding}, {order}", bool(np.all(found == expected))
