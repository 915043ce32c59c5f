"""Which lines of the accepted version did a change replace, and which lines are there now?"""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import NamedTuple

from precreg.types import Site

# Files of models have nodes in place of lines.
_MODEL = ".onnx"


class FileChange(NamedTuple):
    """Hold the changed lines of one file, and the present line for each line of the accepted version.

    A line beside an insertion counts as changed, because the inserted line may alter its operands. Its present line is
    the inserted one. Lines count from 1.
    """

    changed: frozenset[int]
    present: dict[int, int]


class ChangedLines:
    """Compare files of two checkouts, each at its first use. Paths are absolute, below the root of `accepted`."""

    def __init__(self, accepted: Path, present: Path) -> None:
        self._accepted, self._present = accepted, present
        self.of = cache(self._compare)

    def _compare(self, file: str) -> FileChange:
        """Compare one file; a file that one side lacks, or that moved, has no changed line."""
        path = Path(file)
        other = self.counterpart(path)
        if other is None:
            return FileChange(frozenset(), {})
        try:
            texts = [_lines(each) for each in (path, other)]
        except (OSError, UnicodeDecodeError):
            return FileChange(frozenset(), {})
        return compare_lines(*texts)

    def counterpart(self, file: Path) -> Path | None:
        """Return the same file of the present version; None for a file outside."""
        return self._present / file.relative_to(self._accepted) if file.is_relative_to(self._accepted) else None

    def has_changed(self, file: str, first: int, last: int) -> bool:
        """Return whether one of the lines from `first` to `last` changed."""
        changed = self.of(file).changed
        return any(line in changed for line in range(first, last + 1))

    def present_site(self, file: str, line: int, root: Path) -> Site | None:
        """Return the place in the present version; None for a line that is gone. `root` belongs to its project."""
        found = self.of(file).present.get(line)
        if found is None:
            return None
        path = self._present / Path(file).relative_to(self._accepted)
        if path.suffix == _MODEL:
            from precreg.diagnose.onnx import model_nodes, node_site

            return node_site(model_nodes(path)[found - 1])
        code = _lines(path)[found - 1].strip()
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        return Site(shown.as_posix(), found, code)


def _lines(path: Path) -> list[str]:
    """Return the lines of a text, or one for each node of a model."""
    if path.suffix == _MODEL:
        from precreg.diagnose.onnx import node_lines

        return node_lines(path)
    return path.read_text(encoding="utf-8").splitlines()


def compare_lines(accepted: list[str], present: list[str]) -> FileChange:
    """Return the changed lines of an accepted text, and the present line for each of them that remains."""
    changed: set[int] = set()
    lines: dict[int, int] = {}
    inserted: dict[int, int] = {}
    for code, low, high, start, end in SequenceMatcher(None, accepted, present, autojunk=False).get_opcodes():
        if code == "equal":
            lines |= {low + step + 1: start + step + 1 for step in range(high - low)}
        elif low == high:
            # An insertion has no line of its own in the accepted version.
            inserted |= {low: start + 1, low + 1: start + 1}
        else:
            changed |= set(range(low + 1, high + 1))
            if end > start:
                lines |= {low + step + 1: min(start + step, end - 1) + 1 for step in range(high - low)}
    return FileChange(frozenset(changed | set(inserted)), lines | inserted)
