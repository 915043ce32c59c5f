"""Which published standards can a suite name?

Standards are data: bounds on metrics per dtype, transcribed from their publishers. A name ends in the version of its
source, or in the number of our edition if the source has none. Figures under a name never change. This module has
the standards of frameworks and compilers (torch, FlagGems, JAX, ONNX, ONNX Runtime, Polygraphy), and the table of all.
`python -m precreg.tolerance.standards docs` writes their pages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from math import inf, nextafter
from pathlib import Path

from precreg.measure import METRICS
from precreg.tolerance.standard import (
    Bounds,
    DtypeLimits,
    Parameter,
    Standard,
    close_limits,
    for_dtypes,
    parse_standard,
)
from precreg.tolerance.vendors import ASCEND, CAMBRICON
from precreg.types import Location

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FLOAT8 = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)

_EQUAL = close_limits(0.0, 0.0)

TORCH = Standard(
    "torch-2.13",
    "every element is close; other dtypes must be equal",
    "torch.testing.assert_close, torch 2.13",
    {
        "float16": close_limits(1e-3, 1e-5),
        "bfloat16": close_limits(1.6e-2, 1e-5),
        **for_dtypes(("float32", "complex64"), close_limits(1.3e-6, 1e-5)),
        **for_dtypes(("float64", "complex128"), close_limits(1e-7, 1e-7)),
    },
    otherwise=_EQUAL,
    differs=(
        "in torch a NaN is unequal without equal_nan; here it matches a NaN in the same place",
        "empty arrays pass in torch, and fail here",
    ),
)


def _dynamo(name: str, about: str, excess: str, tol: Parameter) -> Standard:
    """Return dynamo's comparison: close to the reference, or hardly farther from it than eager execution is."""
    # rtol and atol count the matches of the first alternative, so they apply whichever alternative holds.
    rule = DtypeLimits({"rtol": tol.default, "atol": tol.default}, ({"match_ratio": 1.0}, {excess: tol.default / 10}))
    return Standard(
        name,
        f"every element is close, or {about}",
        "torch._dynamo.utils.same, torch 2.13",
        for_dtypes(_FLOATS, rule),
        otherwise=close_limits(tol.default, tol.default),
        parameters={"tol": tol},
        differs=(
            "dynamo compares with eager execution first, which is the benchmark here, and not with the reference",
        ),
    )


# dynamo's factor m is 3 from a tol of 0.02 on, so each range of tol is a standard of its own.
_SCALED = ("rtol", "atol", "rms_excess", "rms_excess_3")

DYNAMO = (
    _dynamo(
        "torch-dynamo-2.13",
        "RMSE <= m RMSE(benchmark) + tol/10, m = 2 (3 for float16 and bfloat16, n < 1000, and 1x1 kernels)",
        "rms_excess",
        Parameter(
            "tol: rtol, atol, and ten times what RMSE may exceed m times the benchmark's", 1e-4, _SCALED, 0.0, 2e-2
        ),
    ),
    _dynamo(
        "torch-dynamo-wide-2.13",
        "RMSE <= 3 RMSE(benchmark) + tol/10, as in dynamo for a tol of 0.02 or more",
        "rms_excess_3",
        Parameter("tol: rtol, atol, and ten times what RMSE may exceed thrice the benchmark's", 2e-2, _SCALED, 2e-2),
    ),
)

FLAGGEMS = Standard(
    "flaggems-1",
    "every element is close, with torch's rtol, and an atol of 1e-4 times the length that is reduced over",
    "gems_assert_close of FlagGems",
    {
        "float16": close_limits(1e-3, 1e-4),
        "bfloat16": close_limits(1.6e-2, 1e-4),
        **for_dtypes(("float32", "complex64"), close_limits(1.3e-6, 1e-4)),
        "float64": close_limits(1e-7, 1e-4),
        **for_dtypes(_INTEGERS, _EQUAL),
    },
    parameters={"reduced": Parameter("the length that is reduced over", 1.0, ("atol",), 1.0)},
    differs=(
        "FlagGems rounds the reference to the output's dtype first; at an atol below half its ULP precreg is stricter",
        "FlagGems gives integers an atol of 1e-4 times the length, too; they may differ from a length of 1e4 on",
    ),
)

JAX = Standard(
    "jax-1",
    "every element is close, with one figure as rtol and atol; integers must be equal. The tolerance is for one "
    "element, and must not be multiplied by the size of the array",
    "jax test utilities, default tolerances",
    {
        "float4_e2m1fn": close_limits(1.0, 1.0),
        **for_dtypes(_FLOAT8, close_limits(1e-1, 1e-1)),
        "bfloat16": close_limits(1e-2, 1e-2),
        "float16": close_limits(1e-3, 1e-3),
        **for_dtypes(("float32", "complex64"), close_limits(1e-6, 1e-6)),
        **for_dtypes(("float64", "complex128"), close_limits(1e-15, 1e-15)),
        **for_dtypes(_INTEGERS, _EQUAL),
    },
    differs=("jax.test_util.check_close does multiply rtol and atol by the size of the array",),
)

ONNX = Standard(
    "onnx-backend-1",
    "every element is close; the dtype must match, as a golden requires",
    "ONNX backend test runner",
    {},
    close_limits(1e-3, 1e-7),
    differs=("the runner multiplies rtol by the output under test and not by the reference",),
)

ONNXRUNTIME = Standard(
    "onnxruntime-1",
    "every element is close; integers must be equal",
    "ONNX Runtime test checkers",
    {
        "float64": close_limits(1e-5, 1e-5),
        "float32": close_limits(1e-4, 1e-5),
        "float16": close_limits(1e-3, 2.5e-3),
        "bfloat16": close_limits(1e-2, 2e-2),
        **for_dtypes(_INTEGERS, _EQUAL),
    },
    differs=(
        "ONNX Runtime has its figures in float32: 1e-5f is 9.99999974738e-06",
        "ONNX Runtime allows more to builds for OpenVINO, DML and training",
    ),
)

_POLYGRAPHY = "default thresholds of Polygraphy 0.53"

POLYGRAPHY = (
    Standard(
        "polygraphy-0.53",
        "no element exceeds both tolerances: |a-r| <= max(1e-5, 1e-5 |r|)",
        _POLYGRAPHY,
        {},
        DtypeLimits(
            {"relative_violation_share": 0.0, "absolute_violation_share": 0.0},
            # With equal tolerances, max(atol, rtol |r|) passes from atol to rtol |r| at |r| = 1.
            regions={"threshold_bound": 1.0, "threshold_rtol": 1e-5, "threshold_atol": 1e-5},
        ),
        differs=(
            "Polygraphy takes differences in float32, or in the dtype itself if it is wider",
            "Polygraphy takes |r| from the second runner, whether that is the reference or not",
        ),
    ),
    Standard(
        "polygraphy-cosine-0.53",
        "the cosine is at least 0.997",
        _POLYGRAPHY,
        {},
        DtypeLimits({"cosine": 0.997}),
        differs=("in Polygraphy the cosine of two arrays of zeros is 1; here it is undefined, which fails",),
    ),
    Standard(
        "polygraphy-psnr-0.53",
        "the peak signal-to-noise ratio is at least 30 dB",
        _POLYGRAPHY,
        {},
        DtypeLimits({"psnr": 30.0}),
        differs=("the peak is max r in Polygraphy, or 1 if that is not positive; here it is max |r|",),
    ),
    Standard(
        "polygraphy-snr-0.53",
        "the signal-to-noise ratio is at least 20 dB",
        _POLYGRAPHY,
        {},
        DtypeLimits({"snr": 20.0}),
    ),
)

FRAMEWORKS = (TORCH, *DYNAMO, FLAGGEMS, JAX, ONNX, ONNXRUNTIME, *POLYGRAPHY)

STANDARDS: dict[str, Standard] = {standard.name: standard for standard in (*FRAMEWORKS, *ASCEND, *CAMBRICON)}

# No publisher's standard, so the table above lacks it: it takes the bounds below it away, and adds none.
NO_BOUNDS = Standard("none", "no bounds; the baseline alone judges", "precreg", {}, DtypeLimits())

_NOWHERE = Location("")


# Every layer of every case looks its standard up, and scaling one builds all its limits anew.
@lru_cache(maxsize=256)
def find_standard(text: str, where: Location = _NOWHERE) -> Standard:
    """Return the standard of a name, with parameters as in `flaggems-1:reduced=768`, or NO_BOUNDS for `none`.

    Raises UserError: unknown-standard; bad-value for an unknown parameter or an invalid value.
    """
    return NO_BOUNDS if text == NO_BOUNDS.name else parse_standard(STANDARDS, text, where)


_DEVICE_PUBLISHERS = ("ascend-", "msprobe-", "cambricon-")
_DEVICE_INTRODUCTION = """\
# Standards of device vendors

`python -m precreg.tolerance.standards docs` makes this page from its table, and a test compares them.
[standards.md](standards.md) explains the columns, and has the standards of frameworks and compilers.
"""
_INTRODUCTION = """\
# Standards

`python -m precreg.tolerance.standards docs` makes this page from its table, and a test compares them. The standards of
Ascend, msprobe and Cambricon are in [standards-devices.md](standards-devices.md).

`standard: NAME` in a tolerance replaces all bounds of the layers below it. Single metrics beside it or above it change
it or add to it. Figures under a name never change. A dtype that a standard does not list keeps the bounds from below,
and precreg warns.

Elements match if |a-r| <= atol + rtol*|r|. RE is the relative error |a-r|/|r|. Under every standard, NaN and infinities
at other positions, missing outputs and empty arrays fail.

- **Rows.** All bounds of one row must hold. Bounds joined by *or* are alternatives: all bounds of one alternative must
  hold. A finding names each alternative with its numbers.
- **Parameters.** Write a standard with parameters as `standard: {name: flaggems-1, reduced: 768}`, and on the command
  line as `--standard flaggems-1:reduced=768`. The tables have the limits at the default. Limits that a parameter scales
  grow in proportion to it.
- **Benchmarks.** Bounds on `..._ratio` and `rms_excess` need a *benchmark*: the output of a second implementation,
  compared with the same reference (`benchmark:` of a suite, `precreg compare --benchmark`). Without a benchmark, such a
  bound is broken. In `floored_..._ratio` a smaller error of the benchmark counts as the floor. Plain ratios have no
  floor.
- **Regions.** *Regions* limit the elements that the metrics `..._violation_share` and `..._error_share` count. A
  standard may bring its own regions:

| region | elements | an element counts if |
|---|---|---|
| absolute violations | \\|r\\| < `threshold_bound` | \\|a-r\\| > `threshold_atol` |
| relative violations | all others | \\|a-r\\| > `threshold_rtol`*\\|r\\| |
| small values | \\|r\\| < `small_bound` | \\|a-r\\| > `small_error` |
| cancellation | from `small_bound` to \\|r\\| < `cancellation_bound` | \\|a-r\\| > `cancellation_rtol`*\\|r\\| |

People use "double thousandth" in three meanings, so a suite names one:

| standard | requirement |
|---|---|
| `double-thousandth-1` | a small share of relative errors above 1e-3 |
| `double-thousandth-2` | a small share of elements that are not close |
| `double-thousandth-3` | every element is close |

Zero references have no relative error, so only the last two count their errors.
"""


def standards_markdown() -> dict[str, str]:
    """Return the text of each page of docs/ that lists standards, by its name."""
    introductions = {"standards.md": _INTRODUCTION, "standards-devices.md": _DEVICE_INTRODUCTION}
    lines = {name: [introduction] for name, introduction in introductions.items()}
    for standard in STANDARDS.values():
        is_of_devices = standard.name.startswith(_DEVICE_PUBLISHERS)
        lines["standards-devices.md" if is_of_devices else "standards.md"].extend(_section(standard))
    return {name: "\n".join(each) for name, each in lines.items()}


def _section(standard: Standard) -> Iterator[str]:
    yield from (f"## {standard.name}", "")
    yield from (f"{standard.about[0].upper()}{standard.about[1:]}. Source: {standard.source}.", "")
    for name, parameter in standard.parameters.items():
        limits = ", ".join(f"`{limit}`" for limit in parameter.scales)
        yield f"Parameter `{name}`, {parameter.default:g} unless given: {parameter.about}. It scales {limits}."
        yield ""
    yield from ("| dtype | bounds |", "|---|---|")
    yield from (f"| {dtype} | {_cell(limits)} |" for dtype, limits in standard.dtypes.items())
    if standard.otherwise is not None:
        yield f"| {'all others' if standard.dtypes else 'all'} | {_cell(standard.otherwise)} |"
    yield ""
    if standard.differs:
        yield "Differences from its publisher's program:"
        yield ""
        yield from (f"- {difference}" for difference in standard.differs)
        yield ""


def _cell(limits: DtypeLimits) -> str:
    either = " *or* ".join(map(_written, limits.alternatives))
    regions = ", ".join(f"`{name}` {value:.9g}" for name, value in limits.regions.items())
    parts = [_written(limits.bounds), either, f"regions: {regions}" if regions else ""]
    return "; ".join(filter(None, parts))


def _written(bounds: Bounds) -> str:
    return ", ".join(f"`{metric}` {_limit(metric, limit)}" for metric, limit in bounds.items())


def _limit(metric: str, limit: float) -> str:
    if metric in ("rtol", "atol"):
        return f"{limit:g}"
    if METRICS[metric].better == "higher":
        return f">= {limit:g}"
    # largest_below makes a limit of < from one of <=, and the shorter number shows which of them the standard has.
    above = nextafter(limit, inf)
    return f"< {above:.9g}" if len(repr(above)) < len(repr(limit)) else f"<= {limit:.9g}"


if __name__ == "__main__":
    for page, markdown in standards_markdown().items():
        Path(sys.argv[1], page).write_text(markdown, encoding="utf-8")
