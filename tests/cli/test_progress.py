"""A bar on a terminal, a few plain lines in a log; the summary on stdout is the same."""

import os
import pty
import subprocess
import sys

import pytest

from tests.e2e.command import copy_of, environ, precreg
from tests.e2e.test_road import ROAD


@pytest.fixture
def project(tmp_path):
    return copy_of(ROAD, tmp_path)


def on_a_terminal(project):
    """Run with stderr on a pseudo terminal, and return (stdout, what the terminal was sent)."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "precreg", "run"]
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
    stdout, sent = on_a_terminal(project)
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
