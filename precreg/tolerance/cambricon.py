"""Standards of Cambricon's mlu-ops: errors are sums over the whole output, taken in double."""

from __future__ import annotations

from precreg.tolerance.standard import Limits, Standard, below, each

_SOURCE = "Cambricon mlu-ops, MLU-OPS-Accuracy-Acceptance-Standard.md"


def _diffs(limit: float) -> Limits:
    return Limits({"diff1": limit, "diff2": limit})


CAMBRICON = (
    Standard(
        "cambricon-convolution-1",
        "operators that convolve: diff1 and diff2 are at most 1e-5, in float16 at most 3e-3",
        _SOURCE,
        {"float32": _diffs(1e-5), "float16": _diffs(3e-3)},
    ),
    Standard(
        "cambricon-accumulation-1",
        "operators that accumulate, activate, are composite, or use atomic instructions: diff1 and diff2 are at most "
        "3e-3",
        _SOURCE,
        each(("float64", "float32", "float16", "bfloat16"), _diffs(3e-3)),
    ),
    Standard(
        "cambricon-diff3-2-1",
        "diff3_2 == 0: no difference at all, as asked of pure arithmetic and data movement",
        _SOURCE,
        {},
        Limits({"max_abs_error": 0.0}),
    ),
    Standard(
        "cambricon-diff4-1",
        "diff4 is neither 0 nor 1: from 100 unequal pairs on, not all results err to one side",
        _SOURCE,
        {},
        Limits({"one_sidedness": below(1.0)}),
        differs=("mlu-ops divides by the number of unequal pairs + 1e-9, so that its diff4 is never quite 1",),
    ),
)
