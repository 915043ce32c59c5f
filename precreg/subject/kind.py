"""Which kinds of subject exist, how is a specification of each read, and what does it need?

A kind is `{KIND: spec}` in a suite. precreg has kinds of its own. Installed packages add others, with entry points of
the group "precreg.subjects". A name must have exactly one provider. Suites read specifications when they load. So a
kind checks them without importing the libraries that it computes with.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from precreg.errors import UserError, choices, name_hint, nearest
from precreg.storage import note_unknown
from precreg.subject.call import Call, Outputs, check_outputs
from precreg.subject.surroundings import SurroundingsRestored
from precreg.types import Computation, OpaqueForm

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from precreg.subject.health import ImportKey


class EntryPointGroup(NamedTuple):
    """Describe a group of entry points: its name, the word for a member, the key in suites, and the error's slug."""

    name: str
    word: str
    key: str
    slug: str


def find_entry_point(group: EntryPointGroup, name: str, ours: Iterable[str] = ()) -> EntryPoint:
    """Return the one entry point of that name. `ours` are precreg's own names, for the suggestion in the message.

    Raises:
        UserError: the group's slug, if no package or more than one provides the name.
    """
    # Reads the metadata of every installed package, which takes about 17 ms, so only names that are not ours get here.
    from importlib.metadata import entry_points

    installed = entry_points(group=group.name)
    found = [point for point in installed if point.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        values = " and ".join(sorted(point.value for point in found))
        raise UserError(group.slug, f"expected one {group.word} named {name} but got {values}")
    known = sorted({*ours, *installed.names})
    message = f"expected an installed {group.word}{choices(known)} but got {group.key}={name}{nearest(name, known)}"
    raise UserError(group.slug, message, hint=name_hint(name, known))


class Dependencies(NamedTuple):
    """Name what a specification computes with, beside the package of its kind: modules, and paths or patterns of files.

    Modules are searched like a Python subject's. Paths are relative to the suite's folder, or absolute.
    """

    modules: Sequence[str] = ()
    files: Sequence[str] = ()


# A kind runs a specification, as `Kind.read` returned it, on a call.
SubjectKind = Callable[[Any, Call], Outputs]


class SpecPlace(Protocol):
    """The place of a specification in a suite: for checks of its names, and for errors with a line."""

    @property
    def directory(self) -> Path:
        """The folder of the suite."""

    @property
    def project(self) -> Path:
        """The root of the project."""

    @property
    def has_files(self) -> bool:
        """False for a suite of another commit: precreg reads its text alone, without the sources that it names."""

    def error(self, slug: str, message: str, *keys: str | int, hint: str = "") -> UserError:
        """Make an error with the line of the value; `keys` lead to an option, or into the value of the kind's key.

        `hint` says what to write, with an example.
        """

    def require_file(self, path: str, *keys: str | int) -> str:
        """Return a path beside the suite as one relative to the project. Raises: outside-project, missing-file."""

    def require_function(self, target: str, *keys: str | int) -> None:
        """Check that `module:function` exists. Raises: bad-value, missing-module, taken-name, missing-function."""


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of subject: how a specification is computed, and what precreg asks of it before.

    Only `run` is required. A text such as "package.module:function" names it, so that the module is imported when the
    first case of the kind runs.
    """

    run: SubjectKind | str
    # Checks the values of a suite, (value, options, place): the value of the kind's key, and the other keys beside it.
    # Returns the specification, which JSON can store. The default takes the value as it is, and no options.
    read: Callable[[Any, Mapping[str, Any], SpecPlace], Any] | None = None
    # The Python function that a specification calls, as module:function; it is searched for dependencies.
    target: Callable[[Any], str | None] | None = None
    # The modules and files that a specification computes with, (spec, folder of the suite). Without it a case of an
    # installed kind depends on every file.
    dependencies: Callable[[Any, Path], Dependencies] | None = None
    # Packages that must be installed, as in `requires:` of a suite. A case without it is skipped by name.
    requirements: Callable[[Any], Sequence[str]] | None = None
    # The specification of the reference of a suite that names none; None if it must name one.
    reference: Callable[[Any], Any] | None = None
    # True if precreg reads the outputs of a specification from files, so that no code of others runs.
    is_recorded: Callable[[Any], bool] | None = None
    # Prepares a specification before the first case of a run, (spec, folder of the suite, project), as a build does. A
    # UserError of it is also the error of the cases. A text names it, as in `run`.
    prepare: Callable[[Any, Path, Path], object] | str | None = None
    # For outputs that are figures of a whole procedure, such as the losses of a training: the arguments of the precreg
    # command that measures its parts, (spec, folder of the suite in the project). No rewrite of one operation explains
    # such figures, so a run searches for no cause.
    parts_command: Callable[[Any, str], Sequence[str]] | None = None
    # The widest dtype of inputs: a reference gets float64 inputs as longdouble otherwise.
    widest: str = "longdouble"


# precreg's own kinds. The names are reserved, and need no look at the installed packages.
BUILT_IN_SUBJECTS = {
    "command": "precreg.subject.command.kind:COMMAND",
    "python": "precreg.subject.built_in:PYTHON",
    "files": "precreg.subject.built_in:FILES",
    "torch": "precreg.subject.torch.specification:TORCH",
    "onnx": "precreg.subject.onnx.kind:ONNX",
    "onnx_test": "precreg.subject.onnx.kind:ONNX_TEST",
    "table": "precreg.subject.table:TABLE",
    # Rooms above this one have them, so that these lines are the only place that knows both.
    "quantization": "precreg.quantization.kind:QUANTIZATION",
    "training": "precreg.training.kind:TRAINING",
}
SUBJECTS = EntryPointGroup("precreg.subjects", "kind of subject", "kind", "unknown-subject-kind")


@cache
def subject_entry_point(kind: str) -> EntryPoint:
    """Return the entry point of a kind of subject from the one package that provides it.

    Raises:
        UserError: unknown-subject-kind.
    """
    return find_entry_point(SUBJECTS, kind, BUILT_IN_SUBJECTS)


def kinds_among(names: Sequence[Any]) -> list[str]:
    """Return the names that are kinds of precreg or of installed packages, in their order.

    Beside a kind of precreg in front, an installed kind with the name of an option does not count.
    """
    if names and names[0] in BUILT_IN_SUBJECTS:
        return [name for name in names if name in BUILT_IN_SUBJECTS]
    note_unknown()
    installed = _installed_kinds(tuple(sys.path))
    return [name for name in names if name in BUILT_IN_SUBJECTS or name in installed]


# Reading the metadata of every installed package takes about 17 ms, and a project has many suites.
@lru_cache(maxsize=8)
def _installed_kinds(path: tuple[str, ...]) -> frozenset[str]:
    from importlib.metadata import entry_points

    return frozenset(entry_points(group=SUBJECTS.name).names)


@cache
def kind_named(name: str) -> Kind:
    """Return the kind of that name, from precreg or from the one package that provides it.

    The package of an installed kind is imported. If that fails, each case of the kind fails with the error.

    Raises:
        UserError: unknown-subject-kind.
    """
    if name in BUILT_IN_SUBJECTS:
        built_in: Kind = _load(BUILT_IN_SUBJECTS[name])
        return built_in
    point = subject_entry_point(name)
    try:
        with _code_of_package():
            found = point.load()
    # Any code of a package may fail in any way; its cases fail in the same way, with the traceback.
    except (Exception, SystemExit):
        return Kind(run=point.value, read=_unread)
    return found if isinstance(found, Kind) else Kind(run=point.value)


@contextmanager
def _code_of_package() -> Iterator[None]:
    # The standard output of a command is its result, such as JSON.
    with SurroundingsRestored(), redirect_stdout(sys.stderr):
        yield


def _unread(value: Any, options: Mapping[str, Any], place: SpecPlace) -> Any:
    # Suites load although the package cannot be imported, so that other cases run.
    return [value, dict(options)] if options else value


def refuse_options(options: Mapping[str, Any], place: SpecPlace) -> None:
    """Refuse keys beside the key of a kind that has no options. Raises UserError: unknown-key."""
    for name in options:
        message = f"expected no key beside the kind of subject but got {name}"
        raise place.error(
            "unknown-key", message, name, hint=f"remove {name}:, or pass it to the function in params: {{{name}: ...}}"
        )


def read_spec(kind: str, value: Any, options: Mapping[str, Any], place: SpecPlace) -> Any:
    """Return the specification that a kind makes of its value and the options beside it.

    Raises:
        UserError: those of the kind; unknown-key, if it has no options; bad-kind, if its package fails.
    """
    if kind not in BUILT_IN_SUBJECTS:
        note_unknown()  # code of a package may read anything
    read = kind_named(kind).read
    if read is None:
        refuse_options(options, place)
        return value
    try:
        return _as_json(kind, _ask(kind, read, value, options, place))
    except UserError as error:
        # A package may raise an error without a place.
        raise error if error.file else place.error(error.slug, error.message, hint=error.hint) from None


def reference_spec(computation: Computation) -> Any:
    """Return the specification of the reference that a kind has for a subject; None without one.

    Raises:
        UserError: those of the kind; bad-kind, if its package fails.
    """
    find = kind_named(computation.kind).reference
    return None if find is None else _as_json(computation.kind, _ask(computation.kind, find, computation.spec))


def _ask(kind: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a kind. Raises UserError: bad-kind, if it belongs to a package and fails."""
    if kind in BUILT_IN_SUBJECTS:
        return function(*arguments)
    try:
        with _code_of_package():
            return function(*arguments)
    except UserError:
        raise
    # Any code of a package may fail in any way, and the message names it.
    except (Exception, SystemExit) as problem:
        raise _bad_kind(kind, f"raised {type(problem).__name__}: {problem}") from problem


def _bad_kind(kind: str, received: str) -> UserError:
    provider = subject_entry_point(kind).value
    return UserError("bad-kind", f"expected a kind of subject that works but {kind} of {provider} {received}")


def _as_json(kind: str, spec: Any) -> Any:
    """Return a specification as a record stores it. Raises UserError: bad-kind."""
    if kind in BUILT_IN_SUBJECTS:
        return spec
    try:
        return json.loads(json.dumps(spec))
    except (TypeError, ValueError) as problem:
        raise _bad_kind(kind, f"returned a specification that JSON cannot store: {problem}") from problem


@cache
def subject_kind(name: str) -> SubjectKind:
    """Return the function that runs a kind, from precreg or from the one package that provides it.

    Raises:
        UserError: unknown-subject-kind; bad-kind, if its entry point cannot be imported or names no function.
    """
    if name in BUILT_IN_SUBJECTS:
        return _run_of(kind_named(name))
    # Late, because suites read specifications when they load, without numpy.
    from precreg.subject.health import KIND_IMPORT, note_use, watch_import

    key = (KIND_IMPORT, name)
    with watch_import(key):
        point = subject_entry_point(name)
        try:
            provided = point.load()
            run = _run_of(provided) if isinstance(provided, Kind) else provided
        # Any code of a package may fail in any way.
        except (Exception, SystemExit) as error:
            raise _bad_kind(name, f"raised {type(error).__name__} when it was imported: {error}") from error
    if not callable(run):
        raise _bad_kind(name, f"is {type(provided).__name__}, and no function or Kind")

    # Built-in kinds restore the surroundings themselves, so that no restoring counts in their measured time.
    def restored(spec: Any, call: Call) -> Outputs:
        note_use(key)
        with SurroundingsRestored():
            return check_outputs(run(spec, call))

    return restored


def _run_of(kind: Kind) -> SubjectKind:
    run: SubjectKind = _load(kind.run) if isinstance(kind.run, str) else kind.run
    return run


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def target_of(computation: Computation) -> str | None:
    """Return the Python function that a computation calls, as module:function; None for another computation."""
    find = kind_named(computation.kind).target
    if find is None:
        return None
    target = _ask(computation.kind, find, computation.spec)
    if target is not None and not (isinstance(target, str) and ":" in target):
        raise _bad_kind(computation.kind, f"returned {ascii(target)[:100]} as module:function")
    return None if target is None else str(target)


def import_keys(computation: Computation, directory: Path) -> tuple[ImportKey, ...]:
    """Return the keys of a computation's imports, module and kind; `directory` is its suite's folder."""
    from precreg.subject.health import KIND_IMPORT

    keys = [] if computation.kind == "python" else [(KIND_IMPORT, computation.kind)]
    if (target := target_of(computation)) is not None:
        keys.append((str(directory), target.partition(":")[0]))
    return tuple(keys)


def is_recorded(computation: Computation) -> bool:
    """Return whether precreg reads the outputs of a computation from files, so that no code of others runs.

    Raises:
        UserError: bad-kind.
    """
    find = kind_named(computation.kind).is_recorded
    return find is not None and bool(_ask(computation.kind, find, computation.spec))


def opaque_form(computation: Computation) -> OpaqueForm | None:
    """Return the form of a subject whose operations precreg cannot see; None for others. Raises UserError: bad-kind."""
    # A row of a table has figures, and no arrays.
    if computation.kind == "table" or is_recorded(computation):
        return "recorded"
    if kind_named(computation.kind).parts_command is not None:
        return "figures"
    return "program" if computation.kind == "command" else None


def parts_command(computation: Computation, folder: str) -> tuple[str, ...]:
    """Return the arguments of the precreg command that measures the parts of a procedure; empty for other kinds.

    `folder` is the suite's, relative to the project. Raises UserError: bad-kind.
    """
    find = kind_named(computation.kind).parts_command
    if find is None:
        return ()
    found = _ask(computation.kind, find, computation.spec, folder)
    if not _are_texts(found):
        raise _bad_kind(computation.kind, f"returned {ascii(found)[:100]} as arguments of precreg")
    return tuple(found)


def target_in_folder(target: str, folder: str) -> str:
    """Return [FOLDER/]module:function, as commands of precreg take a target of a suite in that folder."""
    return target if folder in ("", ".") else f"{folder}/{target}"


def requirements_of(computation: Computation) -> tuple[str, ...]:
    """Return what must be installed for a computation. Raises UserError: bad-kind."""
    find = kind_named(computation.kind).requirements
    if find is None:
        return ()
    needed = _ask(computation.kind, find, computation.spec)
    if not _are_texts(needed):
        raise _bad_kind(computation.kind, f"returned {ascii(needed)[:100]} as requirements")
    return tuple(needed)


def prepare_computation(computation: Computation, directory: Path, project: Path) -> None:
    """Prepare a computation before the first case of a run, as its kind does."""
    prepare = kind_named(computation.kind).prepare
    if prepare is None:
        return

    def prepare_it() -> object:
        function = _load(prepare) if isinstance(prepare, str) else prepare
        return function(computation.spec, directory, project)

    # The cases of the computation meet the same problem, and report it.
    with suppress(Exception):
        _ask(computation.kind, prepare_it)


_DECLARATIONS = "precreg.dependencies"


@cache
def dependencies_entry_point(kind: str) -> EntryPoint | None:
    """Return the entry point that declares the dependencies of a kind of subject; None if no package does.

    Raises:
        UserError: bad-dependencies, if more than one package does.
    """
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=_DECLARATIONS, name=kind), key=lambda point: point.value)
    if len(found) > 1:
        values = " and ".join(point.value for point in found)
        raise UserError("bad-dependencies", f"expected one declaration for kind={kind} but got {values}")
    return found[0] if found else None


def declared_dependencies(kind: str, spec: Any, folder: Path) -> Dependencies | None:
    """Return the dependencies that a kind declares for a specification; None for an installed kind without declaration.

    `folder` is the suite's. The declaration of an installed kind is a function of its package. It runs in this process.

    Raises:
        UserError: bad-dependencies.
    """
    find = kind_named(kind).dependencies
    if kind in BUILT_IN_SUBJECTS:
        return Dependencies() if find is None else find(spec, folder)
    point = dependencies_entry_point(kind)
    if point is None and find is None:
        return None
    provider = subject_entry_point(kind).value if point is None else point.value
    try:
        with _code_of_package():
            declared = find(spec, folder) if point is None and find is not None else _load(provider)(spec, folder)
    # Any code of a package may fail in any way, and the message names it.
    except (Exception, SystemExit) as problem:
        received = f"{provider} raised {type(problem).__name__}: {problem}"
        raise UserError("bad-dependencies", f"expected the dependencies of kind={kind} but {received}") from problem
    if not isinstance(declared, Dependencies) or not all(map(_are_texts, declared)):
        received = f"{provider} returned {ascii(declared)[:100]}"
        raise UserError("bad-dependencies", f"expected Dependencies with lists of texts but {received}")
    return declared


def _are_texts(names: object) -> bool:
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
