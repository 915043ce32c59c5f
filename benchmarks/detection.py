"""How many harmful changes are noticed, and how many harmless ones are reported, by precreg and by rules in use.

Prints, for operators that thresholds may be chosen on, for those held out and for those written last, the share of
trials in which each rule reports a change, by how much the change truly costs. Then it prints the share of null
controls that each rule reports, and every change that precreg missed or reported wrongly.
docs/detection.md tells how labels are measured and how to read the tables.

python benchmarks/detection.py [OPERATOR ...] [--trials 20] [--jobs 1] [--markdown]
python benchmarks/detection.py --label          measure all labels anew and store them (minutes)
python benchmarks/detection.py OPERATOR --label measure the labels of one operator, and keep the others'
python benchmarks/detection.py --tails          measure the labels of maxima and biases alone (minutes)
python benchmarks/detection.py --check          measure at other seeds, and say what contradicts stored labels
python benchmarks/detection.py --dump FILE      store every measurement and label, so that rules can be tried on them
python benchmarks/detection.py --against FILE   judge by what the originals gave in another environment, stored so
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from detecting import elsewhere, labels, table, tails
from detecting.measured import ORIGINAL, Sample, samples
from detecting.operators import OPERATORS, held_out, written_last
from detecting.rules import CASE
from detecting.trials import PAIR, PAIRED, Told, told


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
    if asked.against:
        return judge_elsewhere(names, asked.trials, asked.against)
    if asked.dump:
        return dump(names, asked.trials, asked.jobs, asked.dump)
    return score(names, asked.trials, asked.jobs, table.in_markdown if asked.markdown else table.in_columns)


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="detection.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR")
    parser.add_argument("--trials", type=int, default=20, help="trials of three seeds each")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--markdown", action="store_true", help="print tables as a page has them")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--label", action="store_true", help="measure labels and store them")
    what.add_argument("--tails", action="store_true", help="measure labels of maxima and biases, keep the others")
    what.add_argument("--check", action="store_true", help="hold stored labels against other seeds")
    what.add_argument("--against", type=Path, metavar="FILE", help="judge by the originals of another environment")
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
    others = sorted(known.keys() - set(names))
    if others and labels.measured_on() != labels.machine():
        print(f"the labels of {len(others)} other operators were measured on {labels.measured_on()}", file=sys.stderr)
        print(f"this is {labels.machine()}: measure all labels here, with no operator named", file=sys.stderr)
        return 2
    for name, found in each(measure, names, jobs):
        known[name] = found
        print(f"{name}: {len(found)} changes, {max(one.seeds for one in found.values())} seeds at most", flush=True)
        labels.write(known)
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


def score_operator(name: str, count: int) -> list[Told]:
    """Ask every rule about every change of one operator in every trial."""
    return list(told(OPERATORS[name], sample_operator(name, count)))


def score(names: Sequence[str], count: int, jobs: int, show: Callable[[Sequence[str]], str]) -> int:
    """Print the tables, each line as `show` gives it."""
    known = {name: labels.read()[name] for name in names}
    rows = [row for _, found in each(partial(score_operator, count=count), names, jobs) for row in found]
    print("\n".join(table.summary(known)))
    fewer = f"; {PAIR} is asked in {PAIRED} of them" if count > PAIRED else ""
    print(f"\nshare of {count} trials of {CASE.seeds} seeds in which each rule reports a change{fewer}")
    print("\n".join((*table.tables(rows, known, show), *table.null_controls(rows))))
    print("\n".join((*table.effort(rows, known), *table.mistakes(rows, known))))
    return 0


def sample_operator(name: str, count: int) -> dict[str, list[Sample]]:
    """Run one operator and its changes at the seeds of every trial."""
    return samples(OPERATORS[name], range(CASE.seeds * count))


def dump(names: Sequence[str], count: int, jobs: int, path: Path) -> int:
    """Store samples by operator, change (the original among them) and seed, with labels, groups and null controls."""
    known = labels.read()
    found = dict(each(partial(sample_operator, count=count), names, jobs))
    stored = {
        "samples": found,
        "labels": {name: known[name] for name in names},
        "held_out": sorted(held_out()),
        "written_last": sorted(written_last()),
        "null": {name: sorted(OPERATORS[name].null) for name in names},
        "environment": elsewhere.this(),
    }
    path.write_bytes(pickle.dumps(stored))
    return 0


def judge_elsewhere(names: Sequence[str], count: int, path: Path) -> int:
    """Judge by what originals gave in another environment, changed or not."""
    there = pickle.loads(path.read_bytes())
    found = []
    for name in names:
        of_originals = there["samples"][name][ORIGINAL]
        found.append(elsewhere.judged(name, sample_operator(name, count), of_originals, there["environment"]))
    print("\n".join(elsewhere.lines(found, labels.read())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
