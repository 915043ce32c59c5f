"""What `precreg faults` and `precreg selftest` share: planting in the selected cases, with progress on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from precreg.arithmetic.faults.fault import Fault
from precreg.baseline.store import Baselines
from precreg.cli.options import Asked
from precreg.cli.progress import shown_scores
from precreg.cli.selecting import selected
from precreg.environment.environment import detect
from precreg.environment.processors import processors
from precreg.quality.plant import scores, unplantable
from precreg.quality.score import Score, Unplanted
from precreg.run.run import IN_PROCESS, Plan
from precreg.run.worker_process import prepare
from precreg.suite.expand import load_cases
from precreg.suite.select import none_selected
from precreg.types.types import Case


def planted(
    project: Path,
    asked: Asked,
    faults: Sequence[Fault],
    jobs: int | None,
    seeds: int | None,
    environment: str | None,
) -> tuple[list[Score], list[Unplanted]]:
    """Plant faults in the cases that are asked for; scores come in order of cases and faults.

    `jobs` None is as many as there are processors, and `seeds` None all that each case has. Raises UserError:
    nothing-selected, and what a run raises.
    """
    jobs = processors() if jobs is None else jobs
    if jobs != IN_PROCESS:
        prepare()
    every = load_cases(project)
    cases = [_with_seeds(case, seeds) for case in selected(project, every, asked)]
    if not cases:
        raise none_selected(every, asked.patterns)
    plan = Plan(project, detect(environment), jobs)
    total = sum(1 if unplantable(case) else len(faults) for case in cases)
    came = list(shown_scores(scores(cases, faults, plan, Baselines(project)), total))
    order = {case.id: place for place, case in enumerate(cases)}
    by_fault = {fault.name: place for place, fault in enumerate(faults)}
    found = [each for each in came if isinstance(each, Score)]
    unplanted = [each for each in came if isinstance(each, Unplanted)]
    found.sort(key=lambda score: (order[score.case], by_fault[score.fault]))
    return found, sorted(unplanted, key=lambda each: order[each.case])


def _with_seeds(case: Case, most: int | None) -> Case:
    return case if most is None else replace(case, seeds=min(case.seeds, most))
