"""Where a package is imported from, as Python's finders tell it now, without importing it.

What a module's text says it needs: the modules that it imports, and the files that it names. Nothing is executed.

Which files a case depends on, so that a change selects the cases that it can touch. Nothing is executed.

Seen are the suite, suites/tolerances.yaml, the table of a device of the project's own, the modules that subject,
reference and golden name with all that those import from the project, and files of inputs and recorded outputs. So is
every file that an import looks for in vain: a module that was there and is removed changes the case. Of the files that
a module opens by itself those are seen that it names in one text, or in a path of texts, relative to itself or to the
project.

Which files can matter to a case, told by their names: most pushes need not read a suite to be let go.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from importlib.util import find_spec
from os.path import isfile, normpath, realpath
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from precreg.measure import analyzer_entry_point
from precreg.suite import possible_files, search_path
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Case

_SITE = {"site-packages", "dist-packages"}


class PackageOrigin(NamedTuple):
    """The file that would be imported, None for a package without one, and the folders of a package."""

    file: str | None
    folders: tuple[str, ...]


def find_package_origin(top: str) -> PackageOrigin | None:
    """Return where a package or module without a dot in its name comes from; None where nothing has that name.

    It is looked up once for as long as sys.path, which the check of another commit changes, is the same.
    """
    return _looked_up(top, tuple(sys.path))


@lru_cache(maxsize=1024)
def _looked_up(top: str, _path: tuple[str, ...]) -> PackageOrigin | None:
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    return None if spec is None else PackageOrigin(spec.origin, tuple(spec.submodule_search_locations or ()))


def installed_from(top: str, project: Path) -> Path | None:
    """Return the folder of the project from which an installed package is imported, such as src/; usually None."""
    found = None if top in sys.stdlib_module_names else find_package_origin(top)
    if found is None:
        return None
    home = Path(found.folders[0]).parent if found.folders else Path(found.file or "/").parent
    inside = home.is_relative_to(project) and _SITE.isdisjoint(home.parts)
    return home if inside else None


DOCUMENTS = frozenset({".md", ".rst", ".adoc"})


def can_affect_cases(path: str) -> bool:
    """Tell whether any case could depend on a file of the project: documents and what begins with a dot never do."""
    return not path.startswith(".") and PurePosixPath(path).suffix.lower() not in DOCUMENTS


MAX_NAME_LENGTH = 255


class ImportedName(NamedTuple):
    """A dotted name, counted from the package that is `level` above the module; 0 counts from the top."""

    level: int
    name: str


class Needs(NamedTuple):
    """What was found: modules, or names in them (`from a import b` may mean a.b), and texts that look like files."""

    modules: tuple[ImportedName, ...]
    files: tuple[str, ...]


@lru_cache(maxsize=1024)
def read_module_needs(path: Path) -> Needs:
    """Return what a module needs, wherever in it that is said; nothing of one that Python cannot parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return Needs((), ())
    modules: list[ImportedName] = []
    files: list[str] = []
    for node in ast.walk(tree):
        modules += _imported(node)
        files += files_named(node)
    return Needs(tuple(modules), tuple(files))


def _imported(node: ast.AST) -> Iterator[ImportedName]:
    if isinstance(node, ast.Import):
        yield from (ImportedName(0, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = f"{node.module}." if node.module else ""
        yield from (ImportedName(node.level, (base + alias.name).removesuffix(".*")) for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and _called(node.func) in ("import_module", "__import__"):
        for name in _text(node.args[0]):
            yield ImportedName(len(name) - len(name.lstrip(".")), name.lstrip("."))
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and _is_all(node):
        values = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else []
        yield from (ImportedName(1, name) for value in values for name in _text(value))


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
    if parts and 0 < len(parts[-1]) <= MAX_NAME_LENGTH and parts[-1].isprintable():
        path = PurePosixPath(*parts)
        if path.suffix and can_affect_cases(path.name):
            yield path.as_posix()


def _text(node: ast.AST) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def affected_cases(cases: Sequence[Case], changed: Set[str], project: Path) -> list[Case]:
    """Return the cases that depend on a changed file, or whose baseline changed; paths are relative to the project."""
    accepted = {path.partition("/")[2].partition("/")[2] for path in changed if path.startswith("baselines/")}
    return [
        case
        for case in cases
        if f"{case.tier}/{case.suite}.json" in accepted or not changed.isdisjoint(case_dependencies(case, project))
    ]


def case_dependencies(case: Case, project: Path) -> frozenset[str]:
    """Return the files that the case depends on, relative to the project; a missing one is among them."""
    named = (path for path in _named_by(case, project) if isfile(path))
    own = (_names(path, project) for path in (*_own(case, project), *named))
    return frozenset().union(*own, *(_modules(*searched, project).files for searched in _modules_of(case)))


def dependency_paths(case: Case, project: Path) -> frozenset[Path]:
    """Return every path at which the dependencies were looked for, as it was spelled: with links, and there or not."""
    own = (*_own(case, project), *_named_by(case, project))
    return frozenset(own).union(*(_modules(*searched, project).paths for searched in _modules_of(case)))


def dependency_packages(cases: Iterable[Case], project: Path) -> frozenset[str]:
    """Return the names of packages whose origin was looked up, first parts of dotted names; without Python's own."""
    searches = {searched for case in cases for searched in _modules_of(case)}
    asked = frozenset[str]().union(*(_modules(*searched, project).packages for searched in searches))
    return asked - sys.stdlib_module_names


def _own(case: Case, project: Path) -> Iterator[Path]:
    """Yield the suite, the tolerances below it, the table of its device, and recorded outputs, there or not."""
    yield from (project / case.source.file, project / TOLERANCES_FILE)
    if case.device is not None:
        from precreg.arithmetic.devices import device_table_paths

        yield from (project / path for path in device_table_paths(case.device))
    for computation in (case.subject, case.oracle):
        if computation.kind == "files":
            yield from (project / path for path in computation.spec.values())


def _named_by(case: Case, project: Path) -> Iterator[Path]:
    """Yield what texts in the options of inputs, and of subjects of other kinds, would be as files."""
    for computation in (case.subject, case.oracle):
        if computation.kind not in ("files", "python"):
            yield from paths_in(computation.spec, case.directory, project)
    yield from paths_in(list(case.inputs.values()), case.directory, project)


def paths_in(value: Any, directory: str, project: Path) -> Iterator[Path]:
    """Yield every text inside a value as a path relative to the suite."""
    if isinstance(value, str):
        yield project / directory / value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from paths_in(item, directory, project)


def _modules_of(case: Case) -> Iterator[tuple[str, str]]:
    """Yield the modules that a case names, each with the folder from which it is looked for."""
    for computation in (case.subject, case.oracle):
        if computation.kind == "python":
            yield computation.spec.partition(":")[0], case.directory
    for analyzer in case.analyzers:
        yield analyzer_entry_point(analyzer).module, case.directory


class _Search(NamedTuple):
    """What came of looking for a module: its files relative to the project, all paths tried, and packages asked for."""

    files: frozenset[str]
    paths: frozenset[Path]
    packages: frozenset[str]


@lru_cache(maxsize=1024)
def _modules(module: str, directory: str, project: Path) -> _Search:
    """Look for a module, the packages around it, what they import, and what they name."""
    folders = search_path(project, directory)
    tried: set[Path] = set()
    done = {""}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        waiting.append(name.rpartition(".")[0])
        installed = installed_from(name.partition(".")[0], project)
        for path in possible_files(name, folders if installed is None else (*folders, installed)):
            tried.add(path)
            if isfile(path):
                needed = read_module_needs(path)
                waiting += (_absolute(imported, path, folders, installed) for imported in needed.modules)
                tried.update(home / file for home in (path.parent, project) for file in needed.files)
                break
    files = frozenset[str]().union(*(_names(path, project) for path in tried))
    return _Search(files, frozenset(tried), frozenset(name.partition(".")[0] for name in done - {""}))


@lru_cache(maxsize=8192)
def _names(path: Path, project: Path) -> frozenset[str]:
    """Return the paths, relative to the project, whose change changes a file: its own, and where a link leads."""
    both = (normpath(path), realpath(path))
    inside = (Path(place) for place in both if Path(place).is_relative_to(project))
    return frozenset(place.relative_to(project).as_posix() for place in inside)


def _absolute(imported: ImportedName, path: Path, folders: tuple[Path, ...], installed: Path | None) -> str:
    """Return the dotted name of what a module imports, counted from the folder where the module was found."""
    if imported.level == 0:
        return imported.name
    home = path.parents[min(imported.level, len(path.parents)) - 1]
    roots = folders if installed is None else (installed, *folders)
    root = next((folder for folder in roots if home.is_relative_to(folder)), home)
    return ".".join(filter(None, (*home.relative_to(root).parts, imported.name)))
