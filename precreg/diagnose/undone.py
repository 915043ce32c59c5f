"""Which changed statements restore the result of the accepted version if they are undone?

The present version runs in a checkout, with parts of its Python files as the accepted version has them. Delta debugging
finds the smallest parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from precreg.diagnose.bisection import (
    SourcePart,
    changed_between,
    edited,
    file_content,
    functions_changed,
    operations_of,
    smallest_set,
    snapshot,
    statements_of,
)
from precreg.diagnose.change_kind import change_kind
from precreg.diagnose.evidence import error_to_explain, is_exact, measure_evidence
from precreg.diagnose.tasks import ACCEPTED_FILE, ACTUAL_FILE, DiagnosisTask, OutputsTask
from precreg.run import OtherVersion, checked_out_version, run_in_workers
from precreg.storage import read_npz
from precreg.types import Case, Cause, Evidence, RewrittenPlace, Site
from precreg.vcs import worktree_root

# Statements that together restore the result; more of them are a rewrite of the file, and no cause.
MAX_UNDONE = 3


class _TimeIsUp(Exception):  # noqa: N818
    """End a search whose time is up."""


class Undone(NamedTuple):
    """Hold the changes whose undoing restores the result, and the number of runs."""

    causes: tuple[Cause, ...] = ()
    runs: int = 0


def undo_changes(case: Case, task: DiagnosisTask, accepted: str, seconds: float) -> Undone:
    """Return the smallest changed parts that restore the accepted version's bits, at most MAX_UNDONE of them.

    Return none if all Python changes together do not restore them, if the accepted version has no stored results, or if
    the time is up. Raises UserError (no-checkout).
    """
    if not (task.folder / ACCEPTED_FILE).exists():
        return Undone()
    present = snapshot(task.project)
    with checked_out_version(task.project, present, present) as version:
        search = _Undoing(case, task, version, monotonic() + seconds)
        try:
            parts = search.smallest(changed_functions(version, accepted, present))
        except _TimeIsUp:
            return Undone(runs=search.runs)
    if not parts or len(parts) > MAX_UNDONE:
        return Undone(runs=search.runs)
    causes = [_cause(part, search.evidence, task.project, version) for part in parts]
    return Undone(tuple(causes), search.runs)


def changed_functions(version: OtherVersion, accepted: str, present: str) -> list[SourcePart]:
    """Return the changed functions and module statements of all Python files, as parts of a checkout of `present`."""
    root = version.trees.other
    files = [each for each in changed_between(root, accepted, present) if each.after.endswith(".py")]
    former, now = (
        {name: file_content(root, commit, name) or b"" for each in files if (name := each[side]).endswith(".py")}
        for side, commit in enumerate((accepted, present))
    )
    return functions_changed({each.after: each.before for each in files}, former, now, {each.after for each in files})


class EditedTree:
    """A checkout whose files have parts undone, each time other ones."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[Path, bytes] = {}
        self._writes = 0

    def undo(self, parts: Sequence[SourcePart]) -> None:
        """Write the files with parts undone, and all others as they were. Raises ValueError for parts that overlap."""
        by_file: dict[Path, list[SourcePart]] = {}
        for part in parts:
            by_file.setdefault(self._root / part.change.file, []).append(part)
        for path in self._contents.keys() - by_file.keys():
            self._write(path, self._contents[path])
        for path, own in by_file.items():
            content = self._contents.setdefault(path, path.read_bytes())
            self._write(path, edited(content, own))

    def _write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        # Python reuses cached bytecode for a file of the same size and second, so each content gets a second.
        self._writes += 1
        os.utime(path, (self._writes, self._writes))


class _Undoing:
    """Run the present version with parts undone, each time in a process of its own."""

    def __init__(self, case: Case, task: DiagnosisTask, version: OtherVersion, deadline: float) -> None:
        self._case, self._task, self._version, self._deadline = case, task, version, deadline
        actual = read_npz(task.folder / ACTUAL_FILE, ACTUAL_FILE)
        accepted = read_npz(task.folder / ACCEPTED_FILE, ACCEPTED_FILE)
        self._error = error_to_explain(accepted, actual)
        self._tree = EditedTree(version.trees.other)
        self.evidence = Evidence(0, 0, 0, 0)
        self.runs = 0

    def smallest(self, functions: list[SourcePart]) -> list[SourcePart]:
        """Return the smallest statements and expressions that restore the result together."""
        if not functions or not self._restores(functions):
            return []
        kept = smallest_set(functions, self._restores)
        levels: tuple[Callable[[SourcePart], list[SourcePart]], ...] = (statements_of, operations_of)
        for divide in levels:
            finer = [part for each in kept for part in (divide(each) or [each])]
            if finer != kept and self._restores(finer):
                kept = smallest_set(finer, self._restores)
        # The last run of a search may have parts that restore nothing.
        self._restores(kept)
        return kept

    def _restores(self, parts: Sequence[SourcePart]) -> bool:
        """Return whether the outputs with parts undone have the bits of the accepted version."""
        if monotonic() > self._deadline:
            raise _TimeIsUp
        self.runs += 1
        try:
            self._tree.undo(parts)
        except ValueError:
            return False
        made = self._task.folder / f"undone-{self.runs}.npz"
        there = OutputsTask(self._version.project, self._task.seed, made, self._version.trees)
        (answer,) = run_in_workers([self._case], there, 1)
        if answer.problem:
            return False
        evidence = measure_evidence(self._error, read_npz(made, made.name))
        if is_exact(evidence):
            self.evidence = evidence
        return is_exact(evidence)


def _cause(part: SourcePart, evidence: Evidence, project: Path, version: OtherVersion) -> Cause:
    change = part.change
    folder = version.project.relative_to(version.trees.other)
    file = Path(change.file)
    shown = file.relative_to(folder) if file.is_relative_to(folder) else file
    lines = (worktree_root(project) / change.file).read_text(encoding="utf-8").splitlines()
    code = lines[change.line - 1].strip() if 0 < change.line <= len(lines) else ""
    site = Site(shown.as_posix(), change.line, code)
    place = RewrittenPlace("statement", change.function, site, " ".join(change.bad.split()))
    options: dict[str, float | str] = {"before": " ".join(change.good.split()), "now": " ".join(change.bad.split())}
    return Cause(
        f"changed_{change_kind(change.good, change.bad)}", options, place, "subject", evidence, is_changed=True
    )
