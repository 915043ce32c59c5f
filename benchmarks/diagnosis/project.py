"""How is a diagnosis of a planted cause run? The real command in a project of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.diagnosis.plant import KERNELS, good_source
from precreg.types import Diagnosis

# Beside the seconds of a diagnosis: the start of the command, its workers, and a busy machine.
PATIENCE_S = 300
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
# The variables of a pipeline change the acceptance criteria of a run.
CI_VARIABLES = ("CI", "CI_COMMIT_BRANCH", "CI_MERGE_REQUEST_DIFF_BASE_SHA", "PRECREG_ENVIRONMENT")


class CommandError(Exception):
    """A command that ended in another way than the score expects; its text is the reason."""


class Project:
    """A folder with the suite of one kernel, its accepted baseline, and by default its git repository."""

    def __init__(self, folder: Path, kernel: str, *, git: bool) -> None:
        """Write the good version, accept its baseline, and commit both."""
        self.folder, self.kernel, self.git = folder, kernel, git
        self.suites = folder / "suites" / "unit"
        self.suites.mkdir(parents=True)
        shutil.copy(KERNELS / f"{kernel}.yaml", self.suites)
        self.write(good_source(kernel))
        if oracle_of(kernel) == "golden":
            (self.suites / f"golden_{kernel}.py").write_text(good_source(kernel), encoding="utf-8")
        (folder / ".gitignore").write_text("reports/\n.precreg/\n__pycache__/\n", encoding="utf-8")
        if git:
            self._git("init", "-q", "-b", "main")
        # The first run exits with 2: the case has no baseline yet.
        self._precreg("run", "--jobs", "0", expected=(2,))
        self._precreg("baseline", "accept", "--all", "--reason", "the good version", expected=(0,))
        self.commit("The good version")

    @property
    def case(self) -> str:
        """Return the id of the only case."""
        return f"unit/{self.kernel}/default"

    def write(self, source: str) -> None:
        """Write a version of the kernel, and forget its compiled form."""
        (self.suites / f"{self.kernel}.py").write_text(source, encoding="utf-8")
        shutil.rmtree(self.suites / "__pycache__", ignore_errors=True)

    def commit(self, message: str) -> None:
        """Commit all files, if the project has a repository."""
        if self.git:
            self._git("add", "-A")
            self._git(*IDENTITY, "commit", "-q", "-m", message)

    def diagnose(self, source: str, seconds: float) -> Diagnosis:
        """Commit a planted version, diagnose it, and go back to the good version.

        Raises:
            CommandError: the command printed no diagnosis.
        """
        self.write(source)
        self.commit("A change")
        try:
            command = [
                sys.executable,
                "-m",
                "precreg",
                "diagnose",
                self.case,
                "--json",
                "-",
                "--seconds",
                f"{seconds:g}",
            ]
            done = self._run(command, seconds + PATIENCE_S)
            return read_diagnosis(done)
        finally:
            self.write(good_source(self.kernel))
            if self.git:
                self._git("reset", "-q", "--hard", "HEAD~1")

    def _precreg(self, *arguments: str, expected: tuple[int, ...]) -> None:
        done = self._run([sys.executable, "-m", "precreg", *arguments], PATIENCE_S)
        if done.returncode not in expected:
            raise CommandError(f"precreg {arguments[0]} exits with {done.returncode}: {done.stdout}{done.stderr}")

    def _git(self, *arguments: str) -> None:
        done = self._run(["git", *arguments], PATIENCE_S)
        if done.returncode:
            raise CommandError(f"git {arguments[0]} exits with {done.returncode}: {done.stderr}")

    def _run(self, command: list[str], patience_s: float) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in CI_VARIABLES}
        # The folder's parents may lie in a repository, which is not the project's.
        here = {"GIT_CEILING_DIRECTORIES": str(self.folder.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = kept | dict.fromkeys(THREADS, "1") | here
        try:
            return subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=patience_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandError(f"{command[3]} did not end within {patience_s:g} s") from error


def oracle_of(kernel: str) -> str:
    """Return the oracle of a kernel's suite: `reference` or `golden`."""
    return "golden" if "\ngolden:" in (KERNELS / f"{kernel}.yaml").read_text(encoding="utf-8") else "reference"


def read_diagnosis(done: subprocess.CompletedProcess[str]) -> Diagnosis:
    """Read the diagnosis that a command printed.

    Raises:
        CommandError: it printed none.
    """
    try:
        return msgspec.json.decode(done.stdout, type=Diagnosis)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        shown = (done.stderr or done.stdout)[-2000:]
        raise CommandError(f"exit {done.returncode}, no diagnosis ({error}): {shown}") from error
