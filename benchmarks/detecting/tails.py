"""Is a change whose averages are not worse worse in a maximum or in a bias? The label of that, apart from any rule.

Labels know averages. A pair also judges maxima and biases, so a report of a pair on a change with equal averages is
right or wrong by these. They are measured here in plain numpy, with none of the code that rules are made of, at seeds
that neither rules nor labels have.

Figures of one seed are the maximum of |d| and of U = |d| / ulp(r), the mean of the largest 1/64 of each, the RMS and
the mean of U, and the mean of d and of d * sign(r). Over seeds, magnitudes are compared by the geometric mean of
changed / original, and biases by the growth of their size in units of the original's mean |d|, plus 1. A figure is

- `worse` if its lower bound is above LIMIT,
- `not_worse` if its upper bound is below LIMIT,
- `unclear` otherwise.

A change is worse if any of its figures is, and not worse if all of them are. Intervals hold at 99.9 %. A null control
is not worse by construction, so it is measured at FEWEST seeds alone, and only a proof makes it worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt
from typing import NamedTuple

import ml_dtypes
import numpy as np

from detecting.operator import Array, Operator

FIRST_SEED = 2_000_000
"""Seeds of tails begin here: labels and their check have those from 1,000,000 on, rules those below."""

FEWEST, MOST = 256, 16384
"""Seeds: doubled until a label is clear."""

LIMIT = 1.05
ROUNDED = 1.002
"""Intervals that are closer than this contradict nothing: they are stored with five digits."""

TOP_SHARE = 64
MAGNITUDES = ("max_abs_error", "max_ulp", "top_abs_error", "top_ulp", "rms_ulp", "mean_ulp")
BIASES = ("bias", "outward_bias")
FIGURES = (*MAGNITUDES, *BIASES)
UNIT = len(FIGURES)
"""The column of mean |d|, in which biases are expressed."""

QUANTILE = 3.2905
# Two intervals make that of a bias: each holds at 99.95 %, so that they hold together at 99.9 %.
QUANTILE_OF_TWO = 3.4808


class Growth(NamedTuple):
    """The growth of a figure, 1 for none, with its bounds; of a bias 1 + the growth in units of mean |d|."""

    value: float
    lower: float
    upper: float


class Tails(NamedTuple):
    """The label of a change's maxima and biases, with the figure that decides it, and the seeds that it took."""

    label: str
    figure: str
    growth: Growth
    seeds: int


Kept = dict[str, list[Array]]
"""The figures of the original, whose name is empty, and of its changes, seed by seed."""


def measure_tails(operator: Operator, changes: Iterable[str]) -> dict[str, Tails]:
    """Measure some changes of an operator: more seeds for those that are not clear."""
    found: dict[str, Tails] = {}
    unclear = [*changes]
    if not unclear:
        return found
    kept: Kept = {name: [] for name in ("", *unclear)}
    measured, wanted = 0, FEWEST
    while unclear and wanted <= MOST:
        for seed in range(FIRST_SEED + measured, FIRST_SEED + wanted):
            extend(operator, kept, unclear, seed)
        found |= {name: settled(tails_of(kept[name], kept[""]), name in operator.null) for name in unclear}
        unclear = [name for name in unclear if found[name].label == "unclear"]
        measured, wanted = wanted, 2 * wanted
    return found


def settled(found: Tails, is_null: bool) -> Tails:
    """Return the label of a null control without more seeds: it is not worse by construction, if not found worse."""
    return found._replace(label="not_worse") if is_null and found.label == "unclear" else found


def extend(operator: Operator, kept: Kept, names: Iterable[str], seed: int) -> None:
    """Run the original and some changes at one more seed; equal outputs are measured once."""
    changes = operator.changes()
    known: dict[bytes, Array] = {}
    with np.errstate(all="ignore"):
        inputs = operator.inputs(seed)
        exact = operator.exact(*inputs)
        for name in ("", *names):
            output = (changes[name] if name else operator.original)(*inputs)
            bits = output.tobytes()
            if bits not in known:
                known[bits] = figures_of(output, exact)
            kept[name].append(known[bits])


def figures_of(output: Array, exact: Array) -> Array:
    """Return FIGURES and mean |d| of one output over its finite elements; NaN without any."""
    off = (output.astype(exact.dtype) - exact).ravel()
    result = exact.ravel()
    finite = np.isfinite(off)
    if not finite.all():
        off, result = off[finite], result[finite]
    if not off.size:
        return np.full(UNIT + 1, np.nan)
    size = np.abs(off)
    ulps = (size / spacing(result, output.dtype)).astype(np.float64)
    size = size.astype(np.float64)
    off = off.astype(np.float64)
    return np.array(
        [
            size.max(),
            ulps.max(),
            mean_of_largest(size),
            mean_of_largest(ulps),
            sqrt(np.square(ulps).mean()),
            ulps.mean(),
            off.mean(),
            (off * np.sign(result).astype(np.float64)).mean(),
            size.mean(),
        ]
    )


def spacing(result: Array, dtype: np.dtype) -> Array:
    """Return the distance of neighbours of `dtype` around the exact results; 1 of integers."""
    if dtype.kind in "iu":
        return np.ones_like(result)
    format_ = ml_dtypes.finfo(dtype)
    digits = format_.nmant + 1
    _, exponents = np.frexp(result)
    # frexp gives 2^(e-1) <= |r| < 2^e; below the smallest normal number spacing does not shrink.
    exponents = np.maximum(np.where(result == 0, format_.minexp + 1, exponents), format_.minexp + 1)
    return np.ldexp(np.ones_like(result), exponents - digits)


def mean_of_largest(values: Array) -> float:
    """Return the mean of the largest 1/64, of at least one value."""
    number = max(1, values.size // TOP_SHARE)
    return float(np.partition(values, -number)[-number:].mean())


def contradictions(operator: Operator, stored: Mapping[str, Tails], seeds: int) -> Iterator[str]:
    """Measure stored figures anew at seeds that were not used before, and yield those that cannot be the same."""
    kept: Kept = {name: [] for name in ("", *stored)}
    for seed in range(FIRST_SEED + MOST, FIRST_SEED + MOST + seeds):
        extend(operator, kept, stored, seed)
    for name, before in stored.items():
        again = growths_of(np.array(kept[name]), np.array(kept[""]))[before.figure]
        if before.growth.lower > again.upper * ROUNDED or again.lower > before.growth.upper * ROUNDED:
            was, is_ = before.growth.value, again.value
            yield f"{operator.name}: {name}: growth of {before.figure} was {was:.4g} times and is {is_:.4g} times"


def tails_of(changed: list[Array], original: list[Array]) -> Tails:
    """Compare a change with the original at its own seeds, which are the first ones of the original's."""
    seeds = len(changed)
    growths = growths_of(np.array(changed), np.array(original[:seeds]))
    label = label_of(growths.values())
    # The figure with the largest lower bound proves a loss; the one with the largest upper bound keeps it open.
    at = 1 if label == "worse" else 2
    figure = max(growths, key=lambda name: growths[name][at])
    growth = Growth(*(float(f"{number:.5g}") for number in growths[figure]))
    return Tails(label, figure, growth, seeds)


def growths_of(now: Array, then: Array) -> dict[str, Growth]:
    """Return the growth of every figure, from one line of figures a seed."""
    both = np.isfinite(now).all(-1) & np.isfinite(then).all(-1)
    now, then = now[both], then[both]
    growths = {name: magnitude_growth(now[:, at], then[:, at]) for at, name in enumerate(MAGNITUDES)}
    unit = then[:, UNIT].mean() or now[:, UNIT].mean() or 1.0
    for at, name in enumerate(BIASES, len(MAGNITUDES)):
        growths[name] = bias_growth(now[:, at] / unit, then[:, at] / unit)
    return growths


def label_of(growths: Iterable[Growth]) -> str:
    """Return the label of a change from the growth of its figures."""
    growths = [*growths]
    if any(found.lower > LIMIT for found in growths):
        return "worse"
    return "not_worse" if all(found.upper < LIMIT for found in growths) else "unclear"


def magnitude_growth(now: Array, then: Array) -> Growth:
    """Return the geometric mean of now / then over seeds; without an error, the smallest that any seed has."""
    positive = np.concatenate([now[now > 0], then[then > 0]])
    if not positive.size:
        return Growth(1.0, 1.0, 1.0)
    # One seed may have no error at all, where an output has few elements. That is no ratio of 0 or of infinity.
    least = positive.min()
    logs = np.log(np.maximum(now, least) / np.maximum(then, least))
    lower, upper = interval(logs, QUANTILE)
    return Growth(*(float(np.exp(one)) for one in (logs.mean(), lower, upper)))


def bias_growth(now: Array, then: Array) -> Growth:
    """Return 1 + |mean of now| - |mean of then|, in units of the original's mean |d|, with a conservative interval.

    With D = E now - E then and S = E now + E then, |E now| - |E then| is max(min(D, S), min(-D, -S)). That grows with
    each of D, S, -D and -S, so bounds of these, which hold together, give its bounds.
    """
    (low_d, high_d), (low_s, high_s) = (interval(one, QUANTILE_OF_TWO) for one in (now - then, now + then))
    lower = max(min(low_d, low_s), min(-high_d, -high_s))
    upper = max(min(high_d, high_s), min(-low_d, -low_s))
    return Growth(float(1 + abs(now.mean()) - abs(then.mean())), float(1 + lower), float(1 + upper))


def interval(values: Array, quantile: float) -> tuple[float, float]:
    """Return the interval of the mean over seeds."""
    half = quantile * values.std(ddof=1) / sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)
