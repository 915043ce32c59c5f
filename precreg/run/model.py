"""A model called by itself, outside any suite: `[FOLDER/]module:function` on arrays by name, on a device or not."""

from __future__ import annotations

from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices.computing import DeviceArithmetic
from precreg.arithmetic.devices.read import device_named
from precreg.errors import UserError
from precreg.storage.project import find_project
from precreg.subject import python
from precreg.subject.call import Call
from precreg.subject.failure import describe
from precreg.suite.modules import locate
from precreg.types.types import Failure, Location, Reason

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
    locate(target, directory.relative_to(project).as_posix(), project, Location(""))
    return Model(target, directory, project)


def _project_of(directory: Path) -> Path:
    try:
        return find_project(directory)
    except UserError:
        return directory


@np.errstate(all="ignore")
def nodes(model: Model, inputs: Arrays, device: str | None) -> Arrays:
    """Call the model with inputs by name, which are its own to change, and return what it gives by name.

    Overflow and the like raise no warnings, as in a case. Raises UserError: unknown-device and what else reading a
    device raises, missing-module, missing-function, bad-outputs; model-failed for whatever the model itself raises.
    """
    arithmetic = None if device is None else DeviceArithmetic(device_named(device, model.project))
    call = Call(inputs, {}, model.directory, model.project, arithmetic)
    try:
        return python.run(model.target, call).arrays
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        failure = describe(error, Reason.SUBJECT_ERROR)
        message = f"expected {model.target} to return arrays but it failed: {failure.message}{_place(failure)}"
        raise UserError("model-failed", message) from None


def _place(failure: Failure) -> str:
    """Return the part of the traceback that lies in the model; nothing where the call itself was wrong."""
    lines = failure.detail.splitlines()
    return "".join(f"\n  {line}" for line in lines) if len(lines) > 1 else ""
