"""What does a history of many runs cost: its size, the addition of a run, one case's series, and drift over all cases?

A run has 100,000 cases in 500 suites. About 1 % of them change bits from run to run: 500 cases are nondeterministic and
always differ, and a commit changes two or three suites. Most changes move errors by about 0.2 %, and 1 in 40 makes a
suite worse by 10 %. With --scattered the same number of changes falls on random cases.

    python benchmarks/history_at_size.py fill PLACE RUNS [--scattered]
    python benchmarks/history_at_size.py copy FILE postgresql://...
    python benchmarks/history_at_size.py measure PLACE [STEP...]

`measure` prints one JSON object: processor seconds, and the peak of memory of each step in a process of its own.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from math import exp, log2
from pathlib import Path

from precreg.history import CaseState, History, add_run, open_history
from precreg.history.add import NewRun
from precreg.history.packing import KeptCase
from precreg.history.rows import TABLES_METADATA
from precreg.measure import baseline_metrics

CASES, SUITES, NOISY, SUITE_CHANGES = 100_000, 500, 500, 2.5
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
LOSS, LOSS_SHARE = 1.1, 1 / 40
# The usual size of a harmless change of bits, as a share of the error.
HARMLESS = 0.002


class Generator:
    """Make the states of the cases at one run after the other."""

    def __init__(self, *, scattered: bool, seed: int = 1) -> None:
        self._random, self._scattered = random.Random(seed), scattered
        self._errors = [exp(self._random.gauss(-14, 3)) for _ in range(CASES)]
        self._accepted = [self._figures(case) for case in range(CASES)]
        self._noisy = self._random.sample(range(CASES), NOISY)
        self.states = {name_of(case): self._state(case, self._accepted[case], "identical") for case in range(CASES)}

    def change(self) -> None:
        """Go to the next run."""
        draw = self._random
        if self._scattered:
            changed = draw.sample(range(CASES), int(SUITE_CHANGES * CASES / SUITES))
            factors = dict.fromkeys(changed, 1.0)
        else:
            suites = draw.sample(range(SUITES), 2 + (draw.random() < SUITE_CHANGES % 1))
            factors = {case: LOSS if draw.random() < LOSS_SHARE else 1.0 for case in suites}
            factors = {case: factor for suite, factor in factors.items() for case in range(suite, CASES, SUITES)}
        for case in self._noisy:
            factors.setdefault(case, 1.0)
        for case, factor in factors.items():
            self._errors[case] *= factor
            self.states[name_of(case)] = self._state(case, self._figures(case), "within_tolerance")

    def _figures(self, case: int) -> dict[str, float]:
        error, draw = self._errors[case] * exp(self._random.gauss(0, HARMLESS)), self._random.gauss
        made = {metric: error * (at + 1) * exp(draw(0, HARMLESS)) for at, metric in enumerate(baseline_metrics())}
        made["bias"] = error * draw(0, 0.1)
        made["mean_log2_ulp"] = log2(made["mean_ulp"])
        made["match_ratio"] = made["equal_share"] = max(0.0, 1 - made["equal_share"])
        return made

    def _state(self, case: int, figures: dict[str, float], reason: str) -> CaseState:
        accepted = self._accepted[case]
        outputs = {"out": {metric: (figures[metric], accepted[metric]) for metric in sorted(figures)}}
        return CaseState.of(KeptCase(f"1:{case:032x}", reason, outputs))


def name_of(case: int) -> str:
    """Return the id of a case."""
    return f"unit/suite_{case % SUITES:03}/float32-{case // SUITES}x{case % 7 + 1}x768"


def fill(place: str, runs: int, *, scattered: bool) -> None:
    """Add runs to a history until it has so many, and print the processor time and the size of some."""
    made, digest = Generator(scattered=scattered), f"{random.Random(2).getrandbits(128):032x}"
    facts = {f"fact_{at}": f"a value of the environment {at}" for at in range(20)}
    with open_history(place, project="demo", create=True) as history:
        for number in range(1, runs + 1):
            run = NewRun(
                identity=f"{digest}{number}",
                started=(FIRST + timedelta(days=number)).isoformat(),
                commit=f"{number:040x}",
                branch="main",
                dirty=False,
                environment="cpu-avx512-openblas",
                fingerprint="f00d",
                facts=facts,
                precreg="0.1.0",
                exit_code=0,
            )
            began = time.process_time()
            with history._database.writing() as connection:
                add_run(connection, run, made.states)
            seconds = time.process_time() - began
            if number in (1, 2, 10, 100, 300, 1000) or number == runs:
                print(json.dumps({"runs": number, "add_cpu_s": round(seconds, 3), "mb": size_mb(place)}), flush=True)
            made.change()


def size_mb(place: str) -> float | None:
    """Return the size of a file, or of the tables and indices of a server's database."""
    if "://" not in place:
        return round(Path(place).stat().st_size / 1e6, 1)
    import psycopg

    with psycopg.connect(place) as connection:
        query = (
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relname LIKE 'precreg_%' AND relkind='r'"
        )
        return round(int(connection.execute(query).fetchone()[0]) / 1e6, 1)


def copy_to_server(place: str, url: str) -> None:
    """Copy the tables of a SQLite file to a server, as `fill` would write them, in less time."""
    import psycopg

    with open_history(url, project="demo", create=True):
        pass
    source = sqlite3.connect(f"file:{place}?mode=ro", uri=True)
    with psycopg.connect(url) as target:
        for table in TABLES_METADATA.sorted_tables:
            target.execute(f"DELETE FROM {table.name}")
            names = ", ".join(column.name for column in table.columns)
            flags = [column.name == "dirty" for column in table.columns]
            with target.cursor().copy(f"COPY {table.name} ({names}) FROM STDIN") as stream:
                for row in source.execute(f"SELECT {names} FROM {table.name}"):
                    stream.write_row([bool(one) if flag else one for one, flag in zip(row, flags, strict=True)])
        target.commit()
        target.autocommit = True
        target.execute("VACUUM ANALYZE")
    print(json.dumps({"mb": size_mb(url)}))


def one_series(history: History) -> object:
    """Read every series of one case 21 times, with the runs of a history open; milliseconds of processor time."""
    taken = []
    with history.one_state():
        for case in range(21):
            began = time.process_time()
            found = list(history.series("cpu-avx512-openblas", cases=[name_of(case * 37)]))
            taken.append(1000 * (time.process_time() - began))
    points = sum(len(one.points) for one in found)
    return {
        "series": len(found),
        "points": points,
        "first_ms": round(taken[0], 2),
        "median_ms": round(sorted(taken)[10], 2),
    }


def drift(history: History, limit: int | None = None) -> object:
    """Judge all cases as `precreg drift` does."""
    from precreg.history.drift import DriftSettings, monitor

    runs = history.runs()[-240:]
    environment = runs[-1].environment
    cases = [] if limit is None else [name_of(case) for case in range(limit)]
    if hasattr(monitor, "judge_history"):
        found = monitor.judge_history(history, environment, runs, None, DriftSettings(), cases=cases)
    else:
        series = history.series(environment, since=runs[0].number, cases=cases)
        found = monitor.judge_series(series, runs, None, DriftSettings())
    states: dict[str, int] = {}
    for result in found.results:
        states[result.state] = states.get(result.state, 0) + 1
    return {"states": states, "modes": found.modes}


def drift_of_some(history: History) -> object:
    """Judge 500 cases."""
    return drift(history, 500)


def export(history: History) -> object:
    """Write the history as lines."""
    return {"mb": round(sum(map(len, history.export())) / 1e6, 1)}


def export_parquet(history: History) -> object:
    """Write the history as a Parquet file; needs precreg[parquet]."""
    with tempfile.TemporaryFile() as stream:
        rows = history.export_parquet(stream)
        return {"rows": rows, "mb": round(stream.tell() / 1e6, 1)}


def page(history: History) -> object:
    """Read 50 cases as `precreg history page` does."""
    from precreg.history.drift import TrendOptions, read_trends

    options = TrendOptions([name_of(case) for case in range(50)])
    return {"cases": len(read_trends(history, options, version="", made="").cases)}


STEPS: dict[str, Callable[[History], object]] = {
    "series": one_series,
    "page of 50": page,
    "parquet": export_parquet,
    "drift of 500": drift_of_some,
    "drift": drift,
    "export": export,
}


def step(place: str, name: str) -> None:
    """Do one step, and print its costs."""
    with open_history(place, project="demo") as history:
        began, wall = time.process_time(), time.perf_counter()
        result = STEPS[name](history)
        costs = {
            "cpu_s": round(time.process_time() - began, 2),
            "wall_s": round(time.perf_counter() - wall, 2),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
    print(json.dumps({"step": name, **costs, "result": result}), flush=True)


def lines(place: str, names: list[str]) -> Iterator[str]:
    """Yield the costs of each step, each in a process of its own: its peak of memory is then its own."""
    for name in names:
        command = [sys.executable, __file__, "step", place, name]
        yield subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ).stdout


def main(command: str, place: str, *arguments: str) -> None:
    """Run a command of this program."""
    if command == "copy":
        copy_to_server(place, arguments[0])
    elif command == "fill":
        fill(place, int(arguments[0]), scattered="--scattered" in arguments)
    elif command == "step":
        step(place, arguments[0])
    else:
        for line in lines(place, [*arguments] or [*STEPS]):
            print(line, end="", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
