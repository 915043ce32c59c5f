"""What `precreg calibrate` does when there is something to calibrate, with progress on stderr."""

from __future__ import annotations

from pathlib import Path

from precreg.cli.options import Asked
from precreg.cli.progress import shown_calibrations
from precreg.cli.selecting import selected
from precreg.environment.environment import detect, limit_blas_threads
from precreg.environment.processors import processors
from precreg.errors import UserError
from precreg.quality.calibrated import Calibrated, Uncalibrated
from precreg.quality.quality import Margins
from precreg.quality.replicates import calibrations
from precreg.run.run import IN_PROCESS, Plan
from precreg.run.worker_process import prepare
from precreg.suite.expand import load_cases
from precreg.suite.select import none_selected


def calibrate(
    project: Path, asked: Asked, jobs: int | None, replicates: int, margins: Margins, environment: str | None
) -> tuple[list[Calibrated], list[Uncalibrated]]:
    """Calibrate the cases that are asked for; what is found comes in their order, whoever was done first.

    `jobs` None is as many as there are processors. Raises UserError: nothing-selected, nothing-to-calibrate, and what
    a run raises.
    """
    limit_blas_threads()
    jobs = processors() if jobs is None else jobs
    if jobs != IN_PROCESS:
        prepare()
    every = load_cases(project)
    cases = selected(project, every, asked)
    if not cases:
        raise none_selected(every, asked.patterns)
    plan = Plan(project, detect(environment), jobs)
    came = list(shown_calibrations(calibrations(cases, plan, replicates, margins), len(cases)))
    order = {case.id: place for place, case in enumerate(cases)}
    came.sort(key=lambda each: order[each.case])
    found = [each for each in came if isinstance(each, Calibrated)]
    left_out = [each for each in came if isinstance(each, Uncalibrated)]
    if not found:
        first = left_out[0]
        others = f", and {len(left_out) - 1} more" if left_out[1:] else ""
        message = f"expected a case whose noise can be told but got {first.case}: {first.why}{others}"
        raise UserError("nothing-to-calibrate", message)
    return found, left_out
