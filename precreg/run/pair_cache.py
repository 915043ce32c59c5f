"""Which figures of fresh seeds did an earlier run draw for the same two versions?

The key has everything that figures depend on, so an entry never becomes wrong. Verdicts are not kept: they depend on
the other cases of a run, and figures give them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, msgpack

from precreg import __version__
from precreg.errors import UserError
from precreg.run.paired_seeds import PairOfFigures
from precreg.storage import WORKING_FOLDER, make_scratch_folder, replace_file
from precreg.types import Case, Environment, Outcome
from precreg.vcs import case_dependencies

PAIRS_FOLDER = f"{WORKING_FOLDER}/pairs"
# Raise it when figures get another meaning.
_SCHEMA = 1
# About 20 KB each for a hundred seeds. A merge request changes far fewer cases.
MAX_ENTRIES = 500


class DrawnSeeds(Struct, frozen=True):
    """The seconds that one seed takes, and inputs and figures seed by seed."""

    seconds: float
    inputs: tuple[str, ...]
    figures: tuple[dict[str, PairOfFigures], ...]


class PairCache:
    """The drawn seeds of one project by key, as files of its working folder."""

    def __init__(self, project: Path) -> None:
        self._folder = project / PAIRS_FOLDER

    def load(self, key: str) -> DrawnSeeds | None:
        """Return the seeds of a key; None if there are none, or if their file is damaged."""
        try:
            return msgpack.decode((self._folder / key).read_bytes(), type=DrawnSeeds)
        except (OSError, msgspec.MsgspecError):
            return None

    def store(self, key: str, drawn: DrawnSeeds) -> None:
        """Keep the seeds of a key; do nothing where the project cannot be written."""
        with suppress(OSError, UserError):
            make_scratch_folder(self._folder)
            self._remove_oldest()
            replace_file(self._folder / key, msgpack.encode(drawn))

    def _remove_oldest(self) -> None:
        # The folder has a .gitignore, too.
        entries = sorted(self._folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
        for path in entries[: max(0, len(entries) - MAX_ENTRIES + 1)]:
            path.unlink(missing_ok=True)


def pair_key(case: Case, outcomes: tuple[Outcome, Outcome], trees: tuple[Path, Path], environment: Environment) -> str:
    """Return a digest of all that the figures of a pair depend on, as hexadecimal digits.

    That is the case, the environment, and for each version the contents of its dependencies and its outputs. The
    outputs are those of the case's own seeds: they show a change of code that no dependency shows.
    """
    found = hashlib.sha256(f"{_SCHEMA} {__version__} {case.id} {case.definition} {environment.fingerprint}".encode())
    for outcome, project in zip(outcomes, trees, strict=True):
        found.update(repr(sorted(outcome.execution.outputs.items())).encode())
        for name, digest in sorted(_dependency_digests(case, project).items()):
            found.update(f"{name} {digest}\n".encode())
    return found.hexdigest()[:32]


def _dependency_digests(case: Case, project: Path) -> Mapping[str, str]:
    found = {}
    for name in case_dependencies(case, project):
        with suppress(OSError):
            found[name] = hashlib.sha256((project / name).read_bytes()).hexdigest()
    return found
