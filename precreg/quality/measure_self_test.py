"""Whether the form of measuring that serves here gives what the readable one gives, on pairs made to break it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf, isfinite, nan

import numpy as np

from precreg.arithmetic.formats import numpy_dtype
from precreg.measure import plain
from precreg.measure.exact import value
from precreg.measure.forms import Form
from precreg.measure.pairing import Array
from precreg.measure.tally import Groups, Rules, Sums, Tally

SLACK = Fraction(1, 2**60)
"""How far the expansions of two exact sums may lie apart, relative to the sum: beyond what a float64 can show."""


_RULES = Rules(rtol=1e-3, atol=1e-5, worst=20)

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


def self_test(form: Form) -> tuple[int, list[str]]:
    """Return how many pairs were measured, and what came out otherwise: `float32 against float64: sketches`."""
    wrong, measured = [], 0
    for actual, reference in adversarial():
        measured += actual.size
        tallies = (each(actual, reference, 0, (3, actual.size // 3), _RULES) for each in (form, plain.tally))
        names = differences(*tallies)
        if names:
            wrong.append(f"{actual.dtype} against {reference.dtype}: {', '.join(names)}")
    return measured, wrong


def adversarial() -> Iterator[tuple[Array, Array]]:
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


def differences(first: Tally, second: Tally) -> list[str]:
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
        return value(every)
    scaled = (Fraction(2) ** scale * sum(map(Fraction, expansion)) for scale, expansion in parts.items())
    return sum(scaled, Fraction(0))


def _agree(first: Fraction | float, second: Fraction | float) -> bool:
    if isinstance(first, float) or isinstance(second, float):
        return repr(first) == repr(second)
    return abs(first - second) <= SLACK * max(abs(first), abs(second))


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
