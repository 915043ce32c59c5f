"""What judges a run against a base: its bar for what it has, HEAD's own for what is new, tighter or allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from precreg.baseline.integrity.allowances import Allowance, allowed
from precreg.baseline.integrity.side import Change, Pairs, Side, is_redefined
from precreg.baseline.store import Baselines, Place
from precreg.tolerance.layers import TOLERANCES
from precreg.types.records import Baseline, Kind
from precreg.types.types import Case, Layer

_FIELDS: dict[Kind, tuple[str, ...]] = {
    Kind.SEEDS_LOWERED: ("seeds",),
    Kind.REPEATS_LOWERED: ("repeats",),
    Kind.EXPECT_FAILURE_ADDED: ("expect_failure",),
    Kind.EXACT_DROPPED: ("exact",),
    Kind.DETERMINISM_DROPPED: ("deterministic",),
    Kind.BUDGET_LOOSENED: ("budget",),
    Kind.CASE_SKIPPED: ("requires", "tags"),
    Kind.SETTING_LOOSENED: ("baseline_id", "baseline_definition", "analyzers"),
}
"""What the base says, where HEAD says less without leave. A timeout is HEAD's: one that is too short is no verdict."""


_OF_BASELINES = {Kind.BASELINE_CHANGED, Kind.BASELINE_REMOVED}

_Layers = tuple[Layer, ...]


def judged_as(
    head: Iterable[Case], pairs: Pairs, found: Iterable[Change], allowances: Sequence[Allowance]
) -> list[Case]:
    """Return the cases of HEAD as the base judges them, in their order.

    What asks for as much as the base, or for more, is HEAD's own, and so is what may ask for less.
    """
    former = {now.id: before for before, now in pairs.judged}
    refused = _refused(found, allowances)
    threshold = Kind.SETTING_LOOSENED in refused.get(TOLERANCES, ())
    made: dict[int, tuple[_Layers, _Layers]] = {}
    cases = (_judged(case, former.get(case.id), refused.get(case.id, set())) for case in head)
    return [_only_tighter(case, made) if threshold else case for case in cases]


def _refused(found: Iterable[Change], allowances: Sequence[Allowance]) -> dict[str, set[Kind]]:
    """Return what nobody allowed, by what it is about."""
    refused: dict[str, set[Kind]] = {}
    for change in found:
        if allowed(change.kind, change.about, allowances) is None:
            refused.setdefault(change.about, set()).add(change.kind)
    return refused


def _judged(now: Case, before: Case | None, refused: set[Kind]) -> Case:
    if before is None or not refused:
        return now
    fields: dict[str, Any] = {name: getattr(before, name) for kind in refused for name in _FIELDS.get(kind, ())}
    for name in fields.keys() & {"tags", "analyzers"}:
        fields[name] = tuple(dict.fromkeys((*getattr(before, name), *getattr(now, name))))
    if refused & {Kind.BOUND_LOOSENED, Kind.REGRESSION_LOOSENED}:
        fields["layers"] = before.layers
    if Kind.CASE_RENAMED in refused:
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


class AcceptedThen:
    """What was accepted at a base, and at HEAD of what the base does not have; looked up as `Baselines` does.

    `at_head` are the ids whose entries may be HEAD's: of cases that were redefined, and of changes that are allowed.
    """

    def __init__(self, base: Side, now: Baselines, at_head: Collection[str]) -> None:
        self._base, self._now, self._at_head = base, now, at_head

    def lookup(self, baseline_id: str, chain: tuple[str, ...]) -> Baseline | None:
        """Return the entry of the first environment of the chain that had the case; HEAD's where none had."""
        for environment in chain if baseline_id not in self._at_head else ():
            place = Place(environment, baseline_id)
            if place in self._base.accepted:
                return Baseline(self._base.accepted[place], environment, place.file)
        return self._now.lookup(baseline_id, chain)

    def number(self, chain: tuple[str, ...]) -> int:
        """Return how many entries the environments of the chain had together: no more make a rule any milder."""
        return sum(self._base.numbers.get(environment, 0) for environment in chain)


def at_head(pairs: Pairs, found: Iterable[Change], allowances: Sequence[Allowance]) -> frozenset[str]:
    """Return the ids of baselines that HEAD may have changed: the case computes something else, or it is allowed."""
    ids = {now.id: now.baseline_id for _, now in pairs.judged}
    redefined = {now.baseline_id for before, now in pairs.judged if is_redefined(before, now)}
    changed = {change.about for change in found if change.kind in _OF_BASELINES}
    refused = {about for about, kinds in _refused(found, allowances).items() if kinds & _OF_BASELINES}
    return frozenset(redefined | {ids.get(about, about) for about in changed - refused})
