"""Self-tests compute with as many BLAS threads as a run, or a case's own run would have other bits."""

import pytest

from precreg.environment.machine import THREAD_VARIABLES
from tests.e2e.command import started as precreg
from tests.e2e.command import with_suite

SUITE = """suite: s
subject: k:single
reference: k:single
inputs: {x: {shape: [8], dtype: float32, normal: {}}}
tolerance: {rtol: 1, atol: 1}
"""
KERNEL = """import os


def single(x):
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    return x * x.dtype.type(0.1)
"""


@pytest.mark.parametrize("jobs", ["0", "1"])
@pytest.mark.parametrize(("command", "told"), [("calibrate", "unit/s/default"), ("faults", "unit/s/default")])
def test_blas_has_one_thread(tmp_path, monkeypatch, command, told, jobs):
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    done = precreg(with_suite(tmp_path, SUITE, KERNEL), command, "--jobs", jobs, "--json")
    assert told in done.stdout
    assert "subject_error" not in done.stdout + done.stderr
