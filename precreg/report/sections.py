"""What a run was asked for, in words; and what several runs were asked for together.

What a paired run says of itself: which version judged, after how many seeds, and where it could not.

What was found about a run as a whole, as every report tells it: what binds, then what is allowed, then the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from math import inf
from typing import Any

import msgspec

from precreg.types import TIERS, CaseResult, Location, RunFinding, RunRecord, Status, format_number

SelectionDict = dict[str, Any]
"""What was asked for by name, as a run's record has it; a whole project where it is empty."""


_SHARD, _TIERS, _ANY = "shard", "tiers", "any"

_WORDS = {"patterns": "pattern", _TIERS: "tier", "suites": "suite", "tags": "tag", "changed_since": "changed since"}


def without_shard(selection: SelectionDict) -> SelectionDict:
    """Return what all shards of a run were asked for together."""
    return {name: value for name, value in selection.items() if name != _SHARD}


def selection_key(selection: SelectionDict) -> bytes:
    """Return the same for selections that are equal, before they are written and after they are read."""
    return msgspec.json.encode(selection, order="sorted")


def merge_selections(selections: Iterable[SelectionDict]) -> SelectionDict:
    """Return what the runs were asked for together; empty if that is everything. Order and grouping do not matter.

    Tiers add up. Selections that differ in something else stand side by side under `any`.
    """
    tiers: dict[bytes, set[str]] = {}
    for part in _parts(selections):
        named = _tiers(part)
        rest = part if named is None else {name: value for name, value in part.items() if name != _TIERS}
        tiers.setdefault(selection_key(rest), set()).update(TIERS if named is None else named)
    together = [_with_tiers(msgspec.json.decode(rest), names) for rest, names in sorted(tiers.items())]
    if {} in together or not together:
        return {}
    return together[0] if len(together) == 1 else {_ANY: together}


def describe_selection(selection: SelectionDict) -> str:
    """Say what was selected but for the shard, as in `tier unit; tag fast`; nothing of a whole project."""
    return " or ".join("; ".join(_said(name, value) for name, value in part.items()) for part in _parts([selection]))


def _parts(selections: Iterable[SelectionDict]) -> Iterator[SelectionDict]:
    for selection in selections:
        parts = selection.get(_ANY)
        if isinstance(parts, list) and all(isinstance(part, dict) for part in parts):
            yield from map(without_shard, parts)
        else:
            yield without_shard(selection)


def _tiers(selection: SelectionDict) -> list[str] | None:
    """Return the tiers that a selection names; None where it names none, or other than texts."""
    named = selection.get(_TIERS)
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        return None
    return list(named)


def _with_tiers(rest: SelectionDict, names: set[str]) -> SelectionDict:
    order = [tier for tier in TIERS if tier in names] + sorted(names - set(TIERS))
    return rest if names >= set(TIERS) else {_TIERS: order, **rest}


def _said(name: str, value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return f"{_WORDS.get(name, name)} {', '.join(map(str, values))}"


MAX_PAIRED_IDS = 3


def describe_judge(result: CaseResult) -> str:
    """Say what judged a case of a paired run, after how many seeds; nothing of any other run."""
    if result.paired is None:
        return ""
    if result.paired.problem or result.baseline is None:
        return f"what was accepted: {result.paired.problem}"
    commit = result.baseline.entry.commit[:8]
    return f"{result.baseline.file} at {commit}, side by side, after {_seeds(result)} of both"


def describe_paired_run(record: RunRecord) -> Iterator[str]:
    """Yield how many cases the other version judged, which are not clear, and which it could not judge, and why."""
    if not record.pair:
        return
    passed = [result for result in record.results if result.verdict.status is Status.PASSED]
    alone = [result for result in record.results if result.paired is not None and result.paired.problem]
    judged = len(record.results) - len(alone)
    yield f"{judged} of {len(record.results)} cases judged by {record.pair[:8]}, run side by side"
    for result in passed:
        if result.paired is not None and not (result.paired.clear or result.paired.problem):
            yield f"not clear after {_seeds(result)}: {result.id}: {result.verdict.message}"
    by_problem: dict[str, list[str]] = {}
    for result in alone:
        by_problem.setdefault(result.paired.problem if result.paired else "", []).append(result.id)
    for problem, ids in by_problem.items():
        yield f"judged by what was accepted: {_some(ids)}: {problem}"


def _some(ids: list[str]) -> str:
    rest = f" and {len(ids) - MAX_PAIRED_IDS} more" if len(ids) > MAX_PAIRED_IDS else ""
    return ", ".join(ids[:MAX_PAIRED_IDS]) + rest


def _seeds(result: CaseResult) -> str:
    seeds = 0 if result.paired is None else result.paired.seeds
    return "1 seed" if seeds == 1 else f"{seeds} seeds"


ALLOWANCES_LOCATION = Location("baselines/allow.yaml")
"""Where a finding is looked at that names no place: the file in which it could be allowed."""


_FOLDERS = ("baselines/", "suites/")


class Standing(StrEnum):
    """What a finding on a run means for it: it fails, it would fail but for a reason that is given, or neither."""

    BINDING = "binding"
    ALLOWED = "allowed"
    TOLD = "told"


STANDING_LABELS: dict[Standing, str] = {Standing.BINDING: "FINDING", Standing.ALLOWED: "allowed", Standing.TOLD: "told"}
"""Worst first; what needs a person stands in capitals, as of cases."""


_RANK = {standing: rank for rank, standing in enumerate(Standing)}


def finding_standing(finding: RunFinding) -> Standing:
    """Say what a finding means for its run. What fails no run needs no reason to be allowed."""
    if finding.binding:
        return Standing.BINDING
    return Standing.ALLOWED if finding.fails else Standing.TOLD


def sort_run_findings(findings: Iterable[RunFinding]) -> tuple[RunFinding, ...]:
    """Sort findings worst first, each once: by standing, those without a factor first, then by the largest factor."""
    return tuple(sorted(set(findings), key=_order))


def _order(finding: RunFinding) -> tuple[Any, ...]:
    factor = inf if finding.factor is None else finding.factor
    rest = (finding.about, finding.kind, finding.message, str(finding.source or ""), finding.allowed or "")
    return _RANK[finding_standing(finding)], -factor, *rest, finding.allowed is None, finding.fails


def group_run_findings(findings: Iterable[RunFinding]) -> list[list[RunFinding]]:
    """Group findings of one kind about one thing, worst first: where a report knows a thing by kind and name alone."""
    groups: dict[tuple[str, str], list[RunFinding]] = {}
    for finding in sort_run_findings(findings):
        groups.setdefault((finding.kind, finding.about), []).append(finding)
    return list(groups.values())


def explain_run_finding(finding: RunFinding) -> list[str]:
    """Say what was found, where, and why it is allowed."""
    texts = [finding.message]
    if finding.source is not None:
        texts.append(f"at        {finding.source}")
    if finding.allowed is not None:
        texts.append(f"allowed   {finding.allowed}")
    return texts


def format_finding_factor(finding: RunFinding) -> str:
    """Say how many times looser or worse, where there is a number for it."""
    return "" if finding.factor is None else f"{format_number(finding.factor, 3)} times"


def finding_location(record: RunRecord, finding: RunFinding) -> Location:
    """Return the line to look at: the finding's own, the file or the case that it is about, or the allowances."""
    if finding.source is not None and finding.source.file:
        return finding.source
    if finding.about.startswith(_FOLDERS):
        return Location(finding.about)
    sources = (r.source for r in record.results if finding.about in (r.id, f"{r.tier}/{r.suite}"))
    return next(sources, ALLOWANCES_LOCATION)


def describe_finding_counts(findings: Sequence[RunFinding]) -> str:
    """Say how many findings bind, are allowed, and are told; nothing where there is none."""
    tally = Counter(map(finding_standing, findings))
    return ", ".join(f"{tally[one]} {one}" for one in Standing if tally[one])


def describe_failing_findings(findings: Iterable[RunFinding]) -> str:
    """Say in a part of a sentence what fails the run beside its cases; nothing where nothing does."""
    kinds = Counter(finding.kind for finding in sort_run_findings(findings) if finding.binding)
    if not kinds:
        return ""
    number = sum(kinds.values())
    named = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{number} {'finding' if number == 1 else 'findings'} on the run: {named}"
