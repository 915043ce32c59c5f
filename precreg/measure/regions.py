"""Where standards look apart: constants per output dtype that decide which elements are counted in which region."""

from __future__ import annotations

from math import inf, nextafter

from msgspec import Struct
from msgspec.structs import replace


class Regions(Struct, frozen=True):
    """Bounds in the unit of the values; 0.0 where a region is empty for the dtype.

    Ascend (cann/opbase experimental_standard.md): a pair with |r| < `small_bound` is a small value, and an error if
    |a-r| > `small_error`. A pair with `small_bound` <= |r| < `cancellation_bound` lies in the cancellation region, and
    is an error if |a-r| > `cancellation_rtol` * |r|: the standard's bound on the largest relative error, 10 T.

    msprobe's absolute threshold: pairs with |r| < `threshold_bound` violate it if |a-r| > `threshold_atol`, all others
    if |a-r| > `threshold_rtol` * |r|. Its own small values are those up to a bound, so ours is the next float64.

    Cambricon's diff3: |a-r| where |r| < `diff3_bound`, |a-r| / (|r| + 1e-9) elsewhere.
    """

    small_bound: float = 0.0
    small_error: float = 0.0
    cancellation_bound: float = 0.0
    cancellation_rtol: float = 0.0
    threshold_bound: float = 0.0
    threshold_rtol: float = 0.0
    threshold_atol: float = 0.0
    diff3_bound: float = 0.0


_FLOAT8_E4M3 = Regions(2**-4, 2**-6, 2**-1, 10 * 2**-3)

REGIONS: dict[str, Regions] = {
    "float16": Regions(2**-11, 2**-16, 2**-5, 10 * 2**-10, nextafter(2**-10, inf), 2**-10, 2**-16, 1e-4),
    "bfloat16": Regions(2**-8, 2**-16, 2**-3, 10 * 2**-7, nextafter(2**-10, inf), 2**-8, 2**-16),
    "float32": Regions(2**-14, 2**-30, 2**-8, 10 * 2**-13, nextafter(2**-20, inf), 2**-20, 2**-30, 1e-6),
    "float8_e4m3": _FLOAT8_E4M3,
    "float8_e4m3fn": _FLOAT8_E4M3,
    "float8_e5m2": Regions(2**-3, 2**-5, 2.0**0, 10 * 2**-2),
}

NONE = Regions()


def regions_of(dtype_name: str, changed: tuple[tuple[str, float], ...] = ()) -> Regions:
    """Return the regions of an output dtype, empty ones for a dtype that no standard lists; `changed` by a standard."""
    regions = REGIONS.get(dtype_name, NONE)
    return replace(regions, **dict(changed)) if changed else regions
