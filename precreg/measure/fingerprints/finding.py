"""Which shapes do the errors of an output have, and which of them explain others?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from precreg.measure.fingerprints.grids import find_grid, find_ties
from precreg.measure.fingerprints.moves import find_moved_elements
from precreg.measure.fingerprints.places import find_checkerboard, find_growth, find_places
from precreg.measure.fingerprints.sample import ErrorSample
from precreg.measure.fingerprints.sizes import find_factor_or_offset, find_one_sign
from precreg.measure.fingerprints.special import (
    find_at_large_values,
    find_at_zeros,
    find_flushed,
    find_never_written,
    find_non_finite,
    find_saturated,
    find_wrapped,
)
from precreg.measure.fingerprints.thresholds import threshold
from precreg.types import Fingerprint, FingerprintKind

# From the most to the least specific: of two shapes that are equally sure, the first explains more.
_DETECTORS = (
    find_non_finite,
    find_moved_elements,
    find_never_written,
    find_saturated,
    find_wrapped,
    find_flushed,
    find_factor_or_offset,
    find_grid,
    find_ties,
    find_places,
    find_checkerboard,
    find_at_zeros,
    find_at_large_values,
    find_growth,
    find_one_sign,
)
_PLACES: tuple[FingerprintKind, ...] = ("one_channel", "last_block", "checkerboard")
_WEAK: tuple[FingerprintKind, ...] = ("one_sign", "growth", "at_large_values", "at_zeros")
_OF_ROWS: tuple[FingerprintKind, ...] = ("constant_factor", "constant_offset")
# A shape that explains nearly all errors also explains these.
_IMPLIES: dict[FingerprintKind, tuple[FingerprintKind, ...]] = {
    "moved_elements": (*_WEAK, "constant_factor", "constant_offset", "never_written", "saturated"),
    "never_written": (*_WEAK, "moved_elements"),
    "constant_factor": (*_WEAK, "checkerboard"),
    "constant_offset": (*_WEAK, "checkerboard"),
    "grid": (*_WEAK, "flushed", "at_ties", "never_written"),
    "saturated": (*_WEAK, *_PLACES),
    "wrapped": (*_WEAK, "saturated", "grid"),
    "flushed": (*_WEAK,),
    "one_channel": _WEAK,
    "last_block": _WEAK,
    "checkerboard": _WEAK,
    "at_ties": _WEAK,
}


def find_fingerprints(
    output: str, actual: ArrayLike, exact: ArrayLike, *, dtype: str | None = None, most: int | None = None
) -> tuple[Fingerprint, ...]:
    """Return the shapes of the errors of `actual` against `exact`, the surest first; none if every result is right.

    Args:
        output: the name of the output, for the fingerprints.
        actual: an array of numbers.
        exact: its oracle, of the same shape: wider, so that it shows roundings, or of the same dtype.
        dtype: the format of the output, if `actual` holds its numbers in a wider dtype, as simulations do.
        most: the number of elements in which shapes are searched, evenly over a larger array; None for 262,144.

    Raises:
        UserError: bad-value or unknown-dtype for arrays of other things than numbers; unknown-format for `dtype`.
    """
    a, r = np.asarray(actual), np.asarray(exact)
    if a.shape != r.shape or a.size == 0:
        return ()
    with np.errstate(all="ignore"):
        sample = ErrorSample(a, r, dtype, most or int(threshold("sample")))
        if not sample.count and not sample.beyond.any():
            return ()
        # Without a wrong finite result, only NaN, infinities and saturation in their place remain.
        detectors = _DETECTORS if sample.count else (find_non_finite, find_saturated)
        found = [one for detector in detectors for one in detector(output, sample)]
    # Factors of rows also explain a place or a period, less plainly.
    if any(one.kind in _PLACES and one.certainty >= threshold("share") for one in found):
        found = [one for one in found if not (one.kind in _OF_ROWS and "axis" in one.values)]
    implied = {kind for one in found if one.certainty >= threshold("share") for kind in _IMPLIES.get(one.kind, ())}
    kept = [one for one in found if one.kind not in implied]
    return tuple(sorted(kept, key=lambda one: -round(one.certainty, 2)))
