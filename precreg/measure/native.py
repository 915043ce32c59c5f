"""The tally of a chunk of pairs by the compiled core: real numbers of at most 64 bits, integers of at most 32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import inf, ldexp, nextafter
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import astuple

from precreg.arithmetic import Format
from precreg.measure.compiled import (
    FIGURES,
    KINDS,
    REPEATED,
    SHADOW_OPERATIONS,
    STRUCTS,
    CoreResult,
    Differences,
    ShadowTotals,
    TallyFormat,
    TallyPlan,
    _core,
)
from precreg.measure.metrics import COUNT_DESCRIPTIONS, METRICS, regions_of
from precreg.measure.numpy_form import tally_numpy as numpy_tally
from precreg.measure.pairing import Pairing, pairing_of
from precreg.measure.tally import (
    PLACE_NAMES,
    Counts,
    Groups,
    Maxima,
    MeasuredFields,
    MeasureRules,
    NamedPairs,
    Places,
    Sketch,
    Sketches,
    Sums,
    Tally,
)
from precreg.storage import Array
from precreg.types import AxisGroups, Histogram, Positions

# generic, avx2 or avx512: all give the same bits.
MEASURE_INSTRUCTION_SET: str = _core.instruction_set

_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}

# Between 2**52 and 2**53 the floats of 53 bits are the integers: so every ulp is 1, and rounding gives integers.
_INTEGER = Format("integer", 53, 52, inf, negative_zero=False)


class NativePlan(NamedTuple):
    """The core's arguments for a pair of dtypes. The core reads an array by its view, if that is not None."""

    packed: bytes
    tables: bytes
    views: tuple[np.dtype[Any] | None, np.dtype[Any] | None]

    def measure(
        self,
        actual: Array,
        reference: Array,
        start: int,
        shape: tuple[int, ...],
        rtol: float,
        atol: float,
        worst: int,
    ) -> object:
        """Add up the pairs of two arrays in C order, viewed as `views` say; return a capsule for read_found.

        The capsule has its own copies of all that it names, so that the arrays may change afterwards.
        """
        most = worst if worst > 0 else 0
        return _core.measure(actual, reference, start, shape, rtol, atol, most, self.packed, self.tables)


def tally_native(actual: Array, reference: Array, start: int, shape: tuple[int, ...], rules: MeasureRules) -> Tally:
    """Measure two flat chunks as numpy_form.tally does, and leave dtypes that the core lacks to numpy_form.tally."""
    plan = native_plan(actual.dtype, reference.dtype, rules.regions)
    if plan is None:
        return numpy_tally(actual, reference, start, shape, rules)
    pair = _flat(actual, plan.views[0]), _flat(reference, plan.views[1])
    return read_found(plan.measure(*pair, start, shape, rules.rtol, rules.atol, rules.worst))


def measure_found(actual: Array, reference: Array, rules: MeasureRules) -> object:
    """Measure two whole arrays in C order; return a capsule for read_found, or None for dtypes that the core lacks."""
    plan = native_plan(actual.dtype, reference.dtype, rules.regions)
    if plan is None:
        return None
    pair = _flat(actual, plan.views[0]), _flat(reference, plan.views[1])
    return plan.measure(*pair, 0, actual.shape, rules.rtol, rules.atol, rules.worst)


def read_found(capsule: object) -> Tally:
    """Return the tally of a result of NativePlan.measure."""
    found = CoreResult(*_core.read(capsule))
    return Tally(
        counts=Counts(*found.counts),
        sums=Sums(*found.sums),
        maxima=Maxima(*found.maxima),
        places=Places(*found.places),
        sketches=Sketches(*[Sketch(*sketch) for sketch in found.sketches]),
        errors=found.errors,
        worst=NamedPairs(*found.worst),
        non_finite=NamedPairs(*found.non_finite),
        groups=tuple([Groups(*axis) for axis in found.groups]),
        scaled={(Sums._fields[which], exponent): parts for which, exponent, parts in found.scaled},
    )


_COUNT_NAMES = tuple(COUNT_DESCRIPTIONS)
# Metrics of the table that no pair gives: those of benchmarks and of samples.
_OTHERS = sum(metric.needs_benchmark or metric.needs_samples for metric in METRICS.values())


def describe_found(capsule: object) -> MeasuredFields | None:
    """Return the fields of a Comparison from a result of NativePlan.measure; None if only figures.py computes them.

    These are figures of sums that cancel or that are beyond float64, and all if the table has derived metrics.
    """
    # A derived metric is a function of Python.
    if len(METRICS) != len(FIGURES) + _OTHERS:
        return None
    found = _core.describe(capsule, FIGURES, _COUNT_NAMES, PLACE_NAMES)
    if found is None:
        return None
    metrics, counts, worst, non_finite, histogram, heat, places, groups = found
    return MeasuredFields(
        metrics,
        counts,
        Positions(*worst) if worst else None,
        Positions(*non_finite) if non_finite else None,
        Histogram(*histogram) if histogram else None,
        heat,
        places,
        tuple([AxisGroups(*axis) for axis in groups]),
    )


def _flat(side: Array, view: np.dtype[Any] | None) -> Array:
    contiguous = side if side.flags.c_contiguous else np.ascontiguousarray(side)
    return contiguous if view is None else contiguous.view(view)


@cache
def native_plan(
    actual: np.dtype[Any], reference: np.dtype[Any], regions: tuple[tuple[str, float], ...]
) -> NativePlan | None:
    """Prepare for a pair of dtypes; return None if the core does not serve it."""
    fields = _plan_fields(actual, reference, regions)
    if fields is None:
        return None
    packed = np.array(fields, STRUCTS["Plan"]).tobytes()
    tables = np.stack([_patterns(actual), _patterns(reference)]).tobytes()
    return NativePlan(packed, tables, (_view(actual), _view(reference)))


def _plan_fields(
    actual: np.dtype[Any], reference: np.dtype[Any], regions: tuple[tuple[str, float], ...]
) -> TallyPlan | None:
    pairing = pairing_of(actual, reference)
    kinds = _kind(actual), _kind(reference)
    if kinds[0] is None or kinds[1] is None or pairing.is_complex:
        return None
    if pairing.format is None and pairing.reference_format is not None:
        return None  # a reference between integers may be too large to have an ulp of 1
    if pairing.saturates and not pairing.same:
        return None  # an infinite reference would be finite, and an error infinite by infinite
    return TallyPlan(
        actual=kinds[0],
        reference=kinds[1],
        actual_is_integer=pairing.format is None,
        reference_is_integer=pairing.reference_format is None,
        format=_format(pairing, same=pairing.same or actual == reference),
        regions=astuple(regions_of(pairing.dtype, regions)),
    )


def _format(pairing: Pairing, *, same: bool) -> TallyFormat:
    """Return the output's format; integers have no subnormals, and no reference rounds to an infinity."""
    format = pairing.format or _INTEGER
    return TallyFormat(
        precision=format.precision,
        smallest_binade=format.smallest_normal,
        smallest_normal=0.0 if pairing.format is None else format.smallest_normal,
        largest_reference=inf if pairing.format is None else _largest_rounding_down(format),
        negative_zero=format.negative_zero,
        overflow_is_nan=format.overflow != format.overflow and not same,  # unrounded infinities stay infinities
        same=same,
    )


def _largest_rounding_down(format: Format) -> float:
    """Return the largest float64 that rounds, half to even, to a finite number of a format."""
    # ldexp is exact in every rounding mode, which 2.0 ** x is not: the plan is cached for all threads.
    step = ldexp(1.0, format.max_exponent - format.precision + 1)
    if format.precision == np.finfo(np.float64).nmant + 1:
        return format.largest
    between = format.largest + step / 2
    return between if format.largest / step % 2 == 0 else nextafter(between, 0.0)


def _kind(dtype: np.dtype[Any]) -> int | None:
    name = "byte" if dtype.itemsize == 1 else dtype.name
    return KINDS.index(name) if name in KINDS and dtype.isnative else None


def _view(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return an unsigned dtype for a dtype of ml_dtypes, whose arrays offer no buffer."""
    # isbuiltin is 1 for numpy's dtypes, 0 for those with a named byte order, 2 for dtypes of other packages.
    return _UNSIGNED[dtype.itemsize] if dtype.isbuiltin == 2 else None


def _patterns(dtype: np.dtype[Any]) -> Array:
    """Return the values of the 256 patterns of a dtype of one byte; zeros for any other dtype."""
    if dtype.itemsize != 1:
        return np.zeros(256, np.float32)
    patterns = np.arange(256, dtype=np.uint8)
    return (patterns != 0 if dtype == np.bool_ else patterns.view(dtype)).astype(np.float32)


_TOTALS = Struct("=13d4q")
# The totals, and seven sums of eight lanes (ShadowState in core/shadows.hpp).
_STATE_BYTES = STRUCTS["ShadowTotals"].itemsize + 7 * 8 * 8
_OPERATION_NUMBERS = {name: number for number, name in enumerate(SHADOW_OPERATIONS)}
_REPEATED_NUMBERS = {name: number for number, name in enumerate(REPEATED)}


class ShadowOperand(NamedTuple):
    """An operand of float32, its shadow of float64, and how it repeats: one of REPEATED.

    Without `exact`, the shadow equals `low`. Without `low`, both are `exact`.
    """

    low: Array | None
    exact: Array | None
    repeated: str


class ShadowSums:
    """Add up low-precision values beside their shadows, in one pass and in rows.

    Arrays are contiguous: values of float32 or float64, shadows of float64, stored errors of float32. The sums do not
    depend on how calls divide the rows; within a row, calls may begin at each eighth element.
    """

    def __init__(self, columns: int, smallest_normal: float) -> None:
        self.columns, self.smallest_normal = columns, smallest_normal
        self._state = bytearray(_STATE_BYTES)

    def add(
        self,
        actual: Array,
        exact: Array,
        own: Array | None = None,
        errors: Array | None = None,
        *,
        ends_row: bool = True,
    ) -> None:
        """Add rows. The differences from `own`, or from `exact` without it, are stored in `errors`."""
        _core.add_shadows(actual, exact, own, errors, self._state, self.columns, self.smallest_normal, ends_row)

    def compute(
        self,
        operation: str,
        operands: Sequence[ShadowOperand],
        actual: Array,
        exact: Array,
        *,
        own: Array | None = None,
        errors: Array | None = None,
        has_own: bool,
    ) -> None:
        """Compute one of SHADOW_OPERATIONS on shadows into `exact`, and add the results.

        `own` takes the results on low-precision values, which are computed if `has_own`.
        """
        first, second = operands[0], operands[-1]
        _core.compute_shadows(
            _OPERATION_NUMBERS[operation],
            first.low,
            first.exact,
            _REPEATED_NUMBERS[first.repeated],
            second.low,
            second.exact,
            _REPEATED_NUMBERS[second.repeated],
            actual,
            exact,
            own,
            errors,
            self._state,
            self.columns,
            self.smallest_normal,
            has_own,
        )

    def totals(self) -> ShadowTotals:
        """Return the totals of all rows so far."""
        found = _TOTALS.unpack_from(self._state)
        return ShadowTotals(Differences(*found[:3]), Differences(*found[3:6]), Differences(*found[6:9]), *found[9:])
