"""Writing what was accepted: under one lock, and whole files at a time, so that a kill or a full disk leaves the old.

The lock is the project's only one. Whoever changes baselines or proposals holds it from before reading until after
writing; readers need none, because a file is always either the old one or the new one.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from precreg.baseline.store import Place, baseline_file, header, path_of, read_suite
from precreg.baseline.text import render
from precreg.errors import UserError
from precreg.storage.writing import WORKING_FOLDER, flush_folder, make_scratch_folder, replace_file, writing
from precreg.types.records import BaselineEntry

LOCK_FILE = f"{WORKING_FOLDER}/baselines.lock"

LOCK_TIMEOUT_S = 60.0


@contextmanager
def locked(project: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock on the project's baselines and proposals. It ends with the process, even with a killed one.

    Raises:
        UserError: locked, after timeout_s seconds of waiting; not-writable.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(project / LOCK_FILE)
    with writing(LOCK_FILE):
        make_scratch_folder(project / WORKING_FOLDER)
        try:
            lock.acquire(timeout=timeout_s)
        except Timeout as problem:
            message = f"expected the lock within {timeout_s:g} s, but another process changes the baselines"
            raise UserError("locked", message, file=LOCK_FILE) from problem
    try:
        yield
    finally:
        lock.release()


def put(project: Path, accepted: Mapping[Place, BaselineEntry]) -> None:
    """Store entries beside those that are there, or in their place. The caller holds the lock.

    Every file is read and rendered before the first is written.
    """
    changed = _suites_at(project, accepted)
    for place, entry in accepted.items():
        changed[place.environment, place.suite][place.name] = entry
    _write_suites(project, changed)


def remove(project: Path, places: Collection[Place]) -> None:
    """Remove entries, and the files that hold no other. The caller holds the lock."""
    changed = _suites_at(project, places)
    for place in places:
        changed[place.environment, place.suite].pop(place.name, None)
    _write_suites(project, changed)


def write_file(project: Path, file: str, text: str) -> None:
    """Replace a file, or make it, in one step. A name that is no Unicode (an author's) becomes a JSON escape.

    The caller holds the lock, so what is half-written beside the file was left by a process that was killed.

    Raises:
        UserError: not-writable, outside-project.
    """
    path = path_of(project, file)
    with writing(file):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            left.unlink()
        replace_file(path, text.encode(errors="backslashreplace"))


def delete_file(project: Path, file: str) -> None:
    """Remove a file that may be gone already. Raises UserError (not-writable, outside-project)."""
    path = path_of(project, file)
    with writing(file), suppress(FileNotFoundError):
        path.unlink()
        flush_folder(path.parent)


def _suites_at(project: Path, places: Collection[Place]) -> dict[tuple[str, str], dict[str, BaselineEntry]]:
    return {(place.environment, place.suite): read_suite(project, place.environment, place.suite) for place in places}


def _write_suites(project: Path, suites: Mapping[tuple[str, str], Mapping[str, BaselineEntry]]) -> None:
    texts = {
        baseline_file(environment, suite): render(header(environment, suite), cases) if cases else None
        for (environment, suite), cases in suites.items()
    }
    for file, text in texts.items():
        if text is None:
            delete_file(project, file)
        else:
            write_file(project, file, text)
