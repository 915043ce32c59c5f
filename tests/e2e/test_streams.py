"""Closed streams, and encodings that lack characters: less is shown, and everything is done all the same."""

import os
import subprocess
import sys

import pytest

from tests.baseline.plain import document_of, write_document
from tests.e2e.command import copy_of, environ, precreg, with_suite
from tests.e2e.test_road import BASELINE, ROAD

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SUITE = """suite: s
subject: k:fails
reference: k:fails
matrix: {n: [1, 2]}
inputs: {x: {shape: 4, dtype: float32, normal: {}}}
params: {n: $n}
"""
KERNEL = "def fails(x, n):\n    print('détail')\n    return x if n == 1 else open(__file__ + '/é')\n"


def shell(folder, command, **variables):
    """Run a command line of a shell, in which `precreg` is ours."""
    line = command.replace("precreg", f"{sys.executable} -m precreg")
    return subprocess.run(
        line, shell=True, cwd=folder, env=environ(**variables), capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def open_run(tmp_path_factory):
    """Return the run of the project whose streams are all open."""
    return precreg(copy_of(ROAD, tmp_path_factory.mktemp("open")), "run")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("jobs", [0, 1])
def test_closed_streams_keep_no_run_from_its_end(open_run, tmp_path, closed, jobs):
    project = copy_of(ROAD, tmp_path)
    done = shell(project, f"precreg run --jobs {jobs} {closed}")
    assert done.returncode == open_run.returncode == 1
    assert "Traceback" not in done.stderr
    assert (project / "reports" / "record.json").is_file()
    if ">&-" not in closed.split():
        assert done.stdout.splitlines()[-1] == open_run.stdout.splitlines()[-1]


def into_a_closed_pipe(folder, *arguments):
    """Run the command with a stdout whose reader has left already."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "precreg", *arguments]
        options = {"cwd": folder, "env": environ(), "stdout": writer, "stderr": subprocess.PIPE, "text": True}
        return subprocess.run(command, check=False, **options)
    finally:
        os.close(writer)


@pytest.mark.parametrize("jobs", ["0", "1"])
def test_a_reader_that_leaves_takes_no_verdict_along(tmp_path, jobs):
    project = copy_of(ROAD, tmp_path)
    done = into_a_closed_pipe(project, "run", "--jobs", jobs)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr
    assert (project / "reports" / "record.json").is_file()
    assert list(project.glob(".precreg/proposals/*/*.json"))


EVERY_OUTPUT = {
    "list": 0,
    "explain row_sum": 0,
    "power": 0,
    "baseline list": 0,
    "baseline diff": 0,
    "faults --list": 0,
    "bits 1.5": 0,
    "schema": 0,
    "--help": 0,
    "run --help": 0,
    "--version": 0,
    "report reports": 1,
    "history export": 0,
    "history list": 0,
    "drift": 2,
    "doctor": 0,
    "list --verbose": 0,
    "list --json": 0,
    "explain --help": 0,
    "run --last-failed --jobs 0": 1,
    "run --quiet --jobs 0": 1,
    "run --verbose --jobs 0": 1,
    "run --color always --jobs 0": 1,
    "report reports --quiet": 1,
    "diagnose row_sum/float16-8x256": 0,
    "trace row_sum/float16-8x256": 0,
    "calibrate float32 --jobs 0 --replicates 1": 0,
    "faults float32 --fault naive_sum --jobs 0": 0,
    "selftest float32 --jobs 0 --seeds 1": 0,
    "compare suites suites": 2,
    "baseline review --json": 0,
    "baseline prune": 0,
    "allow": 2,
    "hook run --help": 0,
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    project = copy_of(ROAD, tmp_path_factory.mktemp("ran"))
    precreg(project, "run")
    assert precreg(project, "history", "add", "reports", "--create").returncode == 0
    return project


@pytest.mark.parametrize(("command", "code"), EVERY_OUTPUT.items())
def test_a_closed_pipe_changes_no_exit_code(ran, command, code):
    read = precreg(ran, *command.split())
    done = into_a_closed_pipe(ran, *command.split())
    assert (read.returncode, done.returncode, done.stderr.count("Traceback")) == (code, code, 0), done.stderr
    assert done.stderr.count("error[") == read.stderr.count("error["), done.stderr


@pytest.mark.parametrize("command", ["list", "--help", "--version", "schema", "history export", "run --jobs 0"])
def test_a_full_disk_as_stdout_is_an_error_and_no_traceback(ran, command):
    done = shell(ran, f"precreg {command} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.count("error[operating-system]: [Errno 28] No space left on device") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(("command", "code"), [("list", 0), ("lits", 2), ("run --jobs 0", 1), ("run --jobs 1", 1)])
def test_a_full_disk_as_stderr_changes_no_exit_code(ran, command, code):
    assert shell(ran, f"precreg {command} 2> /dev/full").returncode == code


def test_version_needs_no_streams(tmp_path):
    assert shell(tmp_path, "precreg --version >&- 2>&-").returncode == 0


@pytest.mark.parametrize("jobs", ["0", "1"])
def test_a_folder_that_the_locale_cannot_name(tmp_path, jobs):
    project = with_suite(tmp_path / "projet é", SUITE, KERNEL)
    done = precreg(project, "run", "--jobs", jobs, **C_LOCALE)
    assert (done.returncode, done.stderr.count("Traceback")) == (2, 0), done.stderr
    assert "subject_error" in done.stdout
    assert precreg(project, "run", "--resume", **C_LOCALE).returncode == 2


def test_a_character_that_the_output_lacks_is_written_out(tmp_path):
    project = copy_of(ROAD, tmp_path)
    document = document_of(project / BASELINE)
    for case in document["cases"].values():
        case["reason"] = case["reason"].replace("float32 accumulator", "→ float32")
    write_document(project / BASELINE, document)
    done = precreg(project, "baseline", "list", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2192 float32" in done.stdout
