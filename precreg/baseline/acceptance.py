"""Which commit has the code that gave the baseline of a case?

A baseline is committed together with the code that gave it, or soon after. So it is the oldest commit, on the way back
from HEAD, up to which the values of the entry are unchanged. The way goes through merges, moves and other formatting.
Another reason, author or date of the same values makes the same baseline.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from precreg.baseline.suite_file import parse_entries, read_project_bytes, suite_of_file
from precreg.errors import UserError
from precreg.types import Baseline, NoAcceptedVersion
from precreg.vcs import run_git, run_git_bytes


def acceptance_commit(project: Path, case: str, file: str) -> str | NoAcceptedVersion:
    """Return the commit whose code the present entry of a case accepted, or the reason why none is known."""
    name = _name(case)
    try:
        present = _values(_cases_in(read_project_bytes(project, file) or b"").get(name))
        found = None if present is None else _oldest(project, _Entry("HEAD", file, name), present)
    except UserError as problem:
        return NoAcceptedVersion("no_git", problem.message)
    if found is None:
        return NoAcceptedVersion("not_committed", file)
    # In a shallow clone the oldest commit has every file, whenever it was made.
    return NoAcceptedVersion("shallow") if found in _shallow_edges(project) else found


class _Entry(NamedTuple):
    """The place of an entry: the last commit on the way back, the file and the name of the case in it."""

    commit: str
    file: str
    name: str


def _oldest(project: Path, entry: _Entry, values: Any) -> str | None:
    """Return the oldest commit up to which an entry has these values; None if the last commit has others."""
    found, at = None, _oldest_in_file(project, entry, values)
    while at is not None:
        found = at
        former = _former_place(project, entry._replace(commit=at), values)
        at = None if former is None else _oldest_in_file(project, former, values)
    return found


def _oldest_in_file(project: Path, entry: _Entry, values: Any) -> str | None:
    """Return the oldest commit up to which a file has the values under one name; None if its last commit has others."""
    parents = _history(project, entry.commit, entry.file)
    found, candidates = None, [*parents][:1]
    # A merge has the values from any of its parents.
    while same := [commit for commit in candidates if _values_at(project, entry._replace(commit=commit)) == values]:
        found = same[0]
        candidates = [*parents.get(found, ())]
    return found


def _former_place(project: Path, entry: _Entry, values: Any) -> _Entry | None:
    """Return the place that the values had before the entry's commit moved them; None if it brought them."""
    before = f"{entry.commit}^"
    changed = ("diff", "--name-only", "-z", "--no-renames", "--diff-filter=DM", "--relative", before, entry.commit)
    # Without a parent the command fails, and its output is empty.
    for file in run_git(project, *changed, "--", "baselines").stdout.split("\0")[:-1]:
        for name in _cases_at(project, before, file):
            former = _Entry(before, file, name)
            if _values_at(project, former) == values:
                return former
    return None


def _values_at(project: Path, entry: _Entry) -> Any:
    return _values(_cases_at(project, entry.commit, entry.file).get(entry.name))


def commit_has_entry(project: Path, commit: str, case: str, baseline: Baseline) -> bool:
    """Return whether a commit has the entry of a baseline, as it is."""
    suite = suite_of_file(baseline.file)
    try:
        entries = parse_entries(
            _bytes_at(project, commit, baseline.file),
            baseline.environment,
            suite,
            lambda sibling: _bytes_at(project, commit, sibling),
        )
        return entries[_name(case)].outputs == baseline.entry.outputs
    except (LookupError, UserError):
        return False


def _bytes_at(project: Path, commit: str, file: str) -> bytes | None:
    """Return the content of a file at a commit; None if it has no such file."""
    stored = run_git(project, "show", f"{commit}:./{file}")
    return stored.stdout.encode(errors="surrogateescape") if stored.returncode == 0 else None


# The cases of a suite share a file.
@lru_cache(maxsize=64)
def _history(project: Path, commit: str, file: str) -> Mapping[str, Sequence[str]]:
    """Return the commits that changed a file, from a commit back, each with those before it; the newest is first."""
    # Without a revision, because git then reports that the branch has no commit yet.
    revision = () if commit == "HEAD" else (commit,)
    lines = run_git_bytes(project, "log", "--parents", "--format=%H %P", *revision, "--", file).decode().splitlines()
    return {first: parents for first, *parents in map(str.split, lines)}


@lru_cache(maxsize=256)
def _cases_at(project: Path, commit: str, file: str) -> Mapping[str, Any]:
    """Return the cases of a file at a commit as plain JSON, by name; none if it has no such file."""
    return _cases_in(_bytes_at(project, commit, file) or b"")


def _cases_in(data: bytes) -> Mapping[str, Any]:
    try:
        cases = json.loads(data)["cases"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return cases if isinstance(cases, dict) else {}


def _name(case: str) -> str:
    """Return the name of a case in its file, without tier and suite."""
    return case.split("/", 2)[2]


def _values(entry: Any) -> Any:
    """Return the digests of inputs and outputs; None if they cannot be read.

    The same bits are the same baseline, whoever accepted it, with whichever metrics and environments.
    """
    try:
        return entry["inputs"], {name: output["digests"] for name, output in entry["outputs"].items()}
    except (LookupError, TypeError, AttributeError):
        return None


def _shallow_edges(project: Path) -> frozenset[str]:
    """Return the commits whose parents a shallow clone lacks."""
    place = run_git(project, "rev-parse", "--git-path", "shallow").stdout.strip()
    file = project / place
    return frozenset(file.read_text().split()) if place and file.is_file() else frozenset()
