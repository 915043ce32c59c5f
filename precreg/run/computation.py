"""What a case needs to be there: packages, in some version, and devices. Nothing is imported to find out.

What computes a case's operations: the arithmetic of its device, and faults in it.

What no fault changes: inputs, what the oracle gives, what the subject gives without, remembered of one case.

A model called by itself, outside any suite: `[FOLDER/]module:function` on arrays by name, on a device or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, lru_cache
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic.devices import Arithmetic, DeviceArithmetic, NumpyArithmetic, device_named
from precreg.arithmetic.faults import Fault, OperationRecorder, alter_inputs, alter_params, plant_fault
from precreg.errors import UserError
from precreg.storage import find_project
from precreg.subject import Call, describe_failure, leave_module_space, run_python
from precreg.suite import locate_target
from precreg.types import Case, Failure, Location, Reason

_DEVICE = "device:"


@cache
def missing_requirement(requirement: str, chain: tuple[str, ...]) -> str | None:
    """Say what is missing of a requirement such as "numpy>=2", "torch" or "device:npu"; None when it is met.

    A device is there when a label of the environment's chain names it; a name alone is that of a module or of a
    package. Requirements are checked when suites are read. A project's own modules meet none: whether they are on
    sys.path, or loaded, depends on which cases ran before.
    """
    if requirement.startswith(_DEVICE):
        device = requirement.removeprefix(_DEVICE)
        return None if device in chain else f"needs the device {device}, but the environment is {chain[0]}"
    leave_module_space()
    if requirement.isidentifier():
        there = _importable(requirement) or _installed(requirement) is not None
        return None if there else f"needs {requirement}, which is not installed"
    return _missing_version(requirement)


def _importable(module: str) -> bool:
    """Tell whether an import would find a module, whatever is loaded by its name already."""
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return any(finder.find_spec(module, None) is not None for finder in finders)


def _missing_version(requirement: str) -> str | None:
    from packaging.requirements import Requirement

    needed = Requirement(requirement)
    installed = _installed(needed.name)
    if installed is None:
        return f"needs {requirement}, but {needed.name} is not installed"
    if needed.specifier.contains(installed, prereleases=True):
        return None
    return f"needs {requirement}, but {needed.name} {installed} is installed"


def _installed(package: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def arithmetic_of(case: Case, project: Path) -> Arithmetic | None:
    """Return what computes the subject's operations, a fault apart; None leaves them to numpy.

    The oracle is never given it: it is what the subject is held against. Raises UserError as reading a device does.
    """
    return None if case.device is None else _of_device(case.device, project)


def with_fault(call: Call, fault: Fault) -> Call:
    """Return a call whose inputs, params or arithmetic have a fault.

    The arithmetic may remember what it computed: one such call serves all repeats.
    """
    if fault.place == "operations":
        return replace(call, arithmetic=plant_fault(call.arithmetic or NumpyArithmetic(), fault))
    return replace(call, inputs=alter_inputs(call.inputs, fault), params=alter_params(call.params, fault))


def with_recorder(call: Call) -> tuple[Call, OperationRecorder]:
    """Return a call that computes the same and notes what it meets."""
    recorder = OperationRecorder(call.arithmetic or NumpyArithmetic())
    return replace(call, arithmetic=recorder), recorder


@lru_cache(maxsize=64)
def _of_device(name: str, project: Path) -> Arithmetic:
    """Read a device once in each process."""
    return DeviceArithmetic(device_named(name, project))


_T = TypeVar("_T")


_kept: dict[tuple[str, int], Any] = {}

_kept_of: tuple[Path, Case] | None = None


def cached_computation(what: str, case: Case, seed: int, project: Path, compute: Callable[[], _T]) -> _T:
    """Return `compute()`, or what it gave for the same case with another fault, which nobody may write to.

    Cases without a fault are computed anew, and nothing is kept of them. Cases of one definition that differ in
    anything else (tolerance, repeats, analyzers, ...) are two: each has memories of its own.
    """
    global _kept_of
    if case.fault is None:
        return compute()
    of = (project, replace(case, id="", fault=None))
    if of != _kept_of:
        _kept.clear()
        _kept_of = of
    if (what, seed) not in _kept:
        _kept[what, seed] = compute()
    found: _T = _kept[what, seed]
    return found


Arrays = dict[str, NDArray[Any]]


class Model(NamedTuple):
    """A function `module:function`, the folder from which it is looked for upward, and the project's root above it."""

    target: str
    directory: Path
    project: Path


def find_model(asked: str, start: Path) -> Model:
    """Find `[FOLDER/]module:function`, as a suite in that folder finds its subject, without running any of it.

    FOLDER is relative to `start`. Outside a project the folder stands for one. Raises UserError as `locate` does:
    bad-value, missing-module, taken-name, missing-function.
    """
    folder, _, target = asked.rpartition("/")
    directory = Path(realpath(start / (folder or ("/" if asked.startswith("/") else "."))))
    project = _project_of(directory)
    locate_target(target, directory.relative_to(project).as_posix(), project, Location(""))
    return Model(target, directory, project)


def _project_of(directory: Path) -> Path:
    try:
        return find_project(directory)
    except UserError:
        return directory


@np.errstate(all="ignore")
def call_model(model: Model, inputs: Arrays, device: str | None) -> Arrays:
    """Call the model with inputs by name, which are its own to change, and return what it gives by name.

    Overflow and the like raise no warnings, as in a case. Raises UserError: unknown-device and what else reading a
    device raises, missing-module, missing-function, bad-outputs; model-failed for whatever the model itself raises.
    """
    arithmetic = None if device is None else DeviceArithmetic(device_named(device, model.project))
    call = Call(inputs, {}, model.directory, model.project, arithmetic)
    try:
        return run_python(model.target, call).arrays
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        failure = describe_failure(error, Reason.SUBJECT_ERROR)
        message = f"expected {model.target} to return arrays but it failed: {failure.message}{_place(failure)}"
        raise UserError("model-failed", message) from None


def _place(failure: Failure) -> str:
    """Return the part of the traceback that lies in the model; nothing where the call itself was wrong."""
    lines = failure.detail.splitlines()
    return "".join(f"\n  {line}" for line in lines) if len(lines) > 1 else ""
