"""One run of all shipped suites by the real command, which the tests of all processes share."""

import atexit
import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from tests.e2e.command import ROOT, copy_of, started


class ShippedRun(NamedTuple):
    """A repository with the shipped suites and baselines, as `precreg run` left it in CI."""

    project: Path
    returncode: int
    stdout: str

    @property
    def record(self):
        """Return the record of the run."""
        return json.loads((self.project / "reports" / "record.json").read_text())

    @property
    def has_baselines_of_this_machine(self):
        """Return whether no case was judged as one of another environment."""
        return not any(result["baseline"] and result["baseline"]["change"] for result in self.record["results"])


@contextmanager
def alone_in(folder):
    """Make a folder of all processes of pytest-xdist, and keep the others out: a run has a worker for each core."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def shipped_run(folder):
    """Run the shipped suites in a folder, or return the run that another process made there."""
    project, printed = folder / "project", folder / "printed.json"
    with alone_in(folder):
        if not printed.exists():
            done = started(copy_of(ROOT, project), "run", CI="true")
            printed.write_text(json.dumps([done.returncode, done.stdout]))
    return ShippedRun(project, *json.loads(printed.read_text()))


@cache
def project_of_suites():
    """Return a project that has the shipped suites and nothing else, for cases in this process.

    In the repository itself `tests` would be a module of the project, and out of reach in the next one.
    """
    folder = Path(mkdtemp())
    (folder / "suites").symlink_to(ROOT / "suites")
    atexit.register(shutil.rmtree, folder)
    return folder


def session_folder(tmp_path_factory):
    """Return the temporary folder of the session, which is the same in each process of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
