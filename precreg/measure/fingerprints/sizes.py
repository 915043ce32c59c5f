"""Do the errors have a common factor, offset or sign?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from precreg.measure.fingerprints.sample import ErrorSample
from precreg.measure.fingerprints.thresholds import threshold
from precreg.storage import Array
from precreg.types import Fingerprint

# Ratios of counts, n / (n - 1), are searched in this range: 2 and 1.25 are more often constants.
MIN_COUNT, MAX_COUNT = 8, 65536


def find_factor_or_offset(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the common factor or offset that explains most, or else one for each row of an axis."""
    if sample.is_bool or sample.error.size < threshold("elements"):
        return
    found = [_factor(output, sample), _offset(output, sample)]
    if not any(found):
        found = [of(output, sample, axis) for axis in sample.axes() for of in (_factors, _offsets)]
    known = [one for one in found if one is not None]
    if known:
        # Of nearly equal values a factor and an offset explain the same errors; the first of the best is the factor.
        yield max(known, key=lambda one: round(one.certainty, 6))


def _factor(output: str, sample: ErrorSample) -> Fingerprint | None:
    used = sample.exact != 0
    # The median ratio is not moved by other errors in a few elements.
    excess = float(np.median(sample.error[used] / sample.exact[used])) if used.any() else 0.0
    certainty = _certainty(sample, excess * sample.exact)
    factor = 1 + excess
    # A factor of 0 is a result that was never written.
    if not certainty or factor == 0:
        return None
    return Fingerprint("constant_factor", output, certainty, {"factor": factor, **_ratio_of_counts(sample, excess)})


def _ratio_of_counts(sample: ErrorSample, excess: float) -> dict[str, float]:
    """Return n if the factor is n / (n - 1), or (n - 1) / n, as far as the rounding of the output shows it.

    The n of (n - 1) / n is negative.
    """
    if excess == 0 or sample.format is None or not 1 <= abs(1 / excess) <= MAX_COUNT:
        return {}
    # n / (n - 1) = 1 + 1 / (n - 1), and (n - 1) / n = 1 - 1 / n.
    inverse = 1 / excess
    count = inverse + 1 if inverse > 0 else inverse
    # The median of many ratios is far more exact than one rounding, which is the bound here.
    unsure = sample.format.unit_roundoff / excess**2
    is_count = unsure < 0.05 and abs(count - round(count)) <= max(unsure, 1e-6) and abs(round(count)) >= MIN_COUNT
    return {"count": float(round(count))} if is_count else {}


def _offset(output: str, sample: ErrorSample) -> Fingerprint | None:
    offset = np.median(sample.error)
    certainty = _certainty(sample, np.full_like(sample.error, offset))
    return Fingerprint("constant_offset", output, certainty, {"offset": float(offset)}) if certainty else None


def _factors(output: str, sample: ErrorSample, axis: int) -> Fingerprint | None:
    """Find a factor for each row of an axis, as a wrong variance or scale of rows gives."""
    rows = _rows(sample, axis)
    if rows is None:
        return None
    number, elements = rows
    errors, exact = (side / np.abs(side).max() for side in (sample.error, sample.exact))
    # The factors of least squares explain most, and cost less than medians.
    if not _can_explain(number, errors * exact, exact**2, errors):
        return None
    with np.errstate(all="ignore"):
        ratios = np.where(sample.exact != 0, sample.error / sample.exact, np.nan)
    excess = _row_medians(ratios, number, elements)
    certainty = _certainty(sample, excess[number] * sample.exact)
    if not certainty:
        return None
    least, most = 1 + float(excess.min()), 1 + float(excess.max())
    return Fingerprint("constant_factor", output, certainty, {"axis": axis, "least": least, "most": most})


def _offsets(output: str, sample: ErrorSample, axis: int) -> Fingerprint | None:
    """Find an offset for each row of an axis, as a wrong mean or maximum of rows gives."""
    rows = _rows(sample, axis)
    if rows is None:
        return None
    number, elements = rows
    errors = sample.error / np.abs(sample.error).max()
    if not _can_explain(number, errors, np.ones_like(errors), errors):
        return None
    offsets = _row_medians(sample.error, number, elements)
    certainty = _certainty(sample, offsets[number])
    if not certainty:
        return None
    values = {"axis": axis, "least": float(offsets.min()), "most": float(offsets.max())}
    return Fingerprint("constant_offset", output, certainty, {**values})


def _rows(sample: ErrorSample, axis: int) -> tuple[Array, Array] | None:
    """Return the number of each pair's row, from 0, and the pairs of each row; None if rows are too short."""
    if len(sample.shape) < 2:
        return None
    number = sample.rows(axis)
    if not sample.is_complete:
        number = np.unique(number, return_inverse=True)[1].reshape(-1)
    elements = np.bincount(number)
    is_enough = len(elements) > 1 and sample.error.size >= threshold("per_group") * len(elements)
    return (number, elements) if is_enough else None


def _can_explain(number: Array, products: Array, powers: Array, errors: Array) -> bool:
    """Return whether the best multiples in each row explain enough of the squared errors."""
    over, under = (np.bincount(number, weights=each.astype(np.float64)) for each in (products, powers))
    explained = float(np.sum(over[under > 0] ** 2 / under[under > 0]))
    return explained >= threshold("share") * float(np.sum(errors.astype(np.float64) ** 2))


def _row_medians(values: Array, number: Array, elements: Array) -> Array:
    """Return the median of each row's values, without NaN; 0 for a row without any."""
    order = np.lexsort((values, number))
    starts = np.cumsum(elements) - elements
    # NaN is sorted to the end of its row.
    known = np.bincount(number, weights=~np.isnan(values), minlength=len(elements)).astype(np.int64)
    middle = values[order][np.minimum(starts + np.maximum(known - 1, 0) // 2, len(values) - 1)]
    return np.where(known > 0, middle, 0)


def _certainty(sample: ErrorSample, expected: Array) -> float:
    """Return how much of the errors is as expected: squares or elements, the smaller; 0 below the threshold.

    Only elements whose expected error exceeds the rounding of the output show it, and most elements have to.
    """
    if not np.isfinite(expected).all():
        return 0.0
    least = threshold("share")
    squares = sample.explained(sample.error - expected)
    if squares < least:
        return 0.0
    size = np.abs(expected)
    # Integers are offset by 1 or not at all.
    shows = size >= (1 if sample.format is None else threshold("ulps")) * sample.spacing
    if 2 * np.count_nonzero(shows) < np.count_nonzero(sample.exact != 0) or np.count_nonzero(shows) < 2:
        return 0.0
    allowed = threshold("spread") * size + sample.spacing / 2
    fits = float(np.mean((np.abs(sample.error - expected) <= allowed)[shows]))
    return min(squares, fits) if fits >= least else 0.0


def find_one_sign(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the sign, or the direction to or from zero, that nearly all errors have."""
    chosen = sample.differs
    number = sample.count
    if sample.is_bool or number < threshold("one_sign_elements"):
        return
    error = np.sign(sample.error[chosen]).astype(np.float64)
    outward = error * np.sign(sample.exact[chosen]).astype(np.float64)
    best = max((abs(float(signs.mean())), name) for name, signs in (("outward", outward), ("sign", error)))
    signs, words = (error, ("up", "down")) if best[1] == "sign" else (outward, ("away_from_zero", "toward_zero"))
    share = (1 + best[0]) / 2
    if share < threshold("one_sign") or _is_one_event(sample):
        return
    values: dict[str, float | str] = {
        "direction": words[0] if signs.mean() > 0 else words[1],
        "elements": float(number),
        "mean_ulp": float(sample.ulps[chosen].mean()),
    }
    yield Fingerprint("one_sign", output, share, values)


def _is_one_event(sample: ErrorSample) -> bool:
    """Return whether neighbours have nearly the same error, as running sums give: then a common sign is random."""
    sizes = (sample.error / sample.spacing).astype(np.float64)
    largest = np.abs(sizes).max(initial=0)
    if largest == 0:
        return False
    # A few huge errors would hide the correlation of the others.
    sizes = np.clip(sizes, *np.percentile(sizes, [1, 99])) / largest
    for axis in sample.axes():
        order = np.lexsort((sample.coordinate(axis), sample.rows(axis)))
        sorted_sizes = sizes[order] - sizes.mean()
        power = float(np.dot(sorted_sizes, sorted_sizes))
        if power > 0 and float(np.dot(sorted_sizes[1:], sorted_sizes[:-1])) / power > threshold("correlation"):
            return True
    return False
