"""The real command in a real project: a folder in a git repository of its own, one process a call."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from precreg.run.journal import JournalHeader, resume_journal
from tests.e2e.fork_server import forked

ROOT = Path(__file__).parents[2]
# Ends a test that hangs. No test is about this time: it is some fifty times what the slowest command takes when idle.
PATIENCE_S = 900

# The files that a run writes for people and servers, in the order in which it names them.
REPORT_FILES = ("record.json", "junit.xml", "codequality.json", "report.html", "summary.md")

# A run sets these for BLAS before it loads numpy. tests/conftest.py sets them for the tests, whose forks then
# compute as a process of their own does; processes that tests start decide for themselves.
THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}

OUTSIDE = (
    "CI",
    "CI_COMMIT_BRANCH",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA",
    "CI_MERGE_REQUEST_TARGET_BRANCH_SHA",
    "CI_NODE_INDEX",
    "CI_NODE_TOTAL",
    "CI_PROJECT_DIR",
    "PRECISION_THRESHOLDS",
    "PRECREG_DIAGNOSE",
    "PRECREG_ENVIRONMENT",
    "PRECREG_HISTORY",
    "PYTEST_CURRENT_TEST",
)


def environ(**more):
    """Return the environment of a developer's shell: no CI, whatever runs this test."""
    kept = {name: value for name, value in os.environ.items() if name not in OUTSIDE and name not in THREADS}
    # Causes are searched where a test is about them: they would cost each failing run of the others seconds.
    return {**kept, "NO_COLOR": "1", "COLUMNS": "200", "PRECREG_DIAGNOSE": "0", **more}


# A command whose variables are among these, or are git's, runs in a fork of a process that has numpy and precreg. That
# takes a tenth of the time of a new interpreter. All others may change how modules load, so they get a new one. A test
# whose PYTHONPATH hides a package that is loaded, or brings a sitecustomize, calls `started`.
READ_AT_EACH_CALL = {
    *OUTSIDE,
    *(
        "FAKE_DEVICE",
        "GITHUB_STEP_SUMMARY",
        "MKL_CBWR",  # numpy has no MKL here, so the variable is a fact of the environment and nothing more
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPATH",
        "TMPDIR",
    ),
}


def precreg(project, *arguments, **variables):
    """Run `precreg ARGUMENTS` in a folder, in a process of its own, and return the finished process.

    Without a word about workers, cases run in that process, too. A test about processes calls `started`.
    """
    words = [*map(str, arguments)]
    if words[:1] == ["run"] and not {"--jobs", "-j", "--pair", "--resume"} & set(words):
        words += ["--jobs", "0"]
    if all(name in READ_AT_EACH_CALL or name.startswith("GIT_") for name in variables):
        return forked([sys.executable, "-m", "precreg", *words], project, environ(**THREADS, **variables), PATIENCE_S)
    return started(project, *arguments, **variables)


def forked_pytest(project, *arguments):
    """Run `pytest -q ARGUMENTS` in a folder, in a process of its own, and return the finished process."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return forked(command, project, environ(**THREADS), PATIENCE_S)


def started(project, *arguments, **variables):
    """Run `python -m precreg ARGUMENTS` in a folder, as a shell does, and return the finished process."""
    command = [sys.executable, "-m", "precreg", *map(str, arguments)]
    return subprocess.run(
        command, cwd=project, env=environ(**variables), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def git(folder, *arguments):
    """Run git as Ada, and return what it printed."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder):
    """Make a folder a git repository with one commit of all that is in it."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.org")
    (folder / ".gitignore").write_text("__pycache__/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def accept_on_main(folder):
    """Run a repository's new cases, accept them, and commit the baselines; return the folder."""
    assert precreg(folder, "run").returncode == 2, "new ones are not judged"
    done = precreg(folder, "baseline", "accept", "unit/*", "--reason", "first")
    assert done.returncode == 0, done.stderr
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "accepted")
    return folder


def copy_of(source, folder, *parts):
    """Copy a project's suites and baselines (or the parts named) into a new repository."""
    for part in parts or ("suites", "baselines"):
        ignored = shutil.ignore_patterns("__pycache__")
        if (source / part).is_dir():
            shutil.copytree(source / part, folder / part, ignore=ignored)
        else:
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / part, folder / part)
    return repository(folder)


def journal_cases(project):
    """Return the ids in the journal of the last run, in the order in which its cases ran."""
    path = project / ".precreg" / "journal.jsonl"
    header = msgspec.json.decode(path.read_bytes().partition(b"\n")[0], type=JournalHeader)
    journal, outcomes = resume_journal(path, header)
    journal.close()
    return [*outcomes]


def change(file, before, after):
    """Replace a text that stands in a file exactly once."""
    text = file.read_text()
    assert text.count(before) == 1, f"{before!r} stands {text.count(before)} times in {file}"
    file.write_text(text.replace(before, after))


def with_suite(folder, suite, kernel="import numpy as np\n\n\ndef same(x):\n    return x\n", name="s"):
    """Make a project of one unit suite and one kernel module k.py."""
    place = folder / "suites" / "unit"
    place.mkdir(parents=True, exist_ok=True)
    (place / "k.py").write_text(kernel)
    (place / f"{name}.yaml").write_text(suite)
    return folder
