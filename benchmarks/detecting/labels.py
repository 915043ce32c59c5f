"""What a change truly costs: ratios of its errors to the original's over many seeds, with intervals, and labels.

The seeds are others than those at which rules are tried. A change is

- `harmful` if it brings NaN or infinities where the original has none, or errors where the original has none at all
  (hard effects), or if for mean |d|, RMS or mean log2(ULP + 1/4) the ratio's lower bound is above 1.05,
- `not_worse` if the upper bounds of all three are below 1.02, and the mean ULP is not shown to be worse by 1.05,
- `grey` otherwise: too small to matter and too large to be nothing, or not told apart within MOST seeds (MOST_OF_FEW
  for outputs of up to FEW elements). Grey changes are counted, listed and not scored.

Mean ULP alone never makes a change harmful: where results come near zero it is the mean of a few enormous numbers, of
elements whose error is nothing against the output's scale. The mean of the logarithm, in which each element has one
voice, speaks for small results; mean |d| and RMS speak for large ones. Where they disagree, the worse one counts.

These are averages. Labels of maxima and biases (tails.py) stand beside those of changes that are not harmful.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import exp, inf, isfinite, log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from detecting import tails
from detecting.measured import compare_with_exact, computed, digest, truth
from detecting.operator import Array, Operator
from detecting.tails import Growth, Tails
from precreg.environment import detect_environment
from precreg.types import Comparison

FILE = Path(__file__).parent / "labels.json"
FIRST_SEED = 1_000_000
"""Seeds for labels begin here; rules are tried below it."""

FEWEST, MOST = 256, 8192
"""Seeds: doubled until a label is clear."""

FEW, MOST_OF_FEW = 15, 65536
# The difference of two logarithms of a single element's error has a standard deviation of about 1.1, so the half-width
# of an interval at 99.9 % is 4 % after 8192 seeds and 1.4 % after 65536.

QUANTILE = 3.2905
"""Of the normal distribution: intervals hold at 99.9 %."""

WORSE, NOTHING = 1.05, 1.02
ROUNDED = 1.002
"""Intervals that are closer than this contradict nothing: they are stored with five digits, and of some thousand."""
COMPACT = (",", ":")
AVERAGES = ("mean_abs_error", "rms_error", "mean_log2_ulp")
MEASURES = (*AVERAGES, "mean_ulp")


class Ratio(NamedTuple):
    """How many times larger the change's error is, and between which bounds."""

    value: float
    lower: float
    upper: float


class Label(NamedTuple):
    """What was measured of one change; shares are of seeds. `tails` is None if the change is harmful or keeps bits."""

    label: str
    severity: float
    seeds: int
    same_bits: float
    non_finite: float
    ratios: dict[str, Ratio]
    tails: Tails | None = None

    @property
    def asks_for_tails(self) -> bool:
        """Decide whether maxima and biases of the change are measured."""
        return self.label != "harmful" and self.same_bits < 1

    @property
    def worse_in_tails(self) -> bool:
        """Decide whether averages are not worse, and a maximum or a bias is."""
        return self.label == "not_worse" and self.tails is not None and self.tails.label == "worse"

    @property
    def harmless(self) -> bool:
        """Decide whether a report of the change is a false alarm. One whose tails are unclear counts as harmless."""
        return self.label == "not_worse" and not self.worse_in_tails

    @property
    def hard(self) -> bool:
        """Tell whether the effect is one that averages need not be asked about."""
        return self.label == "harmful" and not isfinite(self.severity)


class Column(NamedTuple):
    """What is kept of an implementation, seed by seed: the measures, wrong NaN and infinities, and bits."""

    measures: list[list[float]]
    strange: list[bool]
    bits: list[str]


def label_all(operator: Operator) -> dict[str, Label]:
    """Measure every change of an operator: more seeds for those that are not clear."""
    kept = {name: Column([], [], []) for name in ("", *operator.changes())}
    labels: dict[str, Label] = {}
    measured, wanted, unclear, most = 0, FEWEST, set(operator.changes()), most_seeds(operator)
    while unclear and wanted <= most:
        for seed in range(FIRST_SEED + measured, FIRST_SEED + wanted):
            extend(operator, kept, unclear, seed)
        labels |= {name: label(kept[name], kept[""]) for name in unclear}
        unclear = {name for name in unclear if not clear(labels[name])}
        measured, wanted = wanted, 2 * wanted
    return {name: labels[name] for name in operator.changes()}


def most_seeds(operator: Operator) -> int:
    """Return after how many seeds a label is left unclear."""
    output = operator.original(*operator.inputs(FIRST_SEED))
    return MOST_OF_FEW if output.size <= FEW else MOST


def extend(operator: Operator, kept: dict[str, Column], names: set[str], seed: int) -> None:
    """Run the original and some changes at one more seed."""
    known = truth(operator, seed)
    changes = operator.changes()
    found: dict[str, Comparison] = {}
    for name in ("", *names):
        output = computed(changes[name] if name else operator.original, known)
        bits = digest(output)
        if bits not in found:  # of small outputs most have the bits of another
            found[bits] = compare_with_exact(output, known, seed)
        comparison = found[bits]
        kept[name].measures.append([comparison.metrics.get(measure, 0.0) for measure in MEASURES])
        kept[name].strange.append(strange(comparison))
        kept[name].bits.append(bits)


def strange(comparison: Comparison) -> bool:
    """Tell whether NaN or infinities are where they should not be."""
    return bool(comparison.counts.get("nan_mismatched", 0) + comparison.counts.get("inf_mismatched", 0))


def label(changed: Column, original: Column) -> Label:
    """Hold a change against the original at its own seeds, which are the first ones of the original's."""
    seeds = len(changed.strange)
    now, then = np.array(changed.measures), np.array(original.measures[:seeds])
    ratios = {name: ratio(name, now[:, at], then[:, at]) for at, name in enumerate(MEASURES)}
    new = [one and not other for one, other in zip(changed.strange, original.strange, strict=False)]
    same = [one == other for one, other in zip(changed.bits, original.bits, strict=False)]
    name, severity = judged(ratios, any(new))
    return Label(name, severity, seeds, sum(same) / seeds, sum(new) / seeds, ratios)


def ratio(measure: str, now: Array, then: Array) -> Ratio:
    """Give the ratio of means over seeds, by the delta method on paired seeds; of logarithms the power of two."""
    n = len(now)
    if measure == "mean_log2_ulp":
        growth = (now - then) * log(2)
        return interval(float(growth.mean()), float(growth.std(ddof=1)) / sqrt(n))
    if not then.sum():
        return Ratio(inf, inf, inf) if now.sum() else Ratio(1.0, 1.0, 1.0)
    if not now.sum():
        return Ratio(0.0, 0.0, 0.0)
    value = float(now.sum() / then.sum())
    error = float((now - value * then).std(ddof=1)) * sqrt(n) / float(now.sum())
    return interval(log(value), error)


def interval(logarithm: float, error: float) -> Ratio:
    """Give a ratio with its bounds, five digits of each, from its logarithm and the standard error of that."""
    return Ratio(*(float(f"{exp(logarithm + times * error):.5g}") for times in (0, -QUANTILE, QUANTILE)))


def judged(ratios: dict[str, Ratio], non_finite: bool) -> tuple[str, float]:
    """Give the label, and by how much the worst average is worse: infinity for hard effects."""
    averages = [ratios[name] for name in AVERAGES]
    severity = max(found.value for found in averages)
    if non_finite or severity == inf:
        return "harmful", inf
    worse = [found.value for found in averages if found.lower > WORSE]
    if worse:
        return "harmful", max(worse)
    small = all(found.upper < NOTHING for found in averages)
    return ("not_worse" if small and ratios["mean_ulp"].lower <= WORSE else "grey"), severity


def clear(found: Label) -> bool:
    """Tell whether more seeds would not change a label."""
    if found.label != "grey":
        return True
    worst = max((found.ratios[name] for name in AVERAGES), key=lambda one: one.value)
    return worst.lower > NOTHING and max(found.ratios[name].upper for name in AVERAGES) < WORSE


Machines = Mapping[str, Mapping[str, str]]
"""Where the labels of each operator were measured."""


def write(labels: dict[str, dict[str, Label]], path: Path = FILE, machines: Machines | None = None) -> None:
    """Write labels, a change a line, and where they were measured; by default all of them here."""
    operators = []
    for operator, changes in sorted(labels.items()):
        lines = ",\n".join(
            f"   {json.dumps(name)}: {json.dumps(as_json(found), separators=COMPACT)}"
            for name, found in changes.items()
        )
        operators.append(f"  {json.dumps(operator)}: {{\n{lines}\n  }}")
    facts = {name: (machines or {}).get(name) or machine() for name in sorted(labels)}
    most = max(facts.values(), key=[*facts.values()].count, default=machine())
    apart = {name: found for name, found in facts.items() if found != most}
    head = f' "measured on": {json.dumps(most)},\n "measured apart": {json.dumps(apart)},\n "labels": {{\n'
    path.write_text("{\n" + head + ",\n".join(operators) + "\n }\n}\n", encoding="utf-8")


def machines(path: Path = FILE) -> dict[str, dict[str, str]]:
    """Return where the stored labels of each operator were measured."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return dict.fromkeys(stored["labels"], stored["measured on"]) | stored.get("measured apart", {})


def machine() -> dict[str, str]:
    """Say what exponentials and logarithms of float32 depend on."""
    facts = detect_environment("cpu").facts
    return {name: facts[name] for name in ("cpu_features", "numpy", "libc") if name in facts}


def as_json(found: Label) -> dict[str, object]:
    """Give a label as it is written: five digits of each number, infinity as null, and no shares of no seeds."""
    shares = {"same_bits": found.same_bits, "non_finite": found.non_finite}
    ratios = {name: [rounded(number) for number in found.ratios[name]] for name in MEASURES}
    head = {"label": found.label, "severity": rounded(found.severity), "seeds": found.seeds}
    more = {"tails": tails_as_json(found.tails)} if found.tails else {}
    return {**head, **{name: rounded(share) for name, share in shares.items() if share}, **ratios, **more}


def tails_as_json(found: Tails) -> dict[str, object]:
    """Give the label of maxima and biases as it is written."""
    return {**found._asdict(), "growth": [rounded(number) for number in found.growth]}


def rounded(number: float) -> float | None:
    """Give five digits of a number: the ratios of hard effects are infinite."""
    return float(f"{number:.5g}") if isfinite(number) else None


def read(path: Path = FILE) -> dict[str, dict[str, Label]]:
    """Read what `write` wrote."""
    stored = json.loads(path.read_text(encoding="utf-8"))["labels"]
    return {operator: {name: from_json(line) for name, line in changes.items()} for operator, changes in stored.items()}


def from_json(line: dict[str, Any]) -> Label:
    """Understand one line."""
    ratios = {name: Ratio(*(inf if number is None else number for number in line[name])) for name in MEASURES}
    shares = line.get("same_bits", 0.0), line.get("non_finite", 0.0)
    severity = inf if line["severity"] is None else line["severity"]
    return Label(line["label"], severity, line["seeds"], *shares, ratios, tails_from_json(line.get("tails")))


def tails_from_json(line: dict[str, Any] | None) -> Tails | None:
    """Understand the label of maxima and biases, which older files have not."""
    if line is None:
        return None
    growth = Growth(*(inf if number is None else number for number in line["growth"]))
    return Tails(line["label"], line["figure"], growth, line["seeds"])


def contradictions(operator: Operator, stored: dict[str, Label], seeds: int) -> Iterator[str]:
    """Measure anew at seeds that were not used before, and yield what cannot be the same as what is stored."""
    measured = {name: label.tails for name, label in stored.items() if label.tails}
    yield from tails.contradictions(operator, measured, seeds) if measured else ()
    kept = {name: Column([], [], []) for name in ("", *stored)}
    for seed in range(FIRST_SEED + MOST_OF_FEW, FIRST_SEED + MOST_OF_FEW + seeds):
        extend(operator, kept, set(stored), seed)
    for name, before in stored.items():
        again = label(kept[name], kept[""])
        if again.hard != before.hard:
            yield f"{operator.name}: {name}: a hard effect {'is' if again.hard else 'was'} there"
        for measure in AVERAGES if not before.hard else ():
            one, other = before.ratios[measure], again.ratios[measure]
            if one.lower > other.upper * ROUNDED or other.lower > one.upper * ROUNDED:
                yield f"{operator.name}: {name}: {measure} was {one.value:.4g} times and is {other.value:.4g} times"
