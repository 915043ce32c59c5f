"""Which computations and which simulated device do `subject:`, `reference:`, `golden:` and `device:` name?

precreg checks them without running any code of the project. It searches a module in the suite's folder, in the parents
up to suites/, and in the project's root. Other modules must be installed, as for `numpy:arctan2`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from os.path import isdir, isfile, realpath
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from precreg.errors import UserError, name_hint, nearest, nearest_name
from precreg.storage import (
    DEVICES_FOLDER,
    KeyPath,
    Source,
    expect_mapping,
    format_value,
    names_bound,
    note_folder,
    note_package,
    note_path,
    parse_module,
    path_beside_suite,
)
from precreg.subject import kind_named, kinds_among, read_spec, reference_spec
from precreg.suite.load import Suite
from precreg.suite.matrix import Parameters, reference_names, require_known, resolve_params, substitute
from precreg.types import Computation, Location

_TARGET = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*(\.[^\W\d]\w*)*)")

# The packages that precreg imports, extras included. They may be in sys.modules before a suite's module is
# imported, and Python would then take the package in place of a module with the same name.
_INSTALLED = (
    "click distributed fsspec git jinja2 junit_xml lazy_loader markupsafe matplotlib ml_dtypes mpmath msgspec numpy "
    "onnx onnxruntime packaging pyarrow pytest rich sqlalchemy torch xxhash yaml"
)
INSTALLED_MODULES = frozenset(_INSTALLED.split()) | {"precreg"}


def locate_target(target: str, directory: str, project: Path, where: Location) -> Path | None:
    """Return the file of the module that `module:function` names; None for a module installed outside the project.

    `directory` is the suite's folder relative to the project. Raises UserError: bad-value, missing-module, taken-name,
    missing-function.
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise _bad_target(target, where)
    folders = search_path(project, directory)
    path = find_module(match["module"], folders)
    if path is None:
        _require_installed(match["module"], folders, project, where)
        return None
    _require_free_name(match["module"], folders, project, where)
    _require_function(match["function"], path, project, where)
    return path


def _bad_target(target: str, where: Location) -> UserError:
    """Return the error of a text that is not module:function; a dotted name most often lacks the colon alone."""
    module, _, function = target.strip().removesuffix("()").replace(":", ".").replace("/", ".").rpartition(".")
    fixed = f"{module.removesuffix('.py')}:{function}"
    fits = _TARGET.fullmatch(fixed) is not None
    message = f"expected module:function but got {target!r}" + (f'; did you mean "{fixed}"?' if fits else "")
    hint = f"write a colon before the function: {fixed if fits else 'kernels:mean'}"
    return UserError("bad-value", message, file=where.file, line=where.line, hint=hint)


def search_path(project: Path, directory: str) -> tuple[Path, ...]:
    """Return the folders that precreg searches for a suite's modules, nearest first."""
    parts = PurePosixPath(directory).parts
    return (*(project.joinpath(*parts[:count]) for count in range(len(parts), 0, -1)), project)


def find_module(name: str, folders: tuple[Path, ...]) -> Path | None:
    """Return the first file of the module in the folders; None if no folder has it."""
    for path in possible_files(name, folders):
        note_path(path)
        if isfile(path):
            return path
    return None


def possible_files(name: str, folders: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the paths of a module in the order of the search: a/b/__init__.py, then a/b.py for a.b, in each folder."""
    parts = name.split(".")
    for folder in folders:
        base = folder.joinpath(*parts)
        yield from (base / "__init__.py", base.with_name(base.name + ".py"))


def _require_installed(module: str, folders: tuple[Path, ...], project: Path, where: Location) -> None:
    # find_spec would import the parent packages of a dotted name, and loading a suite runs no code. So only the first
    # part of the name is checked. A folder of that name in the project hides an installed package.
    top = module.partition(".")[0]
    for folder in folders:
        note_path(folder / top)
    note_package(top)
    owned = any(isdir(folder / top) for folder in folders)
    if not owned and top != "__main__" and find_spec(top) is not None:
        return
    message = f"expected module={module} in {_format_folders(folders, project)}, or installed, but found neither"
    message += nearest(module, _modules_near(module, folders))
    near = nearest_name(module, _modules_near(module, folders))
    hint = f"write {near} in place of {module}" if near else f"create {module.replace('.', '/')}.py beside the suite"
    raise UserError("missing-module", message, file=where.file, line=where.line, hint=hint)


def _format_folders(folders: tuple[Path, ...], project: Path) -> str:
    below = ", ".join(folder.relative_to(project).as_posix() + "/" for folder in folders if folder != project)
    return f"{below} or ./" if below else "./"


def _modules_near(module: str, folders: tuple[Path, ...]) -> Iterator[str]:
    """Yield the dotted names of modules in the folders, at most one level deeper than the missing module."""
    for folder in folders:
        for depth in range(module.count(".") + 2):
            for path in folder.glob("*/" * depth + "*.py"):
                parts = path.relative_to(folder).with_suffix("").parts
                # A suite names a package without these, also if the package lies in src/.
                yield ".".join(parts[parts[0] == "src" : -1 if parts[-1] == "__init__" else None])


def _require_free_name(module: str, folders: tuple[Path, ...], project: Path, where: Location) -> None:
    """Refuse a module whose name an imported module may have, because Python would run the imported module."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        owner = "is one of Python's own"
    elif top in INSTALLED_MODULES and not _is_installed_from_project(top, folders):
        owner = "precreg itself imports"
    else:
        return
    message = (
        f"expected a name that is free in {_format_folders(folders, project)} but got module={module}, which {owner}"
    )
    raise UserError("taken-name", message, file=where.file, line=where.line)


def _is_installed_from_project(top: str, folders: tuple[Path, ...]) -> bool:
    """Return True if the project is the source of the installed package, as after `pip install -e`."""
    note_package(top)
    path, installed = find_module(top, folders), find_spec(top)
    return path is not None and installed is not None and realpath(path) == realpath(installed.origin or "")


def _require_function(function: str, path: Path, project: Path, where: Location) -> None:
    names = defined_names(path, path.stat().st_mtime_ns)
    top = function.partition(".")[
        0
    ]  # attributes of a class, as in module:Class.method, are checked when they are called
    if names is None or top in names:
        return
    shown = path.relative_to(project).as_posix()
    message = f"expected function={function} in {shown} but it is not defined there{nearest(top, names)}"
    near = nearest_name(top, names)
    hint = f"write {near} in place of {top}, or define {top} in {shown}" if near else f"define {top} in {shown}"
    raise UserError("missing-function", message, file=where.file, line=where.line, hint=hint)


@lru_cache(maxsize=256)
def defined_names(path: Path, modified_ns: int) -> frozenset[str] | None:
    """Return the names that a module defines at its top level, also under `if` and `try`.

    Return None if the source does not show them: it has a star import, a module-level __getattr__ or a syntax error.
    The cases of a module with a syntax error fail one by one, with Python's own message. `modified_ns` is a part of the
    cache's key, so that a changed file is read again.
    """
    tree = parse_module(path.read_bytes())
    if tree is None or may_have_others(bound := count_bindings(tree)):
        return None
    return frozenset(bound)


def may_have_others(bound: Collection[str]) -> bool:
    """Return whether a module that binds these names may have further ones; `*` is a star import."""
    return "*" in bound or "__getattr__" in bound


# The names and the arguments of the same module are read one after the other.
@lru_cache(maxsize=128)
def count_bindings(tree: ast.Module) -> dict[str, int]:
    """Return how often a module binds each name at its top level; `*` for a star import. Nobody changes the result."""
    found: dict[str, int] = {}
    # As `ast.walk`, which takes twice the time: it makes a generator for each node, and for each of its fields.
    waiting: list[Any] = [*tree.body]
    while waiting:
        node = waiting.pop()
        for name in _names_bound_by(node):
            found[name] = found.get(name, 0) + 1
        if not isinstance(node, _SCOPES):
            for value in vars(node).values():
                if type(value) is list:
                    waiting += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST):
                    waiting.append(value)
    return found


# Tuples, because a union of types is made anew for each node.
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (*_DEFINITIONS, ast.Lambda)


def _names_bound_by(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Name):
        return (node.id,) if isinstance(node.ctx, ast.Store) else ()
    if isinstance(node, _DEFINITIONS):
        return (node.name,)
    return names_bound(node) if isinstance(node, (ast.Import, ast.ImportFrom)) else ()


class SuitePlace(NamedTuple):
    """The place of a specification in a suite, as a kind of subject sees it."""

    source: Source
    key: str
    kind: str
    value: Any
    folder: str
    project: Path
    has_files: bool = True

    @property
    def directory(self) -> Path:
        """The folder of the suite."""
        return self.project / self.folder

    def error(self, slug: str, message: str, *keys: str | int, hint: str = "") -> UserError:
        """Make an error with the line of the value."""
        return self.source.error(slug, message, *self._path(keys), hint=hint)

    def require_file(self, path: str, *keys: str | int) -> str:
        """Return a path beside the suite as one relative to the project. Raises: outside-project, missing-file."""
        return existing_file(self.source, self._path(keys), path, self.folder, self.project)

    def require_function(self, target: str, *keys: str | int) -> None:
        """Check that `module:function` exists. Raises: bad-value, missing-module, taken-name, missing-function."""
        locate_target(target, self.folder, self.project, self.source.where(*self._path(keys)))

    def _path(self, keys: tuple[str | int, ...]) -> KeyPath:
        if not isinstance(self.value, dict):
            return (self.key,)
        # Options are written beside the key of the kind, and anything else below it.
        is_option = bool(keys) and keys[0] != self.kind and keys[0] in self.value
        return (self.key, *keys) if is_option else (self.key, self.kind, *keys)


def computation_reader(
    suite: Suite, key: str, project: Path, parameters: list[str]
) -> Callable[[Parameters], Computation]:
    """Return a function from a row of the matrix to the computation that a key of the suite names.

    `$name` in a specification stands for a parameter of the matrix or a key of params, as in inputs. Raises UserError:
    unknown-reference, cyclic-reference. The function raises the errors of `read_computation`.
    """
    source, given = suite.source, getattr(suite.file, key)
    expect_mapping(source, suite.file.params, "params")
    known = {*parameters, *suite.file.params}
    require_known(source, given, known, key)
    require_known(source, suite.file.params, known, "params")
    params = resolve_params(source, suite.file.params, parameters)
    # A matrix parameter hides a key of params with the same name.
    filled = substitute(given, {name: value for name, value in params.items() if name not in parameters})
    names = sorted({name for name, _ in reference_names(filled)})
    read: dict[str, Computation] = {}

    def computation(row: Parameters) -> Computation:
        values = {name: row[name] for name in names}
        # Rows share a computation if they agree on the names in it; repr() distinguishes 1, 1.0 and True.
        at = repr(list(values.values()))
        if at not in read:
            value = substitute(filled, values)
            read[at] = read_computation(source, key, value, suite.directory, project, has_files=suite.has_files)
        return read[at]

    return computation


def read_computation(
    source: Source, key: str, value: Any, directory: str, project: Path, *, has_files: bool = True
) -> Computation:
    """Return the computation that a key of a suite names as module:function or {KIND: spec, OPTION: value, ...}.

    `has_files` is false for a suite of another commit, which is read without its sources. Raises UserError: bad-value,
    unknown-key, unknown-subject-kind, missing-module, missing-function, outside-project, missing-file, and other errors
    of an installed kind.
    """
    kind = _kind_of(source, key, value)
    place = SuitePlace(source, key, kind, value, directory, project, has_files)
    options = {name: item for name, item in value.items() if name != kind} if isinstance(value, dict) else {}
    spec = value[kind] if isinstance(value, dict) else value
    return Computation(kind, read_spec(kind, spec, options, place))


def default_reference(suite: Suite, subject: Computation) -> Computation:
    """Return the reference that the kind of a subject has for a suite without one. Raises UserError: missing-key."""
    spec = reference_spec(subject)
    if spec is None:
        raise suite.source.error(
            "missing-key",
            "expected reference: or golden: but neither is there",
            "suite",
            hint="add the same computation in higher precision: reference: kernels:exact; or golden: kernels:accepted",
        )
    return Computation(subject.kind, spec)


def _kind_of(source: Source, key: str, value: Any) -> str:
    """Return the kind that a value has as its only key, or among the options of the kind."""
    if isinstance(value, str):
        return "python"
    if not isinstance(value, dict) or not value:
        expected = "module:function or {KIND: spec}"
        raise source.error(
            "bad-value",
            f"expected {expected} but got {key}={format_value(value)}",
            key,
            hint=f"write a function: {key}: kernels:mean",
        )
    kinds = kinds_among([*value])
    if len(kinds) > 1:
        message = f"expected one kind of subject but got {key} with {' and '.join(kinds)}"
        raise source.error("bad-value", message, key, kinds[1], hint=f"keep one of them: {key}: {{{kinds[0]}: ...}}")
    kind = kinds[0] if kinds else next(iter(value))
    try:
        kind_named(kind)
    except UserError as error:
        raise source.error(error.slug, error.message, key, kind, hint=error.hint) from None
    return str(kind)


def existing_file(source: Source, path: KeyPath, file: str, directory: str, project: Path) -> str:
    """Resolve a path that is relative to the suite's folder, and return it relative to the project.

    Raises UserError: outside-project, missing-file.
    """
    found = path_beside_suite(project, directory, file, source.where(*path))
    if not isfile(project / found):
        folder = (project / found).parent
        known = [item.name for item in folder.iterdir() if isfile(item)] if folder.is_dir() else []
        message = f"expected a file but {found} is not there{nearest(Path(found).name, known)}"
        raise source.error(
            "missing-file", message, *path, hint=f"create the file {found}, or correct its path beside the suite"
        )
    return found


def device_chooser(suite: Suite, project: Path, parameters: list[str]) -> Callable[[Parameters], str | None]:
    """Return a function from a row of the matrix to the name of its simulated device, or None without a device.

    Raises UserError: bad-value, unknown-reference. The function raises unknown-device, bad-value, and the errors of
    reading the device's table.
    """
    source, given = suite.source, suite.file.device
    if given is None:
        return lambda _: None
    _require_python(suite)
    known = {*parameters, *suite.file.params}
    require_known(source, given, known, "device")
    checked: set[str] = set()  # each name is checked once and not once a row

    def choose(row: Parameters) -> str | None:
        name: Any = _resolve_reference(given, row, suite.file.params)
        if name is None:
            return None
        if name not in checked:
            _require_device(suite, project, name)
            checked.add(name)
        return str(name)

    return choose


def _require_python(suite: Suite) -> None:
    """Refuse a device unless the subject is Python: a device replaces the arithmetic of Python functions only."""
    subject = suite.file.subject
    if isinstance(subject, dict) and "python" not in subject:
        message = f"expected a Python function as subject beside device but got subject={format_value(subject)}"
        raise suite.source.error(
            "bad-value", message, "device", hint="remove device:, or write a function of numpy: subject: kernels:mean"
        )


def _resolve_reference(given: str, row: Parameters, params: Any) -> Any:
    """Resolve a text or $name to its value. A matrix parameter hides a key of params with the same name."""
    while isinstance(given, str) and given.startswith("$"):
        name = given[1:]
        given = row[name] if name in row else params[name]
    return given


def _require_device(suite: Suite, project: Path, name: Any) -> None:
    """Require the name of a device. A table of the project must be readable; precreg's tests read the shipped ones."""
    from precreg.arithmetic.devices import device_names, own_device

    note_folder(project / DEVICES_FOLDER)
    known = device_names(project)
    if name not in known:
        message = f"expected one of {', '.join(known)} but got device={format_value(name)}{nearest(str(name), known)}"
        raise suite.source.error("unknown-device", message, "device", hint=name_hint(str(name), known, "device: "))
    own_device(name, project)
