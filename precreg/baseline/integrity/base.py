"""What judges a run against a base: its bar for what it has, HEAD's own for what is new, tighter or allowed.

Holding a run against a base: what judges then, and what is found about the bar itself.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.baseline.integrity.criteria import CasePairs, IntegrityChange, ProjectSide, is_redefined
from precreg.baseline.integrity.sides import Allowance, allowed_reason
from precreg.baseline.store import BaselineKey, BaselineLookup, Baselines
from precreg.environment import on_default_branch
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Baseline, Case, FindingKind, Layer, RunFinding

_FIELDS: dict[FindingKind, tuple[str, ...]] = {
    FindingKind.SEEDS_LOWERED: ("seeds",),
    FindingKind.REPEATS_LOWERED: ("repeats",),
    FindingKind.EXPECT_FAILURE_ADDED: ("expect_failure",),
    FindingKind.EXACT_DROPPED: ("exact",),
    FindingKind.DETERMINISM_DROPPED: ("deterministic",),
    FindingKind.BUDGET_LOOSENED: ("budget",),
    FindingKind.CASE_SKIPPED: ("requires", "tags"),
    FindingKind.SETTING_LOOSENED: ("baseline_id", "baseline_definition", "analyzers"),
}
"""What the base says, where HEAD says less without leave. A timeout is HEAD's: one that is too short is no verdict."""


_OF_BASELINES = {FindingKind.BASELINE_CHANGED, FindingKind.BASELINE_REMOVED}

_Layers = tuple[Layer, ...]


def cases_judged_by_base(
    head: Iterable[Case], pairs: CasePairs, found: Iterable[IntegrityChange], allowances: Sequence[Allowance]
) -> list[Case]:
    """Return the cases of HEAD as the base judges them, in their order.

    What asks for as much as the base, or for more, is HEAD's own, and so is what may ask for less.
    """
    former = {now.id: before for before, now in pairs.judged}
    refused = _refused(found, allowances)
    threshold = FindingKind.SETTING_LOOSENED in refused.get(TOLERANCES_FILE, ())
    made: dict[int, tuple[_Layers, _Layers]] = {}
    cases = (_judged(case, former.get(case.id), refused.get(case.id, set())) for case in head)
    return [_only_tighter(case, made) if threshold else case for case in cases]


def _refused(found: Iterable[IntegrityChange], allowances: Sequence[Allowance]) -> dict[str, set[FindingKind]]:
    """Return what nobody allowed, by what it is about."""
    refused: dict[str, set[FindingKind]] = {}
    for change in found:
        if allowed_reason(change.kind, change.about, allowances) is None:
            refused.setdefault(change.about, set()).add(change.kind)
    return refused


def _judged(now: Case, before: Case | None, refused: set[FindingKind]) -> Case:
    if before is None or not refused:
        return now
    fields: dict[str, Any] = {name: getattr(before, name) for kind in refused for name in _FIELDS.get(kind, ())}
    for name in fields.keys() & {"tags", "analyzers"}:
        fields[name] = tuple(dict.fromkeys((*getattr(before, name), *getattr(now, name))))
    if refused & {FindingKind.BOUND_LOOSENED, FindingKind.REGRESSION_LOOSENED}:
        fields["layers"] = before.layers
    if FindingKind.CASE_RENAMED in refused:
        fields |= {"baseline_id": before.baseline_id, "baseline_definition": before.baseline_definition}
    if is_redefined(before, now):
        fields.pop("baseline_definition", None)
    return replace(now, **fields)


def _only_tighter(case: Case, made: dict[int, tuple[_Layers, _Layers]]) -> Case:
    """Let PRECISION_THRESHOLDS only tighten; cases that share their layers share the new ones, too."""
    _, layers = made.setdefault(
        id(case.layers),
        (case.layers, tuple(replace(layer, override=layer.override and "tighter") for layer in case.layers)),
    )
    return replace(case, layers=layers)


class BaseBaselines:
    """What was accepted at a base, and at HEAD of what the base does not have; looked up as `Baselines` does.

    `at_head` are the ids whose entries may be HEAD's: of cases that were redefined, and of changes that are allowed.
    """

    def __init__(self, base: ProjectSide, now: Baselines, at_head: Collection[str]) -> None:
        self._base, self._now, self._at_head = base, now, at_head

    def lookup(self, baseline_id: str, chain: tuple[str, ...]) -> Baseline | None:
        """Return the entry of the first environment of the chain that had the case; HEAD's where none had."""
        for environment in chain if baseline_id not in self._at_head else ():
            place = BaselineKey(environment, baseline_id)
            if place in self._base.accepted:
                return Baseline(self._base.accepted[place], environment, place.file)
        return self._now.lookup(baseline_id, chain)

    def number(self, chain: tuple[str, ...]) -> int:
        """Return how many entries the environments of the chain had together: no more make a rule any milder."""
        return sum(self._base.numbers.get(environment, 0) for environment in chain)


def changeable_baselines(
    pairs: CasePairs, found: Iterable[IntegrityChange], allowances: Sequence[Allowance]
) -> frozenset[str]:
    """Return the ids of baselines that HEAD may have changed: the case computes something else, or it is allowed."""
    ids = {now.id: now.baseline_id for _, now in pairs.judged}
    redefined = {now.baseline_id for before, now in pairs.judged if is_redefined(before, now)}
    changed = {change.about for change in found if change.kind in _OF_BASELINES}
    refused = {about for about, kinds in _refused(found, allowances).items() if kinds & _OF_BASELINES}
    return frozenset(redefined | {ids.get(about, about) for about in changed - refused})


class AcceptanceCriteria(Struct, frozen=True):
    """What a run is judged by: its cases, their baselines, and what is found about both; `commit` is the base."""

    commit: str
    cases: list[Case]
    baselines: BaselineLookup
    findings: tuple[RunFinding, ...] = ()


def acceptance_criteria(
    project: Path,
    commit: str | None,
    every: list[Case],
    baselines: Baselines,
    environ: Mapping[str, str] = os.environ,
) -> AcceptanceCriteria:
    """Return what judges a run of a project: of every case of HEAD what the base has of it, where there is a base.

    It is the same for every selection and shard. Raises UserError as `read_sides` does.
    """
    from precreg.baseline.integrity.sides import find_merged_allowances, read_allowances

    if commit is None:
        left = find_merged_allowances(read_allowances(project)) if on_default_branch(environ) else ()
        return AcceptanceCriteria("", every, baselines, tuple(left))
    from precreg.baseline.integrity.findings import integrity_changes, integrity_findings
    from precreg.baseline.integrity.sides import read_sides

    sides = read_sides(project, commit, every, environ)
    found = integrity_changes(sides.base, sides.head, sides.pairs, sides.references)
    return AcceptanceCriteria(
        commit,
        cases_judged_by_base(every, sides.pairs, found, sides.allowances),
        BaseBaselines(sides.base, baselines, changeable_baselines(sides.pairs, found, sides.allowances)),
        integrity_findings(found, sides.pairs, sides.allowances),
    )
