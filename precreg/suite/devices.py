"""`device:` of a suite: the name of a simulated device, or a parameter that names one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from precreg.arithmetic.devices.read import device_named, device_names
from precreg.errors import nearest
from precreg.storage.yaml_source import shown
from precreg.suite.load import Suite
from precreg.suite.matrix import Parameters
from precreg.suite.references import require_known


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
        message = f"expected a Python function as subject beside device but got subject={shown(subject)}"
        raise suite.source.error("bad-value", message, "device")


def _value(given: str, row: Parameters, params: Any) -> Any:
    """Return what a text, or the name after its $, stands for: a matrix parameter before a key of params."""
    while isinstance(given, str) and given.startswith("$"):
        name = given[1:]
        given = row[name] if name in row else params[name]
    return given


def _require_readable(suite: Suite, project: Path, name: Any) -> None:
    known = device_names(project)
    if name not in known:
        message = f"expected one of {', '.join(known)} but got device={shown(name)}{nearest(str(name), known)}"
        raise suite.source.error("unknown-device", message, "device")
    device_named(name, project)
