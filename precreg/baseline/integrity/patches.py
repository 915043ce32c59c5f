"""Statements that put something into what was imported: a kernel that changes numpy, or its own reference, by text.

What is done in other ways, as through `vars` or `exec`, is not seen; nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_SETTING = ("setattr", "delattr")


def patches(statements: Iterable[ast.stmt], imported: frozenset[str]) -> Iterator[str]:
    """Yield each attribute of something imported that is set or removed, as `np.sum`; calls of setattr as they are."""
    for node in (node for statement in statements for node in ast.walk(statement)):
        yield from (ast.unparse(node) for target in _targets(node) if _root(target) in imported)


def imported_names(tree: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the names that imports bind, wherever in a module they stand."""
    imports = (node for each in tree for node in ast.walk(each) if isinstance(node, ast.Import | ast.ImportFrom))
    return frozenset(alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names)


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the attributes that a node sets or removes, and what `setattr` and `delattr` are given."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield node
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SETTING:
        yield from node.args[:1]


def _root(target: ast.expr) -> str:
    while isinstance(target, ast.Attribute):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
