"""What another environment's baselines make of code that nobody changed, and how much of a change they still show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from detecting.measured import ORIGINAL, Sample
from detecting.rules import CASE, ENVIRONMENT, baseline_of, other_bits, outcome_of, verdict
from detecting.table import Labels, band_of, share
from precreg.baseline import explain_baseline
from precreg.report import add_verdict_messages
from precreg.types import Baseline, Reason, Status, Verdict
from precreg.verdict.statistics import ErrorRatio, error_ratios

Facts = Mapping[str, Mapping[str, str]]
"""The facts of environments by fingerprint, as baselines have them."""


class Elsewhere(NamedTuple):
    """What became of one operator, judged by what its original gave in another environment.

    `verdicts` are those on each change and on the original, trial by trial; `here` those on the original if nothing
    were known of the environment; `changes` how its averages changed over the seeds of all trials, where bits did.
    """

    operator: str
    verdicts: dict[str, list[Verdict]]
    here: list[Verdict]
    changes: tuple[ErrorRatio, ...]


def this() -> dict[str, dict[str, str]]:
    """Describe this environment, for those that judge by what was measured in it."""
    return {ENVIRONMENT.fingerprint: ENVIRONMENT.decisive}


def judged(operator: str, found: Mapping[str, Sequence[Sample]], there: Sequence[Sample], known: Facts) -> Elsewhere:
    """Judge what was found here by what the original gave `there`, in the one environment that is known."""
    (fingerprint,) = known
    original = found[ORIGINAL]
    verdicts: dict[str, list[Verdict]] = {name: [] for name in found}
    here = []
    for start in range(0, len(original), CASE.seeds):
        trial = slice(start, start + CASE.seeds)
        baseline = from_there(there[trial], fingerprint, known)
        for name, given in found.items():
            verdicts[name].append(verdict(given[trial], baseline))
        here.append(verdict(original[trial], baseline_of(there[trial])))
    there = there[: len(original)]
    entry = baseline_of(there, fingerprint).entry
    truly = error_ratios(outcome_of(original).comparisons, entry.outputs["out"], entry.groups.get("out", ()))
    return Elsewhere(operator, verdicts, here, truly if other_bits(original, there) else ())


def from_there(accepted: Sequence[Sample], fingerprint: str, known: Facts) -> Baseline:
    """Give a baseline that says what is different here from where it was accepted."""
    baseline = baseline_of(accepted, fingerprint)
    return explain_baseline(baseline, known, ENVIRONMENT) or baseline


def lines(found: Sequence[Elsewhere], labels: Labels) -> Iterator[str]:
    """Tell what was said of originals and what is true of those with other bits; then what was said of changes."""
    for one in found:
        if one.changes:
            ratios = ", ".join(f"{change.metric} {change.ratio:.3g}" for change in one.changes)
            yield f"{one.operator}: {reasons(one.verdicts[ORIGINAL])}; times the other's: {ratios}"
        for trial, given in enumerate(one.verdicts[ORIGINAL]):
            if given.status is Status.FAILED:
                yield f"  trial {trial}: {add_verdict_messages(given).message}"
    yield f"not changed: {reasons([given for one in found for given in one.verdicts[ORIGINAL]])}"
    yield f"as if it were the same environment: {reasons([given for one in found for given in one.here])}"
    failed: dict[str, list[bool]] = {"harmful": [], "harmful, <1.5": [], "not worse": []}
    for one in found:
        for change, label in labels[one.operator].items():
            flags = [given.status is Status.FAILED for given in one.verdicts[change]]
            if label.label == "harmful":
                failed["harmful"] += flags
                failed["harmful, <1.5"] += flags if band_of(label) in ("<1.1", "1.1-1.5") else []
            elif label.harmless:
                failed["not worse"] += flags
    yield f"changed, and reported: {', '.join(f'{name} {share(flags)}' for name, flags in failed.items())}"


def reasons(verdicts: Sequence[Verdict]) -> str:
    """Show how many verdicts have which reason."""
    number = Counter(given.reason for given in verdicts)
    return ", ".join(f"{number[reason]} {reason}" for reason in Reason if number[reason])
