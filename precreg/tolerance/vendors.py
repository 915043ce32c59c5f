"""Which standards do accelerator vendors publish?

The Ascend ecosystem has standards for its operators (cann/opbase) and in msprobe (mindstudio-probe). Cambricon has
standards for mlu-ops, whose errors are sums over the whole output in float64.
"""

from __future__ import annotations

from typing import NamedTuple

from precreg.measure import regions_of
from precreg.tolerance.standard import (
    Bounds,
    DtypeLimits,
    Standard,
    close_limits,
    for_dtypes,
    largest_below,
    smallest_above,
)

_OPBASE = "experimental_standard.md of cann/opbase"
_MSPROBE = "Ascend msprobe (mindstudio-probe 26.2.0)"

_TAKES_INF_FOR_MAX = "its program replaces an infinity on one side by the dtype's largest number; here it fails"

# T: the bound on MERE, and a tenth of the bound on MARE.
_THRESHOLDS = {
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float32": 2**-13,
    "float8_e4m3": 2**-3,
    "float8_e4m3fn": 2**-3,
    "float8_e5m2": 2**-2,
}


def _mere_mare(threshold: float) -> Bounds:
    # The publisher requires values below the limits.
    return {"mere": largest_below(threshold), "mare": largest_below(10 * threshold)}


def _experimental(threshold: float, cancellation: float, regions: Bounds | None = None) -> DtypeLimits:
    """Return the whole rule: errors above 10 T are allowed among small values and in cancellation.

    There a benchmark limits their number. From |r| = `cancellation` on, no element may have one.
    """
    outside = {"threshold_bound": cancellation, "threshold_rtol": 10 * threshold}
    counted = {"relative_violation_share": 0.0, "small_value_error_ratio": 2.0, "cancellation_error_ratio": 2.0}
    return DtypeLimits({}, (_mere_mare(threshold), counted), {**(regions or {}), **outside})


_EXPERIMENTAL_DIFFERS = (
    _TAKES_INF_FOR_MAX,
    "its program rounds a reference to the output's dtype before it sorts elements into regions",
    "in its program an error above 10 T is one of cancellation only if |a| is below the cancellation bound, too",
    "the second alternative does not limit the mean error outside of the regions, which may be up to 10 T",
)

OPBASE = (
    Standard(
        "ascend-mere-mare-1",
        "mean and maximum of |a-r|/(|r|+1e-7) below T and 10 T; without its regions of small values and cancellation",
        _OPBASE,
        {dtype: DtypeLimits(_mere_mare(threshold)) for dtype, threshold in _THRESHOLDS.items()},
        differs=(_TAKES_INF_FOR_MAX,),
    ),
    Standard(
        "ascend-experimental-1",
        "MERE and MARE are below T and 10 T; or no |r| from the cancellation bound on has a relative error above 10 T, "
        "and the errors among small values and in the cancellation region are at most twice the benchmark's",
        _OPBASE,
        {
            dtype: _experimental(threshold, regions_of(dtype).cancellation_bound)
            for dtype, threshold in _THRESHOLDS.items()
        },
        differs=_EXPERIMENTAL_DIFFERS,
    ),
    Standard(
        "ascend-hif32-1",
        "ascend-experimental-1 for results that are computed in HiFloat32 and stored as float32",
        _OPBASE,
        {
            "float32": _experimental(
                2**-11,
                2**-8,
                {
                    "small_bound": 2**-12,
                    "small_error": 2**-28,
                    "cancellation_bound": 2**-8,
                    "cancellation_rtol": 10 * 2**-11,
                },
            )
        },
        differs=_EXPERIMENTAL_DIFFERS,
    ),
)

_NO_VIOLATION = {"non_finite_mismatch_share": 0.0, "relative_violation_share": 0.0, "absolute_violation_share": 0.0}

_EPSILON = (
    "msprobe adds the epsilon of the reference's dtype to |r| (2^-8 for bfloat16), which allows a little more",
    _TAKES_INF_FOR_MAX,
)


class _Accumulated(NamedTuple):
    bound: float
    balance: float


_ACCUMULATED = {
    "float16": _Accumulated(2**-8, 2**-20),
    "bfloat16": _Accumulated(2**-7, 2**-7),
    "float32": _Accumulated(2**-11, 2**-14),
}


def _absolute(dtype: str) -> DtypeLimits:
    """Return the rule with the default constants of the regions."""
    # Written out, so that the page of standards shows them.
    region = regions_of(dtype)
    constants = {
        "threshold_bound": region.threshold_bound,
        "threshold_rtol": region.threshold_rtol,
        "threshold_atol": region.threshold_atol,
    }
    return DtypeLimits(_NO_VIOLATION, regions=constants)


def _accumulated(bound: float, more: Bounds) -> DtypeLimits:
    """Return the limits |a-r| <= bound for |r| <= 1, and |a-r| <= bound*|r| for larger |r|."""
    # The publisher's region of small values includes |r| = 1.
    regions = {"threshold_bound": smallest_above(1.0), "threshold_rtol": bound, "threshold_atol": bound}
    return DtypeLimits({**_NO_VIOLATION, **more}, regions=regions)


def _level(name: str, largest: float, mean: float) -> Standard:
    ratios = {"floored_mare_ratio": largest, "floored_mere_ratio": mean, "floored_rms_error_ratio": mean}
    return Standard(
        f"msprobe-benchmark-{name.lower()}-26.2.0",
        f"level {name}: the largest error is at most {largest:g} times the benchmark's, mean error and RMSE {mean:g} "
        "times; an error of the benchmark counts as at least 2^-11 (float16), 2^-8 (bfloat16), 2^-14 (float32)",
        _MSPROBE,
        for_dtypes(("float16", "bfloat16", "float32"), DtypeLimits(ratios)),
        differs=(
            "msprobe leaves small values out of these errors, and adds the epsilon of the reference's dtype to |r|; "
            "here errors are |a-r|/(|r|+1e-7) of all elements",
        ),
    )


def _double(word: str, digit: str) -> tuple[Standard, ...]:
    """Return the three meanings in use of "double thousandth" (1e-3) or "double ten-thousandth" (1e-4)."""
    limit = float(digit)
    source = f"{_MSPROBE} and its users"
    share = DtypeLimits({f"share_rel_above_{digit}": largest_below(limit)})
    most, every = close_limits(limit, limit, 1 - limit), close_limits(limit, limit)
    strict = (
        f"msprobe counts errors of exactly {digit} too, admits a share of exactly {digit}, and adds an epsilon to |r|"
    )
    return (
        Standard(
            f"double-{word}-1",
            f"the share of elements with RE > {digit} is below {digit}",
            source,
            {},
            share,
            differs=(strict,),
        ),
        Standard(f"double-{word}-2", f"at most a share of {digit} fails isclose({digit}, {digit})", source, {}, most),
        Standard(f"double-{word}-3", f"every element passes isclose({digit}, {digit})", source, {}, every),
    )


DOUBLE = (*_double("thousandth", "1e-3"), *_double("ten-thousandth", "1e-4"))

MSPROBE = (
    Standard(
        "msprobe-absolute-26.2.0",
        "absolute threshold: no mismatch of NaN and infinities, no |a-r| > atol where |r| is small, and no "
        "|a-r| > rtol*|r| for larger |r|",
        _MSPROBE,
        {dtype: _absolute(dtype) for dtype in ("float16", "bfloat16", "float32")},
        differs=(*_EPSILON, "its atol for bfloat16 is 1e-16, likely a slip for 2^-16, which is ours"),
    ),
    Standard(
        "msprobe-accumulated-26.2.0",
        "accumulated error: no mismatch of NaN and infinities, no |a-r| above the bound where |r| <= 1, and above the "
        "bound times |r| for larger |r|",
        _MSPROBE,
        {dtype: _accumulated(limit.bound, {}) for dtype, limit in _ACCUMULATED.items()},
        differs=(*_EPSILON, "its program also limits the error balance: msprobe-accumulated-balanced-26.2.0"),
    ),
    Standard(
        "msprobe-accumulated-balanced-26.2.0",
        "msprobe-accumulated-26.2.0, and the limit of its program on the error balance",
        _MSPROBE,
        {dtype: _accumulated(limit.bound, {"error_balance": limit.balance}) for dtype, limit in _ACCUMULATED.items()},
        differs=_EPSILON,
    ),
    *(_level(*level) for level in (("L0", 10.0, 2.0), ("L1", 5.0, 1.5), ("L2", 2.0, 1.2))),
    Standard(
        "msprobe-ulp-26.2.0",
        "float32: the mean is below 64 ULP, or the share of elements that are off by more than 32 ULP below 5 %; "
        "float16 and bfloat16: the share that is off by more than 1 ULP is below 0.1 %",
        _MSPROBE,
        {
            **for_dtypes(("float16", "bfloat16"), DtypeLimits({"share_above_1_ulp": largest_below(1e-3)})),
            "float32": DtypeLimits(
                {}, ({"mean_ulp": largest_below(64.0)}, {"share_above_32_ulp": largest_below(5e-2)})
            ),
        },
        differs=(
            "msprobe takes the ULP of 1 at references of zero; ours is the smallest subnormal there",
            "its program also passes a share below the benchmark's",
        ),
    ),
    Standard("msprobe-binary-26.2.0", "every bit is equal", _MSPROBE, {}, DtypeLimits({"equal_share": 1.0})),
)

ASCEND = (*DOUBLE, *OPBASE, *MSPROBE)

_MLU_OPS = "Cambricon mlu-ops, MLU-OPS-Accuracy-Acceptance-Standard.md"


def _diffs(limit: float) -> DtypeLimits:
    return DtypeLimits({"diff1": limit, "diff2": limit})


CAMBRICON = (
    Standard(
        "cambricon-convolution-1",
        "operators that convolve: diff1 and diff2 are at most 1e-5, in float16 at most 3e-3",
        _MLU_OPS,
        {"float32": _diffs(1e-5), "float16": _diffs(3e-3)},
    ),
    Standard(
        "cambricon-accumulation-1",
        "operators that accumulate, activate, are composite, or use atomic instructions: diff1 and diff2 are at most "
        "3e-3",
        _MLU_OPS,
        for_dtypes(("float64", "float32", "float16", "bfloat16"), _diffs(3e-3)),
    ),
    Standard(
        "cambricon-diff3-2-1",
        "diff3_2 == 0: no difference at all, for pure arithmetic and data movement",
        _MLU_OPS,
        {},
        DtypeLimits({"max_abs_error": 0.0}),
    ),
    Standard(
        "cambricon-diff4-1",
        "diff4 is neither 0 nor 1: from 100 unequal pairs on, not all results err to one side",
        _MLU_OPS,
        {},
        DtypeLimits({"one_sidedness": largest_below(1.0)}),
        differs=("mlu-ops divides by the number of unequal pairs + 1e-9, so its diff4 never reaches 1",),
    ),
)
