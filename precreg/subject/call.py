"""Which kinds of subject exist, which arguments do they take, and which outputs do they return?

precreg has two kinds; installed packages add others with entry points of the group "precreg.subjects". A name must have
exactly one provider. Suites check the names when they load, so this module imports numpy late.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError, nearest
from precreg.subject.surroundings import SurroundingsRestored

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from numpy.typing import NDArray

    from precreg.arithmetic.devices import Arithmetic


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
    near = nearest(name, {*ours, *installed.names})
    raise UserError(group.slug, f"expected an installed {group.word} but got {group.key}={name}{near}")


SUBJECTS = EntryPointGroup("precreg.subjects", "kind of subject", "kind", "unknown-subject-kind")
# precreg's own kinds and their functions. The names are reserved, and need no look at the installed packages.
BUILT_IN_SUBJECTS = {"python": "precreg.subject.python:run_python", "files": "precreg.subject.python:run_files"}


@cache
def subject_entry_point(kind: str) -> EntryPoint:
    """Return the entry point of a kind of subject from the one package that provides it.

    Raises:
        UserError: unknown-subject-kind.
    """
    return find_entry_point(SUBJECTS, kind, BUILT_IN_SUBJECTS)


class Call(Struct, frozen=True):
    """Hold the arguments of one computation, and where it belongs.

    `inputs` and `params` are copies that the subject may change. `directory` is the folder of the suite and `project`
    the root of the project, as absolute paths. `arithmetic` computes the operations on inputs; None leaves them to
    numpy.
    """

    inputs: dict[str, NDArray[Any]]
    params: dict[str, Any]
    directory: Path
    project: Path
    arithmetic: Arithmetic | None = None


class Outputs(NamedTuple):
    """Hold arrays by output name, in their order, and the duration of the computation in seconds."""

    arrays: dict[str, NDArray[Any]]
    # Each kind measures its own time, because only the kind knows where loading ends and computing begins.
    duration_s: float


def name_outputs(returned: object) -> dict[str, NDArray[Any]]:
    """Name the arrays that a function returned: one is "out", a dict has its names, a sequence counts from "0".

    Python numbers become 0-d float64 (or complex128) arrays. The arrays are C-order copies.

    Raises:
        UserError: bad-outputs, for any other value.
    """
    if isinstance(returned, Mapping):
        return {_name(name): _array(name, value) for name, value in returned.items()}
    if isinstance(returned, tuple | list):
        return {str(index): _array(index, value) for index, value in enumerate(returned)}
    return {"out": _array("out", returned)}


def require_numeric(output: object, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array if its elements are numbers.

    Raises:
        UserError: bad-outputs.
    """
    if array.dtype.kind in "biufc" or array.dtype.name in DTYPE_NAMES:
        return array
    raise UserError("bad-outputs", f"expected an array of numbers but got output {output} of dtype={array.dtype}")


# Longer names make no readable table, and the name of a file may have 255 bytes.
MAX_OUTPUT_NAME = 200


def _name(name: object) -> str:
    """Return a name that records and baselines can store. Raises UserError (bad-outputs) for any other value."""
    if not isinstance(name, str):
        raise UserError(
            "bad-outputs", f"expected output names that are strings but got name={name!r:.{MAX_OUTPUT_NAME}}"
        )
    if len(name) > MAX_OUTPUT_NAME:
        message = f"expected output names of at most {MAX_OUTPUT_NAME} characters but got {len(name)}"
        raise UserError("bad-outputs", f"{message}: {name[:20]!a}...")
    try:
        name.encode()
    except UnicodeEncodeError:
        # JSON cannot store a lone surrogate.
        raise UserError("bad-outputs", f"expected output names of Unicode characters but got name={name!a}") from None
    return name


def _checked(outputs: Outputs) -> Outputs:
    """Return the outputs of an installed kind, as `name_outputs` makes them: arrays of numbers under names.

    Raises:
        UserError: bad-outputs.
    """
    import numpy as np

    if not isinstance(outputs, Outputs) or not isinstance(outputs.arrays, Mapping):
        raise UserError("bad-outputs", f"expected a kind of subject to return Outputs but got {type(outputs).__name__}")
    arrays = {
        _name(name): require_numeric(name, value) if type(value) is np.ndarray else _array(name, value)
        for name, value in outputs.arrays.items()
    }
    return Outputs(arrays, float(outputs.duration_s))


def _array(output: object, value: object) -> NDArray[Any]:
    import numpy as np

    if value is None:
        raise UserError("bad-outputs", f"expected an array but got None for output {output}")
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        try:
            return np.array(value, dtype=np.float64)
        except OverflowError as error:
            message = f"expected a number that float64 can hold but got {error} for output {output}"
            raise UserError("bad-outputs", message) from error
    if _is_masked(value):
        advice = "fill the mask first, array.filled(...)"
        raise UserError("bad-outputs", f"expected an array but got a masked array for output {output}; {advice}")
    try:
        # A copy, because the function may keep its buffer and overwrite it in the next call.
        array = np.array(value, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError("bad-outputs", f"expected an array for output {output} but got {error}") from error
    return require_numeric(output, array)


def _is_masked(value: object) -> bool:
    """Return whether a copy would lose the array's mask."""
    # numpy imports numpy.ma lazily. If nothing has imported it, no masked array exists.
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


class Dependencies(NamedTuple):
    """Name what a specification computes with, beside the package of its kind: modules, and paths or patterns of files.

    Modules are searched like those of a Python subject. Paths are relative to the suite's folder, or absolute.
    """

    modules: Sequence[str] = ()
    files: Sequence[str] = ()


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
    """Return the dependencies that an installed kind declares for a specification; None without a declaration.

    `folder` is the suite's. The declaration is a function of an installed package, and runs in this process.

    Raises:
        UserError: bad-dependencies.
    """
    point = dependencies_entry_point(kind)
    if point is None:
        return None
    try:
        with SurroundingsRestored():
            declared = point.load()(spec, folder)
    # Any code of a package may fail in any way, and the message names it.
    except (Exception, SystemExit) as problem:
        received = f"{point.value} raised {type(problem).__name__}: {problem}"
        raise UserError("bad-dependencies", f"expected the dependencies of kind={kind} but {received}") from problem
    if not isinstance(declared, Dependencies) or not all(map(_are_texts, declared)):
        received = f"{point.value} returned {ascii(declared)[:100]}"
        raise UserError("bad-dependencies", f"expected Dependencies with lists of texts but {received}")
    return declared


def _are_texts(names: object) -> bool:
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)


# A kind runs a specification, as the suite gives it, on a call.
SubjectKind = Callable[[Any, Call], Outputs]


@cache
def subject_kind(name: str) -> SubjectKind:
    """Return the kind of that name, from precreg or from the one package that provides it.

    Raises:
        UserError: unknown-subject-kind.
    """
    if name in BUILT_IN_SUBJECTS:
        module, _, function = BUILT_IN_SUBJECTS[name].partition(":")
        built_in: SubjectKind = getattr(import_module(module), function)
        return built_in
    # Late, because suites check the names of kinds when they load, without numpy.
    from precreg.subject.health import KIND_IMPORT, note_use, watch_import

    key = (KIND_IMPORT, name)
    with watch_import(key):
        run: SubjectKind = subject_entry_point(name).load()

    # Built-in kinds restore the surroundings themselves, so that no restoring counts in their measured time.
    def restored(spec: Any, call: Call) -> Outputs:
        note_use(key)
        with SurroundingsRestored():
            return _checked(run(spec, call))

    return restored
