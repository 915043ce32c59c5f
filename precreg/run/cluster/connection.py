"""How does a run reach the scheduler of a Dask cluster, and how does it call one worker?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple

from precreg.errors import UserError

# The address of a cluster that precreg starts on this machine.
LOCAL = "local"
# The value of --dask-project that sends the files of the project to the workers.
UPLOAD = "upload"
# A scheduler in the same data centre answers within milliseconds.
CONNECT_S = 10.0
# Seconds that a run waits for a first worker by default. Batch systems take longer, and users know how long.
WAIT_S = 60.0


class ClusterRequest(NamedTuple):
    """The cluster of a run, as the command line gives it.

    `project` is UPLOAD, or the folder of the project's checkout on the workers. A run waits `wait_s` seconds for a
    worker where none is left. `label` is the environment of workers that have none of their own, and `workers` the
    number of processes of a cluster on this machine.
    """

    address: str
    project: str = UPLOAD
    wait_s: float = WAIT_S
    label: str | None = None
    workers: int | None = None
    # Absolute paths that workers have to see, for a comparison of stored arrays.
    paths: tuple[str, ...] = ()

    @property
    def is_uploaded(self) -> bool:
        """Return whether the files of the project are sent to the workers."""
        return self.project == UPLOAD

    def root_of(self, project: Path) -> Path:
        """Return the folder that is sent: the working tree around the project, or the project outside git."""
        from precreg.vcs import worktree_root

        try:
            return Path(realpath(worktree_root(project)))
        except UserError:
            return Path(realpath(project))

    def checkout_root(self, project: Path) -> Path:
        """Return the working tree of the project's checkout on the workers."""
        inside = Path(realpath(project)).relative_to(self.root_of(project))
        folder = Path(self.project)
        return folder.parents[len(inside.parts) - 1] if inside.parts else folder


async def _require_answer(address: str) -> None:
    from distributed import Security
    from distributed.comm import connect

    comm = await connect(address, timeout=CONNECT_S, **Security().get_connection_args("client"))
    await comm.close()


@contextmanager
def connect(request: ClusterRequest, processors: int) -> Iterator[Any]:
    """Connect a client of Dask, or start a cluster of processes on this machine first.

    Raises UserError: missing-extra without distributed; no-cluster for a scheduler that does not answer.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        message = "expected the package distributed for --dask but it is not installed"
        hint = "install it: python -m pip install 'precreg[dask]'"
        raise UserError("missing-extra", message, hint=hint) from error
    # Dask logs what this run reports itself, such as a lost worker, with tracebacks.
    # `distributed` gives the client a level of its own.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if request.address == LOCAL:
        number = request.workers or processors
        with (
            LocalCluster(
                n_workers=number,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            ) as started,
            Client(started, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        # A client that fails to connect waits for itself at its end, 20 s, and prints a traceback.
        asyncio.run(_require_answer(request.address))
        client = Client(request.address, timeout=CONNECT_S, set_as_default=False)
    # A TypeError says that an address with tls:// lacks certificates.
    except (OSError, ValueError, TimeoutError, TypeError) as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        message = f"expected a Dask scheduler at {request.address} but got none within {CONNECT_S:g} s: {cause}"
        raise UserError("no-cluster", message) from error
    with client:
        yield client


def call_worker(client: Any, address: str, function: Callable[..., Any], *arguments: Any, absent: Any = None) -> Any:
    """Call a function in the process of a worker; return its result, an exception of it, or `absent` if it is gone."""
    try:
        answers = client.run(function, *arguments, workers=[address], on_error="return")
    except (OSError, KeyError, ValueError, TimeoutError):
        # The scheduler no longer knows the worker.
        return absent
    found = answers.get(address, absent)
    return absent if isinstance(found, OSError) and not isinstance(found, FileNotFoundError) else found
