"""What a run costs that is kept: changed rows alone against a plain table of every case at every run, SQLite both.

100,000 cases of one output with every metric that baselines keep; one case in a hundred changes from run to run. First
it is checked that both give the same series. Usage: python benchmarks/history.py [RUNS]
"""

from __future__ import annotations

import gc
import random
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from precreg.history import CaseState, History, add_run, case_states, decode_state, new_run, open_history
from precreg.measure import baseline_metrics
from precreg.types import (
    RECORD_SCHEMA,
    Baseline,
    BaselineEntry,
    BaselineOutput,
    CaseResult,
    Comparison,
    Environment,
    Execution,
    Location,
    Outcome,
    Reason,
    RunRecord,
    Status,
    Verdict,
)

CASES, CHANGED, CHECKED = 100_000, 1_000, "unit/s0/"
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


class Plain:
    """Every case at every run: what one would write first."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("CREATE TABLE cases (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        self.connection.execute(
            "CREATE TABLE states (case_id INTEGER, run INTEGER, state TEXT, PRIMARY KEY (case_id, run)) WITHOUT ROWID"
        )

    def add(self, number: int, kept: dict[str, CaseState]) -> None:
        """Write a row for each case."""
        with self.connection:
            self.connection.executemany("INSERT OR IGNORE INTO cases (name) VALUES (?)", ((name,) for name in kept))
            ids = dict(self.connection.execute("SELECT name, id FROM cases"))
            rows = ((ids[name], number, state.text) for name, state in kept.items())
            self.connection.executemany("INSERT INTO states VALUES (?, ?, ?)", rows)

    def values(self) -> Iterator[tuple[str, str, int, float | None, float | None]]:
        """Yield (case, metric, run, value, accepted) of the cases that are checked."""
        asked = "SELECT name, run, state FROM states JOIN cases ON id = case_id WHERE name LIKE ?"
        for name, run, state in self.connection.execute(asked, (CHECKED + "%",)):
            for metric, (value, accepted) in decode_state(state).outputs["out"].items():
                yield name, metric, run, value, accepted


def values(history: History) -> Iterator[tuple[str, str, int, float | None, float | None]]:
    """Yield the same of a history."""
    for series in history.series("cpu", cases=[CHECKED]):
        for point in series.points:
            yield series.case, series.metric, point.run, point.value, point.accepted


def result(number: int, generator: random.Random) -> CaseResult:
    """Make one case that passed, with figures of its own."""
    suite, name = f"s{number % 50}", f"float32-{number}"
    figures = {metric: generator.random() for metric in baseline_metrics()}
    accepted = BaselineOutput("float32", (64,), ["d"], {metric: [generator.random()] for metric in baseline_metrics()})
    entry = BaselineEntry("1:d", ["i"], "why", "Ada", "2026-01-01", "c0", "f00d", 1.0, {"out": accepted})
    measured = Comparison("out", 0, "float32", (64,), "float64", (64,), figures, {"n": 64})
    outcome = Outcome(f"unit/{suite}/{name}", "1:d", Execution(("i",), {"out": ("d",)}, 1e-3), (measured,))
    return CaseResult(
        id=f"unit/{suite}/{name}",
        tier="unit",
        suite=suite,
        name=name,
        source=Location("suites/unit/s.yaml", 1),
        role="reference",
        definition="1:d",
        parameters={},
        tags=(),
        outcome=outcome,
        verdict=Verdict(Status.PASSED, Reason.WITHIN_TOLERANCE, ""),
        baseline=Baseline(entry, "generic", "baselines/generic/unit/s.json"),
    )


def records(runs: int) -> Iterator[RunRecord]:
    """Yield the first run and those that change a hundredth of it."""
    generator = random.Random(1)
    results = [result(number, generator) for number in range(CASES)]
    for number in range(runs + 1):
        for changed in generator.sample(range(CASES), CHANGED) if number else ():
            results[changed] = result(changed, generator)
        yield RunRecord(
            schema=RECORD_SCHEMA,
            precreg="0.1.0",
            project="demo",
            started=(FIRST + timedelta(days=number)).isoformat(),
            duration_s=1.0,
            environment=Environment("cpu", ("cpu",), "f00d", {"numpy": "2.4.0"}),
            git=None,
            selection={},
            ci=True,
            results=tuple(results),
        )


def seconds(begun: float) -> float:
    """Return what has passed since."""
    return perf_counter() - begun


def main(runs: int) -> None:
    """Add the runs to both, in turn; check; print the least time of a run after the first."""
    gc.disable()  # the records that are kept for both would be searched at random moments
    with tempfile.TemporaryDirectory() as folder:
        places = {"history": Path(folder, "history.sqlite"), "plain": Path(folder, "plain.sqlite")}
        with open_history(places["history"], project="demo", create=True) as history:
            plain = Plain(places["plain"])
            times: dict[str, list[float]] = {"history": [], "plain": [], "states": []}
            sizes: dict[str, list[int]] = {"history": [], "plain": []}
            for number, record in enumerate(records(runs), start=1):
                begun = perf_counter()
                kept = case_states(record)
                times["states"].append(seconds(begun))
                begun = perf_counter()
                plain.add(number, kept)
                times["plain"].append(times["states"][-1] + seconds(begun))
                begun = perf_counter()
                with history._database.writing() as connection:
                    assert add_run(connection, new_run(record, kept), kept) == number
                times["history"].append(times["states"][-1] + seconds(begun))
                for form, place in places.items():
                    sizes[form].append(place.stat().st_size)
            same = sorted(plain.values(), key=repr) == sorted(values(history), key=repr)
            assert same, "the two forms give other series"
    _show(times, sizes, runs)


def _show(times: dict[str, list[float]], sizes: dict[str, list[int]], runs: int) -> None:
    took = {form: min(of_form[1:]) for form, of_form in times.items()}
    grown = {form: (of_form[-1] - of_form[0]) / runs for form, of_form in sizes.items()}
    print(f"{CASES} cases, {CHANGED} of them changed a run, {runs} runs after the first; both give the same series")
    print(f"{'':34} {'history':>10} {'plain':>10} {'ratio':>8}")
    stored = {form: took[form] - took["states"] for form in grown}
    for name, unit, of in (
        ("a run, from its record", "s", took),
        ("of it, what the database takes", "s", stored),
        ("growth of the file a run", "MB", {form: size / 1e6 for form, size in grown.items()}),
    ):
        ratio = of["history"] / of["plain"]
        print(f"{name:<31}{unit:>3} {of['history']:>10.3f} {of['plain']:>10.3f} {ratio:>8.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
