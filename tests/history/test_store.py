"""A history gives back what was put in, whatever the order, the number of writers, and what was removed meanwhile.

tests/postgresql runs all of this on a server; the places come from `new_place` of its conftest.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from precreg.errors import UserError
from precreg.history.rows import HISTORY_TABLE
from precreg.history.store import open_history
from tests.e2e.command import PATIENCE_S
from tests.history.made import FIRST, SKIPPED, baseline, outcome_of, points, record, result, started

ROOT = Path(__file__).parents[2]
A, B, C = "unit/s/a", "unit/s/b", "model/m/c"


@pytest.fixture
def history(new_place):
    with open_history(new_place(), project="demo", create=True) as opened:
        yield opened


def changes(history):
    """By case, at which runs the history has a row."""
    lines = [msgspec.json.decode(line) for line in history.export()]
    return {line["case"]: [int(run) for run in line["changes"]] for line in lines if "case" in line}


def test_what_was_added_is_read_back_oldest_first(history):
    for minutes, figure in enumerate((0.1, 0.1, 1 / 3, 5e-324)):
        assert history.add(record(minutes, {A: figure, B: 2.0}, accepted=0.125)) == minutes + 1
    expected = {A: [(1, 0.1, 0.125), (2, 0.1, 0.125), (3, 1 / 3, 0.125), (4, 5e-324, 0.125)]}
    assert points(history.series("cpu", cases=["/a"])) == expected
    assert [(series.case, series.output, series.metric) for series in history.series("cpu")] == [
        (A, "out", "mean_abs_error"),
        (B, "out", "mean_abs_error"),
    ]


def test_what_is_known_of_a_run(history):
    history.add(record(7, {A: 1.0}, label="npu-910", git=None, exit_code=1))
    history.add(record(3, {A: 1.0}))
    late, run = history.runs()
    assert (late.number, late.started, late.commit, late.branch) == (2, started(3), f"{3:040x}", "main")
    assert (run.number, run.started, run.commit, run.branch, run.dirty) == (1, started(7), "", "", False)
    assert (run.environment, run.fingerprint, run.facts) == ("npu-910", "f00d", {"numpy": "2.4.0"})
    assert (run.precreg, run.exit_code) == ("0.1.0", 1)
    assert history.runs("npu-910") == (run,)
    assert history.environments() == ("cpu", "npu-910")


def test_only_what_changed_is_stored(history):
    for minutes in range(6):
        history.add(record(minutes, {A: 1.0, B: float(minutes // 3)}))
    assert changes(history) == {A: [1], B: [1, 4]}


def test_the_same_run_is_kept_once(history):
    assert history.add(record(0, {A: 1.0})) == 1
    assert history.add(record(0, {A: 1.0})) is None
    assert history.add(record(0, {A: 1.0}, duration_s=1.6)) == 2
    assert len(history.runs()) == 2


def test_a_case_that_failed_has_a_point_without_a_value_and_one_that_was_not_run_has_none(history):
    for minutes, figures in enumerate(({A: 1.0, B: 1.0}, {A: None, B: 1.0}, {A: SKIPPED}, {A: 1.0})):
        history.add(record(minutes, figures))
    assert points(history.series("cpu")) == {
        A: [(1, 1.0, 1.0), (2, None, None), (4, 1.0, 1.0)],
        B: [(1, 1.0, 1.0), (2, 1.0, 1.0)],
    }


def test_a_metric_that_is_not_defined_at_a_run_has_no_value_there(history):
    history.add(record(0, {A: 1.0}))
    undefined = outcome_of(A, [2.0])
    undefined.comparisons[0].metrics.clear()
    history.add(record(1, {}, results=(msgspec.structs.replace(result(A, 2.0), outcome=undefined),)))
    assert points(history.series("cpu")) == {A: [(1, 1.0, 1.0), (2, None, 1.0)]}


def test_means_are_taken_over_the_seeds_that_the_baseline_has(history):
    seeds = msgspec.structs.replace(result(A, 0.0), outcome=outcome_of(A, [1.0, 3.0, 8.0]))
    for minutes, accepted in enumerate((baseline([2.0, 4.0]), baseline([2.0]), None)):
        history.add(record(minutes, {}, results=(msgspec.structs.replace(seeds, baseline=accepted),)))
    assert points(history.series("cpu")) == {A: [(1, 2.0, 3.0), (2, 1.0, 2.0), (3, 4.0, None)]}


@pytest.mark.parametrize("change", [{"definition": "1:e"}, {"inputs": ["other"]}])
def test_a_baseline_of_something_else_is_no_accepted_value(history, change):
    accepted = baseline([2.0])
    other = msgspec.structs.replace(accepted, entry=msgspec.structs.replace(accepted.entry, **change))
    history.add(record(0, {}, results=(msgspec.structs.replace(result(A, 1.0), baseline=other),)))
    assert points(history.series("cpu")) == {A: [(1, 1.0, None)]}


def test_runs_that_defined_a_case_otherwise_are_left_out(history):
    for minutes, definition in enumerate(("1:d", "1:e", "1:e")):
        history.add(record(minutes, {A: float(minutes)}, definition=definition))
    assert points(history.series("cpu")) == {A: [(2, 1.0, 1.0), (3, 2.0, 1.0)]}


def test_series_since_a_run_start_with_the_figures_of_that_run(history):
    for minutes in range(4):
        history.add(record(minutes, {A: 1.0, B: float(minutes)}))
    assert points(history.series("cpu", since=3)) == {
        A: [(3, 1.0, 1.0), (4, 1.0, 1.0)],
        B: [(3, 2.0, 1.0), (4, 3.0, 1.0)],
    }
    with pytest.raises(UserError, match="run=9") as problem:
        list(history.series("cpu", since=9))
    assert problem.value.slug == "bad-value"


@pytest.mark.parametrize(("pattern", "found"), [(A, [A]), ("unit/", [A, B]), ("*/c", [C]), ("x", [])])
def test_series_of_the_cases_that_are_named(history, pattern, found):
    history.add(record(0, {A: 1.0, B: 1.0, C: 1.0}))
    assert [series.case for series in history.series("cpu", cases=[pattern])] == found


def test_more_cases_than_are_read_at_once(history):
    figures = {f"unit/s/case-{number:04}": float(number) for number in range(1203)}
    for minutes in (0, 2, 1):
        history.add(record(minutes, figures | {f"unit/s/case-{minutes:04}": None}))
    found = points(history.series("cpu"))
    assert list(found) == list(figures)
    assert found["unit/s/case-0001"] == [(1, 1.0, 1.0), (3, None, None), (2, 1.0, 1.0)]
    assert found["unit/s/case-1202"] == [(1, 1202.0, 1.0), (3, 1202.0, 1.0), (2, 1202.0, 1.0)]


FIGURES = st.dictionaries(st.sampled_from([A, B, C]), st.sampled_from([1.0, 2.0, None, SKIPPED]))
RUN = st.tuples(st.integers(0, 30), st.sampled_from(["cpu", "npu"]), FIGURES, st.sampled_from(["1:d", "1:d", "1:e"]))
OPERATION = st.one_of(
    st.tuples(st.just("add"), RUN),
    st.tuples(st.just("import"), st.lists(RUN, max_size=4)),
    st.tuples(st.just("prune"), st.integers(1, 3), st.sets(st.integers(0, 30), max_size=2)),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(OPERATION, max_size=8))
def test_a_history_is_a_plain_list_of_runs_whatever_was_done_to_it(new_place, operations):
    """Runs come late, from other histories, and go; a list that keeps every figure of every run says the same.

    Every transaction is flushed to the disk, so the examples are few; those of test_coding.py are many.
    """
    kept = {}
    with open_history(new_place(), project="demo", create=True) as history:
        for kind, *details in operations:
            OPERATIONS[kind](history, kept, new_place, *details)
            for label in ("cpu", "npu"):
                numbers = {run.number: run.started for run in history.runs(label)}
                assert list(numbers.values()) == sorted(started(key[0]) for key in kept if key[1] == label)
                found = points(history.series(label))
                by_start = {case: [(numbers[n], *rest) for n, *rest in of_case] for case, of_case in found.items()}
                assert by_start == plain_series(kept, label)
        check_minimal(history)


def unseen(kept, run):
    """One run a minute and environment: of two that start together, the first to be added is the first."""
    return run[:2] not in kept


def add(history, kept, _new_place, run):
    minutes, label, figures, definition = run
    if unseen(kept, run):
        assert history.add(record(minutes, figures, label=label, definition=definition)) is not None
        kept[run[:2]] = run


def import_(history, kept, new_place, runs):
    """Import a history that has some runs of this one, and others."""
    with open_history(new_place(), project="demo", create=True) as other:
        there = {}
        for run in [*list(kept.values())[::2], *(run for run in runs if unseen(kept, run))]:
            add(other, there, new_place, run)
        added = len(there.keys() - kept.keys())
        assert history.import_lines(list(other.export()), "other") == added
        assert history.import_lines(list(other.export()), "other") == 0
        kept |= there


def prune(history, kept, _new_place, keep, minutes):
    commits = {f"{minute:040x}" for minute in minutes}
    removed = {run.number for run in history.prune(keep=keep, keep_commits=commits)}
    assert not removed & {run.number for run in history.runs()}
    for label in ("cpu", "npu"):
        order = sorted(key for key in kept if key[1] == label)
        for key in order[:-keep]:
            if key[0] not in minutes:
                del kept[key]


OPERATIONS = {"add": add, "import": import_, "prune": prune}


def plain_series(kept, label):
    """What `points` gives, with starts for numbers, from a list that has every figure of every run."""
    found, definitions = {}, {}
    for minutes, _, figures, definition in sorted(
        (run for run in kept.values() if run[1] == label), key=lambda r: r[0]
    ):
        for case, figure in figures.items():
            if figure != SKIPPED:
                point = (started(minutes), figure, None if figure is None else 1.0)
                found.setdefault(case, []).append((definition, point))
                definitions[case] = definition
    alike = {c: [point for d, point in of_case if d == definitions[c]] for c, of_case in sorted(found.items())}
    return {c: of_case for c, of_case in alike.items() if any(value is not None for _, value, _ in of_case)}


def check_minimal(history):
    """No row repeats the one before it."""
    for line in map(msgspec.json.decode, history.export()):
        if "case" in line:
            rows = list(line["changes"].values())
            assert all(earlier != later for earlier, later in pairwise(rows))


def test_an_export_makes_the_same_history_elsewhere(history, new_place):
    for minutes, figures in ((0, {A: 0.1, B: None}), (2, {A: 0.1}), (1, {A: 0.2, C: 1.0})):
        history.add(record(minutes, figures))
    history.add(record(5, {A: 1.0}, label="npu"))
    history.prune(keep=2)
    lines = list(history.export())
    with open_history(new_place(), project="demo", create=True) as other:
        assert other.import_lines(lines, "export") == 3
        assert list(other.export()) == lines
        assert other.runs() == history.runs()
        assert other.add(record(6, {A: 0.1})) == history.add(record(6, {A: 0.1})) == 5


def test_the_number_of_a_run_that_was_removed_is_never_used_again(history):
    for minutes in range(3):
        history.add(record(minutes, {A: 1.0}))
    assert [run.number for run in history.prune(before=(FIRST.replace(day=2)).isoformat())] == [1, 2, 3]
    assert history.add(record(3, {A: 1.0})) == 4
    assert points(history.series("cpu")) == {A: [(4, 1.0, 1.0)]}


def test_what_prune_removes(history):
    for minutes in range(4):
        history.add(record(minutes, {A: 1.0}))
        history.add(record(minutes, {A: 1.0}, label="npu"))
    removed = history.prune(before=started(3), keep=2, keep_commits=[f"{0:040x}"])
    assert Counter((run.environment, run.started) for run in removed) == {
        ("cpu", started(1)): 1,
        ("npu", started(1)): 1,
    }
    with pytest.raises(ValueError, match="number of runs to keep"):
        history.prune()


def test_a_history_thins_to_the_last_run_of_each_week(history):
    """Runs of 30 days at 3:00, from Sunday 1 November 2026 on; two machines take turns."""
    days = 24 * 60
    for day in range(30):
        history.add(record(day * days, {A: float(day)}, label=("cpu", "npu")[day % 2]))
    before = {number: value for number, value, _ in points(history.series("cpu"))[A]}
    removed = history.prune(weekly_before=started(20 * days), keep_commits=[f"{2 * days:040x}"])
    kept = {label: [int(run.started[8:10]) for run in history.runs(label)] for label in ("cpu", "npu")}
    # Sundays are 1, 8, 15, 22 and 29; a week has its own last run on each machine.
    assert kept == {"cpu": [1, 3, 7, 15, 21, 23, 25, 27, 29], "npu": [8, 14, 22, 24, 26, 28, 30]}
    assert len(removed) == 30 - 16
    after = {number: value for number, value, _ in points(history.series("cpu"))[A]}
    assert after == {number: before[number] for number in after}
    assert history.prune(weekly_before=started(20 * days), keep_commits=[f"{2 * days:040x}"]) == ()


def error_of(place, project="demo", **options):
    with pytest.raises(UserError) as problem, open_history(place, project=project, **options):
        pass
    return problem.value


def test_a_history_of_another_project_is_refused(history, new_place):
    place = new_place()
    with open_history(place, project="other", create=True) as other:
        lines = list(other.export())
    assert error_of(place).slug == error_of(place, create=True).slug == "other-project"
    for attempt in (lambda: history.import_lines(lines, "x"), lambda: history.add(record(0, {}, project="other"))):
        with pytest.raises(UserError, match="demo but got project=other"):
            attempt()


def test_a_history_of_a_newer_version_is_refused(new_place):
    place = new_place()
    with open_history(place, project="demo", create=True) as history, history._database.writing() as connection:
        connection.execute(update(HISTORY_TABLE).values(version="precreg-history/3"))
    assert error_of(place).slug == "future-schema"


def test_a_history_that_is_there_is_not_begun_again(new_place):
    place = new_place()
    with open_history(place, project="demo", create=True) as history:
        history.add(record(0, {A: 1.0}))
    with open_history(place, project="demo", create=True) as history:
        assert len(history.runs()) == 1


def test_who_waits_too_long_for_another_writer_is_told(new_place):
    place = new_place()
    with (
        open_history(place, project="demo", create=True) as history,
        open_history(place, project="demo", wait_s=0.1) as late,
        history._database.writing(),
        pytest.raises(UserError) as problem,
    ):
        late.add(record(0, {A: 1.0}))
    assert problem.value.slug == "locked"
    assert late.add(record(0, {A: 1.0})) == 1


def process(place, code, *arguments):
    """Start a process that has the history open as `history`, and wait for its first line."""
    begin = "import os, signal, sys\nfrom precreg.history.store import open_history\nfrom tests.history.made import *\n"
    begin += f"history = open_history({place!r}, project='demo')\nprint('open', flush=True)\nsys.stdin.readline()\n"
    command = [sys.executable, "-c", begin + code, *arguments]
    started = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout.readline() == "open\n"
    return started


def test_of_two_monitors_that_write_at_once_every_run_is_kept(new_place):
    """Each adds ten runs between those of the other, as fast as it can."""
    place, runs = new_place(), 10
    code = "for n in range(10): history.add(record(2 * n + int(sys.argv[1]), {'unit/s/a': float(n // 3)}))\n"
    with open_history(place, project="demo", create=True) as history:
        monitors = [process(place, code, str(number)) for number in range(2)]
        for monitor in monitors:
            monitor.stdin.write("go\n")
            monitor.stdin.flush()
        assert [monitor.wait(60) for monitor in monitors] == [0, 0]
        assert sorted(run.number for run in history.runs()) == list(range(1, 2 * runs + 1))
        values = [value for _, value, _ in points(history.series("cpu"))["unit/s/a"]]
        assert values == [float(n // 3) for n in range(runs) for _ in range(2)]


@pytest.mark.parametrize(
    "inside",
    ["add_run(connection, new_run(run, kept), kept)", "remove_runs(connection, stored_runs(connection)[:2])"],
    ids=["add", "prune"],
)
def test_a_kill_in_the_middle_leaves_what_was_there(new_place, inside):
    place = new_place()
    code = f"""
from precreg.history.add import add_run, new_run
from precreg.history.exchange import remove_runs
from precreg.history.runs import stored_runs
from precreg.history.states import case_states
run = record(1, {{'unit/s/a': 9.0, 'unit/s/new': 1.0}})
kept = case_states(run)
with history._database.writing() as connection:
    {inside}
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with open_history(place, project="demo", create=True) as history:
        for minutes in (0, 2, 4):
            history.add(record(minutes, {A: float(minutes)}))
        before = list(history.export())
        killed = process(place, code)
        killed.communicate("go\n", timeout=PATIENCE_S)
        assert killed.returncode == -signal.SIGKILL
        assert list(history.export()) == before
        assert history.add(record(6, {A: 1.0})) == 4


def test_a_reader_sees_one_state_while_another_writes(new_place):
    """A row that is read late belongs to the runs that were read early, within one call and within one_state."""
    place = new_place()
    figures = {f"unit/s/case-{number:04}": 1.0 for number in range(600)}
    with open_history(place, project="demo", create=True) as history:
        history.add(record(0, figures))
        series = history.series("cpu")
        first = next(series)
        with history.one_state():
            assert len(history.runs()) == 1
            writer = process(place, "history.add(record(1, {'unit/s/case-0599': 2.0}))\n")
            writer.stdin.write("go\n")
            writer.stdin.flush()
            if not os.path.exists(place):  # a server writes beside the reader; a file waits for it
                assert writer.wait(60) == 0
            assert points([first, *series]) == {case: [(1, 1.0, 1.0)] for case in figures}
            assert points(history.series("cpu")) == {case: [(1, 1.0, 1.0)] for case in figures}
            assert len(history.runs()) == 1
        assert writer.wait(60) == 0
        assert len(history.runs()) == len(points(history.series("cpu"))["unit/s/case-0599"]) == 2


@pytest.mark.parametrize("started", ["yesterday", "", "2026-13-01T00:00:00+00:00"])
def test_a_start_that_is_no_time_is_refused(history, started):
    with pytest.raises(UserError) as problem:
        history.add(record(0, {A: 1.0}, started=started))
    assert problem.value.slug == "unreadable-record"


def test_times_of_any_zone_are_compared_as_moments(history):
    history.add(record(0, {A: 1.0}, started="2026-11-01T03:30:00+02:00"))
    history.add(record(0, {A: 2.0}, started="2026-11-01T02:00:00.5+00:00"))
    history.add(record(0, {A: 3.0}, started="2026-11-01T02:00:00+00:00"))
    assert [run.number for run in history.runs()] == [1, 3, 2]
    assert history.runs()[0].started == "2026-11-01T01:30:00+00:00"
