"""A kernel run with a fault in its arithmetic or its inputs, as a case's subject is."""

import numpy as np

from precreg.arithmetic.devices.arithmetic import NumpyArithmetic
from precreg.arithmetic.devices.array import plain, simulated
from precreg.arithmetic.faults.planted import altered_inputs, planted
from precreg.arithmetic.faults.table import fault_named


def arithmetic(name, inner=None):
    """Return numpy's arithmetic, or another, with a fault in it."""
    return planted(inner or NumpyArithmetic(), fault_named(name))


@np.errstate(all="ignore")
def run(name, kernel, *arrays, with_arithmetic=None):
    """Return what a kernel gives of arrays with a fault, as a plain array."""
    computing = with_arithmetic or arithmetic(name)
    given = altered_inputs({str(place): array for place, array in enumerate(arrays)}, fault_named(name))
    return plain(kernel(*(simulated(array.copy(), computing) for array in given.values())))


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
