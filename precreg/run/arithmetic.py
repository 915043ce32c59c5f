"""What computes a case's operations: the arithmetic of its device, and faults in it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from precreg.arithmetic.devices.arithmetic import Arithmetic, NumpyArithmetic
from precreg.arithmetic.devices.computing import DeviceArithmetic
from precreg.arithmetic.devices.read import device_named
from precreg.arithmetic.faults.fault import Fault
from precreg.arithmetic.faults.planted import altered_inputs, altered_params, planted
from precreg.arithmetic.faults.recorder import Recorder
from precreg.subject.call import Call
from precreg.types.types import Case


def arithmetic_of(case: Case, project: Path) -> Arithmetic | None:
    """Return what computes the subject's operations, a fault apart; None leaves them to numpy.

    The oracle is never given it: it is what the subject is held against. Raises UserError as reading a device does.
    """
    return None if case.device is None else _of_device(case.device, project)


def faulted(call: Call, fault: Fault) -> Call:
    """Return a call whose inputs, params or arithmetic have a fault.

    The arithmetic may remember what it computed: one such call serves all repeats.
    """
    if fault.place == "operations":
        return replace(call, arithmetic=planted(call.arithmetic or NumpyArithmetic(), fault))
    return replace(call, inputs=altered_inputs(call.inputs, fault), params=altered_params(call.params, fault))


def recording(call: Call) -> tuple[Call, Recorder]:
    """Return a call that computes the same and notes what it meets."""
    recorder = Recorder(call.arithmetic or NumpyArithmetic())
    return replace(call, arithmetic=recorder), recorder


@lru_cache(maxsize=64)
def _of_device(name: str, project: Path) -> Arithmetic:
    """Read a device once in each process."""
    return DeviceArithmetic(device_named(name, project))
