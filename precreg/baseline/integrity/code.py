"""The code behind a name, as far as text tells: a function with all of its module, and of the project, that it uses.

A reference decides what an error is, and no definition digest knows its code. Nothing is executed, so code that is
made while it runs is not seen: `setattr`, `exec`, or a module that another one changes. Compiled modules count where
git says that they changed: what a build left beside the text, and git ignores, is made of that text.

Statements that put something into what was imported: a kernel that changes numpy, or its own reference, by text.

What is done in other ways, as through `vars` or `exec`, is not seen; nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES
from os.path import relpath
from pathlib import Path
from typing import NamedTuple

from precreg.suite import possible_files, search_path
from precreg.vcs import files_named

_SETTING = ("setattr", "delattr")


def patched_attributes(statements: Iterable[ast.stmt], imported: frozenset[str]) -> Iterator[str]:
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


COMPILED_SUFFIXES = (".so", ".pyd", *BYTECODE_SUFFIXES)
"""How the names of modules end that are no text."""


_DEFINING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom

_CHECKERS = "TYPE_CHECKING"

_UNCHECKED = (1).to_bytes(4, "little")
"""In a cached module, the flags of one that is told from others by a digest that nobody checks (PEP 552)."""


_MADE_WHEN_ASKED = "__getattr__"

_WHOLE = "*"

_EFFECTS = ""
"""In the place of a name: all of a module, and what importing it does besides defining."""


_SUFFIXES = (*EXTENSION_SUFFIXES, ".py", *BYTECODE_SUFFIXES)
"""How files of modules end, in the order in which Python takes them."""


Folders = tuple[Path, ...]


class _Name(NamedTuple):
    """A name in a module of the project; of what is imported, one attribute may be all that is meant: `module.name`."""

    path: Path
    name: str

    @property
    def base(self) -> str:
        return self.name.partition(".")[0]

    @property
    def attributes(self) -> tuple[str, ...]:
        """Return the names that are needed of a module that this name stands for."""
        attribute = self.name.partition(".")[2]
        return (attribute, _MADE_WHEN_ASKED) if attribute else (_WHOLE,)


class ProjectCode:
    """The code of one project as it stands; each module is read, and each name followed, once."""

    def __init__(self, project: Path, changed: Iterable[str] = ()) -> None:
        """Of the files that `changed`, relative to the project, the compiled modules count."""
        self._project = project
        self._compiled = {project / path for path in changed if path.endswith(COMPILED_SUFFIXES)}
        self._modules: dict[Path, list[tuple[ast.stmt, frozenset[str]]]] = {}
        self._steps: dict[tuple[_Name, Folders], tuple[str, list[_Name]]] = {}
        self._found: dict[tuple[str, Folders], Path | None] = {}
        self._named, self._patches = cache(self._named_in), cache(self._patches_in)
        self._imports = cache(self._imports_of)

    def of(self, target: str, directory: str) -> str:
        """Return a text that changes with the code of `module:function` as a suite in `directory` finds it.

        Comments, docstrings and the places of it all do not count. The text is empty for what is installed elsewhere.
        """
        return "\n".join(sorted(f"{name.name}: {text}" for name, text in self._behind(target, directory) if text))

    def files(self, target: str, directory: str) -> frozenset[str]:
        """Return the files, relative to the project, that this code may name, there or not: beside it or from the root.

        A name that the code puts together while it runs is not seen.
        """
        return frozenset(
            relpath(home / text, self._project)
            for name, _ in self._behind(target, directory)
            for text in self._named(name)
            for home in (name.path.parent, self._project)
        )

    def _named_in(self, name: _Name) -> frozenset[str]:
        nodes = (node for statement in self._statements_of(name) for node in ast.walk(statement))
        return frozenset(text for node in nodes for text in files_named(node))

    def _patches_in(self, name: _Name) -> frozenset[str]:
        return frozenset(patched_attributes(self._statements_of(name), self._imports(name.path)))

    def _imports_of(self, path: Path) -> frozenset[str]:
        return imported_names(statement for statement, _ in self._module(path))

    def _statements_of(self, name: _Name) -> Iterator[ast.stmt]:
        return (statement for statement, names in self._module(name.path) if name.base in names)

    def patches(self, target: str, directory: str) -> frozenset[str]:
        """Return what this code puts something into, of all that it imported, besides what it returns."""
        return frozenset(text for name, _ in self._behind(target, directory) for text in self._patches(name))

    def _behind(self, target: str, directory: str) -> Iterable[tuple[_Name, str]]:
        """Return each name that a function needs, itself among them, with the text that gives it its meaning."""
        module, _, function = target.partition(":")
        folders = search_path(self._project, directory)
        path = self._find(module, folders)
        waiting = [] if path is None else [_Name(path, function.partition(".")[0])]
        seen: dict[_Name, str] = {}
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen[name], more = self._step(name, folders)
                waiting += more
        return seen.items()

    def _step(self, name: _Name, folders: Folders) -> tuple[str, list[_Name]]:
        """Return the text that gives a name its meaning, and the names that it uses, or whose effects it has."""
        key = (name, folders)
        if key not in self._steps:
            module = self._module(name.path)
            wanted = (name.base, _EFFECTS)
            statements = [statement for statement, names in module if not names.isdisjoint(wanted)]
            more = [_Name(name.path, _EFFECTS), *self._used(name, statements, folders)]
            if name.name != name.base and not all(map(_imports, self._statements_of(name))):
                more.append(_Name(name.path, name.base))
            for statement in (each for each, _ in module if isinstance(each, ast.Import | ast.ImportFrom)):
                more += self._imported(statement, name, folders)
            text = "\n".join(ast.dump(statement, annotate_fields=False) for statement in statements)
            self._steps[key] = text, list(dict.fromkeys(more))
        return self._steps[key]

    def _used(self, name: _Name, statements: list[ast.stmt], folders: Folders) -> Iterator[_Name]:
        nodes = [node for statement in statements for node in ast.walk(statement)]
        asked = {node.value: node.attr for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Name):
                yield _Name(name.path, f"{node.id}.{asked[node]}" if node in asked else node.id)
            elif isinstance(node, ast.Import | ast.ImportFrom) and node not in statements:
                yield from self._imported(node, _Name(name.path, _WHOLE), folders)

    def _imported(self, statement: ast.Import | ast.ImportFrom, wanted: _Name, folders: Folders) -> Iterator[_Name]:
        """Yield what of the project a statement brings under a wanted name, and what importing it does."""
        path = wanted.path
        level = 0 if isinstance(statement, ast.Import) else statement.level
        places = folders if level == 0 else (path.parents[min(level, len(path.parents)) - 1],)
        base = "" if isinstance(statement, ast.Import) else statement.module or ""
        for alias in statement.names:
            known = alias.asname or alias.name.partition(".")[0]
            module = f"{base}.{alias.name}".strip(".")
            for part in _packages(module):
                found = self._find(part, places)
                if found is None or not found.is_relative_to(self._project):
                    continue
                yield _Name(found, _EFFECTS)
                if wanted.base in (known, _WHOLE) or known == "*":
                    name = wanted.base if known == "*" else alias.name
                    plain = alias.asname or "." not in alias.name
                    names = wanted.attributes if plain else (_WHOLE,)
                    yield from (_Name(found, each) for each in (names if part == module else (name,)))

    def _find(self, module: str, folders: Folders) -> Path | None:
        key = (module, folders)
        if key not in self._found:
            self._found[key] = next(filter(self._is_module, _possible_files(module, folders)), None)
        return self._found[key]

    def _is_module(self, path: Path) -> bool:
        return (path.suffix == ".py" or path in self._compiled) and path.is_file()

    def _module(self, path: Path) -> list[tuple[ast.stmt, frozenset[str]]]:
        """Return the statements of a module, each with the names whose meaning it is part of."""
        if path not in self._modules:
            cached = [each for each in self._compiled if _stands_for(each, path)]
            statements = [statement for each in (path, *cached) for statement in _statements(each.read_bytes())]
            self._modules[path] = [(statement, frozenset(_parts(statement))) for statement in statements]
        return self._modules[path]


def _possible_files(module: str, folders: Folders) -> Iterator[Path]:
    """Yield the files that would be a module, in the order in which Python takes them."""
    for folder in folders:
        for path in possible_files(module, (folder,)):
            yield from (
                path.with_name(path.stem + suffix) for suffix in (*EXTENSION_SUFFIXES, ".py", *BYTECODE_SUFFIXES)
            )


def _stands_for(cached: Path, path: Path) -> bool:
    """Tell whether Python takes a cached module in place of its text without looking whether that is what it says."""
    if cached.parent != path.parent / "__pycache__" or not cached.name.startswith(f"{path.stem}."):
        return False
    return cached.is_file() and cached.read_bytes()[4:8] == _UNCHECKED


def _statements(text: bytes) -> list[ast.stmt]:
    """Return the statements of a module, without what says nothing; what Python cannot read, as it stands."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return [ast.Expr(ast.Constant(text))]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _says_nothing(node.body[0]):
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


def _imports(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _does_more(statement: ast.stmt) -> bool:
    """Tell whether a statement may change what others defined: a call, a loop, or a value put into something."""
    if isinstance(statement, ast.Assign):
        return not all(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
    return not isinstance(statement, _DEFINING | ast.AnnAssign)


def _parts(statement: ast.stmt) -> Iterator[str]:
    yield _WHOLE
    if _does_more(statement):
        yield _EFFECTS
    yield from _named(statement)


def _named(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module gives a meaning to."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    else:
        yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _packages(module: str) -> list[str]:
    """Return a dotted name, and those of the packages around it."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
