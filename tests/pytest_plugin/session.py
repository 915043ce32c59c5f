"""The real pytest, with the plugin as it is installed, in a real project: a process a call."""

import json
import re
import subprocess
import sys

from tests.e2e.command import PATIENCE_S, THREADS, environ, precreg, repository
from tests.e2e.fork_server import forked

KERNELS = """
import os
import numpy as np


def scaled(x, how):
    if how == "raises":
        raise ValueError("the subject's own words")
    if how == "vanishes":
        os._exit(5)
    return x * x.dtype.type({"bad": 2, "known": 2}.get(how, 1 + 1e-4))


def exact(x, how="good"):
    return x
"""
MIXED = """suite: mixed
subject: kernels:scaled
reference: kernels:exact
matrix: {how: [good, bad, raises, known, fresh]}
inputs: {x: {shape: [2, 32], dtype: float32, normal: {}}}
params: {how: $how}
tolerance: {rtol: 1e-2}
cases:
  - {match: known, expect: fail, reason: "twice too much"}
  - {match: fresh, tags: [young]}
"""
ABSENT = """suite: absent
subject: kernels:exact
reference: kernels:exact
inputs: {x: {shape: 32, dtype: float32, normal: {}}}
requires: [no_such_package]
tags: [slow, skip]
"""


def project(folder, **suites):
    """Make a project of the suites TIER_NAME=TEXT, of which what is good is accepted, and which pytest may collect."""
    for name, text in suites.items():
        tier, _, stem = name.partition("_")
        (folder / "suites" / tier).mkdir(parents=True, exist_ok=True)
        (folder / "suites" / tier / f"{stem}.yaml").write_text(text)
    (folder / "suites" / "kernels.py").write_text(KERNELS)
    (folder / "pytest.ini").write_text("[pytest]\nprecreg_suites = suites\n")
    return repository(folder)


def accept(folder, *patterns):
    done = precreg(folder, "baseline", "accept", *patterns, "--reason", "it is right")
    assert done.returncode == 0, done.stderr


def pytest_(folder, *arguments, **variables):
    """Run `pytest ARGUMENTS` in a folder, in a fork; hypothesis has a plugin that takes a second to say nothing."""
    return forked(_command(arguments), folder, _environ(**THREADS, **variables), PATIENCE_S)


def pytest_started(folder, *arguments):
    """Run `python -m pytest ARGUMENTS` in a folder, as a shell does: for a test of what a session imports."""
    options = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "check": False}
    return subprocess.run(_command(arguments), cwd=folder, env=_environ(), **options)


def _command(arguments):
    return [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", *map(str, arguments)]


def _environ(**variables):
    """Return the variables of a developer's shell, without those of the session that runs this test."""
    return {name: value for name, value in environ(**variables).items() if not name.startswith("PYTEST_")}


def record(folder):
    return json.loads((folder / "record.json").read_text())


def verdicts(folder):
    """Return the status and reason of each case of a record, by id."""
    return {
        result["id"]: (result["verdict"]["status"], result["verdict"]["reason"]) for result in record(folder)["results"]
    }


def counted(done):
    """Return what the last line of pytest counts, as in {"passed": 1}."""
    last = done.stdout.strip().splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", last.partition(" in ")[0])}
