"""The tally of a chunk of pairs by the compiled core: real numbers of at most 64 bits, integers of at most 32."""

from __future__ import annotations

from functools import cache
from math import inf, nextafter
from struct import pack
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic import Format
from precreg.measure.compiled import _core
from precreg.measure.metrics import Regions, regions_of
from precreg.measure.numpy_form import tally_numpy as numpy_tally
from precreg.measure.pairing import Array, Pairing, pairing_of
from precreg.measure.tally import (
    Counts,
    Groups,
    Maxima,
    MeasureRules,
    NamedPairs,
    Places,
    Sketch,
    Sketches,
    Sums,
    Tally,
)

MEASURE_INSTRUCTION_SET: str = _core.instruction_set
"""What the core runs on here: generic, avx2 or avx512. All give the same bits."""


_KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3, "int16": 5, "uint16": 6, "int32": 7, "uint32": 8}

_BYTE = 4

_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}

_INTEGER = Format("integer", 53, 52, inf, negative_zero=False)
"""Between 2**52 and 2**53 floats of 53 bits are the integers: an ulp of 1, and rounding to integers."""


class _Plan(NamedTuple):
    """What the core is told of a pair of dtypes: packed for it, with the meaning of byte patterns."""

    packed: bytes
    tables: Array
    views: tuple[np.dtype[Any] | None, np.dtype[Any] | None]


def tally_native(actual: Array, reference: Array, start: int, shape: tuple[int, ...], rules: MeasureRules) -> Tally:
    """Measure two flat chunks as numpy_form.tally does; what the core does not serve is left to that."""
    plan = _plan(actual.dtype, reference.dtype, rules.regions)
    if plan is None:
        return numpy_tally(actual, reference, start, shape, rules)
    counts, sums, maxima, places, *sketches, errors, worst, non_finite, scaled, groups = _core.measure(
        _flat(actual, plan.views[0]),
        _flat(reference, plan.views[1]),
        plan.packed,
        plan.tables,
        start,
        shape,
        rules.rtol,
        rules.atol,
        max(rules.worst, 0),
    )
    return Tally(
        Counts(*counts),
        Sums(*sums),
        Maxima(*maxima),
        Places(*places),
        Sketches(*(Sketch(*sketch) for sketch in sketches)),
        errors,
        NamedPairs(*worst),
        NamedPairs(*non_finite),
        tuple([Groups(*axis) for axis in groups]),
        {(Sums._fields[which], exponent): parts for which, exponent, parts in scaled} if scaled else {},
    )


def _flat(side: Array, view: np.dtype[Any] | None) -> Array:
    contiguous = side if side.flags.c_contiguous else np.ascontiguousarray(side)
    return contiguous if view is None else contiguous.view(view)


@cache
def _plan(actual: np.dtype[Any], reference: np.dtype[Any], regions: tuple[tuple[str, float], ...]) -> _Plan | None:
    """Prepare for a pair of dtypes; None for those that the core does not serve."""
    pairing = pairing_of(actual, reference)
    kinds = _kind(actual), _kind(reference)
    if kinds[0] is None or kinds[1] is None or pairing.is_complex:
        return None
    if pairing.format is None and pairing.reference_format is not None:
        return None  # a reference between integers may be too large to have an ulp of 1
    if pairing.saturates and not pairing.same:
        return None  # an infinite reference would be finite, and an error infinite by infinite
    format = pairing.format or _INTEGER
    flags = pairing.same or actual == reference, format.negative_zero, format.overflow != format.overflow
    integers = pairing.format is None, pairing.reference_format is None
    packed = pack("<8i", *kinds, *integers, format.precision, *flags)
    packed += pack("<3d", 2.0**format.min_exponent, *_limits(pairing, format))
    packed += pack("<8d", *_regions(regions_of(pairing.dtype, regions)))
    tables = np.stack([_patterns(actual), _patterns(reference)])
    return _Plan(packed, tables, (_view(actual), _view(reference)))


def _limits(pairing: Pairing, format: Format) -> tuple[float, float]:
    """Return the smallest normal number, and the largest |r| that stays finite."""
    return (0.0, inf) if pairing.format is None else (format.smallest_normal, _largest_rounding_down(format))


def _largest_rounding_down(format: Format) -> float:
    """Return the largest float64 that rounds, half to even, to a finite number of a format."""
    step = 2.0 ** (format.max_exponent - format.precision + 1)
    if format.precision == np.finfo(np.float64).nmant + 1:
        return format.largest
    between = format.largest + step / 2
    return between if format.largest / step % 2 == 0 else nextafter(between, 0.0)


def _regions(regions: Regions) -> tuple[float, ...]:
    return tuple(getattr(regions, name) for name in Regions.__struct_fields__)


def _kind(dtype: np.dtype[Any]) -> int | None:
    if dtype.itemsize == 1:
        return _BYTE
    return _KINDS.get(dtype.name) if dtype.isnative else None


def _view(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype as which an array of ml_dtypes, which offer no buffer, is passed on."""
    return _UNSIGNED[dtype.itemsize] if dtype.isbuiltin == 2 else None  # 0: of numpy, in a byte order that was named


def _patterns(dtype: np.dtype[Any]) -> Array:
    """Return what the 256 patterns of a dtype of one byte mean; zeros for any other."""
    if dtype.itemsize != 1:
        return np.zeros(256, np.float32)
    patterns = np.arange(256, dtype=np.uint8)
    return (patterns != 0 if dtype == np.bool_ else patterns.view(dtype)).astype(np.float32)
