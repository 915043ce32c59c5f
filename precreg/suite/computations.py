"""Finding `module:function` beside the suite, without running any of it.

The module is looked for in the suite's folder, in its parents up to suites/, and in the project's root; what is not
there may be installed (`numpy:arctan2`).

From `subject:`, `reference:` and `golden:` to computations, checked without running any of them.

`device:` of a suite: the name of a simulated device, or a parameter that names one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from os.path import isdir, isfile, realpath
from pathlib import Path, PurePosixPath
from typing import Any

from precreg.errors import UserError, nearest
from precreg.storage import KeyPath, Source, format_value, names_bound, parse_module, path_beside_suite
from precreg.subject import BUILT_IN_SUBJECTS, subject_entry_point
from precreg.suite.load import Suite
from precreg.suite.matrix import Parameters, require_known
from precreg.types import Computation, Location

_TARGET = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*(\.[^\W\d]\w*)*)")


_INSTALLED = (
    "click git jinja2 junit_xml lazy_loader markupsafe matplotlib ml_dtypes msgspec numpy packaging pytest rich "
    "sqlalchemy xxhash yaml"
)

INSTALLED_MODULES = frozenset(_INSTALLED.split()) | {"precreg"}
"""The packages that precreg imports, itself among them: they may be loaded before a suite's modules are."""


def locate_target(target: str, directory: str, project: Path, where: Location) -> Path | None:
    """Return the file of the module that `module:function` names, or None where it is installed outside the project.

    `directory` is the suite's folder relative to the project. Raises UserError: bad-value, missing-module, taken-name,
    missing-function.
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise UserError("bad-value", f"expected module:function but got {target!r}", file=where.file, line=where.line)
    folders = search_path(project, directory)
    path = find_module(match["module"], folders)
    if path is None:
        _require_installed(match["module"], folders, project, where)
        return None
    _require_free_name(match["module"], folders, project, where)
    _require_function(match["function"], path, project, where)
    return path


def search_path(project: Path, directory: str) -> tuple[Path, ...]:
    """Return the folders in which a suite's modules are looked for, nearest first."""
    parts = PurePosixPath(directory).parts
    return (*(project.joinpath(*parts[:count]) for count in range(len(parts), 0, -1)), project)


def find_module(name: str, folders: tuple[Path, ...]) -> Path | None:
    """Return the first file that is the module: a/b/__init__.py or a/b.py for a.b; None where no folder has one."""
    return next(filter(isfile, possible_files(name, folders)), None)


def possible_files(name: str, folders: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the files that would be the module, in the order in which they are looked for."""
    parts = name.split(".")
    for folder in folders:
        base = folder.joinpath(*parts)
        yield from (base / "__init__.py", base.with_name(base.name + ".py"))


def _require_installed(module: str, folders: tuple[Path, ...], project: Path, where: Location) -> None:
    top = module.partition(".")[0]
    owned = any(isdir(folder / top) for folder in folders)
    if not owned and top != "__main__" and find_spec(top) is not None:
        return
    message = f"expected module={module} in {_shown(folders, project)}, or installed, but found neither"
    message += nearest(module, _modules_near(module, folders))
    raise UserError("missing-module", message, file=where.file, line=where.line)


def _shown(folders: tuple[Path, ...], project: Path) -> str:
    below = ", ".join(folder.relative_to(project).as_posix() + "/" for folder in folders if folder != project)
    return f"{below} or ./" if below else "./"


def _modules_near(module: str, folders: tuple[Path, ...]) -> Iterator[str]:
    """Yield the dotted names of modules on the search path, down to the depth of the one that was looked for."""
    for folder in folders:
        for depth in range(module.count(".") + 2):
            for path in folder.glob("*/" * depth + "*.py"):
                yield ".".join(path.relative_to(folder).with_suffix("").parts)


def _require_free_name(module: str, folders: tuple[Path, ...], project: Path, where: Location) -> None:
    """Refuse a module called like one that may have been imported before: that one would run instead."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        owner = "is one of Python's own"
    elif top in INSTALLED_MODULES and not _is_the_installed_one(top, folders):
        owner = "precreg itself imports"
    else:
        return
    message = f"expected a name that is free in {_shown(folders, project)} but got module={module}, which {owner}"
    raise UserError("taken-name", message, file=where.file, line=where.line)


def _is_the_installed_one(top: str, folders: tuple[Path, ...]) -> bool:
    """Tell whether the project is that package's own, installed from where it stands."""
    path, installed = find_module(top, folders), find_spec(top)
    return path is not None and installed is not None and realpath(path) == realpath(installed.origin or "")


def _require_function(function: str, path: Path, project: Path, where: Location) -> None:
    names = defined_names(path, path.stat().st_mtime_ns)
    top = function.partition(".")[0]
    if names is None or top in names:
        return
    shown = path.relative_to(project).as_posix()
    message = f"expected function={function} in {shown} but it is not defined there{nearest(top, names)}"
    raise UserError("missing-function", message, file=where.file, line=where.line)


@lru_cache(maxsize=256)
def defined_names(path: Path, modified_ns: int) -> frozenset[str] | None:
    """Return the names that a module gives itself at its top level, under `if` and `try` as well.

    None where reading cannot tell: a star import, a module-level __getattr__, or text that Python cannot parse (its
    cases then fail one by one, with Python's own message). `modified_ns` only makes the cache see a changed file.
    """
    tree = parse_module(path.read_bytes())
    if tree is None:
        return None
    names = frozenset(name for statement in _top_level(tree) for name in _bound(statement))
    return None if names & {"*", "__getattr__"} else names


def _top_level(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _top_level(child)


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from names_bound(node)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def read_computation(source: Source, key: str, value: Any, directory: str, project: Path) -> Computation:
    """Return the computation that a key of a suite names: module:function, or {KIND: spec}.

    Raises UserError: bad-value, unknown-subject-kind, missing-module, missing-function, outside-project, missing-file.
    """
    kind, spec = _kind_and_spec(source, key, value)
    path = (key, kind) if isinstance(value, dict) else (key,)
    if kind == "python":
        if not isinstance(spec, str):
            raise source.error("bad-value", f"expected module:function but got {key}={format_value(spec)}", *path)
        locate_target(spec, directory, project, source.where(*path))
    if kind == "files":
        return file_computation(_paths(source, path, spec, directory, project))
    return Computation(kind, spec)


def file_computation(paths: str | dict[str, str]) -> Computation:
    """Return the computation that reads recorded arrays; paths are relative to the project.

    One path is one array named "out", or every array of an .npz file; a mapping names the array of each path.
    """
    if isinstance(paths, str):
        paths = {"*" if paths.endswith(".npz") else "out": paths}
    return Computation("files", paths)


def _kind_and_spec(source: Source, key: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, str):
        return "python", value
    if not isinstance(value, dict) or len(value) != 1:
        raise source.error(
            "bad-value", f"expected module:function or {{KIND: spec}} but got {key}={format_value(value)}", key
        )
    kind, spec = next(iter(value.items()))
    if kind not in BUILT_IN_SUBJECTS:
        try:
            subject_entry_point(kind)
        except UserError as error:
            raise source.error(error.slug, error.message, key, kind) from None
    return kind, spec


def _paths(source: Source, path: KeyPath, spec: Any, directory: str, project: Path) -> str | dict[str, str]:
    if isinstance(spec, str):
        return existing_file(source, path, spec, directory, project)
    if not isinstance(spec, dict) or not spec or not all(isinstance(item, str) for item in spec.values()):
        raise source.error(
            "bad-value", f"expected a path, or a path per output, but got files={format_value(spec)}", *path
        )
    return {name: existing_file(source, (*path, name), item, directory, project) for name, item in spec.items()}


def existing_file(source: Source, path: KeyPath, file: str, directory: str, project: Path) -> str:
    """Return a path beside the suite, relative to the project. Raises UserError: outside-project, missing-file."""
    found = path_beside_suite(project, directory, file, source.where(*path))
    if not isfile(project / found):
        folder = (project / found).parent
        known = [item.name for item in folder.iterdir() if isfile(item)] if folder.is_dir() else []
        message = f"expected a file but {found} is not there{nearest(Path(found).name, known)}"
        raise source.error("missing-file", message, *path)
    return found


def device_chooser(suite: Suite, project: Path, parameters: list[str]) -> Callable[[Parameters], str | None]:
    """Return the function from a row of the matrix to the name of its device; None where there is none.

    Raises UserError (bad-value, unknown-reference); the function raises unknown-device, bad-value, and what reading
    the device's table does.
    """
    source, given = suite.source, suite.file.device
    if given is None:
        return lambda _: None
    _require_python(suite)
    known = {*parameters, *suite.file.params}
    require_known(source, given, known, "device")
    read: set[str] = set()

    def chosen(row: Parameters) -> str | None:
        name: Any = _value(given, row, suite.file.params)
        if name is None:
            return None
        if name not in read:
            _require_readable(suite, project, name)
            read.add(name)
        return str(name)

    return chosen


def _require_python(suite: Suite) -> None:
    """Refuse a device beside what is no Python function: only its operations can be computed by another arithmetic."""
    subject = suite.file.subject
    if isinstance(subject, dict) and "python" not in subject:
        message = f"expected a Python function as subject beside device but got subject={format_value(subject)}"
        raise suite.source.error("bad-value", message, "device")


def _value(given: str, row: Parameters, params: Any) -> Any:
    """Return what a text, or the name after its $, stands for: a matrix parameter before a key of params."""
    while isinstance(given, str) and given.startswith("$"):
        name = given[1:]
        given = row[name] if name in row else params[name]
    return given


def _require_readable(suite: Suite, project: Path, name: Any) -> None:
    from precreg.arithmetic.devices import device_named, device_names

    known = device_names(project)
    if name not in known:
        message = f"expected one of {', '.join(known)} but got device={format_value(name)}{nearest(str(name), known)}"
        raise suite.source.error("unknown-device", message, "device")
    device_named(name, project)
