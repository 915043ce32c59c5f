"""Files of another kind, or without permission, in place of ours: one message with the file, and no command waits."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from tests.e2e.command import copy_of, environ, precreg, with_suite
from tests.e2e.test_bad_input import GOOD, clear, powerless
from tests.e2e.test_road import BASELINE, ROAD
from tests.fuzz.mutate import dice_of, mutant


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with proposals, a record, a journal, a history and its export."""
    project = copy_of(ROAD, tmp_path_factory.mktemp("made"))
    precreg(project, "run")
    assert precreg(project, "history", "add", "reports", "--create").returncode == 0
    assert precreg(project, "history", "export", "export.jsonl").returncode == 0
    np.save(project / "x.npy", np.arange(4.0))
    return project


@pytest.fixture
def project(made, tmp_path):
    shutil.copytree(made, tmp_path / "demo", symlinks=True)
    # The name of a project is that of its folder, and a history knows it.
    (tmp_path / "demo").rename(tmp_path / made.name)
    return tmp_path / made.name


def fifo(path):
    os.mkfifo(path)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # the path of a socket has at most 107 bytes
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


def loop(path):
    path.symlink_to(path.name)


KINDS = {"fifo": fifo, "folder": lambda path: path.mkdir(), "socket": a_socket, "loop": loop}
# The file, the command that reads it, and the slugs that it may have.
PLACES = {
    "baseline": (BASELINE.as_posix(), ["run"], "unreadable-baseline"),
    "baseline list": (BASELINE.as_posix(), ["baseline", "list"], "unreadable-baseline"),
    "environments": ("baselines/environments.json", ["explain", "row_sum"], "unreadable-baseline"),
    "suite": ("suites/unit/row_sum.yaml", ["list"], "missing-file"),
    "tolerances": ("suites/tolerances.yaml", ["list"], "missing-file"),
    "proposals": (".precreg/proposals/unit/row_sum.json", ["baseline", "diff"], "unreadable-proposals"),
    "seen": (".precreg/seen.json", ["baseline", "diff"], "unreadable-proposals"),
    "lock": (".precreg/baselines.lock", ["baseline", "reject", "row_sum"], "not-writable"),
    "journal": (".precreg/journal.jsonl", ["run", "--resume", "--jobs", "0"], "not-writable"),
    "record": ("reports/record.json", ["report", "reports"], "unreadable-record"),
    "history": (".precreg/history.sqlite", ["history", "list"], "history-unavailable"),
    "history prune": (".precreg/history.sqlite", ["history", "prune", "--keep", "1"], "history-unavailable"),
    "drift": (".precreg/history.sqlite", ["drift"], "history-unavailable"),
    "export": ("export.jsonl", ["history", "import", "export.jsonl"], "missing-file"),
    "array": ("x.npy", ["compare", "x.npy", "x.npy"], "missing-file"),
}


# The others are not in the project, or click refuses them before the command begins.
READABLE = [place for place in PLACES if place not in ("environments", "seen", "tolerances", "export", "array")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_another_kind_of_file_is_named_and_never_waited_for(project, place, kind):
    path, command, slug = PLACES[place]
    file = project / path
    file.unlink(missing_ok=True)
    KINDS[kind](file)
    done = precreg(project, *command)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert path in done.stdout + done.stderr
    if (place, kind) not in {
        ("array", "folder"),  # a folder is a side of arrays, and this one has none
        *((each, "loop") for each in PLACES),  # a loop is refused as a link, before it is read
    }:
        clear(done, slug, path)


def test_a_device_in_place_of_a_suite_or_record(project):
    for path, command in [("suites/unit/row_sum.yaml", ["list"]), ("reports/record.json", ["report", "reports"])]:
        (project / path).unlink()
        (project / path).symlink_to("/dev/zero")
        done = precreg(project, *command)
        assert done.returncode == 2
        assert path in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", READABLE)
def test_a_file_without_permission(project, place):
    path, command, slug = PLACES[place]
    (project / path).chmod(0)
    line = powerless([sys.executable, "-m", "precreg", *command])
    done = subprocess.run(line, cwd=project, env=environ(), capture_output=True, text=True, check=False)
    clear(done, slug, path, "Permission denied")


@pytest.mark.parametrize("command", [["list"], ["prune", "--keep", "1"], ["export"], ["add", "reports"]])
@pytest.mark.parametrize("part", [100, 4096, 9000, 20000])
def test_a_damaged_database(project, command, part):
    """Zeros, from some byte on, in place of pages that hold the schema, the runs or the states."""
    file = project / ".precreg/history.sqlite"
    data = file.read_bytes()
    assert part < len(data)
    file.write_bytes(data[:part] + bytes(len(data) - part))
    done = precreg(project, "history", *command)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)
    if done.returncode == 2:
        assert ".precreg/history.sqlite: error[" in done.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "update precreg_runs set facts = null",
        "update precreg_runs set started = x'33'",
        "update precreg_runs set exit_code = 'x'",
        "update precreg_runs set dirty = 7",
        "update precreg_cases set name = x'ff' where id = 1",
        "update precreg_figures set figures = '[]'",
        "update precreg_figures set run = 9223372036854775807",
        "update precreg_scopes set bitmap = x''",
        "delete from precreg_scopes",
        "update precreg_last set digest = 'text'",
        "delete from precreg_history",
        "drop table precreg_figures",
    ],
)
def test_a_history_with_rows_of_another_shape_is_refused_by_each_command_that_reads_them(project, statement):
    file = project / ".precreg/history.sqlite"
    with sqlite3.connect(file) as connection:
        # As a damaged file would have it: the constraints of the tables do not help.
        connection.execute("pragma writable_schema = on")
        connection.execute("update sqlite_master set sql = replace(replace(sql, ' NOT NULL', ''), 'CHECK', '')")
        connection.commit()
    connection.close()
    connection = sqlite3.connect(file)
    connection.execute(statement)
    connection.commit()
    connection.close()
    codes = set()
    for command in ("history list", "history prune --before 2030-01-01", "history export", "drift"):
        done = precreg(project, *command.split())
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode != 2 or "error[" in done.stderr or "nothing could be judged" in done.stdout
        codes.add((done.returncode, "error[" in done.stderr))
    assert (2, True) in codes


LONG = "n" * 5000
ODD_SUITES = {
    "long name": (GOOD.replace("suite: s", f"suite: {LONG}"), "bad-value"),
    "long tag": (GOOD + f"device: {LONG}\n", "unknown-device"),
    "long path": (GOOD.replace("normal: {}", f"file: {{path: {LONG}.npy}}"), "bad-value"),
    "NUL": (GOOD.replace("normal: {}", 'file: {path: "x\\0.npy"}'), "bad-value"),
    "list as device": (GOOD + "device: [npu]\n", "bad-value"),
    "mapping as device": (GOOD + "device: {npu: 1}\n", "bad-value"),
    "hexadecimal": (GOOD + f"seeds: 0x{'f' * 5000}\n", "bad-value"),
    "decimal": (GOOD + f"seeds: {'9' * 5000}\n", "bad-value"),
    "octal in a tolerance": (GOOD + f"tolerance: {{max_ulp: 0o{'7' * 5000}}}\n", "bad-value"),
    "date": (GOOD + "seeds: 2026-11-24\n", "bad-value"),
    "surrogate": (GOOD + 'tags: ["\\ud800"]\nseeds: x\n', "yaml-syntax"),
    "laughs": (GOOD + f"params: {{a: &a [{'1,' * 999}1], b: &b [{'*a,' * 999}*a], c: *b}}\n", "yaml-syntax"),
    "deep": (GOOD + f"params: {{a: {'[' * 5000}{']' * 5000}}}\n", "yaml-syntax"),
    "exponent": (GOOD + "tolerance: {rtol: 1e99999999999}\n", "bad-value"),
}


@pytest.mark.parametrize(("suite", "slug"), ODD_SUITES.values(), ids=ODD_SUITES)
def test_an_odd_value_in_a_suite(tmp_path, suite, slug):
    done = precreg(with_suite(tmp_path, suite), "list")
    clear(done, slug, "suites/unit/s.yaml:")
    assert len(done.stderr) < 1500


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", LONG],
        ["run", "--environment", LONG],
        ["run", "--environment", "a\x1b"],
        ["run", "--output", LONG],
        ["run", "--suite", LONG],
        ["run", "--changed-since", LONG],
        ["run", "--against", LONG],
        ["--project", LONG, "list"],
        ["report", LONG],
        ["report", "x/" * 3000],
        ["history", "list", "--history", LONG],
        ["history", "import", LONG],
        ["history", "prune", "--before", "9" * 5000],
        ["history", "prune", "--keep", "9" * 5000],
        ["run", "--shard", f"{'9' * 5000}/2"],
        ["run", "--max-seeds", "9" * 5000],
        ["run", "--jobs", "9" * 5000],
        ["bits", "9" * 5000],
        ["bits", "1e999999999"],
        ["compare", LONG, LONG],
        ["compare", "x/" * 3000, "y"],
        ["visualize", LONG, LONG],
        ["explain", ""],
        ["explain", "["],
        ["list", "\udcff"],
        ["baseline", "accept", LONG, "--reason", "why"],
        ["drift", "--anchor", LONG],
        ["export", f"{LONG}:f"],
    ],
)
def test_odd_arguments(project, arguments):
    done = precreg(project, *arguments)
    assert done.returncode in (0, 1, 2), done.stderr
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert arguments[0] == "bits" or "error" in done.stderr or "Error" in done.stderr


FILES = {
    "suites/unit/row_sum.yaml": ["list"],
    BASELINE.as_posix(): ["power"],
    ".precreg/proposals/unit/row_sum.json": ["baseline", "diff"],
    "reports/record.json": ["report", "reports", "--output", "made"],
    ".precreg/history.sqlite": ["history", "prune", "--keep", "1"],
    "export.jsonl": ["history", "import", "export.jsonl"],
    "x.npy": ["compare", "x.npy", "y.npy"],
}


@pytest.mark.parametrize("path", FILES)
def test_damaged_files_meet_the_real_command(project, path):
    data = (project / path).read_bytes()
    np.save(project / "y.npy", np.arange(4.0))
    plain = json.loads(data) if path.endswith(".json") else None
    for number in range(40):
        damaged = mutant(data, plain, dice_of(path, number))
        (project / path).write_bytes(damaged)
        done = precreg(project, *FILES[path])
        assert "Traceback" not in done.stderr, (number, damaged, done.stderr)
        assert done.returncode in (0, 1, 2)
        assert done.returncode != 2 or "error[" in done.stderr or "exit 2" in done.stdout, (number, damaged)
