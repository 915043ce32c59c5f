"""What binds a verdict: the rule, its ratio with the interval, what noise explains, the limit, and who set it."""

from __future__ import annotations

from msgspec.structs import replace

from precreg.measure.metrics import described
from precreg.report.numbers import SHARE_DIGITS, apart
from precreg.types import Finding, Verdict

DIGITS = 3
"""Significant digits of ratios, and more where two that are held against each other would look alike."""

VALUE_DIGITS = 4

_OF_RATIOS = frozenset({"statistic", "guard", "budget"})


def of_ratios(finding: Finding) -> bool:
    """Tell whether a finding's limit is one on the ratio to the baseline, and not on the metric itself."""
    return finding.rule in _OF_RATIOS and described(finding.metric).better != "higher"


def binding(verdict: Verdict) -> list[str]:
    """Say in one line what decided a verdict; no line where nothing had to hold, or a record does not know."""
    return [said(first) for first in verdict.findings[:1] if first.rule]


def said(finding: Finding) -> str:
    """Say what binds a finding: `statistic on mean_abs_error of out: 1.31 times, 1.24 to 1.38, ...`."""
    if not finding.metric:
        return f"{finding.rule}: {finding.reason}"
    of = f" of {finding.output}" if finding.output else ""
    if of_bias(finding):
        finding = _grown(finding)
    parts = _of_hard(finding) if finding.rule == "hard" else (*_measured(finding), _noise(finding), _limit(finding))
    return f"{finding.rule} on {finding.metric}{of}: {', '.join(filter(None, parts))}"


def of_bias(finding: Finding) -> bool:
    """Tell whether a ratio is 1 more than what a bias grew by, in units of the baseline's mean |d|."""
    return finding.metric == "bias" and finding.rule == "statistic"


def _grown(finding: Finding) -> Finding:
    numbers = {name: getattr(finding, name) for name in ("ratio", "lower", "upper", "floor", "limit")}
    return replace(finding, **{name: number - 1 for name, number in numbers.items() if number is not None})


def _of_hard(finding: Finding) -> list[str]:
    """Say what was lost: such a rule has no limit to be within."""
    current, baseline = apart([finding.current, finding.baseline], _digits(finding))
    return [f"is {current or 'undefined'}", baseline and f"was {baseline}"]


def _measured(finding: Finding) -> list[str]:
    if of_ratios(finding):
        factor, _ = apart([finding.ratio, finding.limit], DIGITS)
        times = f"{factor} {'of the mean |d| more' if of_bias(finding) else 'times'}"
        return [times if factor else "was exact", interval(finding)]
    current, _ = apart([finding.current, finding.limit], _digits(finding))
    return [current or "undefined"]


def _digits(finding: Finding) -> int:
    if of_ratios(finding):
        return DIGITS
    return SHARE_DIGITS if described(finding.metric).better == "higher" else VALUE_DIGITS


def interval(finding: Finding) -> str:
    """Write the confidence bounds of the ratio, of which either may be unknown; nothing where both are."""
    lower, _ = apart([finding.lower, finding.limit], DIGITS)
    upper, _ = apart([finding.upper, finding.limit], DIGITS)
    if lower and upper:
        return f"{lower} to {upper}"
    return (lower and f"at least {lower}") or (upper and f"at most {upper}")


def noise(finding: Finding) -> str:
    """Write the ratio that noise explains; one that is larger than 1 never looks like it."""
    return apart([finding.floor, 1.0], DIGITS)[0]


def _noise(finding: Finding) -> str:
    explained = noise(finding)
    return explained and f"noise explains {explained}"


def _limit(finding: Finding) -> str:
    if finding.limit is None:
        return ""
    value = finding.ratio if of_ratios(finding) else finding.current
    _, limit = apart([value, finding.limit], _digits(finding))
    relation = "at least" if described(finding.metric).better == "higher" else "at most"
    place = f" ({finding.source})" if finding.source else ""
    return f"{relation} {limit} allowed{place}"
