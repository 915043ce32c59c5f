"""Are the errors at one place: a channel, a block, the last block, every n-th index; or do they grow along an axis?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from precreg.measure.fingerprints.sample import ErrorSample
from precreg.measure.fingerprints.thresholds import threshold
from precreg.storage import Array
from precreg.types import Fingerprint, FingerprintKind

# The sizes of blocks that kernels use. Others are found as a start alone.
BLOCK_SIZES = (8, 16, 32, 64, 128, 256)
# The distances of indices that lanes, unrolled loops and blocks have.
PERIODS = (2, 3, 4, 8, 16, 32, 64, 128, 256)
# The parts of an axis along which a growth is seen.
PARTS = 16


class AxisErrors(NamedTuple):
    """The root mean square of errors at each index of an axis, over the median index's.

    `times` is the smaller of the absolute and the relative ratio, so that large values alone make no place.
    """

    axis: int
    coordinate: Array
    times: Array
    counts: Array

    @property
    def bad(self) -> Array:
        """The indices with far larger errors than the median index."""
        return np.flatnonzero((self.times >= threshold("times")) & (self.counts > 0))


def find_places(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the region that holds the errors: along one axis or several, or the end of the flat array."""
    regions = [region for axis in sample.axes() if (region := _region(_along(sample, axis))) is not None]
    found = [_place(output, sample, [region]) for region in regions]
    found += [_place(output, sample, regions)] if len(regions) > 1 else []
    found += [_flat_end(output, sample)] if len(sample.shape) > 1 else []
    known = [one for one in found if one is not None] or [
        one for axis in sample.axes() if (one := _several(output, sample, axis)) is not None
    ]
    if known:
        # The place that is filled best; of several, the plainest description comes first.
        yield max(known, key=lambda one: round(one[0], 2))[1]


# The share of the errors at a place times the share of its elements that are wrong, and the place.
_Ranked = tuple[float, Fingerprint]


def _along(sample: ErrorSample, axis: int) -> AxisErrors:
    coordinate = sample.coordinate(axis)
    length = sample.shape[axis]
    counts = np.bincount(coordinate, minlength=length)
    return AxisErrors(axis, coordinate, _ratios(sample, coordinate, counts), counts)


def _ratios(sample: ErrorSample, group: Array, counts: Array) -> Array:
    """Return each group's error over the median group's: absolute or relative, the smaller."""
    errors = np.sqrt(np.bincount(group, weights=sample.squares, minlength=len(counts)) / np.maximum(counts, 1))
    sizes = np.sqrt(np.bincount(group, weights=sample.powers, minlength=len(counts)) / np.maximum(counts, 1))
    with np.errstate(all="ignore"):
        relative = np.where(sizes > 0, errors / sizes, np.where(errors > 0, np.inf, 0.0))
        absolute, related = (each / np.median(each[counts > 0]) for each in (errors, relative))
    # 0 / 0 is an index without an error among others without one.
    times: Array = np.nan_to_num(np.fmin(absolute, related), nan=0.0, posinf=np.inf)
    return times


class _Region(NamedTuple):
    errors: AxisErrors
    start: int
    stop: int


def _region(errors: AxisErrors) -> _Region | None:
    """Return the run of bad indices, if they are one run with few gaps, of at most half of the axis."""
    bad = errors.bad
    if not len(bad):
        return None
    start, stop = int(bad[0]), int(bad[-1]) + 1
    if 2 * (stop - start) > len(errors.counts) + 1 or len(bad) < 0.8 * np.count_nonzero(errors.counts[start:stop]):
        return None
    return _Region(errors, start, stop)


def _place(output: str, sample: ErrorSample, regions: list[_Region]) -> _Ranked | None:
    inside = np.ones(sample.error.size, bool)
    for region in regions:
        inside &= (region.errors.coordinate >= region.start) & (region.errors.coordinate < region.stop)
    certainty, filled = _filled_share(sample, inside)
    if not certainty:
        return None
    times = min(float(region.errors.times[region.start : region.stop].max()) for region in regions)
    figures: dict[str, float | str] = {"elements": float(np.count_nonzero(inside))}
    # Without an error outside no ratio exists.
    figures |= {"ratio": times} if np.isfinite(times) else {}
    kind, place = _where(sample.shape, regions)
    return certainty * filled, Fingerprint(kind, output, certainty, place | figures)


def _where(shape: tuple[int, ...], regions: list[_Region]) -> tuple[FingerprintKind, dict[str, float | str]]:
    """Return the kind and the figures of the place that regions of one axis or of several have in common."""
    place: dict[str, float | str] = {}
    if len(regions) > 1:
        parts = {region.errors.axis: f"{region.start}:{region.stop}" for region in regions}
        place["region"] = f"[{', '.join(parts.get(axis, ':') for axis in range(len(shape)))}]"
        for region in regions:
            place[f"start_{region.errors.axis}"] = float(region.start)
            place[f"stop_{region.errors.axis}"] = float(region.stop)
        return "one_channel", place
    axis, start, stop = regions[0].errors.axis, regions[0].start, regions[0].stop
    place["axis"] = float(axis)
    if stop == shape[axis] and (stop - start > 1 or _block_sizes(start, shape[axis])):
        return "last_block", place | _end(start, shape[axis])
    if stop - start == 1:
        return "one_channel", place | {"index": float(start)}
    return "one_channel", place | {"start": float(start), "stop": float(stop)}


def _end(start: int, length: int) -> dict[str, float | str]:
    """Return start and length of a last block, and the usual sizes of blocks that begin there."""
    sizes = _block_sizes(start, length)
    known: dict[str, float | str] = {"blocks": ", ".join(map(str, sizes)), "block": float(sizes[0])} if sizes else {}
    return {"start": float(start), "length": float(length)} | known


def _block_sizes(start: int, length: int) -> list[int]:
    return [size for size in BLOCK_SIZES if (length - 1) // size * size == start and start > 0]


def _filled_share(sample: ErrorSample, inside: Array) -> tuple[float, float]:
    """Return the share of the squared errors at a place, and the share of its elements that are wrong.

    They are 0 if few elements are there, if few of them are wrong, or if most errors are outside.
    """
    number = np.count_nonzero(inside)
    share = sample.share(inside)
    if number < threshold("few") or share < threshold("part"):
        return 0.0, 0.0
    wrong = sample.differs[inside]
    # In ULP, too: among sizes of many powers of ten, a large value with a small error would make a place of others.
    for errors in (np.abs(sample.error), sample.ulps):
        outside = np.sort(errors[~inside])
        typical = outside[len(outside) // 2] if len(outside) else 0
        wrong = wrong & (errors[inside] > 2 * typical)
    filled = np.count_nonzero(wrong) / number
    return (share, filled) if filled >= threshold("filled") else (0.0, 0.0)


def _flat_end(output: str, sample: ErrorSample) -> _Ranked | None:
    """Find a last block of the array in memory, whatever its axes are."""
    size = int(np.prod(sample.shape))
    for block in BLOCK_SIZES:
        start = (size - 1) // block * block
        if start <= 0:
            continue
        inside = sample.index >= start
        ratios = _ratio_of_two(sample, inside)
        certainty, filled = _filled_share(sample, inside) if min(ratios) >= threshold("times") else (0.0, 0.0)
        if certainty:
            return certainty * filled, Fingerprint("last_block", output, certainty, {"axis": -1.0, **_end(start, size)})
    return None


def _ratio_of_two(sample: ErrorSample, inside: Array) -> tuple[float, float]:
    """Return the absolute and the relative error inside over that outside, as ratios of root mean squares."""
    if not inside.any() or inside.all():
        return 0.0, 0.0
    sizes = sample.powers
    with np.errstate(all="ignore"):
        absolute = np.sqrt(sample.squares[inside].mean() / sample.squares[~inside].mean())
        relative = absolute / np.sqrt(sizes[inside].mean() / sizes[~inside].mean())
    return tuple(np.inf if np.isnan(each) else float(each) for each in (absolute, relative))  # type: ignore[return-value]


def _several(output: str, sample: ErrorSample, axis: int) -> _Ranked | None:
    """Find a few single indices of an axis that hold nearly all errors."""
    errors = _along(sample, axis)
    bad = errors.bad
    if not 2 <= len(bad) <= min(8, sample.shape[axis] // 4) or np.median(errors.counts) < threshold("per_group"):
        return None
    certainty, filled = _filled_share(sample, np.isin(errors.coordinate, bad))
    if certainty < threshold("share"):
        return None
    values: dict[str, float | str] = {"axis": float(axis), "indices": ", ".join(map(str, bad)), "index": float(bad[0])}
    return certainty * filled, Fingerprint("one_channel", output, certainty, values)


def find_checkerboard(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the period at which errors return: every n-th index of an axis, or every other of two axes together."""
    for axis in sample.axes(8):
        coordinate = sample.coordinate(axis)
        for period in PERIODS:
            if sample.shape[axis] >= 4 * period and (found := _periodic(output, sample, coordinate, period)):
                place: dict[str, float | str] = {"axis": float(axis)}
                yield Fingerprint(found.kind, output, found.certainty, place | found.values)
                return
    for first, second in combinations(sample.axes(4), 2):
        both = sample.coordinate(first) + sample.coordinate(second)
        if found := _periodic(output, sample, both, 2):
            axes: dict[str, float | str] = {"axes": f"{first}, {second}"}
            yield Fingerprint(found.kind, output, found.certainty, axes | found.values)
            return


def _periodic(output: str, sample: ErrorSample, coordinate: Array, period: int) -> Fingerprint | None:
    """Find one remainder of a coordinate with nearly all errors, in nearly all places that have it."""
    remainder = coordinate % period
    shares = np.bincount(remainder, weights=sample.squares, minlength=period)
    worst = int(shares.argmax())
    if shares[worst] < threshold("share") * shares.sum():
        return None
    inside = remainder == worst
    ratios = _ratio_of_two(sample, inside)
    certainty = _filled_share(sample, inside)[0] if min(ratios) >= threshold("times") else 0.0
    if certainty < threshold("share"):
        return None
    typical = float(np.sqrt(sample.squares[inside].mean()))
    places, number = np.unique(coordinate[inside] // period, return_inverse=True)
    errors = np.sqrt(np.bincount(number.reshape(-1), weights=sample.squares[inside]) / np.bincount(number.reshape(-1)))
    # A single channel has one remainder, too.
    if len(places) < 4 or np.count_nonzero(errors > typical / 8) < 0.75 * len(places):
        return None
    times = min(ratios)
    values: dict[str, float | str] = {"period": float(period), "remainder": float(worst)}
    return Fingerprint("checkerboard", output, certainty, values | ({"ratio": times} if np.isfinite(times) else {}))


def find_growth(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the axis along which absolute and relative errors grow most surely, and the exponent of the growth."""
    found = [one for axis in sample.axes(PARTS) if (one := _growth(output, sample, axis)) is not None]
    if found:
        yield max(found, key=lambda one: one.certainty)


def _growth(output: str, sample: ErrorSample, axis: int) -> Fingerprint | None:
    length = sample.shape[axis]
    part = sample.coordinate(axis) * PARTS // length
    counts = np.bincount(part, minlength=PARTS)
    if counts.min() < threshold("per_group"):
        return None
    errors = np.sqrt(np.bincount(part, weights=sample.squares, minlength=PARTS) / counts)
    sizes = np.sqrt(np.bincount(part, weights=sample.powers, minlength=PARTS) / counts)
    if errors.min() == 0 or sizes.min() == 0:
        return None
    for direction, step in (("forward", 1), ("backward", -1)):
        absolute, relative = errors[::step], (errors / sizes)[::step]
        ranks = min(_rank_correlation(each) for each in (absolute, relative))
        times = min(float(each[-4:].mean() / each[:4].mean()) for each in (absolute, relative))
        if ranks < threshold("rank_correlation") or times < threshold("growth"):
            continue
        # Centres of the parts, in elements.
        centres = (np.arange(PARTS) + 0.5) * length / PARTS
        exponent = float(np.polyfit(np.log(centres), np.log(absolute), 1)[0])
        values: dict[str, float | str] = {"axis": float(axis), "direction": direction, "ratio": times}
        return Fingerprint("growth", output, ranks, values | {"exponent": exponent, "law": _law(exponent)})
    return None


def _law(exponent: float) -> str:
    # Sums of n equal roundings of random sign grow with the square root of n, of one sign with n.
    if 0.25 <= exponent < 0.75:
        return "sqrt"
    return "linear" if 0.75 <= exponent <= 1.35 else "other"


def _rank_correlation(values: Array) -> float:
    ranks = np.argsort(np.argsort(values)).astype(np.float64)
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])
