"""Which commit has the code that gave the baseline of a case?

A baseline is committed together with the code that gave it, or soon after. So it is the oldest commit, on the way back
from HEAD, up to which the file has the entry unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from precreg.baseline.store import decode_entry, read_project_bytes
from precreg.errors import UserError
from precreg.storage import DataError
from precreg.types import Baseline, NoAcceptedVersion
from precreg.vcs import run_git, run_git_bytes


def acceptance_commit(project: Path, case: str, file: str) -> str | NoAcceptedVersion:
    """Return the commit whose code the present entry of a case accepted, or the reason why none is known."""
    try:
        present = _entry(_cases_in(read_project_bytes(project, file) or b""), case)
        commits = _commits_of_file(project, file)
    except UserError as problem:
        return NoAcceptedVersion("no_git", problem.message)
    found = ""
    for commit in commits:
        if _entry(_cases_at(project, commit, file), case) != present:
            break
        found = commit
    if not found:
        return NoAcceptedVersion("not_committed", file)
    # In a shallow clone the oldest commit has every file, whenever it was made.
    return NoAcceptedVersion("shallow") if found in _shallow_edges(project) else found


def commit_has_entry(project: Path, commit: str, case: str, baseline: Baseline) -> bool:
    """Return whether a commit has the entry of a baseline, as it is."""
    stored = _entry(_cases_at(project, commit, baseline.file), case)
    if stored is None:
        return False
    try:
        return decode_entry(stored).outputs == baseline.entry.outputs
    except DataError:
        return False


# The cases of a suite share a file.
@lru_cache(maxsize=64)
def _commits_of_file(project: Path, file: str) -> tuple[str, ...]:
    return tuple(run_git_bytes(project, "log", "--format=%H", "--", file).decode().split())


@lru_cache(maxsize=256)
def _cases_at(project: Path, commit: str, file: str) -> Mapping[str, Any]:
    """Return the cases of a file at a commit as plain JSON, by name; none if it has no such file."""
    stored = run_git(project, "show", f"{commit}:./{file}")
    return _cases_in(stored.stdout.encode(errors="surrogateescape")) if stored.returncode == 0 else {}


def _cases_in(data: bytes) -> Mapping[str, Any]:
    try:
        cases = json.loads(data)["cases"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return cases if isinstance(cases, dict) else {}


def _entry(cases: Mapping[str, Any], case: str) -> Any:
    entry = cases.get(case.split("/", 2)[2])
    # Environments in which the bits were seen again say nothing about the code.
    return {name: value for name, value in entry.items() if name != "seen"} if isinstance(entry, dict) else None


def _shallow_edges(project: Path) -> frozenset[str]:
    """Return the commits whose parents a shallow clone lacks."""
    place = run_git(project, "rev-parse", "--git-path", "shallow").stdout.strip()
    file = project / place
    return frozenset(file.read_text().split()) if place and file.is_file() else frozenset()
