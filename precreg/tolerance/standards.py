"""Named acceptance standards as data: bounds on metrics per dtype, transcribed from where the field published them.

A name ends in the version of its source, or in the number of our edition where the source has none; figures under
a name never change. docs/standards.md is made from this table:
`python -m precreg.tolerance.standards > docs/standards.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import inf, nextafter

from precreg.measure.metrics import METRICS
from precreg.tolerance.ascend import ASCEND
from precreg.tolerance.cambricon import CAMBRICON
from precreg.tolerance.frameworks import FRAMEWORKS
from precreg.tolerance.standard import Bounds, Limits, Standard, find
from precreg.types.types import Location

STANDARDS: dict[str, Standard] = {standard.name: standard for standard in (*FRAMEWORKS, *ASCEND, *CAMBRICON)}


_NOWHERE = Location("")


@lru_cache(maxsize=256)
def find_standard(text: str, where: Location = _NOWHERE) -> Standard:
    """Return the standard of that name, with its parameters if it has any, as in `flaggems-1:reduced=768`.

    Raises UserError: unknown-standard; bad-value for a parameter that it does not have or does not admit.
    """
    return find(STANDARDS, text, where)


_INTRODUCTION = """\
# Standards

Made from `precreg/tolerance/standards.py` by `python -m precreg.tolerance.standards`; a test holds the two together.

`standard: NAME` in a tolerance takes the place of every bound below it in the pyramid; single metrics beside it or
above it change or add to it. Figures under a name never change. A dtype that a standard does not list keeps the
bounds from below, and precreg warns. Elements match if |a-r| <= atol + rtol*|r|; RE = |a-r|/|r|.

Positions of NaN and infinities, missing outputs and empty arrays are judged apart from every standard: they fail.

- Bounds of one row must all hold. Where a row says *or*, all bounds of one of its alternatives must hold, and a finding
  names each alternative with its numbers.
- A standard with parameters is written `standard: {name: flaggems-1, reduced: 768}`, on the command line
  `--standard flaggems-1:reduced=768`. The table has the limits at the default; those that a parameter scales grow with
  it.
- Bounds on `..._ratio` and `rms_excess` need a *benchmark*: a second implementation's output, held against the same
  reference (`precreg compare --benchmark`). Without one such a bound is broken.
- *Regions* are where the metrics `..._violation_share` and `..._error_share` count; a standard may bring its own. Where
  |r| < `threshold_bound` an element violates if |a-r| > `threshold_atol`, elsewhere if |a-r| > `threshold_rtol`*|r|. An
  error among small values, |r| < `small_bound`, is |a-r| > `small_error`; one in the cancellation region, from there to
  |r| < `cancellation_bound`, is |a-r| > `cancellation_rtol`*|r|.

"Double thousandth" has three meanings in the wild, and a suite says which: `double-thousandth-1` bounds the share of
relative errors above 1e-3, `double-thousandth-2` the share of elements that are not close, and `double-thousandth-3`
asks of every element to be close. Zero references have no relative error: the first does not see them, the others do.
"""


def markdown() -> str:
    """Return docs/standards.md."""
    return "\n".join([_INTRODUCTION, *(line for standard in STANDARDS.values() for line in _section(standard))])


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
        yield "Not to the letter what its publisher's program does:"
        yield ""
        yield from (f"- {difference}" for difference in standard.differs)
        yield ""


def _cell(limits: Limits) -> str:
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
    above = nextafter(limit, inf)
    return f"< {above:.9g}" if len(repr(above)) < len(repr(limit)) else f"<= {limit:.9g}"


if __name__ == "__main__":
    print(markdown(), end="")
