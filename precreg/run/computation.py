"""How is the subject of a case, or a model outside any suite, called?

A case brings its requirements, and maybe a simulated device. A plain run changes nothing beyond them. A self-test
passes a `CaseComputation` of its own, which changes inputs, the call or the arithmetic, and collects outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, lru_cache
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.environment import usable_memory
from precreg.errors import UserError
from precreg.storage import find_project
from precreg.subject import Call, leave_module_space, report_failures, run_python
from precreg.subject.torch import is_torch_module, run_torch, run_torch_layers
from precreg.suite import describe_memory, locate_target, required_memory
from precreg.suite.inputs import draw_input, parse_input
from precreg.types import Case, Location

if TYPE_CHECKING:
    # Only a case that names a device loads the simulator of devices (tests/run/test_main_road.py).
    from precreg.arithmetic.devices import Arithmetic

Arrays = dict[str, NDArray[Any]]

_T = TypeVar("_T")

_DEVICE_PREFIX = "device:"

# Seeds go to the process of the oracle together, because each message costs some 0.1 ms; the arrays of seeds that wait
# take this much memory at most, and one seed more.
SEED_BYTES = 1 << 20


class CaseComputation(Protocol):
    """The steps of one case that a self-test may change. One object serves one run of one case."""

    # The first of the seeds that inputs are drawn from.
    first_seed: int
    # The accepted digests of the case's outputs, which need no map of errors; None measures no maps.
    accepted: Sequence[str] | None

    def reuse(self, step: str, seed: int, compute: Callable[[], _T]) -> _T:
        """Return `compute()`, or the result that another variant of the case kept of the same step."""

    def alter_inputs(self, inputs: Arrays, seed: int) -> Arrays:
        """Return the inputs for subject and oracle, made of the drawn ones."""

    def run_subject(self, call: Call, seed: int, run: Callable[[Call], _T]) -> _T:
        """Return `run(call)`, or the result of a changed call."""

    def run_sample(self, call: Call, run: Callable[[Call], _T]) -> _T:
        """Return `run(call)`, or the result of a changed call: a sample under random noise, which nothing reuses."""

    def observe(self, runs: list[Arrays], oracle: Arrays) -> None:
        """Take the outputs of one seed, from each measured run of the subject and from the oracle."""


class PlainComputation:
    """Computes a case as its suite defines it, and keeps nothing."""

    first_seed = 0

    def __init__(self, accepted: Sequence[str] | None = None) -> None:
        self.accepted = accepted

    def reuse(self, step: str, seed: int, compute: Callable[[], _T]) -> _T:
        """Return `compute()`."""
        return compute()

    def alter_inputs(self, inputs: Arrays, seed: int) -> Arrays:
        """Return the drawn inputs."""
        return inputs

    def run_subject(self, call: Call, seed: int, run: Callable[[Call], _T]) -> _T:
        """Return `run(call)`."""
        return run(call)

    def run_sample(self, call: Call, run: Callable[[Call], _T]) -> _T:
        """Return `run(call)`."""
        return run(call)

    def observe(self, runs: list[Arrays], oracle: Arrays) -> None:
        """Ignore the outputs."""


@cache
def missing_requirement(requirement: str, chain: tuple[str, ...]) -> str | None:
    """Return why a requirement such as "numpy>=2", "torch", "device:npu" or "memory:8GB" is not met; None if it is.

    A device is there if a label of the environment's chain names it, and memory if this machine or its container has
    that much. A bare name is a module or a package. No module
    is imported to find out. A project's own modules meet no requirement: whether they are on sys.path, or loaded,
    depends on the cases that ran before. The suite's loader has checked the syntax.
    """
    if requirement.startswith(_DEVICE_PREFIX):
        device = requirement.removeprefix(_DEVICE_PREFIX)
        return None if device in chain else f"needs the device {device}, but the environment is {chain[0]}"
    if (size := required_memory(requirement)) is not None:
        return _missing_memory(size)
    leave_module_space()
    if requirement.isidentifier():
        is_there = _is_importable(requirement) or _installed_version(requirement) is not None
        return None if is_there else f"needs {requirement}, which is not installed"
    return _missing_version(requirement)


def _missing_memory(size: int) -> str | None:
    usable = usable_memory()
    if usable is None or usable >= size:
        return None
    return f"needs {describe_memory(size)} of memory, but this machine has {describe_memory(usable)}"


def _is_importable(module: str) -> bool:
    """Return whether an import would find a module.

    importlib.util.find_spec would answer from sys.modules, where a project's module of that name may be loaded.
    """
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return any(finder.find_spec(module, None) is not None for finder in finders)


def _missing_version(requirement: str) -> str | None:
    from packaging.requirements import Requirement

    needed = Requirement(requirement)
    installed = _installed_version(needed.name)
    if installed is None:
        return f"needs {requirement}, but {needed.name} is not installed"
    # packaging leaves pre-releases out by default, but the user chose the one that is installed.
    if needed.specifier.contains(installed, prereleases=True):
        return None
    return f"needs {requirement}, but {needed.name} {installed} is installed"


def _installed_version(package: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def draw_inputs(case: Case, seed: int, directory: Path, project: Path) -> Arrays:
    """Draw the inputs of a case at one seed; `directory` is the suite's folder. Raises UserError for files."""
    return {
        name: draw_input(name, parse_input(name, mapping, case.source), seed, directory, project)
        for name, mapping in case.inputs.items()
    }


def arithmetic_of(case: Case, project: Path) -> Arithmetic | None:
    """Return the arithmetic of the case's device, or None for numpy's own.

    The oracle never gets it, because the oracle is the measure of the subject. Raises UserError as reading a device
    does.
    """
    return None if case.device is None else _device_arithmetic(case.device, project)


# 64 devices at once are more than any suite names; a table takes milliseconds to read and many cases share it.
@lru_cache(maxsize=64)
def _device_arithmetic(name: str, project: Path) -> Arithmetic:
    from precreg.arithmetic.devices import arithmetic_of_device, device_named

    return arithmetic_of_device(device_named(name, project))


def run_on_device(device: str, call: Call, run: Callable[[Call], _T]) -> _T:
    """Run a subject whose operations a simulated device computes, and return its result.

    Raises UserError (idle-device) if the device computed nothing: the result would be the same on every device.
    """
    from precreg.arithmetic.devices import WatchedArithmetic

    assert call.arithmetic is not None
    watched = WatchedArithmetic(call.arithmetic)
    result = run(replace(call, arithmetic=watched))
    if not watched.has_computed:
        message = f"expected floating-point operations on the inputs but device={device} computed none of the subject"
        raise UserError("idle-device", message + "; torch, math and numpy.asarray(x) leave the device")
    return result


class Model(NamedTuple):
    """A function `module:function`, the folder whose modules it sees first, and the root of its project."""

    target: str
    directory: Path
    project: Path


def find_model(spec: str, start: Path) -> Model:
    """Find `[FOLDER/]module:function` as a suite in that folder finds its subject, without running any of it.

    FOLDER is relative to `start`. Outside a project the folder is its own project. Raises UserError as
    `locate_target` does: bad-value, missing-module, taken-name, missing-function.
    """
    folder, _, target = spec.rpartition("/")
    # rpartition leaves nothing of "/module:function", whose folder is the root of the file system.
    directory = Path(realpath(start / (folder or ("/" if spec.startswith("/") else "."))))
    try:
        project = find_project(directory)
    except UserError:
        project = directory
    locate_target(target, directory.relative_to(project).as_posix(), project, Location(""))
    return Model(target, directory, project)


@np.errstate(all="ignore")
def call_model(model: Model, inputs: Arrays, device: str | None, *, with_torch: bool = False) -> Arrays:
    """Call a model with inputs by name, which it may change, and return its outputs by name.

    A module of torch gets tensors, and so does a function `with_torch`. Overflow and the like raise no warnings, as in
    a case. Raises UserError: unknown-device and the other errors of reading a device, idle-device, missing-module,
    missing-function, bad-outputs; out-of-memory, and model-failed for other exceptions of the model.
    """
    arithmetic = None if device is None else _device_arithmetic(device, model.project)
    call = Call(inputs, {}, model.directory, model.project, arithmetic)
    with _model_failures(model):
        if device is not None:
            return run_on_device(device, call, lambda call: run_python(model.target, call)).arrays
        if with_torch or is_torch_module(model.target, call):
            return run_torch({"torch": model.target}, call).arrays
        return run_python(model.target, call).arrays


@np.errstate(all="ignore")
def call_layers(model: Model, inputs: Arrays, layers: Sequence[str]) -> tuple[Arrays, Arrays]:
    """Call a module of torch, and return the outputs of the layers that match patterns, and its own outputs.

    Raises UserError as `call_model` does, and unknown-node.
    """
    with _model_failures(model):
        return run_torch_layers({"torch": model.target}, Call(inputs, {}, model.directory, model.project), layers)


def _model_failures(model: Model) -> AbstractContextManager[None]:
    return report_failures(model.target, model.project, "to return arrays")
