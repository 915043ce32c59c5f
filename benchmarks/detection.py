"""How many harmful changes are noticed, and how many harmless ones are reported, by precreg and by rules in use.

Prints, for operators that thresholds may be chosen on, for those held out and for those written last, the share of
trials in which each rule reports a change, by how much the change truly costs. Then it prints the share of null
controls that each rule reports, and every change that precreg missed or reported wrongly.
docs/detection-method.md describes how labels are measured, docs/detection.md how to read the tables.

python benchmarks/detection.py [OPERATOR ...] [--trials 20] [--paired 5] [--seeds N] [--jobs 1] [--markdown]
python benchmarks/detection.py --label          measure all labels anew and store them (minutes)
python benchmarks/detection.py OPERATOR --label measure the labels of one operator, and keep the others'
python benchmarks/detection.py --tails          measure the labels of maxima and biases alone (minutes)
python benchmarks/detection.py --check          measure at other seeds, and say what contradicts stored labels
python benchmarks/detection.py --dump FILE      store every measurement and label, so that rules can be tried on them
python benchmarks/detection.py --against FILE   judge by what the originals gave in another environment, too
python benchmarks/detection.py --dump FILE --originals  store the originals alone, which --against needs
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from detecting import effort, elsewhere, labels, table, tails
from detecting.measured import ORIGINAL, Sample, samples
from detecting.operators import OPERATORS, held_out, written_last
from detecting.rules import CASE
from detecting.trials import PAIRED, Plan, Told, told


def main(arguments: Sequence[str]) -> int:
    """Do what is asked for."""
    asked = options(arguments)
    unknown = sorted(set(asked.operators) - set(OPERATORS))
    if unknown:
        print(f"no operator {', '.join(unknown)}; there are {', '.join(OPERATORS)}", file=sys.stderr)
        return 2
    names = asked.operators or list(OPERATORS)
    if asked.label:
        return measure_labels(names, asked.jobs, label_operator)
    if asked.tails:
        return measure_labels(names, asked.jobs, label_tails)
    if asked.check:
        return check_labels(names, asked.jobs)
    if asked.dump:
        measure = partial(sample_operator, count=asked.trials * asked.seeds, originals=asked.originals)
        return dump(dict(each(measure, names, asked.jobs)), asked.dump)
    there = elsewhere.stored_elsewhere(pickle.loads(asked.against.read_bytes())) if asked.against else None
    plan = Plan(asked.trials, asked.seeds, asked.paired, there)
    return score(names, plan, asked.jobs, table.in_markdown if asked.markdown else table.in_columns)


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="detection.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR")
    parser.add_argument("--trials", type=int, default=20, help="trials, each with seeds of its own")
    parser.add_argument("--paired", type=int, default=PAIRED, help="trials that go on to fresh seeds")
    parser.add_argument(
        "--seeds", type=int, default=CASE.seeds, help="own seeds of a trial; those of a suite's default"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--markdown", action="store_true", help="print tables as a page has them")
    parser.add_argument("--originals", action="store_true", help="with --dump: store no changes")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--label", action="store_true", help="measure labels and store them")
    what.add_argument("--tails", action="store_true", help="measure labels of maxima and biases, keep the others")
    what.add_argument("--check", action="store_true", help="hold stored labels against other seeds")
    what.add_argument("--against", type=Path, metavar="FILE", help="judge by the originals of another environment, too")
    what.add_argument("--dump", type=Path, metavar="FILE", help="store measurements instead of judging them")
    return parser.parse_args(arguments)


def each(task: Callable[[str], Any], names: Sequence[str], jobs: int) -> Iterator[tuple[str, Any]]:
    """Do a task for every operator, in processes if there are to be several; results are in order."""
    if jobs <= 1:
        yield from ((name, task(name)) for name in names)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(names, pool.map(task, names), strict=True)


Measure = Callable[[str], dict[str, labels.Label]]


def measure_labels(names: Sequence[str], jobs: int, measure: Measure) -> int:
    """Measure the labels of some operators, and store each when it is there; the others' stay as they are."""
    known = {name: of for name, of in labels.read().items() if name in OPERATORS}
    machines = labels.machines()
    for name, found in each(measure, names, jobs):
        known[name], machines[name] = found, labels.machine()
        print(f"{name}: {len(found)} changes, {max(one.seeds for one in found.values())} seeds at most", flush=True)
        labels.write(known, machines=machines)
    print("\n".join(table.summary(labels.read())))
    return 0


def label_operator(name: str) -> dict[str, labels.Label]:
    """Measure the labels of one operator, and those of maxima and biases."""
    return with_tails(name, labels.label_all(OPERATORS[name]))


def label_tails(name: str) -> dict[str, labels.Label]:
    """Measure the labels of an operator's maxima and biases, beside the stored labels."""
    return with_tails(name, labels.read()[name])


def with_tails(name: str, found: dict[str, labels.Label]) -> dict[str, labels.Label]:
    """Measure maxima and biases where averages are not worse and bits differ."""
    wanted = [change for change, label in found.items() if label.asks_for_tails]
    measured = tails.measure_tails(OPERATORS[name], wanted)
    return {change: label._replace(tails=measured.get(change)) for change, label in found.items()}


def check_labels(names: Sequence[str], jobs: int) -> int:
    """Say which stored labels do not hold at other seeds."""
    found = [line for _, lines in each(check_operator, names, jobs) for line in lines]
    print("\n".join(found) or "labels hold at other seeds")
    return int(bool(found))


def check_operator(name: str, seeds: int = 64) -> list[str]:
    """Say which labels of one operator do not hold."""
    return list(labels.contradictions(OPERATORS[name], labels.read()[name], seeds))


class Scored(NamedTuple):
    """What rules say of the changes of one operator, and what baselines from elsewhere make of it unchanged, if any."""

    rows: list[Told]
    unchanged: elsewhere.Unchanged | None


def score_operator(name: str, plan: Plan) -> Scored:
    """Ask every rule about every change of one operator in every trial."""
    found = sample_operator(name, plan.trials * plan.seeds)
    unchanged = elsewhere.unchanged(name, found[ORIGINAL], plan.seeds, plan.there) if plan.there else None
    return Scored(list(told(OPERATORS[name], found, plan)), unchanged)


def score(names: Sequence[str], plan: Plan, jobs: int, show: Callable[[Sequence[str]], str]) -> int:
    """Print the tables, each line as `show` gives it."""
    known = {name: labels.read()[name] for name in names}
    found = [one for _, one in each(partial(score_operator, plan=plan), names, jobs)]
    rows = [row for one in found for row in one.rows]
    print("\n".join(table.summary(known)))
    own = "1 seed" if plan.seeds == 1 else f"{plan.seeds} seeds"
    fewer = f"; {min(plan.paired, plan.trials)} of them go on to fresh seeds"
    print(f"\nshare of {plan.trials} trials of {own} in which each rule reports a change{fewer}")
    print("\n".join((*table.tables(rows, known, show), *table.null_controls(rows), *effort.tables(rows, known, show))))
    print("\n".join(table.mistakes(rows, known)))
    if plan.there:
        print("\nbaselines from elsewhere on operators that nobody changed")
        print("\n".join(elsewhere.lines([one.unchanged for one in found if one.unchanged])))
    return 0


def sample_operator(name: str, count: int, *, originals: bool = False) -> dict[str, list[Sample]]:
    """Run one operator at so many seeds, with its changes unless originals alone are wanted."""
    operator = OPERATORS[name]
    return samples(operator._replace(harmful={}, harmless={}) if originals else operator, range(count))


def dump(found: dict[str, dict[str, list[Sample]]], path: Path) -> int:
    """Store samples by operator, change (the original among them) and seed, with labels, groups and null controls."""
    known = labels.read()
    stored = {
        "samples": found,
        "labels": {name: known[name] for name in found},
        "held_out": sorted(held_out()),
        "written_last": sorted(written_last()),
        "null": {name: sorted(OPERATORS[name].null) for name in found},
        "environment": elsewhere.this(),
    }
    path.write_bytes(pickle.dumps(stored))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
