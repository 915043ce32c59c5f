"""A merge request on a runner that is not the machine of the baselines: numpy and OpenBLAS use fewer instructions."""

import json
from math import exp

import numpy as np
import pytest

from precreg.measure import measure_seed
from tests.e2e.command import change, git, precreg
from tests.e2e.test_escalation import disabled_features
from tests.pipeline.local import artifacts, commit, pipeline

KERNELS = """\
import numpy as np


def mean_square(x):
    x = x.astype(np.float32)
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def exact(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)
"""
ACCEPTED = "e = np.exp(x)\n    return e / e.sum(-1, keepdims=True)\n\n\ndef exact"
CHANGES = {
    "loss": ACCEPTED.replace("np.exp(x)", "np.exp(x - x.mean(-1, keepdims=True))"),
    # Inputs are independent draws, so other sums of them have errors of the same distribution.
    "equal": ACCEPTED.replace("e.sum(-1", "np.roll(e, 3, -1).sum(-1"),
}
OTHER_MACHINE = {"NPY_DISABLE_CPU_FEATURES": disabled_features().replace(" ", ","), "OPENBLAS_CORETYPE": "Prescott"}


def subject(text):
    """Return the subject of the kernels."""
    space = {}
    exec(text, space)
    return space["mean_square"]


def true_ratio(change_name):
    """Return the RMS error of a change over the accepted one's, a geometric mean over 40 seeds."""
    changed, accepted = subject(KERNELS.replace(ACCEPTED, CHANGES[change_name])), subject(KERNELS)
    ratios = []
    for seed in range(40):
        x = np.random.default_rng(seed).normal(size=(400, 16)).astype(np.float32)
        exact = np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum(-1, keepdims=True)
        now, then = (measure_seed(compute(x), exact).metrics["rms_error"] for compute in (changed, accepted))
        ratios.append(np.log(now / then))
    return exp(np.mean(ratios))


def test_the_changes_are_what_the_test_says():
    assert true_ratio("loss") == pytest.approx(1.11, abs=0.02)
    assert true_ratio("equal") == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(("name", "code", "job"), [("loss", 1, "FAIL"), ("equal", 0, "PASS")])
def test_a_loss_of_a_tenth_fails_the_job_there_and_an_equal_rewrite_passes(project, name, code, job):
    folder = project("template")
    for suite in (folder / "suites").glob("*/means.yaml"):
        change(suite, "tolerance:\n", "tolerance:\n  float32: {rtol: 1e-4}\n")
    (folder / "suites/kernels.py").write_text(KERNELS)
    precreg(folder, "run")
    assert precreg(folder, "baseline", "accept", "--all", "--reason", "softmax").returncode == 0
    commit(folder, "softmax")
    base = git(folder, "rev-parse", "HEAD")
    git(folder, "switch", "-q", "-c", "feature")
    change(folder / "suites/kernels.py", ACCEPTED, CHANGES[name])
    commit(folder, "one kernel")
    done = pipeline(folder, "merge_request_event", CI_MERGE_REQUEST_DIFF_BASE_SHA=base, **OTHER_MACHINE)
    assert (done.code, done.jobs["report"]) == (code, job), done.printed
    (file,) = artifacts(folder, "reports/record.json").values()
    results = json.loads(file.read_text())["results"]
    assert {result["paired"]["commit"] for result in results} == {base}, "no bits are those of the baselines"
    assert ("regressed" in {result["verdict"]["reason"] for result in results}) is (name == "loss")
