"""How is a Python module read without running it?

The text shows imports, the names that they bind, and names of files. Code that is made while a module runs is unseen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

# No file system accepts a longer name, so a longer text is prose.
_MAX_NAME_LENGTH = 255


class ImportedName(NamedTuple):
    """Hold a dotted name, relative to the package `level` above the module; 0 is absolute."""

    level: int
    name: str


def parse_module(text: bytes) -> ast.Module | None:
    """Return the syntax tree of a module in the encoding that it declares; None if this Python cannot parse it."""
    try:
        return ast.parse(text)
    # ValueError for a NUL, RecursionError for deeply nested text. The case itself fails later, with Python's message.
    except (SyntaxError, ValueError, RecursionError):
        return None


def names_bound(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the names that an import binds; "*" for a star import."""
    return (alias.asname or alias.name.partition(".")[0] for alias in statement.names)


def names_imported(node: ast.AST) -> Iterator[ImportedName]:
    """Yield modules that a node imports, or names in them: `from a import b` may mean the module a.b.

    Besides import statements, these are calls of `import_module` and `__import__`, and the texts of `__all__`.
    """
    if isinstance(node, ast.Import):
        yield from (ImportedName(0, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = f"{node.module}." if node.module else ""
        yield from (ImportedName(node.level, (base + alias.name).removesuffix(".*")) for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and _called_name(node.func) in ("import_module", "__import__"):
        for name in _text_of(node.args[0]):
            yield ImportedName(len(name) - len(name.lstrip(".")), name.lstrip("."))
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and _assigns_all(node):
        # A star import of a package also imports the submodules in its __all__.
        values = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else []
        yield from (ImportedName(1, name) for value in values for name in _text_of(value))


def relative_import_folder(path: Path, level: int) -> Path:
    """Return the folder of the package that is `level` above the module at a path, from 1 on."""
    # Python refuses too many dots; reading such a module must not fail.
    return path.parents[min(level, len(path.parents)) - 1]


def files_named(node: ast.AST) -> Iterator[PurePosixPath]:
    """Yield the path that a text with a suffix names; `here / "data" / "x.npy"` names data/x.npy."""
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts[:0] = _text_of(node.right)
        node = node.left
    parts[:0] = _text_of(node)
    if parts and 0 < len(parts[-1]) <= _MAX_NAME_LENGTH and parts[-1].isprintable():
        path = PurePosixPath(*parts)
        if path.suffix:
            yield path


def _assigns_all(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _called_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text_of(node: ast.AST) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
