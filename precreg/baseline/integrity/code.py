"""Which code is behind a function of the project?

The code of a name is its defining statements, and the code of every project name that it uses. A reference decides
the size of an error, and no definition digest covers its code, so its changes count as findings. Nothing is executed.
So code that is made at run time is unseen: `setattr`, `exec`, `vars`, or a module that another one changes. Compiled
modules count if git lists them as changed: builds leave others beside the text, and git ignores those.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES
from os.path import relpath
from pathlib import Path
from typing import NamedTuple

from precreg.storage import files_named, names_bound, parse_module, relative_import_folder
from precreg.suite import possible_files, search_path
from precreg.vcs import can_affect_cases

_SETTING = ("setattr", "delattr")


def patched_attributes(statements: Iterable[ast.stmt], imported: frozenset[str]) -> Iterator[str]:
    """Yield each attribute of an imported object that is set or removed, as `np.sum`, also by setattr and delattr."""
    for node in (node for statement in statements for node in ast.walk(statement)):
        yield from (ast.unparse(node) for target in _assigned_targets(node) if _root_name(target) in imported)


def imported_names(tree: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the names that imports bind, at any depth of a module."""
    imports = (node for each in tree for node in ast.walk(each) if isinstance(node, ast.Import | ast.ImportFrom))
    return frozenset(name for node in imports for name in names_bound(node))


def _assigned_targets(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the attributes that a node sets or removes, and the first argument of `setattr` and `delattr`."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield node
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SETTING:
        yield from node.args[:1]


def _root_name(target: ast.expr) -> str:
    while isinstance(target, ast.Attribute):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


# Suffixes of modules without text.
COMPILED_SUFFIXES = (".so", ".pyd", *BYTECODE_SUFFIXES)
_DEFINING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
# Imports under `if TYPE_CHECKING:` do not run.
_CHECKERS = "TYPE_CHECKING"
# The flags of a cached module that Python loads without a comparison with its text (PEP 552).
_UNCHECKED = (1).to_bytes(4, "little")
# A module-level function that can provide any attribute.
_MODULE_GETATTR = "__getattr__"
# In place of a name: everything in a module.
_WHOLE = "*"
# In place of a name: the statements that do more than define names, and run on import.
_EFFECTS = ""
# Suffixes of modules, in Python's order of preference.
_SUFFIXES = (*EXTENSION_SUFFIXES, ".py", *BYTECODE_SUFFIXES)
Folders = tuple[Path, ...]


class _Name(NamedTuple):
    """Identify a name in a module of the project; `module.name` means one attribute of an imported module."""

    path: Path
    name: str

    @property
    def base(self) -> str:
        return self.name.partition(".")[0]

    @property
    def attributes(self) -> tuple[str, ...]:
        """Return the names needed from the module that this name is bound to."""
        attribute = self.name.partition(".")[2]
        return (attribute, _MODULE_GETATTR) if attribute else (_WHOLE,)


class ProjectCode:
    """Read the code of one project; each module is read, and each name followed, once."""

    def __init__(self, project: Path, changed: Iterable[str] = ()) -> None:
        """Include compiled modules from `changed`, which are paths relative to the project."""
        self._project = project
        self._compiled = {project / path for path in changed if path.endswith(COMPILED_SUFFIXES)}
        self._modules: dict[Path, list[tuple[ast.stmt, frozenset[str]]]] = {}
        self._steps: dict[tuple[_Name, Folders], tuple[str, list[_Name]]] = {}
        self._found: dict[tuple[str, Folders], Path | None] = {}
        self._file_names, self._patches = cache(self._file_names_in), cache(self._patches_in)
        self._imports = cache(self._imports_of)

    def of(self, target: str, directory: str) -> str:
        """Return a text that changes with the code of `module:function`, as a suite in `directory` finds it.

        Comments, docstrings and positions do not count. The text is empty for an installed function.
        """
        return "\n".join(sorted(f"{name.name}: {text}" for name, text in self._behind(target, directory) if text))

    def files(self, target: str, directory: str) -> frozenset[str]:
        """Return the files, relative to the project, that this code may name, beside it or from the root.

        They may be missing. Names that the code builds at run time are unseen.
        """
        return frozenset(
            relpath(home / text, self._project)
            for name, _ in self._behind(target, directory)
            for text in self._file_names(name)
            for home in (name.path.parent, self._project)
        )

    def modules(self, target: str, directory: str) -> frozenset[str]:
        """Return the modules of the project that this code lies in, relative to the project."""
        return frozenset(relpath(name.path, self._project) for name, _ in self._behind(target, directory))

    def _file_names_in(self, name: _Name) -> frozenset[str]:
        nodes = (node for statement in self._statements_of(name) for node in ast.walk(statement))
        return frozenset(str(file) for node in nodes for file in files_named(node) if can_affect_cases(file.name))

    def _patches_in(self, name: _Name) -> frozenset[str]:
        return frozenset(patched_attributes(self._statements_of(name), self._imports(name.path)))

    def _imports_of(self, path: Path) -> frozenset[str]:
        return imported_names(statement for statement, _ in self._module(path))

    def _statements_of(self, name: _Name) -> Iterator[ast.stmt]:
        return (statement for statement, names in self._module(name.path) if name.base in names)

    def patches(self, target: str, directory: str) -> frozenset[str]:
        """Return the attributes of imported objects that this code sets."""
        return frozenset(text for name, _ in self._behind(target, directory) for text in self._patches(name))

    def _behind(self, target: str, directory: str) -> Iterable[tuple[_Name, str]]:
        """Return each name that a function needs, including itself, with its statements as text."""
        module, _, function = target.partition(":")
        folders = search_path(self._project, directory)
        # A class counts as a whole, so the part before the first point suffices.
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
        """Return the statements of a name as text, and the names that they use or whose effects they have."""
        key = (name, folders)
        if key not in self._steps:
            module = self._module(name.path)
            wanted = (name.base, _EFFECTS)
            # Statements with effects belong to every name of a module: they may change any of its definitions.
            statements = [statement for statement, names in module if not names.isdisjoint(wanted)]
            more = [_Name(name.path, _EFFECTS), *self._used(name, statements, folders)]
            # `a.b` is one attribute only if `a` is an imported module. Of any other object, all of it counts.
            if name.name != name.base and not all(map(_imports, self._statements_of(name))):
                more.append(_Name(name.path, name.base))
            for statement in (each for each, _ in module if isinstance(each, ast.Import | ast.ImportFrom)):
                more += self._imported(statement, name, folders)
            # `ast.dump` leaves out positions, comments and layout.
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
        """Yield the project names that an import brings under a wanted name, and the effects of importing them."""
        level = 0 if isinstance(statement, ast.Import) else statement.level
        places = folders if level == 0 else (relative_import_folder(wanted.path, level),)
        base = "" if isinstance(statement, ast.Import) else statement.module or ""
        for alias, known in zip(statement.names, names_bound(statement), strict=True):
            module = f"{base}.{alias.name}".strip(".")
            for part in _with_parents(module):
                found = self._find(part, places)
                if found is None or not found.is_relative_to(self._project):
                    continue
                # Importing a.b.c runs a and a.b first, with all their effects.
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
        """Return the statements of a module, each with the names that it defines or changes."""
        if path not in self._modules:
            # Python may run a cached module in place of the text, so both are part of the code.
            cached = [each for each in self._compiled if _replaces_text(each, path)]
            statements = [statement for each in (path, *cached) for statement in _statements(each.read_bytes())]
            self._modules[path] = [(statement, frozenset(_names_of(statement))) for statement in statements]
        return self._modules[path]


def _possible_files(module: str, folders: Folders) -> Iterator[Path]:
    """Yield the possible files of a module, in Python's order of preference."""
    for folder in folders:
        for path in possible_files(module, (folder,)):
            yield from (path.with_name(path.stem + suffix) for suffix in _SUFFIXES)


def _replaces_text(cached: Path, path: Path) -> bool:
    """Return whether Python loads a cached module in place of its text without comparing the two."""
    # Bytes 4 to 8 are the flags. Other cached modules carry the text's time or digest, and Python compares it.
    if cached.parent != path.parent / "__pycache__" or not cached.name.startswith(f"{path.stem}."):
        return False
    return cached.is_file() and cached.read_bytes()[4:8] == _UNCHECKED


def _statements(text: bytes) -> list[ast.stmt]:
    """Return the statements of a module that have an effect; unparsable text as a constant."""
    tree = parse_module(text)
    if tree is None:
        # Such a file still differs from another one that Python cannot parse either.
        return [ast.Expr(ast.Constant(text))]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _has_no_effect(node.body[0]):
            del node.body[0]
    return [statement for statement in tree.body if not _has_no_effect(statement)]


def _has_no_effect(statement: ast.stmt) -> bool:
    """Return whether a statement does nothing at run time: a docstring, or imports for type checkers."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.test, ast.Name):
        return False
    imports = all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in statement.body)
    return imports and statement.test.id == _CHECKERS


def _imports(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _may_have_effects(statement: ast.stmt) -> bool:
    """Return whether a statement may change other definitions: a call, a loop, a set attribute or item."""
    if isinstance(statement, ast.Assign):
        return not all(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
    return not isinstance(statement, _DEFINING | ast.AnnAssign)


def _names_of(statement: ast.stmt) -> Iterator[str]:
    yield _WHOLE
    if _may_have_effects(statement):
        yield _EFFECTS
    yield from _defined_names(statement)


def _defined_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a module-level statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from names_bound(statement)
    else:
        yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _with_parents(module: str) -> list[str]:
    """Return the names of the packages around a dotted name, and the name itself."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
