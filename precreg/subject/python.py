"""How are Python functions and recorded files run as subjects?

The kind "python" imports `module:name` beside the suite, and calls it with inputs and params by keyword. The kind
"files" reads outputs that were recorded earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from inspect import Parameter, signature
from itertools import takewhile
from pathlib import Path
from pkgutil import iter_modules
from time import perf_counter_ns
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.errors import UserError, nearest
from precreg.storage import FilePath, find_object, is_url, read_recorded, read_single, resolve_inside
from precreg.subject.built_in import EVERY_MEMBER, FileSpec, recorded_paths
from precreg.subject.call import Call, Outputs, name_outputs, require_numeric
from precreg.subject.health import note_use, watch_import, watch_store_client
from precreg.subject.module_space import ModuleSpace, enter_module_space, leave_module_space
from precreg.subject.stage import mark_import
from precreg.subject.surroundings import SettingsRestored, SurroundingsRestored

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic


def run_python(spec: str, call: Call) -> Outputs:
    """Call the function `module:name` (the name may be dotted) and time it.

    Raises UserError (missing-module, missing-function, bad-outputs), and the function's own exceptions.
    """
    space = enter_module_space(call.directory, call.project)
    try:
        function = find_function(spec, space)
        with SurroundingsRestored():
            ordered = _unnamed_arguments(function)
            started = perf_counter_ns()
            returned = _call(function, call, ordered)
            duration_s = (perf_counter_ns() - started) / 1e9
        return Outputs(name_outputs(returned), duration_s)
    finally:
        leave_module_space()


def call_function(target: str, directory: Path, project: Path, *arguments: Any, **named: Any) -> Any:
    """Call `module:function` with other arguments than a subject has, and return its value.

    Raises UserError (missing-module, missing-function), and the function's own exceptions.
    """
    space = enter_module_space(directory, project)
    try:
        function = find_function(target, space)
        with SurroundingsRestored():
            return function(*arguments, **named)
    finally:
        leave_module_space()


def _unnamed_arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters that a function takes by position alone, such as `a` of numpy.linalg.cholesky."""
    # `signature` takes 25 us, and says the same of a function that no decorator has marked.
    if type(function) is FunctionType and not function.__dict__:
        return function.__code__.co_varnames[: function.__code__.co_posonlyargcount]
    # A function of C may have no signature, and a callable of the user's a wrong one.
    try:
        parameters = signature(function).parameters.values()
    except (ValueError, TypeError):
        return ()
    return tuple(each.name for each in parameters if each.kind is Parameter.POSITIONAL_ONLY)


def _call(function: Callable[..., Any], call: Call, ordered: tuple[str, ...]) -> Any:
    """Call a function with inputs and params by keyword, apart from those that it takes by position alone.

    A numpy ufunc takes all of its inputs by position, in their order.
    """
    observer = call.observer
    if call.arithmetic is not None and observer is None:
        call = replace(call, inputs=_simulate_inputs(call.inputs, call.arithmetic), arithmetic=None)
    named = {**call.inputs, **call.params}
    # The first one that is missing ends the list: those behind it have no place.
    by_place = call.inputs if isinstance(function, np.ufunc) else takewhile(named.__contains__, ordered)
    first = [named.pop(name) for name in [*by_place]]
    return function(*first, **named) if observer is None else observer.call(function, first, named, call.arithmetic)


def _simulate_inputs(inputs: dict[str, NDArray[Any]], arithmetic: Arithmetic) -> dict[str, NDArray[Any]]:
    from precreg.arithmetic.devices import is_floating, simulate_array

    return {
        name: simulate_array(array, arithmetic) if is_floating(array.dtype) else array for name, array in inputs.items()
    }


def find_function(spec: str, space: ModuleSpace) -> Callable[..., Any]:
    """Return what `module:name` names, and import the module at its first use in the entered space.

    Raises:
        UserError: missing-module, taken-name, missing-function.
    """
    module_name, _, attribute = spec.partition(":")
    key = (space.path[0], module_name)
    if spec not in space.functions:
        # Not SurroundingsRestored: libraries set variables on import that they need later.
        mark_import(True)
        with watch_import(key), SettingsRestored():
            module = _import_module(module_name, space)
        mark_import(False)
        space.functions[spec] = _find_attribute(module, attribute)
    note_use(key)
    return space.functions[spec]


def _import_module(name: str, space: ModuleSpace) -> ModuleType:
    """Import a module from the space's folders.

    Raises:
        UserError: missing-module; taken-name, if another module is already loaded under the name.
    """
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        # A missing import inside the user's module is the user's own error, and keeps its traceback.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        known = [module.name for module in iter_modules(space.path)]
        message = f"expected a module on {', '.join(space.path)} but got module={name}{nearest(name, known)}"
        raise UserError("missing-module", message) from error
    if shadowed := space.shadowed(name):
        loaded = getattr(module, "__file__", None) or "one of Python's own"
        message = f"expected {shadowed} to be the module {name} but {loaded} is loaded by that name already"
        raise UserError("taken-name", message)
    return module


def _find_attribute(module: ModuleType, dotted: str) -> Callable[..., Any]:
    found: Any = module
    for name in dotted.split("."):
        if not hasattr(found, name):
            message = f"expected a function of {module.__name__} but got function={dotted}{nearest(name, dir(found))}"
            raise UserError("missing-function", message, file=module.__file__)
        found = getattr(found, name)
    if not callable(found):
        kind = type(found).__name__
        message = f"expected a function but got {module.__name__}:{dotted} of type {kind}"
        raise UserError("missing-function", message, file=module.__file__)
    function: Callable[..., Any] = found
    return function


def _recorded_file(file: str, project: Path) -> FilePath | None:
    if is_url(file):
        return find_object(file)
    path = resolve_inside(project, file)
    return path if path.exists() else None


def run_files(spec: FileSpec, call: Call) -> Outputs:
    """Read each output's file, or with the name "*" every array of an archive. The duration is 0.

    Paths are relative to the project, or URLs. A missing file or object gives no output, which the verdict reports as
    missing_output.

    Raises:
        UserError: outside-project, and the errors of the reader of the format and of the store.
    """
    has_objects = len(recorded_paths(spec)) < len(spec)
    with watch_store_client() if has_objects else nullcontext():
        arrays = _read_outputs(spec, call)
    return Outputs({output: require_numeric(output, array) for output, array in arrays.items()}, 0.0)


def _read_outputs(spec: FileSpec, call: Call) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for output, given in spec.items():
        file = given if isinstance(given, str) else given["path"]
        path = _recorded_file(file, call.project)
        if path is None:
            continue
        if output == EVERY_MEMBER:
            arrays |= read_recorded(path, file)
        elif isinstance(given, str):
            arrays[output] = read_single(path, file)
        else:
            shape = None if "shape" not in given else tuple(given["shape"])
            arrays[output] = read_single(path, file, given["dtype"], shape, given.get("byte_order", "little"))
    return arrays
