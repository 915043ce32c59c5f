"""A fault lies over a device's arithmetic as it does over numpy's: the device computes what the fault leaves alone."""

from pathlib import Path

import numpy as np
import pytest

from precreg.arithmetic.devices.array import plain_array, simulate_array
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import device_named
from precreg.arithmetic.faults.planting import plant_fault
from precreg.arithmetic.faults.results import truncate_bits
from precreg.arithmetic.faults.table import HARMLESS_CHANGES, fault_named
from precreg.storage.files import DEVICES_FOLDER
from tests.arithmetic.faults.planting import run, same_bits

DEVICE = DeviceArithmetic(device_named("mlu370", Path()))
RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=(2, 30, 40)).astype(np.float32)


def on(arithmetic, kernel, *arrays):
    return plain_array(kernel(*(simulate_array(array.copy(), arithmetic) for array in arrays)))


def test_what_a_fault_leaves_alone_the_device_computes():
    faulted = plant_fault(DEVICE, fault_named("swallowed_nan"))
    result = on(faulted, lambda x, y: x * y + x, X, Y)
    assert same_bits(result, on(DEVICE, lambda x, y: x * y + x, X, Y))
    assert not same_bits(result, X * Y + X)


def test_results_of_the_device_are_altered():
    result = run(
        "truncated_results", np.multiply, X, Y, with_arithmetic=plant_fault(DEVICE, fault_named("truncated_results"))
    )
    assert same_bits(result, truncate_bits(on(DEVICE, np.multiply, X, Y), 3))


def test_other_orders_add_by_the_device():
    """Its 20 bits of mantissa remain: every sum is a number of them."""
    for name in HARMLESS_CHANGES:
        result = on(plant_fault(DEVICE, HARMLESS_CHANGES[name]), lambda x: x.sum(-1), X)
        exact = X.astype(np.float64).sum(-1)
        assert np.abs(result - exact).max() < 40 * 20 * 2.0**-20
        if name != "sum_in_float64":
            assert same_bits(truncate_bits(result, 3), result)


OWN = """about: adds in float32, and keeps 13 bits of what its vector unit gives
formats:
  short: {precision: 13, min_exponent: -126, max_exponent: 127}
elementwise:
  float32: {format: short, rounding: toward_zero}
matmul:
  float32: {product: exact, accumulator: float32, output: short}
reductions:
  float32: {accumulator: float32, output: short, order: lanes, width: 4}
"""


@pytest.mark.parametrize("name", ["sum_reversed", "sum_in_halves", "sum_pairwise"])
@pytest.mark.parametrize("kernel", [lambda x: x.sum(-1), lambda x: np.matmul(x, x.T)], ids=["sum", "product"])
def test_another_order_is_as_good_where_the_vector_unit_is_coarse(tmp_path, name, kernel):
    """Parts of a sum stay in the accumulator: not one bit more is lost of 13 than without the change."""
    table = tmp_path / DEVICES_FOLDER / "own.yaml"
    table.parent.mkdir(parents=True)
    table.write_text(OWN)
    device = DeviceArithmetic(device_named("own", tmp_path))
    x = RNG.uniform(1, 2, size=(60, 700)).astype(np.float32)
    exact = kernel(x.astype(np.float64))
    before, after = (
        np.abs(on(each, kernel, x) - exact).mean() for each in (device, plant_fault(device, HARMLESS_CHANGES[name]))
    )
    assert after < 1.02 * before


@pytest.mark.parametrize("name", ["sum_reversed", "sum_in_halves", "sum_pairwise"])
def test_another_order_is_as_good_where_a_device_leaves_sums_to_numpy(name):
    x = RNG.normal(size=(4000, 300)).astype(np.float32)
    exact = x.astype(np.float64).sum(-1)
    result = on(plant_fault(DeviceArithmetic(device_named("cpu")), HARMLESS_CHANGES[name]), lambda x: x.sum(-1), x)
    assert np.abs(result - exact).mean() < 1.1 * np.abs(x.sum(-1) - exact).mean()


@pytest.mark.parametrize("name", ["sum_reversed", "sum_in_halves", "sum_pairwise"])
@pytest.mark.parametrize("device", ["ascend", "gpu-tf32", "mlu370"])
def test_another_order_gives_other_bits_on_every_device(name, device):
    inner = DeviceArithmetic(device_named(device))
    for kernel in (lambda x, y: x.sum(-1), lambda x, y: x @ y.T):
        assert not same_bits(on(plant_fault(inner, HARMLESS_CHANGES[name]), kernel, X, Y), on(inner, kernel, X, Y))
