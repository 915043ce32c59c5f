"""Which smallest part of the guilty commit restores the result if it is undone?

Delta debugging goes from files to functions, statements and operations. Each run has the bad version with some parts
undone. A finer level counts only if all its parts together restore the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from precreg.diagnose.bisection.judgement import VersionJudge
from precreg.diagnose.bisection.log import SearchLog
from precreg.diagnose.bisection.process import CodeVersion
from precreg.diagnose.bisection.search import smallest_set
from precreg.diagnose.bisection.source_parts import (
    SourcePart,
    edited,
    functions_changed,
    lines_changed,
    operations_of,
    statements_of,
)
from precreg.types import BisectionStep, ChangeLevel, CodeChange, NarrowingLevel
from precreg.vcs import run_git, run_git_bytes

_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
# The smallest share of lines that git takes for a rename, so that a moved and changed file stays one change.
_RENAME = "-M30%"


class ChangedFile(NamedTuple):
    """A file that a commit changed, by its names before and after; an empty name for a file that is not there."""

    before: str
    after: str


class Narrowed(NamedTuple):
    """The smallest changes whose undoing restores the result, the way there, and the last run; None without any."""

    levels: tuple[NarrowingLevel, ...]
    changes: tuple[CodeChange, ...]
    proof: BisectionStep | None


def changed_between(root: Path, good: str, bad: str) -> list[ChangedFile]:
    """Return the files that differ between two commits. Raises UserError: no-git."""
    options = ("--name-status", "-z", _RENAME, "--no-ext-diff", "--ignore-submodules=none")
    words = run_git_bytes(root, "diff", *options, good, bad, "--").decode(errors="surrogateescape").split("\0")
    found, place = [], 0
    while place < len(words) - 1:
        kind, name = words[place][:1], words[place + 1]
        if kind in "RC":
            found.append(ChangedFile(name if kind == "R" else "", words[place + 2]))
            place += 3
            continue
        found.append(ChangedFile("" if kind == "A" else name, "" if kind == "D" else name))
        place += 2
    return found


def file_content(root: Path, commit: str, file: str) -> bytes | None:
    """Return the bytes of a file at a commit; None for a link, a submodule and a file that is not there."""
    shown = run_git(root, "ls-tree", "-z", commit, "--", file).stdout
    # Links and submodules have no lines.
    return run_git_bytes(root, "cat-file", "blob", f"{commit}:{file}") if shown.startswith("100") else None


class Undoing:
    """The bad commit in a checkout, with parts undone."""

    def __init__(self, judge: VersionJudge, log: SearchLog, version: CodeVersion, tree: Path, good: str) -> None:
        """Take a checkout of the bad commit, whose id is the version's name; `good` is its parent."""
        self._judge, self._log, self._version, self._tree, self._good = judge, log, version, tree, good
        self._files: dict[str, ChangedFile] = {}
        self._last: BisectionStep | None = None
        self._runs = 0

    def narrow(self) -> Narrowed:
        """Return the smallest changes whose undoing restores the result."""
        changed = changed_between(self._tree, self._good, self._version.name)
        self._files = {file.after or file.before: file for file in changed}
        parts = [SourcePart(CodeChange("file", name)) for name in self._files]
        levels: list[NarrowingLevel] = []
        kept: list[SourcePart] = []
        finer: tuple[tuple[ChangeLevel, Callable[[list[SourcePart]], list[SourcePart]]], ...] = (
            ("file", lambda _: parts),
            ("function", self._functions),
            ("statement", lambda found: _each(found, statements_of)),
            ("operation", lambda found: _each(found, operations_of)),
        )
        proof = None
        for level, divide in finer:
            candidates = divide(kept)
            if candidates == kept and levels:
                continue
            self._runs = 0
            start = self._restoring(candidates)
            if start is None:
                if not levels:
                    break
                continue
            kept = smallest_set(start, self._restores)
            runs = self._runs
            # The proof is a run of its own, or the run that the search has made of exactly these parts.
            self._restores(kept)
            proof = self._last
            levels.append(NarrowingLevel(level, len(candidates), runs, tuple(part.change for part in kept)))
        return Narrowed(tuple(levels), tuple(part.change for part in kept), proof)

    def _restoring(self, parts: list[SourcePart]) -> list[SourcePart] | None:
        """Return parts that restore the result together: all of them, the functions alone, or one; None without any.

        All together may fail, for instance if the good import names a module that the bad version has moved.
        """
        functions = [part for part in parts if part.nodes is not None]
        attempts = [parts, functions, *([part] for part in sorted(parts, key=lambda part: part.nodes is None))]
        return next((some for some in attempts if some and self._restores(some)), None)

    def _functions(self, kept: list[SourcePart]) -> list[SourcePart]:
        """Return the parts of whole files: functions of Python, lines of others, and the file where neither applies."""
        every = self._files.values()
        former, present = (
            {name: self._content(commit, name) or b"" for each in every if (name := each[side]).endswith(".py")}
            for side, commit in enumerate((self._good, self._version.name))
        )
        pairs = {each.after: each.before for each in every}
        found = functions_changed(pairs, former, present, {part.change.file for part in kept})
        divided = {part.change.file for part in found}
        for part in kept:
            file = self._files[part.change.file]
            if part.change.file in divided:
                continue
            if not part.change.file.endswith(".py") and file.before and file.after:
                good, now = self._content(self._good, file.before), self._content(self._version.name, file.after)
                found += lines_changed(file.after, good or b"", now or b"") or [part]
            elif file.after or not divided:
                found.append(part)
        return found

    def _content(self, commit: str, file: str) -> bytes | None:
        return file_content(self._tree, commit, file)

    def _restores(self, parts: Sequence[SourcePart]) -> bool:
        """Run the bad version with parts undone, and return whether it is good."""
        self._runs += 1
        name = f"{self._version.name} without {_digest(parts)}"
        step = self._log.known(name)
        if step is None:
            try:
                self._apply(parts)
            except (ValueError, OSError):
                return False
            step = self._judge.judge(self._version._replace(name=name))
            self._log.take(step)
        if step.verdict == "good":
            self._last = step
        return step.verdict == "good"

    def _apply(self, parts: Sequence[SourcePart]) -> None:
        """Make the checkout the bad commit with parts undone. Raises ValueError for parts that overlap."""
        run_git(self._tree, *_NO_HOOKS, "checkout", "--quiet", "--force", "--detach", self._version.name)
        run_git(self._tree, "clean", "--quiet", "--force", "-d")
        by_file: dict[str, list[SourcePart]] = {}
        for part in parts:
            by_file.setdefault(part.change.file, []).append(part)
        for file, own in by_file.items():
            if any(part.start < 0 for part in own):
                self._restore_file(self._files[file])
            else:
                path = self._tree / file
                path.write_bytes(edited(path.read_bytes(), own))

    def _restore_file(self, file: ChangedFile) -> None:
        if file.after and file.after != file.before:
            run_git(self._tree, *_NO_HOOKS, "rm", "--quiet", "--force", "--cached", "--", file.after)
            (self._tree / file.after).unlink(missing_ok=True)
        if file.before:
            run_git(self._tree, *_NO_HOOKS, "checkout", "--quiet", self._good, "--", file.before)


def _each(parts: Sequence[SourcePart], divide: Callable[[SourcePart], list[SourcePart]]) -> list[SourcePart]:
    """Return the finer parts of each part, or the part itself if it has none."""
    return [finer for part in parts for finer in (divide(part) or [part])]


def _digest(parts: Sequence[SourcePart]) -> str:
    found = sha256()
    for part in parts:
        found.update(f"{part.change.file}\0{part.start}\0{part.end}\0".encode(errors="surrogateescape"))
        found.update(part.text or b"")
    return found.hexdigest()[:16]
