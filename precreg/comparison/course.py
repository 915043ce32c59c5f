"""Along the order of execution, which pair fails first, where does the error begin to grow, and which pairs regressed?

The error of a pair is mean |a-r| / mean |r|, so that pairs of any size and unit share an axis. The tolerance allows
atol + rtol*|r| for each element. In the same unit that is rtol + atol / mean |r|, and a pair whose elements all match
is below it. Everything here is a fact of the record; nothing judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappush, heappushpop
from itertools import pairwise
from typing import NamedTuple

from precreg.arithmetic import format_of
from precreg.types import ComparedPair, Comparison, Reason, Status, Tolerance

# An error grows where it is beyond so many times the median of all before. Layers of one network that are right differ
# by less (docs/compare.md).
GROWTH = 4.0


class PairError(NamedTuple):
    """Hold the errors of a pair at its place in the order.

    `error` is relative to the mean magnitude of the reference, as are `allowed`, the mean that rtol and atol allow, and
    `benchmark`, the error of the benchmark. None where no figure is defined.
    """

    place: int
    pair: ComparedPair
    error: float | None
    allowed: float | None
    benchmark: float | None

    @property
    def fails(self) -> bool:
        """Return whether the pair fails, or could not be judged."""
        return is_bad(self.pair)


class ErrorRise(NamedTuple):
    """Hold the point from which the error is beyond GROWTH times the median of the points before, and that median."""

    point: PairError
    before: float
    points_before: int


def is_bad(pair: ComparedPair) -> bool:
    """Return whether a pair fails, or could not be judged."""
    return pair.verdict.status in (Status.FAILED, Status.ERROR)


def pair_errors(pairs: Iterable[ComparedPair]) -> list[PairError]:
    """Return the errors of all pairs, in order."""
    return [
        PairError(
            place,
            pair,
            _relative(pair.comparison, pair.comparison),
            None if pair.comparison is None or pair.tolerance is None else _allowed(pair.comparison, pair.tolerance),
            _relative(pair.benchmark, pair.comparison),
        )
        for place, pair in enumerate(pairs)
    ]


def _relative(measured: Comparison | None, compared: Comparison | None) -> float | None:
    """Return the mean error of a measurement over the mean magnitude of the pair's reference."""
    if measured is None or compared is None:
        return None
    error, magnitude = measured.metrics.get("mean_abs_error"), compared.metrics.get("mean_magnitude")
    return None if error is None or not magnitude else error / magnitude


def _allowed(comparison: Comparison, tolerance: Tolerance) -> float | None:
    """Return the mean error that rtol and atol allow; None if no bound on the share of matches applies."""
    magnitude = comparison.metrics.get("mean_magnitude")
    applies = any(bound.metric == "match_ratio" for bound in tolerance.bounds)
    if not magnitude or not applies:
        return None
    return tolerance.rtol.limit + tolerance.atol.limit / magnitude


def first_failing(pairs: Sequence[ComparedPair]) -> ComparedPair | None:
    """Return the first pair that fails or could not be judged."""
    return next(filter(is_bad, pairs), None)


def first_measured_failing(pairs: Sequence[ComparedPair]) -> ComparedPair | None:
    """Return the first pair that fails by its elements: absent and unreadable arrays have none."""
    return next((pair for pair in pairs if is_bad(pair) and pair.comparison and pair.comparison.metrics), None)


def first_different(pairs: Sequence[ComparedPair]) -> ComparedPair | None:
    """Return the first pair with other bits than its reference; None if none before it has the same bits."""
    place = next((at for at, pair in enumerate(pairs) if pair.verdict.reason is not Reason.IDENTICAL), 0)
    return pairs[place] if place else None


def first_rise(points: Sequence[PairError]) -> ErrorRise | None:
    """Return the first point from which on the error is beyond the level before; None if it stays at one level.

    The error of the point and the median of it and all later ones are beyond GROWTH times the median of those before.
    That median counts at least as the unit roundoff of the point's dtype.
    """
    known = [point for point in points if point.error is not None]
    later = list(_medians(point.error or 0.0 for point in reversed(known)))[::-1]
    earlier = _medians(point.error or 0.0 for point in known)
    for place, (point, level) in enumerate(zip(known[1:], earlier, strict=False), 1):
        limit = GROWTH * max(level, _roundoff(point.pair))
        if min(point.error or 0.0, later[place]) > limit:
            return ErrorRise(point, level, place)
    return None


def _medians(values: Iterable[float]) -> Iterator[float]:
    """Yield the lower median of the first value, of the first two, and so on."""
    # Two heaps: sorting anew for each value would take hours on a million of pairs.
    lower: list[float] = []
    upper: list[float] = []
    for value in values:
        if len(lower) == len(upper):
            heappush(lower, -heappushpop(upper, value))
        else:
            heappush(upper, -heappushpop(lower, -value))
        yield -lower[0]


def _roundoff(pair: ComparedPair) -> float:
    # Where all before is exact, any rounding is beyond four times nothing.
    known = None if pair.comparison is None else format_of(pair.comparison.dtype)
    return 0.0 if known is None else known.unit_roundoff


class CourseRow(NamedTuple):
    """Hold neighbouring points of a curve: the first and the last of them, and the one with the largest error."""

    first: PairError
    last: PairError
    largest: PairError | None
    failing: int


def course_rows(points: Sequence[PairError], most: int) -> list[CourseRow]:
    """Divide the points into at most so many rows of neighbours of nearly equal number."""
    rows = min(most, len(points))
    edges = [row * len(points) // rows for row in range(rows + 1)] if rows else []
    return [_row(points[start:end]) for start, end in pairwise(edges)]


def _row(points: Sequence[PairError]) -> CourseRow:
    known = [point for point in points if point.error is not None]
    largest = max(known, key=lambda point: point.error or 0.0, default=None)
    return CourseRow(points[0], points[-1], largest, sum(point.fails for point in points))


class BenchmarkCounts(NamedTuple):
    """Count the pairs of a comparison with a benchmark by the result of the rule of regressions.

    The rule judged, or the pair has no benchmark, an unreadable one, or one of another dtype. Pairs that were not
    measured themselves are `unmeasured`.
    """

    judged: int
    absent: int
    unreadable: int
    other_dtype: int
    unmeasured: int


def count_benchmarks(pairs: Sequence[ComparedPair]) -> BenchmarkCounts:
    """Count the pairs by their benchmarks."""
    measured = [pair for pair in pairs if pair.comparison is not None and pair.comparison.metrics]
    absent = sum(pair.benchmark_path is None for pair in measured)
    unreadable = sum(pair.benchmark is None and pair.benchmark_path is not None for pair in measured)
    dtypes = ((pair.benchmark, pair.comparison) for pair in measured)
    others = sum(old is not None and new is not None and old.dtype != new.dtype for old, new in dtypes)
    judged = len(measured) - absent - unreadable - others
    return BenchmarkCounts(judged, absent, unreadable, others, len(pairs) - len(measured))
