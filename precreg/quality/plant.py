"""Planting: every case is run as it is and with each fault, and each run is judged by the case's own baseline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from precreg.arithmetic.faults.fault import Fault
from precreg.baseline.store import Baselines
from precreg.quality.score import Score, Unplanted, score
from precreg.run.pipeline import results
from precreg.run.run import Plan
from precreg.types.records import CaseResult
from precreg.types.types import Budget, Case, Status
from precreg.verdict.judge import Policy


def scores(
    cases: Iterable[Case], faults: Sequence[Fault], plan: Plan, baselines: Baselines
) -> Iterator[Score | Unplanted]:
    """Plant every fault in every case; yield each score as it comes, and each case in which none can be judged.

    Nothing is written: no baseline, no proposal, no report. A case that is known to be bad, that computes nothing, or
    that does not pass without a fault, tells nothing of the gate. Raises UserError as a run does.
    """
    plantable = []
    for case in cases:
        why = unplantable(case)
        if why:
            yield Unplanted(case.id, case.tier, why)
        else:
            plantable.append(case)
    variants = [variant for case in plantable for variant in _variants(case, faults)]
    policy = Policy(baselines=baselines.number(plan.environment.chain))
    ran = results([variant.case for variant in variants], plan, policy, baselines)
    yield from _scored(ran, {variant.case.id: variant for variant in variants})


class _Variant(NamedTuple):
    """A case to be run: the case `of` as it is, or with a fault and an id of its own."""

    case: Case
    of: Case
    fault: Fault | None = None


def unplantable(case: Case) -> str:
    """Return why no fault is planted in a case, or nothing."""
    if case.expect_failure is not None:
        return "it is known to be bad"
    return "" if case.subject.kind == "python" else f"a subject of kind {case.subject.kind} computes by itself"


def _variants(case: Case, faults: Iterable[Fault]) -> Iterator[_Variant]:
    """Yield a case as it is, and then with each fault: one process mostly has them in a row, and remembers its oracle.

    A case's id has two slashes, so that no id is met twice. How long simulated operations take is not judged.
    """
    yield _Variant(case, case)
    for fault in faults:
        faulted = replace(case, id=f"{case.id}/{fault.name}", fault=fault.name, budget=Budget())
        yield _Variant(faulted, case, fault)


def _scored(results: Iterable[CaseResult], variants: dict[str, _Variant]) -> Iterator[Score | Unplanted]:
    plain: dict[str, CaseResult] = {}
    waiting: defaultdict[str, list[tuple[Fault, CaseResult]]] = defaultdict(list)
    for result in results:
        _, case, fault = variants[result.id]
        if fault is not None:
            waiting[case.id].append((fault, result))
        else:
            plain[case.id] = result
            if not _passed(result):
                yield Unplanted(case.id, case.tier, f"without a fault it is {result.verdict.reason}")
        if case.id in plain and _passed(plain[case.id]):
            yield from (score(case, plain[case.id], faulted, fault) for fault, faulted in waiting.pop(case.id, []))


def _passed(result: CaseResult) -> bool:
    return result.verdict.status is Status.PASSED
