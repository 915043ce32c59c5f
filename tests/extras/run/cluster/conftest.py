"""A scheduler and workers of Dask on the loopback interface, each a process of its own."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from tests.e2e.command import THREADS, environ

START_S = 120


class LoopbackCluster:
    """Processes of `dask scheduler` and `dask worker`."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.file = folder / "scheduler.json"
        self._dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", self.file, log="scheduler")
        self._wait("scheduler", "Scheduler at:")
        line = next(line for line in self.log("scheduler").splitlines() if "Scheduler at:" in line)
        self.address = line.split()[-1]

    def _dask(self, *words, log, **variables):
        with (self.folder / f"{log}.log").open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *map(str, words), "--no-dashboard"],
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environ(**(THREADS | variables)),
            )
        self.processes.append(process)
        return process

    def worker(self, name, *words, threads=1, **variables):
        """Start a worker, and wait until the scheduler has it."""
        scratch = self.folder / f"scratch-{name}"
        words = ("--no-nanny", "--nthreads", threads, "--name", name, "--local-directory", scratch, *words)
        process = self._dask("worker", self.address, *words, log=name, **variables)
        self._wait(name, "Registered to:")
        return process

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _wait(self, name, text):
        end = time.monotonic() + START_S
        while text not in self.log(name):
            assert time.monotonic() < end, self.log(name)
            assert self.processes[-1].poll() is None, self.log(name)
            time.sleep(0.05)

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    """A scheduler without workers."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with ExitStack() as stack:
        made = LoopbackCluster(folder)
        stack.callback(made.close)
        yield made
