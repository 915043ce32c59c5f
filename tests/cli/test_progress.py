"""A bar on a terminal, a few plain lines in a log; the summary on stdout is the same."""

import os
import pty
import subprocess
import sys

import numpy as np
import pytest

from tests.e2e.command import copy_of, environ, precreg
from tests.e2e.test_road import ROAD


@pytest.fixture
def project(tmp_path):
    return copy_of(ROAD, tmp_path)


def on_a_terminal(project, *arguments):
    """Run with stderr on a pseudo terminal, and return (stdout, what the terminal was sent)."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "precreg", *arguments]
    variables = {name: value for name, value in environ(TERM="xterm").items() if name != "NO_COLOR"}
    with subprocess.Popen(command, cwd=project, env=variables, stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        sent = b""
        try:
            while part := os.read(ours, 4096):
                sent += part
        except OSError:  # Linux says so when the other side is closed
            pass
        stdout = running.stdout.read()
    os.close(ours)
    return stdout.decode(), sent.decode()


def test_a_terminal_shows_a_bar_that_moves_and_goes_away(project):
    stdout, sent = on_a_terminal(project, "run")
    assert "\x1b[" in sent
    assert "━" in sent
    assert "3/3" in sent
    assert sent.rstrip().endswith("\x1b[2K"), "the bar is wiped out at the end"
    assert "exit 1: " in stdout


def test_a_log_shows_plain_lines_and_failures_as_they_come(project):
    done = precreg(project, "run", "--jobs", "0")
    assert done.stderr.splitlines() == [
        "failed unit/row_sum/float16-8x256 regressed",
        "1 of 3 cases",
        "2 of 3 cases",
        "3 of 3 cases",
    ]
    assert "\x1b" not in done.stdout + done.stderr


def test_a_log_of_many_cases_stays_short(project):
    suite = project / "suites/unit/row_sum.yaml"
    suite.write_text(suite.read_text().replace("[[8, 256], [16, 64]]", str([[1, n] for n in range(64, 164)])))
    suite.write_text(suite.read_text().replace("  exclude: [{dtype: float32, shape: [16, 64]}]\n", ""))
    lines = precreg(project, "run").stderr.splitlines()
    assert lines == [f"{done} of 200 cases" for done in range(20, 201, 20)]


@pytest.fixture
def arrays(tmp_path):
    """A folder of arrays with names that rich would take for its markup, if it were asked to look for any."""
    for number in range(70):
        np.save(tmp_path / f"[red]{number}.npy", np.arange(4.0))
    return tmp_path


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_arrays_are_counted_by_a_bar_on_a_terminal(arrays, jobs):
    stdout, sent = on_a_terminal(arrays, "compare", ".", ".", "--jobs", jobs)
    assert "━" in sent
    assert "70/70" in sent
    assert "[red]" in sent
    assert sent.rstrip().endswith("\x1b[2K")
    assert stdout.splitlines()[-1] == "exit 0: all 70 pairs are within tolerance"


def test_a_log_counts_arrays_where_they_are_many(arrays):
    lines = precreg(arrays, "compare", ".", ".", "--jobs", "0").stderr.splitlines()
    assert lines == [f"{done} of 70 pairs" for done in range(7, 71, 7)]
    for number in range(10):
        (arrays / f"[red]{number}.npy").unlink()
    assert precreg(arrays, "compare", ".", ".").stderr == ""
