"""Named acceptance standards as data: bounds on metrics per dtype, transcribed from where the field published them.

A name ends in the version of its source, or in the number of our edition where the source has none; figures under
a name never change. docs/standards.md is made from this table:
`python -m precreg.tolerance.standards > docs/standards.md`.
"""

from __future__ import annotations

from math import inf, nextafter

from msgspec import Struct

from precreg.errors import UserError, nearest
from precreg.measure.metrics import METRICS
from precreg.types import Location

Bounds = dict[str, float]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
_FLOAT8 = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)


class Standard(Struct, frozen=True):
    """A set of bounds per dtype; `otherwise` holds for dtypes that are not listed, None where it has nothing to say."""

    name: str
    about: str
    source: str
    dtypes: dict[str, Bounds]
    otherwise: Bounds | None = None

    def bounds(self, dtype: str) -> Bounds | None:
        """Return the limits on metrics, with rtol and atol where elements are matched; None for a dtype left out."""
        return self.dtypes.get(dtype, self.otherwise)


def find_standard(name: str, where: Location) -> Standard:
    """Return the standard of that name. Raises UserError (unknown-standard)."""
    if name not in STANDARDS:
        message = f"expected the name of a standard but got standard={name}{nearest(name, STANDARDS)}"
        raise UserError("unknown-standard", message, file=where.file, line=where.line)
    return STANDARDS[name]


def _close(rtol: float, atol: float, match_ratio: float = 1.0) -> Bounds:
    return {"rtol": rtol, "atol": atol, "match_ratio": match_ratio}


def _below(limit: float) -> float:
    """Return the largest float64 below a limit: a bound admits its limit, and these standards ask for less."""
    return nextafter(limit, 0.0)


def _mere_mare(threshold: float) -> Bounds:
    return {"mere": _below(threshold), "mare": _below(10 * threshold)}


def _named(names: tuple[str, ...], bounds: Bounds) -> dict[str, Bounds]:
    return dict.fromkeys(names, bounds)


def _double(word: str, digit: str) -> tuple[Standard, ...]:
    """Return the three meanings that "double thousandth" (1e-3) and "double ten-thousandth" (1e-4) have in the wild."""
    limit = float(digit)
    source = "Ascend msprobe (mindstudio-probe 26.2.0) and its users"
    share = {f"share_rel_above_{digit}": _below(limit)}
    most, every = _close(limit, limit, 1 - limit), _close(limit, limit)
    return (
        Standard(f"double-{word}-1", f"the share of elements with RE > {digit} is below {digit}", source, {}, share),
        Standard(f"double-{word}-2", f"at most a share of {digit} fails isclose({digit}, {digit})", source, {}, most),
        Standard(f"double-{word}-3", f"every element passes isclose({digit}, {digit})", source, {}, every),
    )


_TABLE = (
    Standard(
        "torch-2.13",
        "every element is close; what is not listed must be equal",
        "torch.testing.assert_close, torch 2.13",
        {
            "float16": _close(1e-3, 1e-5),
            "bfloat16": _close(1.6e-2, 1e-5),
            **_named(("float32", "complex64"), _close(1.3e-6, 1e-5)),
            **_named(("float64", "complex128"), _close(1e-7, 1e-7)),
        },
        otherwise=_close(0.0, 0.0),
    ),
    Standard(
        "jax-1",
        "every element is close, with one figure as rtol and atol; integers must be equal",
        "jax test utilities, default tolerances",
        {
            **_named(_FLOAT8, _close(1e-1, 1e-1)),
            "bfloat16": _close(1e-2, 1e-2),
            "float16": _close(1e-3, 1e-3),
            **_named(("float32", "complex64"), _close(1e-6, 1e-6)),
            **_named(("float64", "complex128"), _close(1e-15, 1e-15)),
            **_named(_INTEGERS, _close(0.0, 0.0)),
        },
    ),
    Standard("onnx-backend-1", "every element is close", "ONNX backend test runner", {}, _close(1e-3, 1e-7)),
    Standard(
        "onnxruntime-1",
        "every element is close; integers must be equal",
        "ONNX Runtime test checkers",
        {
            "float64": _close(1e-5, 1e-5),
            "float32": _close(1e-4, 1e-5),
            "float16": _close(1e-3, 2.5e-3),
            "bfloat16": _close(1e-2, 2e-2),
            **_named(_INTEGERS, _close(0.0, 0.0)),
        },
    ),
    *_double("thousandth", "1e-3"),
    *_double("ten-thousandth", "1e-4"),
    Standard(
        "ascend-mere-mare-1",
        "mean and maximum of |a-r|/(|r|+1e-7) below T and 10 T; without its regions of small values and cancellation",
        "experimental_standard.md of cann/opbase",
        {
            "float16": _mere_mare(2**-10),
            "bfloat16": _mere_mare(2**-7),
            "float32": _mere_mare(2**-13),
            **_named(("float8_e4m3", "float8_e4m3fn"), _mere_mare(2**-3)),
            "float8_e5m2": _mere_mare(2**-2),
        },
    ),
    Standard(
        "msprobe-ulp-26.2.0",
        "the share of elements that are off by more than 1 ULP is below 0.1 %",
        "Ascend msprobe (mindstudio-probe 26.2.0)",
        _named(("float16", "bfloat16"), {"share_above_1_ulp": _below(1e-3)}),
    ),
    Standard("msprobe-binary-26.2.0", "every bit is equal", "Ascend msprobe", {}, {"equal_share": 1.0}),
    Standard(
        "cambricon-diff3-2-1",
        "diff3_2 == 0: no difference at all, as asked of pure arithmetic and data movement",
        "Cambricon mlu-ops",
        {},
        {"max_abs_error": 0.0},
    ),
)

STANDARDS: dict[str, Standard] = {standard.name: standard for standard in _TABLE}

_INTRODUCTION = """\
# Standards

Made from `precreg/tolerance/standards.py` by `python -m precreg.tolerance.standards`; a test holds the two together.

`standard: NAME` in a tolerance takes the place of every bound below it in the pyramid; single metrics beside it or
above it change or add to it. Figures under a name never change. A dtype that a standard does not list keeps the
bounds from below, and precreg warns. Elements match if |a-r| <= atol + rtol*|r|.

Positions of NaN and infinities, missing outputs and empty arrays are judged apart from every standard: they fail.

Left out, because bounds that must all hold, each on one of today's metrics, cannot say it:

- msprobe's ULP standard for float32: mean < 64 *or* share(> 32 ULP) < 5 %; bounds are joined by "and";
- msprobe's absolute threshold and accumulated error: need shares of violations above and below a small-value bound;
- msprobe's benchmark ratio and torch dynamo's RMSE against eager execution: need the errors of a second implementation;
- msprobe's error balance, |#(a > r) - #(a < r)| / n, and Cambricon's diff4: need the share of signs as a metric;
- the small-value and cancellation regions of Ascend's standard: need metrics over a region of the references;
- Cambricon's diff1, diff2 and diff3: need sums of errors over sums of |r|, and a maximum that is relative or absolute;
- Polygraphy: needs cosine similarity, PSNR and SNR;
- FlagGems: needs an atol that grows with the reduced length.
"""


def markdown() -> str:
    """Return docs/standards.md."""
    lines = [_INTRODUCTION]
    for standard in STANDARDS.values():
        lines += [
            f"## {standard.name}",
            "",
            f"{standard.about[0].upper()}{standard.about[1:]}. Source: {standard.source}.",
            "",
        ]
        lines += ["| dtype | bounds |", "|---|---|"]
        lines += [f"| {dtype} | {_written(bounds)} |" for dtype, bounds in standard.dtypes.items()]
        if standard.otherwise is not None:
            lines.append(f"| {'all others' if standard.dtypes else 'all'} | {_written(standard.otherwise)} |")
        lines.append("")
    return "\n".join(lines)


def _written(bounds: Bounds) -> str:
    return ", ".join(f"`{metric}` {_limit(metric, limit)}" for metric, limit in bounds.items())


def _limit(metric: str, limit: float) -> str:
    if metric in ("rtol", "atol"):
        return f"{limit:g}"
    if METRICS[metric].better == "higher":
        return f">= {limit:g}"
    above = nextafter(limit, inf)
    return f"< {above:.9g}" if len(repr(above)) < len(repr(limit)) else f"<= {limit:g}"


if __name__ == "__main__":
    print(markdown(), end="")
