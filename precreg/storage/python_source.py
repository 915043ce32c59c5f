"""How is a Python module read without running it?

The text shows imports, the names that they bind, and names of files. Code that is made while a module runs is unseen.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

# No file system accepts a longer name, so a longer text is prose.
_MAX_NAME_LENGTH = 255


class ImportedName(NamedTuple):
    """Hold a dotted name, relative to the package `level` above the module; 0 is absolute."""

    level: int
    name: str


# The functions below find nothing in nodes of other types, which are two thirds of a module.
_TELLING_NODES = frozenset(
    (ast.Import, ast.ImportFrom, ast.Call, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.BinOp, ast.Constant)
)


def telling_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of the types in _TELLING_NODES, at any depth."""
    # As `ast.walk`, which takes twice the time: it makes a generator for each node, and for each of its fields.
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if type(node) in _TELLING_NODES:
            yield node
        for value in vars(node).values():
            if type(value) is list:
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                waiting.append(value)


# A module is read for its names, for the arguments of its functions, and for its imports. Nobody changes a tree.
@lru_cache(maxsize=128)
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
    """Yield the path that a text with a suffix names; `here / "data" / "x.npy"` names data/x.npy.

    `join(here, "data", "x.npy")` and `here.joinpath("data", "x.npy")` name it, too.
    """
    parts = _path_parts(node)
    if parts and 0 < len(parts[-1]) <= _MAX_NAME_LENGTH and parts[-1].isprintable():
        path = PurePosixPath(*parts)
        if path.suffix:
            yield path


# Functions of ctypes, cffi and numpy that load a library.
_LOADERS = frozenset({"CDLL", "PyDLL", "WinDLL", "OleDLL", "LoadLibrary", "load_library", "dlopen"})
_LIBRARY_SUFFIXES = (".so", ".dylib", ".dll")
_SUFFIXES_HERE = {"darwin": (".dylib", ".so"), "win32": (".dll",)}


def libraries_loaded(node: ast.AST) -> Iterator[PurePosixPath]:
    """Yield the files that a call may load as a library without naming its suffix: `load_library("libop", "build")`."""
    if not isinstance(node, ast.Call) or not node.args or _called_name(node.func) not in _LOADERS:
        return
    parts = _path_parts(node.args[0])
    if not parts or len(parts[-1]) > _MAX_NAME_LENGTH or any(suffix in parts[-1] for suffix in _LIBRARY_SUFFIXES):
        return
    folder = [*(_path_parts(node.args[1]) if len(node.args) > 1 else []), *parts[:-1]]
    # numpy adds the suffix of an extension module, too; the search for a library of the system adds "lib".
    for suffix in (*_SUFFIXES_HERE.get(sys.platform, (".so",)), EXTENSION_SUFFIXES[0]):
        yield from (PurePosixPath(*folder, f"{prefix}{parts[-1]}{suffix}") for prefix in ("", "lib"))


def _path_parts(node: ast.AST) -> list[str]:
    """Return the texts at the end of an expression that puts a path together."""
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts[:0] = _text_of(node.right)
        node = node.left
    if isinstance(node, ast.Call) and _called_name(node.func) in ("join", "joinpath"):
        return [text for part in node.args for text in _text_of(part)] + parts
    return _text_of(node) + parts


def _assigns_all(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _called_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text_of(node: ast.AST) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
