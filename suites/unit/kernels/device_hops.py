"""The way of an operand through the places of a simulated device, and what its table says that each of them holds."""

import numpy as np
import numpy.typing as npt
from kernels.cast_chain import to_half_by_integers

from precreg.arithmetic.devices import cast_through_device


def values_at_each_place(x: npt.NDArray[np.float32]) -> dict[str, npt.NDArray]:
    """Give the value at each place of the device that computes the suite, in the format of the place."""
    return cast_through_device(x)


def declared(x: npt.NDArray[np.float32]) -> dict[str, npt.NDArray]:
    """Give what the Ascend-like device declares: float32 in device memory, float16 from L1 on, rounded once."""
    half = to_half_by_integers(x)
    return {"host": x, "device_memory": x, "L1": half, "L0": half}
