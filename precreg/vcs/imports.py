"""What a module's text says it needs: the modules that it imports, and the files that it names. Nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from precreg.vcs.relevant import can_matter

LONGEST_NAME = 255


class Imported(NamedTuple):
    """A dotted name, counted from the package that is `level` above the module; 0 counts from the top."""

    level: int
    name: str


class Needs(NamedTuple):
    """What was found: modules, or names in them (`from a import b` may mean a.b), and texts that look like files."""

    modules: tuple[Imported, ...]
    files: tuple[str, ...]


@lru_cache(maxsize=1024)
def needs(path: Path) -> Needs:
    """Return what a module needs, wherever in it that is said; nothing of one that Python cannot parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return Needs((), ())
    modules: list[Imported] = []
    files: list[str] = []
    for node in ast.walk(tree):
        modules += _imported(node)
        files += files_named(node)
    return Needs(tuple(modules), tuple(files))


def _imported(node: ast.AST) -> Iterator[Imported]:
    if isinstance(node, ast.Import):
        yield from (Imported(0, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = f"{node.module}." if node.module else ""
        yield from (Imported(node.level, (base + alias.name).removesuffix(".*")) for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and _called(node.func) in ("import_module", "__import__"):
        for name in _text(node.args[0]):
            yield Imported(len(name) - len(name.lstrip(".")), name.lstrip("."))
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and _is_all(node):
        values = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else []
        yield from (Imported(1, name) for value in values for name in _text(value))


def _is_all(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
    """Tell whether this is `__all__ = ...`, whose names a star import looks for as modules, too."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def files_named(node: ast.AST) -> Iterator[str]:
    """Yield a text that has a suffix as file names have, and `here / "data" / "x.npy"` as data/x.npy."""
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts[:0] = _text(node.right)
        node = node.left
    parts[:0] = _text(node)
    if parts and 0 < len(parts[-1]) <= LONGEST_NAME and parts[-1].isprintable():
        path = PurePosixPath(*parts)
        if path.suffix and can_matter(path.name):
            yield path.as_posix()


def _text(node: ast.AST) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
