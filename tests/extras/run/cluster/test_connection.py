"""A scheduler that cannot be reached, or that ends, is one error without a traceback."""

import signal
import subprocess
import sys

import pytest

from tests.e2e.command import PATIENCE_S, environ, repository, started, with_suite
from tests.processes import wait_until

SUITE = """\
suite: s
matrix: {number: [1, 2, 3, 4, 5, 6, 7, 8]}
subject: k:slow
reference: k:slow
seeds: 1
params: {number: $number}
inputs: {x: {shape: [4], dtype: float32, normal: {}}}
"""
KERNEL = "import time\n\n\ndef slow(x, number):\n    time.sleep(0.5)\n    return x\n"


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path / "project", SUITE, KERNEL))


@pytest.mark.parametrize(
    ("address", "cause"),
    [("tls://127.0.0.1:9", "TLS expects"), ("http://127.0.0.1:9", "unknown address scheme 'http'")],
)
def test_an_address_that_dask_refuses_has_its_reason(project, address, cause):
    ran = started(project, "run", "--dask", address)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error[no-cluster]: expected a Dask scheduler at {address} but got none within")
    assert cause in ran.stderr.splitlines()[0]
    assert "Traceback" not in ran.stderr


def test_a_scheduler_that_ends_in_a_run_is_named_and_the_run_can_go_on(project, cluster):
    cluster.worker("alpha")
    journal = project / ".precreg" / "journal.jsonl"
    command = [sys.executable, "-m", "precreg", "run", "--dask", cluster.address]
    running = subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True, env=environ())
    wait_until(lambda: journal.exists() and len(journal.read_bytes().splitlines()) > 3)
    cluster.processes[0].send_signal(signal.SIGKILL)
    _, shown = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 2
    errors = [line for line in shown.splitlines() if " of 8 cases" not in line]
    assert errors[:2] == [
        f"error[no-cluster]: lost the scheduler {cluster.address}: it no longer answers",
        "  what to do: start the scheduler again; precreg run goes on with --resume",
    ]
    assert started(project, "run", "--resume", "--jobs", "1").returncode == 2
