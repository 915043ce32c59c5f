"""Start a Dask scheduler and workers on the loopback interface, each a process with a log of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

# Ends a start that hangs: a process of Dask takes a few seconds to start.
START_S = 120
_SCHEDULER_READY, _WORKER_READY = "Scheduler at:", "Registered to:"


class LoopbackCluster:
    """Hold the processes, the folder of their logs, and the address of the scheduler."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """Prepare a cluster; `variables` is the environment of its processes."""
        self.folder, self.variables, self.address = folder, variables, ""
        self.processes: list[subprocess.Popen[bytes]] = []

    def start_scheduler(self) -> None:
        """Start the scheduler at a free port. Raises RuntimeError with its log."""
        self._start("scheduler", ["scheduler", "--host", "127.0.0.1", "--port", "0"], _SCHEDULER_READY, {})
        self.address = self.log("scheduler").partition(_SCHEDULER_READY)[2].split()[0]

    def worker(self, name: str, *words: str, threads: int = 1, **variables: str) -> subprocess.Popen[bytes]:
        """Start a worker, and wait until the scheduler has it. Raises RuntimeError with its log."""
        command = ["worker", self.address, "--no-nanny", "--nthreads", str(threads), "--name", name]
        command += ["--local-directory", str(self.folder / f"scratch-{name}"), *words]
        return self._start(name, command, _WORKER_READY, variables)

    def _start(
        self, name: str, words: Sequence[str], ready: str, variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        environment = {**self.variables, **variables}
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=environment)
        self.processes.append(process)
        end = monotonic() + START_S
        # Complete lines alone: a part of a line may lack the end of the address.
        while ready not in self.log(name).rpartition("\n")[0]:
            if process.poll() is not None or monotonic() > end:
                raise RuntimeError(f"{name} ended with {process.poll()} or took {START_S} s:\n{self.log(name)}")
            sleep(0.05)
        return process

    def log(self, name: str) -> str:
        """Return the output of a process."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        """Kill the processes, workers first."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@contextmanager
def started_cluster(folder: Path, variables: Mapping[str, str]) -> Iterator[LoopbackCluster]:
    """Start a cluster without workers, in a new folder, and end its processes after the block."""
    folder.mkdir()
    cluster = LoopbackCluster(folder, variables)
    with ExitStack() as stack:
        stack.callback(cluster.close)
        cluster.start_scheduler()
        yield cluster
