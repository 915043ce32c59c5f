"""Do the backends of this installation give the right results?

`precreg doctor` asks this of the backend that measures, by the reference implementation, on pairs made to break it. It
asks it of the backend that rounds and adds, by results that were worked out by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf, isfinite, ldexp, nan

import numpy as np

from precreg.arithmetic import Order, Rounding, Unit, format_named, matmul, numpy_dtype, round_to
from precreg.measure import Backend, Groups, MeasureRules, Sums, Tally, round_expansion, tally_reference
from precreg.storage import Array

# Relative difference of two expansions of one exact sum. A float64 shows 53 bits, so this changes no printed figure.
SUM_SLACK = Fraction(1, 2**60)

_RULES = MeasureRules(rtol=1e-3, atol=1e-5, worst=20)

# More elements than the compiled core takes at once, and no multiple of them: the rest is measured on another path.
_SIZE = 150

# Dtypes of actual and reference: narrow and wide formats, and one without rounding.
_PAIRS = (
    ("float32", "float32"),
    ("float32", "float64"),
    ("float64", "float64"),
    ("float16", "float32"),
    ("bfloat16", "float64"),
    ("float8_e4m3fn", "float32"),
    ("int32", "int32"),
)

# Zeros, subnormal numbers of several formats, the largest numbers of formats and beyond, infinities and NaN.
_SMALL_EDGES = (0.0, -0.0, 5e-324, 1e-310, -1e-155, 2.0**-149, 2.0**-133, 1e-12, 2.0**-24)

_EDGES = (*_SMALL_EDGES, 1.0, 448.0, 65520.0, 3.5e38, 1e155, 1.7e308, -1.7e308, inf, -inf, nan)


def self_test_measure(backend: Backend) -> tuple[int, list[str]]:
    """Return the number of pairs measured, and the differences: `float32 against float64: sketches`."""
    wrong, measured = [], 0
    for actual, reference in adversarial_pairs():
        measured += actual.size
        tallies = (each(actual, reference, 0, (3, actual.size // 3), _RULES) for each in (backend, tally_reference))
        names = tally_differences(*tallies)
        if names:
            wrong.append(f"{actual.dtype} against {reference.dtype}: {', '.join(names)}")
    return measured, wrong


def adversarial_pairs() -> Iterator[tuple[Array, Array]]:
    """Yield pairs of flat arrays: random bits with edges of the formats among them, and arrays with small errors."""
    generator = np.random.default_rng(0)
    for names in _PAIRS:
        yield _random_bits(names[0], generator), _random_bits(names[1], generator)
        reference = generator.normal(size=_SIZE) * 10.0 ** generator.integers(-3, 4, _SIZE)
        with np.errstate(all="ignore"):
            actual = (reference * (1 + generator.normal(size=_SIZE) * 1e-3)).astype(numpy_dtype(names[0]))
            yield actual, reference.astype(numpy_dtype(names[1]))


def _random_bits(name: str, generator: np.random.Generator) -> Array:
    dtype = numpy_dtype(name)
    raw = generator.integers(0, 256, _SIZE * dtype.itemsize, np.uint8)
    numbers: Array = raw.view(dtype).copy()
    if dtype.kind != "i":
        with np.errstate(all="ignore"):
            numbers[generator.permutation(_SIZE)[: len(_EDGES)]] = np.array(_EDGES).astype(dtype)
    return numbers


def tally_differences(first: Tally, second: Tally) -> list[str]:
    """Return the names of the fields that differ between two tallies of the same pairs.

    Sums may differ by SUM_SLACK, and sums of groups by their rounding.
    """
    # repr, because NaN equals NaN there, and -0.0 differs from 0.0.
    exact = ("counts", "maxima", "places", "sketches", "errors", "worst", "non_finite")
    found = [name for name in exact if repr(getattr(first, name)) != repr(getattr(second, name))]
    found += [name for name in Sums._fields if not _agree(exact_sum(first, name), exact_sum(second, name))]
    return found if _groups_agree(first.groups, second.groups) else [*found, "groups"]


def exact_sum(tally: Tally, name: str) -> Fraction | float:
    """Return one of the Sums as a rational number; an infinite one and NaN as a float."""
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
    """Return whether sums of groups agree up to their rounding."""
    # Groups are plain float64 sums: another order rounds otherwise, and may overflow where this one does not.
    if [axis.n for axis in first] != [axis.n for axis in second]:
        return False
    for one, other in zip(first, second, strict=True):
        for sums, others in zip(one[1:], other[1:], strict=True):
            scale = max(map(abs, others), default=0.0)
            if isfinite(scale) and not np.allclose(sums, others, rtol=1e-9, atol=1e-9 * scale):
                return False
    return True


# Format, rounding, value and result, worked out by hand: ties, subnormal numbers, overflow with and without infinities.
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

# Equal terms of each sum. A float16 sum of ones, added one by one, stops growing at 2048.
_TERMS = 4096

# Accumulator, rounding, order, its width, each of the equal terms, and their sum.
_SUMS: tuple[tuple[str, str, Order, int, float, float], ...] = (
    ("fp16", "nearest_even", Order.SEQUENTIAL, 1, 1.0, 2048.0),
    ("fp16", "nearest_even", Order.BLOCKS, 16, 1.0, 4096.0),
    ("fp16", "up", Order.SEQUENTIAL, 1, 1.0, 8192.0),
    ("fp16", "odd", Order.SEQUENTIAL, 1, 1.0, 2050.0),
    ("fp32", "nearest_even", Order.LANES, 8, 1.0, 4096.0),
    ("float32_m20", "toward_zero", Order.PAIRWISE, 1, 0.5, 2048.0),
)


def self_test_arithmetic() -> tuple[int, list[str]]:
    """Return the number of known results that were compared, and the wrong ones: `0.1 to float16, nearest_even`."""
    outcomes = [*_check_roundings(), *_check_sums()]
    return len(outcomes), [name for name, is_right in outcomes if not is_right]


def _check_roundings() -> Iterator[tuple[str, bool]]:
    for name, rounding, value, expected in _ROUNDED:
        # Arrays of either carrier dtype take a path of their own.
        for dtype in (np.float32, np.float64):
            found = round_to(np.full(99, value, dtype), format_named(name), Rounding(rounding))
            yield f"{value} to {name}, {rounding}", np.array_equal(found, np.full(99, expected, dtype), equal_nan=True)


def _check_sums() -> Iterator[tuple[str, bool]]:
    for name, rounding, order, width, term, expected in _SUMS:
        format = format_named(name)
        unit = Unit(format_named("fp16"), format, format, rounding=Rounding(rounding), order=order, width=width)
        found = matmul(np.full((3, _TERMS), term, np.float32), np.ones((_TERMS, 5), np.float32), unit)
        yield f"{_TERMS} times {term} in {name}, {rounding}, {order}", bool(np.all(found == expected))
