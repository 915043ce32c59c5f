"""How often does `precreg diagnose` name a planted cause?

    python -m benchmarks.diagnosis.score [--half develop] [--kinds term sign] [--only adam/] [--seconds 30] [--jobs 2]
    python -m benchmarks.diagnosis.score --no-git      without the good version in a history
    python -m benchmarks.diagnosis.score --advice      the old advice of `precreg compare` on the same plants
    python -m benchmarks.diagnosis.score --again FILE  judge the diagnoses of an earlier --output anew

Prints a Markdown table. Each plant is one edit of a kernel of benchmarks/diagnosis/kernels. A project has the good
version with its accepted baseline in its first commit, and the planted version in its second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import msgspec

from benchmarks.diagnosis.advice import score_advice
from benchmarks.diagnosis.judge import Score, judge_diagnosis, missing_diagnosis
from benchmarks.diagnosis.kinds import KINDS
from benchmarks.diagnosis.plant import HALVES, Plant, planted_source
from benchmarks.diagnosis.project import CommandError, Project, oracle_of
from benchmarks.diagnosis.table import score_table
from benchmarks.diagnosis.tables import plants


def main(arguments: Sequence[str]) -> int:
    """Score the chosen plants, print the table, and write the details."""
    asked = options(arguments)
    chosen = choose(plants().values(), asked)
    if not chosen:
        print("no plant matches --half, --kinds and --only", file=sys.stderr)
        return 2
    if asked.again:
        scores = judge_again(asked.again, chosen)
    elif asked.advice:
        scores = in_threads(lambda plant: [score_advice(plant)], chosen, asked.jobs)
    else:
        kernels = sorted({plant.kernel for plant in chosen})
        by_kernel = [[plant for plant in chosen if plant.kernel == kernel] for kernel in kernels]
        scores = in_threads(
            lambda group: score_kernel(group, asked.seconds, git=not asked.no_git), by_kernel, asked.jobs
        )
    print(score_table(scores))
    if asked.output:
        asked.output.write_bytes(msgspec.json.format(msgspec.json.encode(scores), indent=1))
    return 0


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="score.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=sorted(set(HALVES.values())), help="plants of these kernels only")
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS, "two causes"], help="plants of these kinds only")
    parser.add_argument("--only", nargs="+", metavar="ID", help="plants with one of these ids, or a part of it")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="each Nth of the chosen plants, for a quick look"
    )
    parser.add_argument("--seconds", type=float, default=30, help="time of one diagnosis")
    parser.add_argument("--jobs", type=int, default=1, help="kernels at the same time")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the details as JSON")
    parser.add_argument("--no-git", action="store_true", help="projects without a history of the good version")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--advice", action="store_true", help="score the old advice of precreg compare")
    mode.add_argument("--again", type=Path, metavar="FILE", help="judge the stored diagnoses of a file")
    return parser.parse_args(arguments)


def choose(available: Iterable[Plant], asked: argparse.Namespace) -> list[Plant]:
    """Return the plants that match the options."""
    matching = [
        plant
        for plant in available
        if (not asked.half or plant.half == asked.half)
        and (not asked.kinds or plant.kind in asked.kinds)
        and (not asked.only or any(part in plant.id for part in asked.only))
    ]
    return matching[:: asked.every]


def score_kernel(group: Sequence[Plant], seconds: float, *, git: bool) -> list[Score]:
    """Score the plants of one kernel in one project."""
    kernel = group[0].kernel
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder) / "project", kernel, git=git)
        return [score_plant(project, plant, seconds) for plant in group]


def score_plant(project: Project, plant: Plant, seconds: float) -> Score:
    """Diagnose one plant and judge the answer."""
    oracle = oracle_of(plant.kernel)
    try:
        score = judge_diagnosis(plant, oracle, project.diagnose(planted_source(plant), seconds))
    except CommandError as error:
        score = missing_diagnosis(plant, oracle, str(error))
    print(f"{score.outcome:12}{score.status:10}{plant.id}", file=sys.stderr, flush=True)
    return score


def judge_again(file: Path, chosen: Sequence[Plant]) -> list[Score]:
    """Judge stored diagnoses by the present tables."""
    stored = {score.plant: score for score in msgspec.json.decode(file.read_bytes(), type=list[Score])}
    pairs = [(plant, stored[plant.id]) for plant in chosen if plant.id in stored]
    return [judge_diagnosis(plant, old.oracle, old.diagnosis) if old.diagnosis else old for plant, old in pairs]


def in_threads(task: Callable[..., list[Score]], items: Sequence[object], jobs: int) -> list[Score]:
    """Do a task for each item, in order; the work is done in processes that the threads wait for."""
    with ThreadPoolExecutor(jobs) as pool:
        return [*chain.from_iterable(pool.map(task, items))]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
