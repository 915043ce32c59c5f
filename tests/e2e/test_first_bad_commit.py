"""The first bad commit of a loss that statistics judge: the history draws it where noise ends."""

import time

from precreg.report.case_context import CaseContext, history_of
from precreg.report.record import read_run_record
from tests.e2e.command import git, precreg, repository

SUITE = """
suite: scaled
about: a scaled array
category: other
subject: scaled:narrow
reference: scaled:exact
inputs: {x: {shape: [64, 64], dtype: float32, normal: {}}}
tolerance: {rtol: 1e-2, atol: 1e-3}
"""
KERNEL = """import numpy as np


def exact(x):
    return x * 1.1


def narrow(x):
    return x * np.float32(1.1)
"""


def test_a_statistic_names_the_commit_that_left_the_noise(tmp_path):
    repository(tmp_path)
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/scaled.yaml").write_text(SUITE)
    kernel = tmp_path / "suites/unit/scaled.py"
    kernel.write_text(KERNEL)
    commit(tmp_path, "kernel")
    precreg(tmp_path, "run")
    precreg(tmp_path, "baseline", "accept", "*", "--reason", "first")
    commit(tmp_path, "baseline")
    add_run(tmp_path)
    kernel.write_text(KERNEL.replace("x * np.float32(1.1)", "(x.astype(np.float16) * np.float32(1.1)).astype(x.dtype)"))
    bad = commit(tmp_path, "narrow the product")
    add_run(tmp_path)
    commit(tmp_path, "nothing")
    assert precreg(tmp_path, "run", "--pair", "off").returncode == 1
    (failed,) = read_run_record(tmp_path / "reports/record.json").results
    assert failed.verdict.findings[0].rule == "statistic"
    good, first_bad = (each.value for each in failed.history.values)
    assert good < failed.history.limit < first_bad
    shown = history_of(failed, CaseContext())
    assert shown["first"] == 1
    assert shown["sentence"].startswith(f"First bad: commit {bad[:12]}")


def commit(folder, message):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def add_run(folder):
    precreg(folder, "run", "--pair", "off")
    assert precreg(folder, "history", "add", "--create", "reports").returncode == 0
    # Records have seconds, and a run that starts in the same second as the next is no earlier one.
    time.sleep(1.1)
