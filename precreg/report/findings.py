"""What was found about a run as a whole, as every report tells it: what binds, then what is allowed, then the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import inf
from typing import Any

from precreg.types.numbers import figure
from precreg.types.records import RunFinding, RunRecord
from precreg.types.types import Location

ALLOWANCES = Location("baselines/allow.yaml")
"""Where a finding is looked at that names no place: the file in which it could be allowed."""


_FOLDERS = ("baselines/", "suites/")


class Standing(StrEnum):
    """What a finding on a run means for it: it fails, it would fail but for a reason that is given, or neither."""

    BINDING = "binding"
    ALLOWED = "allowed"
    TOLD = "told"


LABELS: dict[Standing, str] = {Standing.BINDING: "FINDING", Standing.ALLOWED: "allowed", Standing.TOLD: "told"}
"""Worst first; what needs a person stands in capitals, as of cases."""


_RANK = {standing: rank for rank, standing in enumerate(Standing)}


def standing(finding: RunFinding) -> Standing:
    """Say what a finding means for its run. What fails no run needs no reason to be allowed."""
    if finding.binding:
        return Standing.BINDING
    return Standing.ALLOWED if finding.fails else Standing.TOLD


def ordered(findings: Iterable[RunFinding]) -> tuple[RunFinding, ...]:
    """Sort findings worst first, each once: by standing, those without a factor first, then by the largest factor."""
    return tuple(sorted(set(findings), key=_order))


def _order(finding: RunFinding) -> tuple[Any, ...]:
    factor = inf if finding.factor is None else finding.factor
    rest = (finding.about, finding.kind, finding.message, str(finding.source or ""), finding.allowed or "")
    return _RANK[standing(finding)], -factor, *rest, finding.allowed is None, finding.fails


def together(findings: Iterable[RunFinding]) -> list[list[RunFinding]]:
    """Group findings of one kind about one thing, worst first: where a report knows a thing by kind and name alone."""
    groups: dict[tuple[str, str], list[RunFinding]] = {}
    for finding in ordered(findings):
        groups.setdefault((finding.kind, finding.about), []).append(finding)
    return list(groups.values())


def explained(finding: RunFinding) -> list[str]:
    """Say what was found, where, and why it is allowed."""
    texts = [finding.message]
    if finding.source is not None:
        texts.append(f"at        {finding.source}")
    if finding.allowed is not None:
        texts.append(f"allowed   {finding.allowed}")
    return texts


def times(finding: RunFinding) -> str:
    """Say how many times looser or worse, where there is a number for it."""
    return "" if finding.factor is None else f"{figure(finding.factor, 3)} times"


def place(record: RunRecord, finding: RunFinding) -> Location:
    """Return the line to look at: the finding's own, the file or the case that it is about, or the allowances."""
    if finding.source is not None and finding.source.file:
        return finding.source
    if finding.about.startswith(_FOLDERS):
        return Location(finding.about)
    sources = (r.source for r in record.results if finding.about in (r.id, f"{r.tier}/{r.suite}"))
    return next(sources, ALLOWANCES)


def counts(findings: Sequence[RunFinding]) -> str:
    """Say how many findings bind, are allowed, and are told; nothing where there is none."""
    tally = Counter(map(standing, findings))
    return ", ".join(f"{tally[one]} {one}" for one in Standing if tally[one])


def sentence(findings: Iterable[RunFinding]) -> str:
    """Say in a part of a sentence what fails the run beside its cases; nothing where nothing does."""
    kinds = Counter(finding.kind for finding in ordered(findings) if finding.binding)
    if not kinds:
        return ""
    number = sum(kinds.values())
    named = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{number} {'finding' if number == 1 else 'findings'} on the run: {named}"
