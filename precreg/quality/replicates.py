"""Running the replicates of cases: as many of each kind as are asked for, in workers or in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from precreg.quality.calibrated import Calibrated, Uncalibrated, calibrated
from precreg.quality.quality import LAST_BIT, OWN, REORDERED, RESEEDED, Margins
from precreg.run.run import Plan, outcomes
from precreg.suite.inputs.last_bits import is_movable
from precreg.types.replicate import Replicate
from precreg.types.types import Budget, Case, Outcome

REPLICATES = 8
"""How often a case is reseeded, and how often its inputs are moved in their last bits."""


ORDERS = ("sum_reversed", "sum_in_halves", "sum_pairwise")
"""The harmless changes of fault/table.py that only add up in another order."""


_DRAWN = frozenset({"normal", "uniform", "log_uniform", "integers", "ill_conditioned_sum"})
"""Distributions whose numbers follow from the seed; a special one has them where it has a share of the others."""


class Variant(NamedTuple):
    """A case to be run, the case `of` whose replicate it is, and of which kind."""

    case: Case
    of: Case
    kind: str


def calibrations(
    cases: Iterable[Case], plan: Plan, replicates: int, margins: Margins
) -> Iterator[Calibrated | Uncalibrated]:
    """Run the replicates of cases and yield what is found of each case as it is complete, in no promised order.

    Nothing is written. Raises UserError as a run does.
    """
    waiting: dict[str, list[Variant]] = {}
    for case in cases:
        if why := fixed(case):
            yield Uncalibrated(case.id, case.tier, why)
        else:
            waiting[case.id] = [*variants(case, replicates)]
    by_id = {variant.case.id: variant for of_case in waiting.values() for variant in of_case}
    came: defaultdict[str, dict[str, Outcome]] = defaultdict(dict)
    for outcome in outcomes([variant.case for variant in by_id.values()], plan):
        case = by_id[outcome.case].of
        came[case.id][outcome.case] = outcome
        if len(came[case.id]) == len(waiting[case.id]):
            yield calibrated(case, _by_kind(waiting.pop(case.id), came.pop(case.id)), plan.environment.chain, margins)


def fixed(case: Case) -> str:
    """Return why a case has no replicates, or nothing."""
    if case.expect_failure is not None:
        return "it is known to be bad"
    return "" if case.inputs or case.subject.kind != "files" else "recorded outputs have no inputs to perturb"


def variants(case: Case, replicates: int) -> Iterator[Variant]:
    """Yield the case's own run, and its replicates: those that add up otherwise last, one after the other.

    Each run has as many seeds as the case, and an id of its own: a case's id has two slashes. Time is not asked for,
    and repeats only where they may differ and are measured together.
    """
    repeats = 1 if case.deterministic else case.repeats
    once = replace(case, repeats=repeats, budget=Budget(), replicate=Replicate())
    yield Variant(replace(once, id=f"{case.id}/{OWN}"), case, OWN)
    for number in range(1, replicates + 1) if is_drawn(case.inputs) else ():
        other = replace(once, id=f"{case.id}/{RESEEDED}-{number}", replicate=Replicate(first_seed=case.seeds * number))
        yield Variant(other, case, RESEEDED)
    for number in range(1, replicates + 1) if any(map(is_movable, case.inputs.values())) else ():
        other = replace(once, id=f"{case.id}/{LAST_BIT}-{number}", replicate=Replicate(moved=number))
        yield Variant(other, case, LAST_BIT)
    for name in ORDERS if case.subject.kind == "python" else ():
        yield Variant(replace(once, id=f"{case.id}/{name}", fault=name), case, REORDERED)


def is_drawn(inputs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether another seed gives other inputs."""
    return any(_DRAWN & spec.keys() or "rest" in (spec.get("special") or {}) for spec in inputs.values())


def _by_kind(ran: Sequence[Variant], came: Mapping[str, Outcome]) -> dict[str, list[Outcome]]:
    by_kind: defaultdict[str, list[Outcome]] = defaultdict(list)
    for variant in ran:
        by_kind[variant.kind].append(came[variant.case.id])
    return by_kind
