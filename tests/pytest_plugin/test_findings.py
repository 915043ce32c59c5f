"""A session in which every test passes and the run as a whole is worse: pytest says what was found, and fails."""

import pytest

from tests.e2e.command import change, precreg
from tests.pytest_plugin.session import accept, counted, project, pytest_, record
from tests.scaled import Project

KERNELS = """
import numpy as np

SALT, SIZE = 1, 1e-3


def noisy(x, number):
    return x + SIZE * np.random.default_rng([SALT, number, x.view(np.uint64)[0, 0]]).standard_normal(x.shape)


def exact(x, number):
    return x
"""
SUITE = f"""suite: little
subject: noise:noisy
reference: noise:exact
matrix: {{number: {list(range(24))}}}
inputs: {{x: {{shape: [12, 25], dtype: float64, normal: {{}}}}}}
params: {{number: $number}}
seeds: 3
tolerance: {{rtol: 1, atol: 1}}
"""


@pytest.fixture(scope="module")
def little(tmp_path_factory):
    """A project of 24 noisy cases, accepted, that all became 5 % worse since: too little for any of them to fail."""
    folder = tmp_path_factory.mktemp("little")
    (folder / "suites").mkdir()
    (folder / "suites" / "noise.py").write_text(KERNELS)
    project(folder, unit_little=SUITE)
    precreg(folder, "run", "--jobs", "0")
    accept(folder, "*")
    change(folder / "suites" / "noise.py", "SALT, SIZE = 1, 1e-3", "SALT, SIZE = 4, 1.05e-3")
    return folder


def test_small_losses_that_add_up_fail_a_session_of_tests_that_all_pass(little):
    done = pytest_(little, "-p", "no:xdist")
    assert (counted(done)["passed"], counted(done).get("failed")) == (24, None), done.stdout
    assert "FINDING  unit/little   combined_loss   1.0" in done.stdout
    assert "24 cases with outputs of float64 together: mean_abs_error is" in done.stdout
    assert done.returncode == 1
    assert record(little / "reports")["exit_code"] == 1


def test_what_is_allowed_fails_no_session(little):
    allowances = little / "baselines" / "allow.yaml"
    allowances.write_text("allow:\n- {case: unit/little, change: combined_loss, reason: a faster way to add}\n")
    try:
        done = pytest_(little, "-p", "no:xdist")
    finally:
        allowances.unlink()
    assert "allowed  unit/little   combined_loss   1.0" in done.stdout
    assert "allowed   a faster way to add" in done.stdout
    assert done.returncode == 0


def test_accepted_losses_that_add_up_fail_a_session_of_all_cases(tmp_path):
    crept = Project(tmp_path)
    for step, scale in enumerate((1.0, 1.2, 1.4)):
        crept.accepted(scale, f"step {step}")
    option = ("-p", "no:xdist", "-o", "precreg_suites=suites", "suites")
    done = pytest_(tmp_path, *option)
    assert done.stdout.count("  creep ") == 2, done.stdout
    assert (done.returncode, counted(done)["passed"]) == (1, 2)
    assert pytest_(tmp_path, *option, "-k", "64").returncode == 0, "a part of the cases does not tell what all allow"
