"""Into which levels and slopes does a whole row of numbers divide?

Offline detection of change points by optimal partitioning (Jackson et al. 2005): every segment is a level or a line,
and dynamic programming finds the partition with the smallest sum of squared deviations plus a penalty for each segment.
Deviations are in units of the local noise, and the penalty grows with the correlation of the noise.
benchmarks/hindsight_study.py chose the constants on its series with even seeds, and docs/drift.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, NamedTuple

from precreg.verdict.statistics.change_points import SIGMA_OF_MAD

if TYPE_CHECKING:
    import numpy as np

    Row = np.ndarray[tuple[int], np.dtype[np.float64]]
    Rows = np.ndarray[tuple[int, int], np.dtype[np.float64]]

# Penalties in units of log(n), as in the Bayesian information criterion: of each segment, and of a line over a level.
# With 2 or 4 in place of 3 F1 falls from 0.974 to 0.964 (benchmarks/hindsight_study.py, 24 seeds a kind).
SEGMENT_PENALTY = 3.0
LINE_PENALTY = 1.5
# A single value is an outlier. With fewer than 8 values a line fits noise.
MIN_LEVEL_RUNS = 2
MIN_SLOPE_RUNS = 8
# Two adjacent levels differ by this many standard errors, or are one.
MIN_LEVEL_SIGMAS = 4.0
# A value that is this many standard deviations from the median of its neighbours is an outlier.
OUTLIER_SIGMAS = 4.5
# Differences on either side that give the local noise. Fewer would take the noise of a step for local noise.
NOISE_RUNS = 20
# Smallest standard deviation. It keeps changes of far less than 2 % of an exact series out of the partition.
MIN_SIGMA = 0.005
# Above this the inflation of the penalty has no bound.
MAX_LAG_CORRELATION = 0.9
# Share of squared differences that are kept: those across steps and outliers are among the largest.
KEPT_DIFFERENCES = 0.8
MAX_LAG = 4
# Differences of differences that are smaller by this factor show slopes; noise that is correlated by 0.8 gives 0.86.
# With 0.75 F1 falls from 0.968 to 0.962 (benchmarks/hindsight_study.py, 60 seeds a kind).
MIXED_SLOPES = 0.3
MIN_CORRELATION_RUNS = 20
# Misfits that are computed at once: 8 arrays of them take 2 MB, which a cache holds.
MAX_MISFITS = 32_768
# A line that begins where the level ends may fit worse than a free one by this many squared standard deviations.
JOINT_MISFIT = 15.0


class Segment(NamedTuple):
    """A level or a slope from index `start` up to `end`, exclusive, with its fitted first and last value.

    A joined segment begins where the one before ends, so there is no step between them.
    """

    start: int
    end: int
    is_slope: bool
    first: float
    last: float
    joined: bool = False


class _Row(NamedTuple):
    """Values without outliers, and the standard deviation of each, inflated for correlated noise."""

    values: Row
    sigma: Row


def find_segments(values: Sequence[float], min_change: float) -> list[Segment]:
    """Divide a row into levels and slopes, oldest first; adjacent levels differ by more than `min_change`."""
    import numpy as np

    if len(values) < 2 * MIN_LEVEL_RUNS:
        return [Segment(0, len(values), False, values[0], values[-1])] if values else []
    row = _prepare(np.asarray(values, dtype=np.float64))
    segments = _merge_levels(row, _partition(row), min_change)
    return _join(row, segments)


def _prepare(values: Row) -> _Row:
    """Replace outliers by the median of their neighbours, and estimate the noise of each value."""
    import numpy as np

    sigma = np.maximum(_local_sigma(values), MIN_SIGMA)
    noisy = _slope_free_sigmas(np.diff(values)[None])[0] > 2**0.5 * MIN_SIGMA
    # The median of 5 removes two outliers in a row. Levels of an exact series may be as short as two runs.
    medians = _running_medians(values, 5 if noisy else 3)
    calm = np.where(np.abs(values - medians) > OUTLIER_SIGMAS * sigma, medians, values)
    sigma = np.maximum(_local_sigma(calm), MIN_SIGMA)
    r = _lag_correlation(calm) if noisy else 0.0
    # The variance of a mean of AR(1) noise over that for independent values whose differences vary as much: differences
    # of neighbours have 2 (1 - r) times the variance of the values.
    return _Row(calm, sigma * ((1 + r) ** 0.5 / (1 - r)))


def _difference_sigmas(differences: Rows) -> Row:
    """Return the median absolute deviation of each row as a standard deviation.

    A row gets the deviation without its largest tenth if that is 0.
    """
    import numpy as np

    deviations: Row = np.median(np.abs(differences - np.median(differences, axis=1)[:, None]), axis=1)
    found = SIGMA_OF_MAD * deviations
    # More than half of the differences are equal: an exact series, or noise on a coarse grid.
    exact = ~(deviations > 0)
    least = np.sort(np.abs(differences[exact]), axis=1)[:, : max(1, int(0.9 * differences.shape[1]))]
    found[exact] = np.sqrt(np.mean(least**2, axis=1))
    return found


def _slope_free_sigmas(differences: Rows) -> Row:
    """Return the standard deviation of each row of differences, from their own differences if those are far smaller."""
    import numpy as np

    sigmas = _difference_sigmas(differences)
    if differences.shape[1] < MIN_SLOPE_RUNS:
        return sigmas
    # Half of a row on a level and half on a steep slope have differences of two sizes, and no noise explains these.
    # Differences of differences have 3 times the variance if the noise is independent.
    seconds = _difference_sigmas(np.diff(differences)) / 3**0.5
    return np.where(seconds < MIXED_SLOPES * sigmas, seconds, sigmas)


def _local_sigma(values: Row) -> Row:
    """Return the standard deviation of the noise near each value, from the differences of its neighbours."""
    import numpy as np

    count = len(values)
    width = min(2 * NOISE_RUNS + 1, count - 1)
    windows = np.lib.stride_tricks.sliding_window_view(np.diff(values), width)
    starts = np.clip(np.arange(count) - NOISE_RUNS, 0, count - 1 - width)
    return _slope_free_sigmas(windows)[starts] / 2**0.5


def _running_medians(values: Row, width: int) -> Row:
    import numpy as np

    width = min(width, len(values))
    starts = np.clip(np.arange(len(values)) - width // 2, 0, len(values) - width)
    return np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)[starts]


def _lag_correlation(values: Row) -> float:
    """Return the correlation r of neighbours that fits the differences best.

    Of an AR(1) process values at lag k differ with (1 - r^k) / (1 - r) times the variance of neighbours. Few
    differences are across a step, so no fit of the levels is needed.
    """
    import numpy as np

    if len(values) < MIN_CORRELATION_RUNS:
        return 0.0
    differences = [values[lag:] - values[:-lag] for lag in range(1, MAX_LAG + 1)]
    # Without the local median, because a slope makes differences at a larger lag larger, as correlation does.
    local = [one - _running_medians(one, 2 * NOISE_RUNS + 1) for one in differences]
    variances = np.array([_trimmed_variance(one) for one in local])
    if variances.min() <= 0:
        return 0.0
    lags = np.arange(2, MAX_LAG + 1)[:, None]
    rs = np.linspace(0, MAX_LAG_CORRELATION, 91)
    misfit = (np.log(variances[1:] / variances[0])[:, None] - np.log((1 - rs**lags) / (1 - rs))) ** 2
    return float(rs[np.argmin(misfit.sum(axis=0))])


def _trimmed_variance(differences: Row) -> float:
    import numpy as np

    squares = np.sort((differences - np.median(differences)) ** 2)
    return float(np.mean(squares[: int(KEPT_DIFFERENCES * len(squares))]))


def _partition(row: _Row) -> list[Segment]:
    """Return the partition with the smallest penalized misfit; each segment is a level or a line."""
    import numpy as np

    count = len(row.values)
    weights, places = 1 / row.sigma**2, np.arange(count, dtype=np.float64)
    terms = (np.ones(count), row.values, row.values**2, places, places**2, places * row.values)
    sums = np.zeros((len(terms), count + 1))
    np.cumsum([weights * term for term in terms], axis=1, out=sums[:, 1:])
    penalty = log(count)
    least = np.full(count + 1, np.inf)
    least[0] = 0.0
    before = np.zeros(count + 1, dtype=int)
    slopes = np.zeros(count + 1, dtype=bool)
    for end, level, line in _misfits_by_end(sums):
        line += LINE_PENALTY * penalty
        total = least[: len(level)] + np.minimum(level, line) + SEGMENT_PENALTY * penalty
        best = total.argmin()
        least[end], before[end], slopes[end] = total[best], best, line[best] < level[best]
    bounds = [(count, bool(slopes[count]))]
    while (start := int(before[bounds[-1][0]])) > 0:
        bounds.append((start, bool(slopes[start])))
    starts_of = [0, *(end for end, _ in bounds[:0:-1])]
    return [
        _fitted(row, start, end, is_slope) for start, (end, is_slope) in zip(starts_of, reversed(bounds), strict=True)
    ]


def _misfits_by_end(sums: Rows) -> Iterator[tuple[int, Row, Row]]:
    """Yield each end of a segment, and by its starts the misfit of a level and of a line, infinite if too short."""
    import numpy as np

    count = sums.shape[1] - 1
    # Many ends at a time: a call of numpy costs more than a short row.
    size = max(1, MAX_MISFITS // count)
    for first in range(MIN_LEVEL_RUNS, count + 1, size):
        ends = np.arange(first, min(first + size, count + 1))
        starts = np.arange(ends[-1] - MIN_LEVEL_RUNS + 1)
        # Starts beyond an end have no weight, or a negative one; nobody reads their misfits.
        with np.errstate(all="ignore"):
            levels, lines = _misfits(sums[:, ends, None] - sums[:, None, starts])
        lines[ends[:, None] - starts < MIN_SLOPE_RUNS] = np.inf
        for end, level, line in zip(ends.tolist(), levels, lines, strict=True):
            yield end, level[: end - MIN_LEVEL_RUNS + 1], line[: end - MIN_LEVEL_RUNS + 1]


def _misfits(sums: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[Rows, Rows]:
    """Return the weighted squared misfit of the best level, and of the best line, from weighted sums."""
    import numpy as np

    weight, x, xx, t, tt, tx = sums
    level = xx - x * x / weight
    spread, shared = tt - t * t / weight, tx - t * x / weight
    line = level - np.where(spread > 0, shared**2 / np.maximum(spread, np.finfo(float).tiny), 0.0)
    return level, line


def _fitted(row: _Row, start: int, end: int, is_slope: bool) -> Segment:
    """Fit a level or a line by weighted least squares."""
    import numpy as np

    values, weights = row.values[start:end], 1 / row.sigma[start:end]
    fit = np.polyfit(np.arange(end - start), values, int(is_slope), w=weights)
    first, last = np.polyval(fit, [0, end - start - 1]).tolist()
    return Segment(start, end, is_slope, first, last)


def _merge_levels(row: _Row, segments: list[Segment], min_change: float) -> list[Segment]:
    """Merge adjacent levels whose difference is not relevant or within noise, the weakest difference first."""
    while True:
        strengths = [
            (_strength(row, *pair, min_change), at)
            for at, pair in enumerate(pairwise(segments))
            if not (pair[0].is_slope or pair[1].is_slope)
        ]
        weakest, at = min(strengths, default=(1.0, 0))
        if weakest >= 1:
            return segments
        merged = _fitted(row, segments[at].start, segments[at + 1].end, False)
        segments = [*segments[:at], merged, *segments[at + 2 :]]


def _strength(row: _Row, before: Segment, after: Segment, min_change: float) -> float:
    """Return the difference of two levels in units of the smallest that counts."""
    import numpy as np

    variance = sum(1 / float(np.sum(row.sigma[one.start : one.end] ** -2)) for one in (before, after))
    change = abs(after.first - before.last)
    needed = max(MIN_LEVEL_SIGMAS * float(np.sqrt(variance)), min_change)
    return change / needed


def _join(row: _Row, segments: list[Segment]) -> list[Segment]:
    """Move each bound of a level and a slope to the place where they meet, if they meet."""
    joined = segments[:1]
    for after in segments[1:]:
        before = joined[-1]
        hinge = None if before.is_slope == after.is_slope else _hinge(row, before, after)
        if hinge is not None:
            joined[-1] = _fitted(row, before.start, hinge, before.is_slope)._replace(joined=before.joined)
            after = _fitted(row, hinge, after.end, after.is_slope)._replace(joined=True)
        joined.append(after)
    return joined


def _hinge(row: _Row, before: Segment, after: Segment) -> int | None:
    """Return the first index of the later segment if a level and a line that meet fit nearly as well as free ones."""
    import numpy as np

    places = np.arange(before.start, after.end)
    weights = 1 / row.sigma[before.start : after.end]
    values = row.values[before.start : after.end] * weights
    best, misfit = None, np.inf
    for at in range(before.start + MIN_LEVEL_RUNS, after.end - MIN_LEVEL_RUNS):
        # The line rises from the last value of the level on.
        arm = np.maximum(0, places - at + 1) if after.is_slope else np.minimum(0, places - at + 1)
        design = np.stack([weights, arm * weights], axis=1)
        normal, moment = design.T @ design, design.T @ values
        left = float(values @ values - moment @ np.linalg.solve(normal, moment))
        if left < misfit:
            best, misfit = at, left
    free = sum(_squared_misfit(row, one) for one in (before, after))
    return best if misfit - free < JOINT_MISFIT else None


def _squared_misfit(row: _Row, one: Segment) -> float:
    import numpy as np

    fitted = np.linspace(one.first, one.last, one.end - one.start)
    deviations = (row.values[one.start : one.end] - fitted) / row.sigma[one.start : one.end]
    return float(deviations @ deviations)
