"""How much of a tolerance the elements of an output use: the largest |d| / (atol + rtol |r|), which may be up to 1."""

from __future__ import annotations

from math import inf

import numpy as np

from precreg.measure.pairing import Array, pairing_of


@np.errstate(all="ignore")
def share_of_tolerance(actual: Array, reference: Array, rtol: float, atol: float) -> float:
    """Return the largest |a - r| / (atol + rtol |r|) over the elements; 0 where there is none.

    Infinite where a shape, a NaN or an infinity has no counterpart, and where an error meets a tolerance of zero. It
    is above 1 where an element does not match, as docs/metrics.md says; a quotient within a few units of roundoff of 1
    may fall on either side of it. A reference beyond the output dtype counts as the infinity that it is rounded to.
    """
    if actual.shape != reference.shape:
        return inf
    pairing = pairing_of(actual.dtype, reference.dtype)
    wide = np.dtype(np.longdouble) if pairing.kind in ("integer", "mixed") else pairing.working
    a, r = actual.astype(wide), reference.astype(wide)
    rounded = reference.astype(actual.dtype).astype(wide) if pairing.format is not None else r
    finite = np.isfinite(a) & np.isfinite(rounded)
    if not np.array_equal(a[~finite], rounded[~finite], equal_nan=True):
        return inf
    errors = np.abs(a[finite] - r[finite])
    allowed = atol + rtol * np.abs(r[finite])
    shares = np.where(errors == 0, 0.0, errors / allowed)
    return float(shares.max(initial=0.0))
