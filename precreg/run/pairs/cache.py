"""Which figures of fresh seeds did an earlier run draw for the same two versions?

The key has everything that figures depend on, so an entry never becomes wrong. Verdicts are not kept: they depend on
the other cases of a run, and figures give them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, msgpack

from precreg import __version__
from precreg.errors import UserError
from precreg.run.pairs.seeds import PairOfFigures
from precreg.storage import WORKING_FOLDER, make_scratch_folder, read_regular_file, replace_file
from precreg.types import Case, Environment, Outcome
from precreg.vcs import case_dependencies

PAIRS_FOLDER = f"{WORKING_FOLDER}/pairs"
# Raise it when figures get another meaning.
_SCHEMA = 1
# About 55 KB each for a hundred seeds of one output. A merge request changes far fewer cases.
MAX_ENTRIES = 500
MAX_BYTES = 64 << 20


class DrawnSeeds(Struct, frozen=True):
    """The seconds that one seed takes, and inputs and figures seed by seed."""

    seconds: float
    inputs: tuple[str, ...]
    figures: tuple[dict[str, PairOfFigures], ...]


class PairCache:
    """The drawn seeds of one project by key, as files of its working folder."""

    def __init__(self, project: Path, *, is_used: bool = True) -> None:
        """Open nothing; without `is_used` the cache stays empty."""
        self._folder, self._is_used = project / PAIRS_FOLDER, is_used

    def load(self, key: str) -> DrawnSeeds | None:
        """Return the seeds of a key; None if there are none, or if their file is damaged."""
        if not self._is_used:
            return None
        try:
            return msgpack.decode(read_regular_file(self._folder / key), type=DrawnSeeds)
        except (OSError, ValueError, RecursionError):
            return None

    def store(self, key: str, drawn: DrawnSeeds) -> None:
        """Keep the seeds of a key; do nothing where the project cannot be written."""
        if not self._is_used:
            return
        with suppress(OSError, UserError):
            make_scratch_folder(self._folder)
            self._remove_oldest()
            replace_file(self._folder / key, msgpack.encode(drawn))

    def _remove_oldest(self) -> None:
        """Keep the newest entries, so that one more fits; another run may remove some meanwhile."""
        # The folder has a .gitignore, too.
        found = [(path, path.stat()) for path in self._folder.glob("[!.]*")]
        left = MAX_BYTES
        for number, (path, status) in enumerate(sorted(found, key=lambda each: -each[1].st_mtime_ns), 1):
            left -= status.st_size
            if number >= MAX_ENTRIES or left < 0:
                path.unlink(missing_ok=True)


def pair_key(case: Case, outcomes: tuple[Outcome, Outcome], trees: tuple[Path, Path], environment: Environment) -> str:
    """Return a digest of all that the figures of a pair depend on, as hexadecimal digits.

    That is the case, the environment, and for each version the contents of its dependencies, its outputs and its
    metrics. Outputs and metrics are those of the case's own seeds: they show a change of the subject or the reference
    that no dependency shows, such as another compiled library.
    """
    found = hashlib.sha256(f"{_SCHEMA} {__version__} {case.id} {case.definition} {environment.fingerprint}".encode())
    for outcome, project in zip(outcomes, trees, strict=True):
        found.update(repr(sorted(outcome.execution.outputs.items())).encode())
        for comparison in outcome.comparisons:
            found.update(f"{comparison.output} {comparison.seed} {sorted(comparison.metrics.items())}\n".encode())
        for name, digest in sorted(_dependency_digests(case, project).items()):
            found.update(f"{name} {digest}\n".encode())
    return found.hexdigest()[:32]


def _dependency_digests(case: Case, project: Path) -> Mapping[str, str]:
    found = {}
    for name in case_dependencies(case, project):
        with suppress(OSError):
            found[name] = hashlib.sha256(read_regular_file(project / name)).hexdigest()
    return found
