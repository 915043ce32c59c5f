"""The code behind a name, as far as text tells: a function with all of its module, and of the project, that it uses.

A reference decides what an error is, and no definition digest knows its code. Nothing is executed, so code that is
made while it runs is not seen: `setattr`, `exec`, or a module that another one changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from precreg.suite.modules import find_module, search_path

_DEFINING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
_CHECKERS = "TYPE_CHECKING"
_WHOLE = "*"
_EFFECTS = ""
"""In the place of a name: all of a module, and what importing it does besides defining."""


def code_of(target: str, directory: str, project: Path) -> str:
    """Return a text that changes with the code of `module:function` as a suite in `directory` finds it.

    Comments, docstrings and the places of it all do not count. The text is empty for what is installed elsewhere.
    """
    module, _, function = target.partition(":")
    folders = search_path(project, directory)
    path = find_module(module, folders)
    if path is None:
        return ""
    seen: dict[tuple[Path, str], str] = {}
    _follow(path, function.partition(".")[0], folders, seen)
    return "\n".join(sorted(f"{name}: {text}" for (_, name), text in seen.items() if text))


def _follow(path: Path, name: str, folders: tuple[Path, ...], seen: dict[tuple[Path, str], str]) -> None:
    """Add what a name of a module stands for, what that uses, and what importing all of it does, to what was seen."""
    waiting = [(path, name)]
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        waiting.append((place[0], _EFFECTS))
        statements = _statements(*place)
        seen[place] = "\n".join(ast.dump(statement, annotate_fields=False) for statement in statements)
        for node in (node for statement in statements for node in ast.walk(statement)):
            if isinstance(node, ast.Name):
                waiting.append((place[0], node.id))
            elif isinstance(node, ast.Import | ast.ImportFrom) and node not in statements:
                waiting += _imported(node, place[0], folders, _WHOLE)
        for statement in _module(place[0], place[0].stat().st_mtime_ns):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                waiting += _imported(statement, place[0], folders, place[1])


def _statements(path: Path, name: str) -> list[ast.stmt]:
    """Return the statements of a module that give a name its meaning, and those that do more than define."""
    return [
        statement
        for statement in _module(path, path.stat().st_mtime_ns)
        if name == _WHOLE or _does_more(statement) or name in _named(statement)
    ]


@lru_cache(maxsize=256)
def _module(path: Path, _modified_ns: int) -> list[ast.stmt]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return [ast.Expr(ast.Constant(path.read_bytes()))]  # what Python cannot read is compared as it stands
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(
            node, clean=False
        ):
            del node.body[0]
    return [statement for statement in tree.body if not _says_nothing(statement)]


def _says_nothing(statement: ast.stmt) -> bool:
    """Tell whether a statement does nothing where it runs: a text about the one before, or what checkers import."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.test, ast.Name):
        return False
    imports = all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in statement.body)
    return imports and statement.test.id == _CHECKERS


def _does_more(statement: ast.stmt) -> bool:
    """Tell whether a statement may change what others defined: a call, a loop, or a value put into something."""
    if isinstance(statement, ast.Assign):
        return not all(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
    return not isinstance(statement, _DEFINING | ast.AnnAssign)


def _named(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module gives a meaning to."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    else:
        yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _imported(
    statement: ast.Import | ast.ImportFrom, path: Path, folders: tuple[Path, ...], wanted: str
) -> Iterator[tuple[Path, str]]:
    """Yield the modules of the project that a statement brings under a wanted name, or for what importing them does."""
    level = 0 if isinstance(statement, ast.Import) else statement.level
    places = folders if level == 0 else (path.parents[min(level, len(path.parents)) - 1],)
    base = "" if isinstance(statement, ast.Import) else statement.module or ""
    for alias in statement.names:
        known = alias.asname or alias.name.partition(".")[0]
        module = f"{base}.{alias.name}".strip(".")
        for part in _packages(module):
            found = find_module(part, places)
            if found is None or not found.is_relative_to(folders[-1]):
                continue
            yield found, _EFFECTS
            if wanted in (known, _WHOLE) or known == "*":
                inner = part == module
                yield found, _WHOLE if inner else wanted if known == "*" else alias.name


def _packages(module: str) -> list[str]:
    """Return a dotted name, and those of the packages around it."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
