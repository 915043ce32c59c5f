"""Are the errors at zeros, at large values, at a limit, or where nothing finite was written?"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

import numpy as np

from precreg.arithmetic import FORMATS
from precreg.measure.fingerprints.sample import ErrorSample
from precreg.measure.fingerprints.thresholds import threshold
from precreg.storage import Array
from precreg.types import Fingerprint

# The parts into which elements are sorted by size.
PARTS_BY_SIZE = 16


def find_non_finite(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield NaN and infinities that one side alone has."""
    actual, exact = sample.all_actual, sample.all_exact
    nan = np.isnan(actual), np.isnan(exact)
    infinite = np.isinf(actual), np.isinf(exact)
    # A finite exact result beyond the dtype overflows rightly.
    with np.errstate(all="ignore"):
        overflows = np.isinf(sample.round(exact))
    cases = {
        "nan_of_actual": nan[0] & ~nan[1],
        "nan_of_exact": nan[1] & ~nan[0],
        "inf_of_actual": infinite[0] & ~nan[1] & ~(overflows & (np.sign(actual) == np.sign(exact))),
        "inf_of_exact": infinite[1] & np.isfinite(actual) & (np.abs(actual) != _largest(sample)),
    }
    for what, mask in cases.items():
        if number := np.count_nonzero(mask):
            yield Fingerprint("non_finite", output, 1.0, {"what": what, "elements": float(number)})


def _largest(sample: ErrorSample) -> float:
    if sample.format is not None:
        return sample.format.largest
    dtype = sample.whole[0].dtype
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else np.inf


def find_saturated(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the limits beyond which all results are equal, and results of the largest number in place of infinity."""
    if sample.is_bool:
        return
    largest = _largest(sample)
    with np.errstate(all="ignore"):
        in_place = sample.beyond & (np.abs(sample.all_actual) == largest) & (np.sign(sample.all_exact) != 0)
    in_place &= np.sign(sample.all_actual) == np.sign(sample.all_exact)
    if isfinite(largest) and (number := np.count_nonzero(in_place)):
        values: dict[str, float | str] = {"limit": largest, "elements": float(number)}
        yield Fingerprint("saturated", output, 1.0, values | _named(largest))
        return
    sides = [_clipped(sample, sign) for sign in (1, -1)]
    known = [(sign, side) for sign, side in zip((1, -1), sides, strict=True) if side is not None]
    if not known:
        return
    masks = np.logical_or.reduce([side for _, side in known])
    if (share := sample.share(masks)) < threshold("part"):
        return
    limits = {("most" if sign > 0 else "least"): float((sign * sample.actual).max() * sign) for sign, _ in known}
    limit = max(limits.values(), key=abs)
    values = {"limit": limit, "elements": float(np.count_nonzero(masks)), **limits}
    yield Fingerprint("saturated", output, share, values | _named(limit))


def _clipped(sample: ErrorSample, sign: int) -> Array | None:
    """Return the elements whose exact result is beyond the extreme result of one side, if all of them have it."""
    if not sample.actual.size:
        return None
    actual, exact = sign * sample.actual, sign * sample.exact
    limit = actual.max()
    beyond = exact > limit + threshold("ulps") * sample.spacing / 2
    beyond &= np.abs(sample.error) >= threshold("ulps") * sample.spacing
    if sample.is_integer:
        beyond = exact >= limit + 1
    number = np.count_nonzero(beyond)
    if number < threshold("few") or np.mean(actual[beyond] == limit) < threshold("share"):
        return None
    # A constant result is not clipped, and a fill value comes at exact results below it, too.
    at = actual == limit
    is_limit = (
        np.count_nonzero(at & ~beyond) <= 0.1 * number or np.median(exact[at & ~beyond]) >= limit - abs(limit) / 8
    )
    return beyond if is_limit and len(np.unique(exact[beyond])) >= threshold("few") else None


def _named(limit: float) -> dict[str, float | str]:
    """Return the format whose largest number a limit is."""
    integers = {127.0: "int8", 255.0: "uint8", 32767.0: "int16", 65535.0: "uint16", 2147483647.0: "int32"}
    names = {format.largest: format.name for format in FORMATS.values()} | integers
    size = abs(limit) - (limit < 0 and abs(limit) - 1 in integers)
    return {"format": names[size]} if size in names else {}


def find_wrapped(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the power of two by which integers wrapped around."""
    if sample.is_bool or sample.count < threshold("few"):
        return
    errors = (sample.actual - sample.rounded)[sample.differs]
    for bits in (32, 16, 8):
        size = 2.0**bits
        wraps = (np.abs(errors) >= size) & (np.fmod(errors, size) == 0)
        share = float(np.mean(wraps))
        # Results of floats have fractions, whose errors are no integers.
        exact = np.mean(sample.actual[sample.differs] == np.rint(sample.actual[sample.differs]))
        if share >= threshold("share") and exact == 1:
            values: dict[str, float | str] = {"modulus": size, "elements": float(np.count_nonzero(wraps))}
            yield Fingerprint("wrapped", output, share, values)
            return


def find_flushed(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the size below which results are 0 where the exact ones are not."""
    if sample.is_integer or sample.is_bool:
        return
    size = np.abs(sample.exact)
    zeros = (sample.actual == 0) & (sample.rounded != 0)
    number = np.count_nonzero(zeros)
    if number < threshold("few"):
        return
    limit = float(size[zeros].max())
    small = (size <= limit) & (sample.rounded != 0)
    kept = size[(sample.actual != 0) & (size > 0)]
    share = number / np.count_nonzero(small)
    # Only small results are flushed: those that are never written have any size.
    if share < threshold("share") or not len(kept):
        return
    named = _flush_format(sample, limit)
    above = float(kept[kept > limit].min(initial=np.inf))
    # Without a format, the border has to be sharp and far below the others: a grid has zeros near its step.
    is_sharp = above <= 1.05 * limit and number >= threshold("elements") and limit <= 0.01 * float(size.max())
    if not named and not (is_sharp and share == 1):
        return
    values: dict[str, float | str] = {"limit": limit, "above": above, "elements": float(number)}
    yield Fingerprint("flushed", output, share, values | named)


def _flush_format(sample: ErrorSample, limit: float) -> dict[str, float | str]:
    """Return the format whose subnormals, or whose numbers below the smallest, are the flushed ones."""
    for name in ("float32", "float16", "bfloat16", "float64"):
        format = FORMATS[name]
        for border, part in ((format.smallest_normal, "subnormals"), (format.smallest_subnormal / 2, "underflow")):
            if border / 4 <= limit <= border and (sample.format is None or format.precision <= sample.format.precision):
                return {"format": name, "part": part}
    return {}


def find_never_written(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the one value that wrong results have where the exact ones have many, and are not near it."""
    gross = sample.differs & (sample.ulps >= threshold("elements"))
    if sample.is_integer:
        gross = sample.differs
    if sample.is_bool or np.count_nonzero(gross) < threshold("few"):
        return
    written, counts = np.unique(sample.actual[gross], return_counts=True)
    fill = written[counts.argmax()]
    chosen = gross & (sample.actual == fill)
    exact = sample.exact[chosen]
    if len(exact) < threshold("few") or len(np.unique(exact)) < threshold("few"):
        return
    share = sample.share(chosen)
    # Values that were rounded to the fill, or clipped there, are near it or beyond it.
    is_spread = float(exact.astype(np.float64).std()) >= 0.25 * sample.scale
    is_clip = any(
        (sign * sample.actual).max() == sign * fill and np.mean(sign * exact > sign * fill) > 0.99 for sign in (1, -1)
    )
    if share >= threshold("part") and is_spread and not is_clip:
        values: dict[str, float | str] = {"fill": float(fill), "elements": float(len(exact))}
        yield Fingerprint("never_written", output, share, values)


def find_at_zeros(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield errors at exact results of 0, or those that grow toward them."""
    if sample.is_bool or sample.count < threshold("few"):
        return
    zeros = sample.rounded == 0
    chosen = zeros & sample.differs
    share = float(np.count_nonzero(chosen) / sample.count)
    if np.count_nonzero(chosen) >= threshold("few") and share >= threshold("share") and np.mean(zeros) <= 0.5:
        yield Fingerprint("at_zeros", output, share, {"at": "zero", "elements": float(np.count_nonzero(chosen))})
        return
    parts = _by_size(sample, sample.squares)
    # The absolute error itself is larger there: relative errors near 0 are always large.
    if parts is None or sample.is_integer:
        return
    borders, errors = parts
    rest = float(np.median(errors[4:]))
    near = int(np.count_nonzero(np.cumprod(errors[:8] >= threshold("times") * rest)))
    if not near or rest == 0:
        return
    limit = float(borders[near])
    inside = np.abs(sample.rounded) < limit
    share = sample.share(inside)
    if share >= threshold("share") and np.mean(sample.differs[inside]) >= threshold("filled"):
        yield Fingerprint("at_zeros", output, share, {"at": "near", "limit": limit, "ratio": float(errors[0] / rest)})


def find_at_large_values(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the size from which errors are many times those below, in units of the output's spacing."""
    if sample.is_bool or sample.is_integer or sample.count < threshold("elements"):
        return
    ulps = np.minimum(sample.ulps, 1e100) ** 2
    parts = _by_size(sample, ulps)
    if parts is None:
        return
    borders, errors = parts
    rest = max(float(np.median(errors[:-4])), 1.0)
    top = int(np.count_nonzero(np.cumprod(errors[::-1] >= threshold("times") / 2 * rest)))
    if not 1 <= top <= PARTS_BY_SIZE // 2 or errors[-1] < threshold("times") * rest:
        return
    limit = float(borders[PARTS_BY_SIZE - top])
    inside = np.abs(sample.rounded) >= limit
    share = min(float(ulps[inside].sum() / ulps.sum()), 1.0)
    if share >= threshold("share") and np.mean(sample.differs[inside]) >= threshold("filled"):
        values: dict[str, float | str] = {"limit": limit, "ratio": float(errors[-1] / rest)}
        yield Fingerprint("at_large_values", output, share, values)


def _by_size(sample: ErrorSample, squares: Array) -> tuple[Array, Array] | None:
    """Return the borders of parts of equally many elements by size, and the root mean square in each part."""
    size = np.abs(sample.rounded).astype(np.float64)
    if len(size) < PARTS_BY_SIZE * threshold("elements"):
        return None
    order = np.argsort(size, kind="stable")
    starts = np.arange(PARTS_BY_SIZE) * len(size) // PARTS_BY_SIZE
    sums = np.add.reduceat(squares[order], starts)
    return size[order][starts], np.sqrt(sums / np.diff([*starts, len(size)]))
