"""How do entries get into baselines/allow.yaml, and out of it?

A reviewer reads and comments this file, so its text is only appended to, or loses whole entries. The new text is read
as strictly as a run reads it before it replaces the old one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from precreg.baseline.integrity.sides import (
    COMPUTED_KINDS,
    FILE,
    Allowance,
    allowed_reason,
    mark_spent,
    read_allowances,
)
from precreg.baseline.store import delete_file, write_file
from precreg.baseline.suite_file import read_project_bytes
from precreg.errors import UserError
from precreg.storage import temporary_folder
from precreg.types import FindingKind
from precreg.vcs import run_git

_KEY = "allow"
# Texts that YAML reads as the same text without quotes, in any context.
_PLAIN = re.compile(r"[A-Za-z][\w./=()%+-]*( [\w./=()%+-]+)*", re.ASCII)
# YAML 1.1 and 1.2 read these as other types.
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
_INDENT = "  "


class NewAllowance(NamedTuple):
    """Hold one entry for baselines/allow.yaml."""

    case: str
    kind: FindingKind
    reason: str


def render_allowance(entry: NewAllowance) -> list[str]:
    """Return the lines of one item of the list in baselines/allow.yaml, without indentation."""
    return [
        f"- case: {_scalar(entry.case)}",
        f"  change: {entry.kind}",
        f"  reason: {_scalar(entry.reason)}",
    ]


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    # A JSON text is a YAML text in double quotes.
    return json.dumps(text, ensure_ascii=not text.isprintable())


def present_allowances(project: Path, base: str | None) -> tuple[Allowance, ...]:
    """Return the entries of the working tree; those that the base commit has, too, are spent.

    Raises:
        UserError: no-git, and those of `read_allowances`.
    """
    return mark_spent(read_allowances(project), () if base is None else _allowances_at(project, base))


def _allowances_at(project: Path, commit: str) -> tuple[Allowance, ...]:
    stored = run_git(project, "show", f"{commit}:./{FILE}")
    try:
        return _read_text(stored.stdout) if stored.returncode == 0 else ()
    except UserError:
        return ()


def _read_text(text: str) -> tuple[Allowance, ...]:
    """Read entries from a text. Raises UserError as `read_allowances` does."""
    with temporary_folder() as folder:
        file = folder / FILE
        file.parent.mkdir()
        file.write_bytes(text.encode(errors="surrogateescape"))
        return read_allowances(folder)


def add_allowances(project: Path, new: Sequence[NewAllowance], base: str | None) -> list[NewAllowance]:
    """Append entries to baselines/allow.yaml, and return those that nothing permitted yet. The caller holds the lock.

    An entry that the base has word by word permits nothing, so a reason that is used again gets the date.

    Raises:
        UserError: bad-allowance for a file that entries cannot be appended to, not-writable, outside-project, and
            those of `read_allowances`.
    """
    present = present_allowances(project, base)
    taken = {_values(entry) for entry in present}
    added: list[NewAllowance] = []
    for entry in dict.fromkeys(new):
        if allowed_reason(entry.kind, entry.case, present) is None:
            found = next(each for each in _with_dates(entry) if each not in taken)
            taken.add(found)
            added.append(found)
    if added:
        before = _text(project)
        _replace(project, _appended(before, added), [*map(_values, present), *added])
    return added


def _with_dates(entry: NewAllowance) -> Iterator[NewAllowance]:
    yield entry
    dated = f"{entry.reason} ({date.today().isoformat()}"
    yield entry._replace(reason=f"{dated})")
    number = 2
    while True:
        yield entry._replace(reason=f"{dated}, {number})")
        number += 1


def prune_allowances(project: Path, base: str | None) -> list[Allowance]:
    """Remove the entries whose change is merged into the base, and return them. The caller holds the lock.

    Entries for losses that every run finds anew stay. Raises UserError as `add_allowances` does.
    """
    present = present_allowances(project, base)
    served = [entry.spent and entry.kind not in COMPUTED_KINDS for entry in present]
    if any(served):
        kept = [_values(entry) for entry, gone in zip(present, served, strict=True) if not gone]
        _replace(project, _without(_text(project), lambda index: served[index]), kept)
    return [entry for entry, gone in zip(present, served, strict=True) if gone]


def _values(entry: Allowance) -> NewAllowance:
    return NewAllowance(entry.case, entry.kind, entry.reason)


def _text(project: Path) -> str:
    return (read_project_bytes(project, FILE) or b"").decode("utf-8-sig")


def _replace(project: Path, text: str, expected: Sequence[NewAllowance]) -> None:
    """Write the new text, if it has exactly the expected entries. Raises UserError (bad-allowance)."""
    if not text.strip():
        delete_file(project, FILE)
        return
    try:
        found = [*map(_values, _read_text(text))]
    except UserError:
        found = []
    if found != [*expected]:
        message = "expected a list with one entry a line, but this text cannot be changed without a person"
        raise UserError("bad-allowance", message, file=FILE)
    write_file(project, FILE, text)


class _List(NamedTuple):
    """Describe the list of entries in a text: its node, the first line of its key, and its lines."""

    node: Any
    key_line: int
    lines: list[str]

    @property
    def flows(self) -> bool:
        """Return whether the list is written in brackets."""
        return bool(self.node.flow_style)


def _find_list(text: str) -> _List | None:
    """Return the list in a text that was read before; None in an empty file."""
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return None
    ((key, node),) = root.value
    return _List(node, key.start_mark.line, text.splitlines(keepends=True))


def _appended(text: str, entries: Sequence[NewAllowance]) -> str:
    found = _find_list(text)
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    if found is None:
        return f"{ended}{_KEY}:\n{_block(entries, _INDENT)}"
    if not found.flows:
        return f"{ended}{_block(entries, ' ' * found.node.start_mark.column)}"
    return _with_block(ended, found, [*map(_values, _read_text(text)), *entries])


def _with_block(text: str, found: _List, entries: Sequence[NewAllowance]) -> str:
    """Replace a list in brackets by one entry after the other."""
    start, end = found.node.start_mark.index, found.node.end_mark.index
    rest = text[end:].lstrip(" ").removeprefix("\n")
    return f"{text[:start].rstrip(' ')}\n{_block(entries, _INDENT)}{rest}" if entries else rest


def _block(entries: Sequence[NewAllowance], indent: str) -> str:
    return "".join(f"{indent}{line}\n" for entry in entries for line in render_allowance(entry))


def _without(text: str, is_removed: Callable[[int], bool]) -> str:
    """Return a text without some entries, by their index; comments stay, apart from those inside an entry."""
    found = _find_list(text)
    if found is None:
        return text
    numbers = range(len(found.node.value))
    if found.flows:
        kept = [_values(entry) for number, entry in enumerate(_read_text(text)) if not is_removed(number)]
        return _with_block(text, found, kept) if kept else "".join(found.lines[: found.key_line])
    gone = {line for number in numbers if is_removed(number) for line in _lines_of(found, number)}
    if all(map(is_removed, numbers)):
        gone.add(found.key_line)
    return "".join(line for number, line in enumerate(found.lines) if number not in gone)


def _lines_of(found: _List, number: int) -> range:
    """Return the lines of one entry, from its dash to its last value."""
    node = found.node.value[number]
    first = node.start_mark.line
    while not found.lines[first].lstrip().startswith("-"):
        first -= 1
    ends = (mark.end_mark for pair in node.value for mark in pair)
    # The end of a block scalar is the beginning of the line after it.
    return range(first, max(end.line if end.column else end.line - 1 for end in ends) + 1)
