"""Which acceptance criteria judge a run against a base commit?

Cases, bounds and baselines of the base judge. HEAD's own apply to new cases, to stricter rules, and to every change
that baselines/allow.yaml permits. Each loosened criterion is a finding.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.baseline.integrity.criteria import CasePairs, IntegrityChange, ProjectSide, is_redefined
from precreg.baseline.integrity.sides import Allowance, IntegritySides, allowed_reason
from precreg.baseline.store import BaselineKey, BaselineLookup, Baselines
from precreg.environment import on_default_branch
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Baseline, BaselineEntry, Case, CaseResult, FindingKind, Layer, OracleFact, RunFinding

# Fields that come from the base if HEAD loosens them without permission. The timeout is always HEAD's: a case that
# exceeds a shorter one has no verdict, and cannot pass.
_BASE_FIELDS: dict[FindingKind, tuple[str, ...]] = {
    FindingKind.SEEDS_LOWERED: ("seeds",),
    FindingKind.REPEATS_LOWERED: ("repeats",),
    FindingKind.EXPECT_FAILURE_ADDED: ("expect_failure",),
    FindingKind.EXACT_DROPPED: ("exact",),
    FindingKind.DETERMINISM_DROPPED: ("deterministic",),
    FindingKind.BUDGET_LOOSENED: ("budget",),
    FindingKind.CASE_SKIPPED: ("requires", "tags"),
    FindingKind.SETTING_LOOSENED: ("baseline_id", "baseline_definition", "analyzers"),
}

_BASELINE_KINDS = {FindingKind.BASELINE_CHANGED, FindingKind.BASELINE_REMOVED}
_Layers = tuple[Layer, ...]


def cases_judged_by_base(
    head: Iterable[Case], pairs: CasePairs, found: Iterable[IntegrityChange], allowances: Sequence[Allowance]
) -> list[Case]:
    """Return the cases of HEAD with the base's criteria, in their order.

    A criterion is HEAD's own if it is as strict as the base's, stricter, or permitted.
    """
    former = {now.id: before for before, now in pairs.judged}
    refused = _refused(found, allowances)
    has_looser_thresholds = FindingKind.SETTING_LOOSENED in refused.get(TOLERANCES_FILE, ())
    made: dict[int, tuple[_Layers, _Layers]] = {}
    cases = (_with_base_fields(case, former.get(case.id), refused.get(case.id, set())) for case in head)
    return [_only_tighter(case, made) if has_looser_thresholds else case for case in cases]


def _refused(found: Iterable[IntegrityChange], allowances: Sequence[Allowance]) -> dict[str, set[FindingKind]]:
    """Return the kinds of changes without permission, by the case or file that they are about."""
    refused: dict[str, set[FindingKind]] = {}
    for change in found:
        if allowed_reason(change.kind, change.about, allowances) is None:
            refused.setdefault(change.about, set()).add(change.kind)
    return refused


def _with_base_fields(now: Case, before: Case | None, refused: set[FindingKind]) -> Case:
    if before is None or not refused:
        return now
    fields: dict[str, Any] = {name: getattr(before, name) for kind in refused for name in _BASE_FIELDS.get(kind, ())}
    for name in fields.keys() & {"tags", "analyzers"}:
        # Removing one is refused, adding one is not, so both lists apply.
        fields[name] = tuple(dict.fromkeys((*getattr(before, name), *getattr(now, name))))
    if refused & {FindingKind.BOUND_LOOSENED, FindingKind.REGRESSION_LOOSENED}:
        fields["layers"] = before.layers
    if FindingKind.CASE_RENAMED in refused:
        fields |= {"baseline_id": before.baseline_id, "baseline_definition": before.baseline_definition}
    # The base's digest would make the new computation look stale against HEAD's baseline.
    if is_redefined(before, now):
        fields.pop("baseline_definition", None)
    return replace(now, **fields)


def _only_tighter(case: Case, made: dict[int, tuple[_Layers, _Layers]]) -> Case:
    """Let PRECISION_THRESHOLDS only tighten bounds; cases with shared layers share the new ones, too."""
    _, layers = made.setdefault(
        id(case.layers),
        (case.layers, tuple(replace(layer, override=layer.override and "tighter") for layer in case.layers)),
    )
    return replace(case, layers=layers)


class BaseBaselines:
    """Look up the base's baselines, and HEAD's where the base has none.

    `at_head` are the ids whose entries may be HEAD's: cases that were redefined, and permitted changes.
    """

    def __init__(self, base: ProjectSide, now: Baselines, at_head: Collection[str]) -> None:
        self._base, self._now, self._at_head = base, now, at_head

    def lookup(self, baseline_id: str, chain: tuple[str, ...]) -> Baseline | None:
        """Return the entry of the first environment of the chain that had the case; without one, HEAD's."""
        for environment in chain if baseline_id not in self._at_head else ():
            place = BaselineKey(environment, baseline_id)
            if place in self._base.accepted:
                return Baseline(self._base.accepted[place], environment, place.file)
        return self._now.lookup(baseline_id, chain)

    def number(self, chain: tuple[str, ...]) -> int:
        """Return how many entries the environments of the chain had together at the base."""
        # HEAD's number would let a change add entries, and so make the rule for many comparisons milder.
        return sum(self._base.numbers.get(environment, 0) for environment in chain)


def changeable_baselines(
    pairs: CasePairs, found: Iterable[IntegrityChange], allowances: Sequence[Allowance]
) -> frozenset[str]:
    """Return the ids of baselines that HEAD may change: the case is redefined, or the change is permitted."""
    ids = {now.id: now.baseline_id for _, now in pairs.judged}
    redefined = {now.baseline_id for before, now in pairs.judged if is_redefined(before, now)}
    changed = {change.about for change in found if change.kind in _BASELINE_KINDS}
    refused = {about for about, kinds in _refused(found, allowances).items() if kinds & _BASELINE_KINDS}
    return frozenset(redefined | {ids.get(about, about) for about in changed - refused})


class AcceptanceCriteria(Struct, frozen=True):
    """Hold the criteria of a run: its cases, their baselines, findings about both, and the base commit.

    `sides` has all that was compared with the base; None without one.
    """

    commit: str
    cases: list[Case]
    baselines: BaselineLookup
    findings: tuple[RunFinding, ...] = ()
    # Entries of HEAD by id that have more than the base's, which the run has to confirm.
    extended: dict[str, BaselineEntry] = {}
    sides: IntegritySides | None = None

    def unconfirmed(self, results: Iterable[CaseResult]) -> tuple[RunFinding, ...]:
        """Return the findings about entries of HEAD that the results of the run do not confirm."""
        if self.sides is None or not self.extended:
            return ()
        from precreg.baseline.integrity.findings import find_false_extensions

        return find_false_extensions(self.extended, results, self.sides.allowances)

    def decided_findings(self, decided: Mapping[str, OracleFact | None]) -> tuple[RunFinding, ...]:
        """Return the findings by the id of the case, after the results of oracles decided; None without a finding."""
        if self.sides is None:
            return self.findings
        from precreg.baseline.integrity.findings import integrity_changes, integrity_findings

        sides, facts = self.sides, dict[str, OracleFact]()
        for _, case in sides.pairs.judged:
            fact = decided.get(case.id, sides.references.visible.get(case.id)) or sides.references.lasting.get(case.id)
            if fact is not None:
                facts[case.id] = fact
        found = integrity_changes(sides.base, sides.head, sides.pairs, facts)
        return integrity_findings(found, sides.pairs, sides.allowances)


def acceptance_criteria(
    project: Path,
    commit: str | None,
    every: list[Case],
    baselines: Baselines,
    environ: Mapping[str, str] = os.environ,
) -> AcceptanceCriteria:
    """Return the acceptance criteria of a run: with a base commit, the base's for every case that it has.

    They are equal for every selection and shard. Raises UserError as `read_sides` does.
    """
    # Imports are late: most runs have no base, and need neither git's objects nor the comparison of sides.
    from precreg.baseline.integrity.sides import find_merged_allowances, read_allowances

    if commit is None:
        left = find_merged_allowances(read_allowances(project)) if on_default_branch(environ) else ()
        return AcceptanceCriteria("", every, baselines, tuple(left))
    from precreg.baseline.integrity.findings import find_extensions, integrity_changes, integrity_findings
    from precreg.baseline.integrity.sides import read_sides

    sides = read_sides(project, commit, every, environ)
    found = integrity_changes(sides.base, sides.head, sides.pairs, sides.references.every)
    return AcceptanceCriteria(
        commit,
        cases_judged_by_base(every, sides.pairs, found, sides.allowances),
        BaseBaselines(sides.base, baselines, changeable_baselines(sides.pairs, found, sides.allowances)),
        integrity_findings(found, sides.pairs, sides.allowances),
        find_extensions(sides.base, sides.head, sides.pairs),
        sides,
    )
