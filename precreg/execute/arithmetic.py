"""What computes a case's operations, that of its device with its fault in it; and what a fault leaves of its inputs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from precreg.fault.planted import altered_inputs, altered_params, planted
from precreg.fault.table import fault_named
from precreg.simulate.arithmetic import Arithmetic, NumpyArithmetic
from precreg.simulate.computing import DeviceArithmetic
from precreg.simulate.read import device_named
from precreg.types import Case


def arithmetic_of(case: Case, project: Path) -> Arithmetic | None:
    """Return what computes the subject's operations; None leaves them to numpy.

    The oracle is never given it: it is what the subject is held against. A fault may remember what it computed: one
    arithmetic serves all repeats. Raises UserError as reading a device does, and unknown-fault.
    """
    inner = None if case.device is None else _of_device(case.device, project)
    fault = None if case.fault is None else fault_named(case.fault)
    return inner if fault is None or fault.place != "operations" else planted(inner or NumpyArithmetic(), fault)


def given(case: Case, inputs: dict[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the inputs and params that the subject is given: the case's own, as its fault leaves them."""
    if case.fault is None:
        return inputs, case.params
    fault = fault_named(case.fault)
    return altered_inputs(inputs, fault), altered_params(case.params, fault)


@lru_cache(maxsize=64)
def _of_device(name: str, project: Path) -> Arithmetic:
    """Read a device once in each process."""
    return DeviceArithmetic(device_named(name, project))
