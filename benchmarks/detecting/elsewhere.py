"""Baselines of another environment: what do they make of code that nobody changed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from detecting.measured import ORIGINAL, Sample
from detecting.rules import ENVIRONMENT, baseline_of, other_bits, outcome_of, verdict
from precreg.baseline import explain_baseline
from precreg.report import add_verdict_messages
from precreg.types import Baseline, Reason, Status, Verdict
from precreg.verdict.statistics import ErrorRatio, error_ratios

Facts = Mapping[str, Mapping[str, str]]
"""The facts of environments by fingerprint, as baselines have them."""


class Elsewhere(NamedTuple):
    """What the originals gave in another environment, operator by operator and seed by seed, and its facts."""

    samples: Mapping[str, Sequence[Sample]]
    known: Facts

    def baseline(self, samples: Sequence[Sample]) -> Baseline:
        """Return the baseline of some samples, which says what is different here from where it was accepted."""
        (fingerprint,) = self.known
        baseline = baseline_of(samples, fingerprint)
        return explain_baseline(baseline, self.known, ENVIRONMENT) or baseline


class Unchanged(NamedTuple):
    """What became of one operator that nobody changed, trial by trial, judged by baselines from elsewhere.

    `here` are the verdicts if nothing were known of the environment; `changes` how its averages changed over the seeds
    of all trials, where bits did.
    """

    operator: str
    verdicts: list[Verdict]
    here: list[Verdict]
    changes: tuple[ErrorRatio, ...]


def this() -> dict[str, dict[str, str]]:
    """Describe this environment, for those that judge by what was measured in it."""
    return {ENVIRONMENT.fingerprint: ENVIRONMENT.decisive}


def stored_elsewhere(stored: Mapping[str, Any]) -> Elsewhere:
    """Read what `--dump` stored in another environment."""
    return Elsewhere({name: found[ORIGINAL] for name, found in stored["samples"].items()}, stored["environment"])


def unchanged(operator: str, original: Sequence[Sample], seeds: int, there: Elsewhere) -> Unchanged:
    """Judge what the original gave here by what it gave there, in trials of so many seeds."""
    accepted = there.samples[operator][: len(original)]
    trials = [slice(start, start + seeds) for start in range(0, len(original), seeds)]
    verdicts = [verdict(original[trial], there.baseline(accepted[trial])) for trial in trials]
    here = [verdict(original[trial], baseline_of(accepted[trial])) for trial in trials]
    entry = baseline_of(accepted).entry
    truly = error_ratios(outcome_of(original).comparisons, entry.outputs["out"], entry.groups.get("out", ()))
    return Unchanged(operator, verdicts, here, truly if other_bits(original, accepted) else ())


def lines(found: Sequence[Unchanged]) -> Iterator[str]:
    """Yield the verdicts on originals with other bits and their true ratios, then those on all of them."""
    for one in found:
        if one.changes:
            ratios = ", ".join(f"{change.metric} {change.ratio:.3g}" for change in one.changes)
            yield f"{one.operator}: {reasons(one.verdicts)}; times the other's: {ratios}"
        for trial, given in enumerate(one.verdicts):
            if given.status is Status.FAILED:
                yield f"  trial {trial}: {add_verdict_messages(given).message}"
    yield f"not changed: {reasons([given for one in found for given in one.verdicts])}"
    yield f"as if it were the same environment: {reasons([given for one in found for given in one.here])}"


def reasons(verdicts: Sequence[Verdict]) -> str:
    """Show how many verdicts have which reason."""
    number = Counter(given.reason for given in verdicts)
    return ", ".join(f"{number[reason]} {reason}" for reason in Reason if number[reason])
