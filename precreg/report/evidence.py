"""What binds a verdict: the rule, and as text the interval of its ratio and what noise explains."""

from __future__ import annotations

from precreg.types.numbers import apart
from precreg.types.types import Finding, Verdict

DIGITS = 3
"""Significant digits of ratios, and more where two that are held against each other would look alike."""


HARD = "hard"
"""The rule that allows what the baseline has, and nothing else."""


_OF_RATIOS = frozenset({"statistic", "guard", "budget"})


def of_ratios(finding: Finding) -> bool:
    """Tell whether a finding's limit is one on the ratio to the baseline, and not on the metric itself."""
    return finding.rule in _OF_RATIOS


def binding(verdict: Verdict) -> list[str]:
    """Name the rule that decided a verdict where no row of figures does; nothing where a record does not know."""
    return [first.rule for first in verdict.findings[:1] if first.rule and not first.metric]


def interval(finding: Finding) -> str:
    """Write the confidence bounds of the ratio, of which either may be unknown; nothing where both are."""
    lower, _ = apart([finding.lower, finding.limit], DIGITS)
    upper, _ = apart([finding.upper, finding.limit], DIGITS)
    if lower and upper:
        return f"{lower} to {upper}"
    return (lower and f"at least {lower}") or (upper and f"at most {upper}")


def noise(finding: Finding) -> str:
    """Write the ratio that noise explains; one that is not 1, nor the finding's own, never looks like it."""
    return apart([finding.floor, finding.ratio, 1.0], DIGITS)[0]
