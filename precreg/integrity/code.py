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
_WHOLE = "*"


def code_of(target: str, directory: str, project: Path) -> str:
    """Return a text that changes with the code of `module:function` as a suite in `directory` finds it.

    Comments, docstrings and the place in the file do not count. The text is empty for what is installed elsewhere.
    """
    module, _, function = target.partition(":")
    folders = search_path(project, directory)
    path = find_module(module, folders)
    if path is None:
        return ""
    seen: dict[tuple[Path, str], str] = {}
    _follow(path, function.partition(".")[0], folders, seen)
    return "\n".join(f"{place.relative_to(project)}:{name}\n{text}" for (place, name), text in sorted(seen.items()))


def _follow(path: Path, name: str, folders: tuple[Path, ...], seen: dict[tuple[Path, str], str]) -> None:
    """Add what a name of a module stands for, and what that uses, to what was seen."""
    waiting = [(path, name)]
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        statements = _statements(*place)
        seen[place] = "\n".join(ast.dump(statement, annotate_fields=False) for statement in statements)
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                waiting += _imported(statement, place[0], folders, None if place[1] == _WHOLE else place[1])
            else:
                waiting += ((place[0], node.id) for node in ast.walk(statement) if isinstance(node, ast.Name))


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
    return tree.body


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
    statement: ast.Import | ast.ImportFrom, path: Path, folders: tuple[Path, ...], wanted: str | None
) -> Iterator[tuple[Path, str]]:
    """Yield the modules of the project, or names in them, that a statement brings under a name; None stands for all."""
    for alias in statement.names:
        if wanted is not None and (alias.asname or alias.name.partition(".")[0]) not in (wanted, _WHOLE):
            continue
        if isinstance(statement, ast.Import):
            module, name = alias.name, _WHOLE
        else:
            module, name = statement.module or "", alias.name
        level = 0 if isinstance(statement, ast.Import) else statement.level
        places = folders if level == 0 else (path.parents[min(level, len(path.parents)) - 1],)
        inner = find_module(f"{module}.{alias.name}".lstrip("."), places) if name != _WHOLE else None
        found = find_module(module, places) if module else None
        if inner is not None:
            yield inner, _WHOLE
        elif found is not None:
            yield found, name
