"""The real command in a real project: a folder in a git repository of its own, one process a call."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Ends a test that hangs. No test is about this time: it is some fifty times what the slowest command takes when idle.
PATIENCE_S = 900

OUTSIDE = (
    "CI",
    "CI_COMMIT_BRANCH",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA",
    "CI_MERGE_REQUEST_TARGET_BRANCH_SHA",
    "CI_NODE_INDEX",
    "CI_NODE_TOTAL",
    "CI_PROJECT_DIR",
    "PRECISION_THRESHOLDS",
    "PRECREG_ENVIRONMENT",
    "PRECREG_HISTORY",
    "PYTEST_CURRENT_TEST",
)


def environ(**more):
    """Return the environment of a developer's shell: no CI, whatever runs this test."""
    kept = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
    return {**kept, "NO_COLOR": "1", "COLUMNS": "200", **more}


def precreg(project, *arguments, **variables):
    """Run `precreg ARGUMENTS` in a folder, and return the finished process."""
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
