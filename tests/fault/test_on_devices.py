"""A fault lies over a device's arithmetic as it does over numpy's: the device computes what the fault leaves alone."""

from pathlib import Path

import numpy as np

from precreg.fault.planted import planted
from precreg.fault.results import without_last_bits
from precreg.fault.table import CHANGES, fault_named
from precreg.simulate.array import plain, simulated
from precreg.simulate.computing import DeviceArithmetic
from precreg.simulate.read import device_named
from tests.fault.planting import run, same_bits

DEVICE = DeviceArithmetic(device_named("mlu370", Path()))
RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=(2, 30, 40)).astype(np.float32)


def on(arithmetic, kernel, *arrays):
    return plain(kernel(*(simulated(array.copy(), arithmetic) for array in arrays)))


def test_what_a_fault_leaves_alone_the_device_computes():
    faulted = planted(DEVICE, fault_named("swallowed_nan"))
    result = on(faulted, lambda x, y: x * y + x, X, Y)
    assert same_bits(result, on(DEVICE, lambda x, y: x * y + x, X, Y))
    assert not same_bits(result, X * Y + X)


def test_results_of_the_device_are_altered():
    result = run(
        "truncated_results", np.multiply, X, Y, with_arithmetic=planted(DEVICE, fault_named("truncated_results"))
    )
    assert same_bits(result, without_last_bits(on(DEVICE, np.multiply, X, Y), 3))


def test_other_orders_add_by_the_device():
    """Its 20 bits of mantissa remain: every sum is a number of them."""
    for name in CHANGES:
        result = on(planted(DEVICE, CHANGES[name]), lambda x: x.sum(-1), X)
        exact = X.astype(np.float64).sum(-1)
        assert np.abs(result - exact).max() < 40 * 20 * 2.0**-20
        if name != "sum_in_float64":
            assert same_bits(without_last_bits(result, 3), result)
