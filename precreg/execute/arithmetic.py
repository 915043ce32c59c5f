"""The arithmetic that computes a case's operations: that of its device."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from precreg.simulate.arithmetic import Arithmetic, NumpyArithmetic
from precreg.simulate.read import device_named
from precreg.types import Case


def arithmetic_of(case: Case, project: Path) -> Arithmetic | None:
    """Return what computes the subject's operations; None leaves them to numpy.

    The oracle is never given it: it is what the subject is held against. Raises UserError as reading a device does.
    """
    return None if case.device is None else _of_device(case.device, project)


@lru_cache(maxsize=64)
def _of_device(name: str, project: Path) -> Arithmetic:
    """Read a device once in each process."""
    device_named(name, project)
    return NumpyArithmetic()
