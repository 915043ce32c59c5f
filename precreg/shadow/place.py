"""Which operations does a text name: by their name, variable, line, module, probe or output?"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from precreg.types import Operation, Site, UnmatchedPattern

_LINE = re.compile(r"(.+):([0-9]{1,9})")
# Names of operations, variables, probes, outputs, and paths of modules, with wildcards.
_NAME = re.compile(r"[\w.*?:/<>@ -]+")
_MAX_NEAREST = 3
# A computation has many operations, and few names.
_MAX_KNOWN = 10_000


class Statement(NamedTuple):
    """The first line of a statement, and the variables that it assigns."""

    line: int
    variables: frozenset[str]


class PlacePattern:
    """Match operations by a text, and remember the names that were there for a text that never matched."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = _LINE.fullmatch(text)
        self._file, self._line = (found[1], int(found[2])) if found else ("", 0)
        self.matched = False
        self._known: dict[str, None] = {}

    def matches(self, operation: Operation) -> bool:
        """Return whether the text names the operation itself, its line or its module."""
        names = (operation.name, operation.name.rpartition(".")[2], *_name_parts(operation.name), operation.site.module)
        found = self._is_line(operation.site) or any(self._is_name(each) for each in names)
        self.matched |= found
        if not self.matched and len(self._known) < _MAX_KNOWN:
            variables = statement_at(operation.site.file, operation.site.line).variables
            self._known |= dict.fromkeys((operation.name, operation.site.module, _place(operation.site), *variables))
        return found

    def matches_output(self, name: str) -> bool:
        """Return whether the text names an output."""
        found = self._is_name(name)
        self.matched |= found
        self._known[name] = None
        return found

    def unmatched(self) -> UnmatchedPattern | None:
        """Return the nearest known names if nothing matched."""
        if self.matched:
            return None
        known = list(filter(None, self._known))
        within = [name for name in known if self.text in name]
        nearest = (*within, *get_close_matches(self.text, known, _MAX_NEAREST, 0.5), *known[-_MAX_NEAREST:])
        return UnmatchedPattern(self.text, tuple(dict.fromkeys(nearest))[:_MAX_NEAREST])

    def _is_name(self, name: str) -> bool:
        return bool(name) and fnmatchcase(name, self.text)

    def _is_line(self, site: Site) -> bool:
        if not self._file or site.line == 0:
            return False
        first = statement_at(site.file, site.line).line
        same_line = site.line == self._line or first == self._line
        return same_line and (site.file == self._file or site.file.endswith(f"/{self._file}"))


def is_place(text: str) -> bool:
    """Return whether a text can name operations."""
    return _NAME.fullmatch(text) is not None


def _name_parts(name: str) -> tuple[str, ...]:
    # torch names an overload: "add" names aten.add.Tensor, too.
    parts = name.split(".")
    return (parts[1], ".".join(parts[1:])) if len(parts) > 2 else ()


def _place(site: Site) -> str:
    return f"{site.file.rpartition('/')[2]}:{site.line}" if site.file else ""


def statement_at(file: str, line: int) -> Statement:
    """Return the innermost simple statement that a line of a file belongs to."""
    return _statements(file).get(line) or Statement(line, frozenset())


@lru_cache(maxsize=256)
def _statements(file: str) -> dict[int, Statement]:
    # linecache knows the cells of a notebook, too.
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, Statement] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            statement = Statement(node.lineno, frozenset(_assigned(node)))
            found |= {line: statement for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return found


def _assigned(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    else:
        return
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Tuple | ast.List):
            targets += target.elts
        elif isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Subscript | ast.Starred):
            # `rows[i] = x` assigns to rows, and does not to i.
            targets.append(target.value)
