"""Reviewing in a terminal: the real command on a pseudo-terminal, with keys pressed; and what losses add up to."""

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from precreg.baseline.proposal_file import pending_proposals
from precreg.baseline.store import read_all_entries
from tests.e2e.command import PATIENCE_S, environ, precreg
from tests.scaled import A, B, Project

OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'precreg', *sys.argv[1:]])"
)
ASKED = "[q]uit: "
# Looks in a row at a process that sleeps. It may sleep for a moment before, too, while it writes or reads a file.
ASLEEP = 10


class Terminal:
    """A command on a terminal of its own, so that Ctrl-C interrupts it, and all that it printed."""

    def __init__(self, folder, *arguments):
        self._ours, theirs = pty.openpty()
        self.shown = ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *arguments],
            cwd=folder,
            env=environ(TERM="dumb"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def expect(self, text):
        """Read until a text is shown, and return what was shown up to its end since the last."""
        start, until = len(self.shown), monotonic() + PATIENCE_S
        while text not in self.shown[start:]:
            assert self._read(until), f"{text!r} never came:\n{self.shown}"
        return self.shown[start:]

    def press(self, keys):
        os.write(self._ours, keys.encode())

    def ended(self):
        """Read to the end, and return the exit code."""
        until = monotonic() + PATIENCE_S
        while self._read(until):
            pass
        return self._process.wait(timeout=PATIENCE_S)

    def ended_by(self, key):
        """Press a key once the command sleeps, and read to its end; one that comes just before is lost."""
        self._until_asleep()
        self.press(key)
        return self.ended()

    def _until_asleep(self):
        """Wait until the process, which has shown its question, waits for the answer."""
        state = Path(f"/proc/{self._process.pid}/stat")
        if not state.exists():  # elsewhere than on Linux
            sleep(1)
            return
        asleep = 0
        while asleep < ASLEEP:
            sleep(0.01)
            asleep = asleep + 1 if state.read_text().rpartition(")")[2].split()[0] == "S" else 0

    def _read(self, until):
        ready, _, _ = select.select([self._ours], [], [], max(0.0, until - monotonic()))
        try:
            read = os.read(self._ours, 65536) if ready else b""
        except OSError:  # how Linux tells that nobody has the other end any more
            read = b""
        self.shown += read.decode().replace("\r\n", "\n")
        return bool(read)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """Return the folder of a project with two accepted cases, for which proposals wait."""
    project = Project(tmp_path_factory.mktemp("waiting"))
    project.accepted(1.0, "first version")
    project.proposed(1.5)
    return project.folder


@pytest.fixture
def project(waiting, tmp_path):
    """Return a copy of the project."""
    folder = shutil.copytree(waiting, tmp_path / "project")
    project = Project(folder)
    project.scale(1.5)
    return project


def reasons(project):
    return {place.id: entry.reason for place, entry in read_all_entries(project.folder).items()}


def test_a_person_walks_through_what_waits(project):
    with Terminal(project.folder, "baseline", "review") as terminal:
        shown = terminal.expect(ASKED)
        assert f"1 of 2\n{A}: regressed, to be stored in baselines/generic/unit/s.json\n" in shown
        assert "mean_abs_error" in shown
        terminal.press("a\n")
        terminal.expect("reason: ")
        terminal.press("half the multiplications\n")
        shown = terminal.expect(ASKED)
        assert "running 1 case again, 2 times: figures moved\n" in shown
        assert f"accepted {A} in baselines/generic/unit/s.json (2 reruns: the same bits)\n" in shown
        assert f"2 of 2\n{B}: " in shown
        terminal.press("r\n")
        assert terminal.ended() == 0
        assert terminal.shown.endswith("1 accepted, 1 rejected, 0 left to wait\n")
    assert reasons(project) == {A: "half the multiplications", B: "first version"}
    assert pending_proposals(project.folder) == {}


@pytest.mark.parametrize(("key", "at"), [("\x03", ASKED), ("\x04", ASKED), ("\x03", "reason")])
def test_an_interrupt_leaves_what_was_accepted_in_place_and_says_what_was_done(project, key, at):
    with Terminal(project.folder, "baseline", "review", "--confirm", "0") as terminal:
        terminal.expect(ASKED)
        terminal.press("a\n")
        terminal.expect("reason: ")
        terminal.press("cheaper\n")
        terminal.expect(ASKED)
        if at != ASKED:
            terminal.press("a\n")
            terminal.expect(at)
        assert terminal.ended_by(key) == 130
        assert "\n1 accepted, 0 rejected, 1 left to wait\ninterrupted\n" in terminal.shown
        assert "Traceback" not in terminal.shown
    assert reasons(project) == {A: "cheaper", B: "first version"}
    assert list(pending_proposals(project.folder)) == [B]


def test_an_interrupt_of_the_reruns_accepts_nothing(project):
    kernels = project.folder / "suites/unit/k.py"
    kernels.write_text(
        "import time\n" + kernels.read_text().replace("    scale = ", "    time.sleep(60)\n    scale = ")
    )
    with Terminal(project.folder, "baseline", "review") as terminal:
        terminal.expect(ASKED)
        terminal.press("a\n")
        terminal.expect("reason: ")
        terminal.press("cheaper\n")
        terminal.expect("figures moved\n")
        assert terminal.ended_by("\x03") == 130
        assert "\n0 accepted, 0 rejected, 2 left to wait\ninterrupted\n" in terminal.shown
        assert "Traceback" not in terminal.shown
    assert set(reasons(project).values()) == {"first version"}
    assert list(pending_proposals(project.folder)) == [A, B]


def test_a_pipe_is_no_terminal_and_flags_are_named(project):
    done = precreg(project.folder, "baseline", "review")
    assert done.returncode == 2
    assert "error[not-a-terminal]" in done.stderr
    for flag in ("--accept", "--reject", "--reason", "--json"):
        assert flag in done.stderr


def test_twelve_losses_that_nothing_refuses_add_up_to_one_that_fails(tmp_path):
    project = Project(tmp_path)
    for step in range(13):
        project.scale(1.019**step)
        judged = project.run("run", "--jobs", "0", "--output", tmp_path / "reports")
        assert judged.exit_code == (0 if step else 2), "no loss is worse than the baseline"
        accepted = project.run("baseline", "accept", "--all", "--reason", f"version {step}")
        assert "running" not in accepted.output
        assert ("exceeds the budget" in accepted.output) is (step == 12)
    done = precreg(tmp_path, "run", "--jobs", "0")
    assert done.returncode == 1
    assert "exit 1: 2 findings on the run: 2 creep" in done.stdout
    assert "the value accepted on" in done.stdout
    (tmp_path / "baselines/allow.yaml").write_text("allow:\n- {case: unit/s, change: creep, reason: half the price}\n")
    assert precreg(tmp_path, "run", "--jobs", "0").returncode == 0
