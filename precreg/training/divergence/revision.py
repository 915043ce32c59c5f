"""How does a training of another commit run?

A process of its own imports the commit's modules from a checkout, and stores the run for this process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path

import msgspec

from precreg.errors import UserError
from precreg.storage import temporary_folder
from precreg.subject import TreePair, redirect_imports
from precreg.training.divergence.session import record_run
from precreg.training.divergence.trajectory import StoredTrajectory, TrainingSource, read_trajectory
from precreg.vcs import checkout_commit, named_commit, unset_hook_variables, worktree_root

# The end of a long traceback names the error.
_MAX_ERROR = 2000


@contextmanager
def recorded_at_commit(
    source: TrainingSource, revision: str, *, every: int = 1, last: int | None = None
) -> Iterator[StoredTrajectory]:
    """Run a training from a commit, and give its stored steps for the time of the block.

    Raises UserError: no-git, unknown-revision, no-checkout; model-failed if the run fails there.
    """
    unset_hook_variables()
    commit, root = named_commit(source.project, revision).commit, worktree_root(source.project)
    with temporary_folder() as folder, checkout_commit(root, commit) as tree:
        own, other = realpath(root), realpath(tree)
        places = [
            str(Path(other) / Path(realpath(each)).relative_to(own)) for each in (source.directory, source.project)
        ]
        job = [own, other, source.target, *places, dict(source.params), source.device, source.dtype]
        # -P: the checkout may be of precreg itself, and the process runs the commands of the installed one.
        text = msgspec.json.encode([*job, str(folder / "b"), every, last]).decode()
        command = [sys.executable, "-P", "-m", __name__, text]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=source.directory)
        if done.returncode:
            message = f"expected {source.target} of {revision} ({commit[:8]}) to run but it failed: "
            raise UserError("model-failed", message + done.stderr.strip()[-_MAX_ERROR:])
        yield read_trajectory(folder / "b", f"{source.name} at {revision} ({commit[:8]})")


def _record_here(job: bytes) -> None:
    """Run the training of a job in this process, which belongs to the checkout."""
    own, other, target, directory, project, params, device, dtype, folder, every, last = msgspec.json.decode(job)
    redirect_imports(TreePair(Path(own), Path(other)))
    source = TrainingSource(target, target, Path(directory), Path(project), params, device, dtype)
    record_run(source, Path(folder), every=every, last=last)


if __name__ == "__main__":
    try:
        _record_here(sys.argv[1].encode())
    except UserError as mistake:
        sys.exit(str(mistake))
