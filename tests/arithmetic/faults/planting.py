"""A kernel run with a fault in its arithmetic or its inputs, as a case's subject is."""

import numpy as np

from precreg.arithmetic.devices.array import NumpyArithmetic, plain_array, simulate_array
from precreg.arithmetic.faults.planting import alter_inputs, plant_fault
from precreg.arithmetic.faults.table import fault_named


def arithmetic(name, inner=None):
    """Return numpy's arithmetic, or another, with a fault in it."""
    return plant_fault(inner or NumpyArithmetic(), fault_named(name))


@np.errstate(all="ignore")
def run(name, kernel, *arrays, with_arithmetic=None):
    """Return what a kernel gives of arrays with a fault, as a plain array."""
    computing = with_arithmetic or arithmetic(name)
    given = alter_inputs({str(place): array for place, array in enumerate(arrays)}, fault_named(name))
    return plain_array(kernel(*(simulate_array(array.copy(), computing) for array in given.values())))


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
