"""How many terms sums have, and in which precision numpy adds them up, held against sums that show it."""

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic.devices.array import NumpyArithmetic, simulate_array
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import device_named
from precreg.arithmetic.faults.planting import OperationRecorder
from precreg.types.case import LongSum


def longest(kernel, *arrays, inner=None):
    recorder = OperationRecorder(inner or NumpyArithmetic())
    kernel(*(simulate_array(array, recorder) for array in arrays))
    return recorder.longest


ROWS = np.ones((4, 100, 8), np.float32)


@pytest.mark.parametrize(
    ("kernel", "terms", "products"),
    [
        (lambda x: x.sum(), 3200, False),
        (lambda x: x.sum((0, 2)), 32, False),
        (lambda x: x.mean(1), 100, False),
        (lambda x: np.cumsum(x, 1), 100, False),
        (lambda x: x @ x[0].T, 8, True),
        (lambda x: np.dot(x, x[0].T), 8, True),
        (lambda x: np.einsum("ijk,ijk->i", x, x), 800, True),
        (lambda x: np.tensordot(x, x, ([0, 1], [0, 1])), 400, True),
        (lambda x: np.convolve(x[0, :, 0], x[0, 0]), 8, True),
        (lambda x: np.linalg.norm(x), 3200, True),
        (lambda x: x.sum(-1).sum(), 400, False),
    ],
)
def test_terms_are_counted(kernel, terms, products):
    assert longest(kernel, ROWS) == LongSum(terms, 24, products)


@pytest.mark.parametrize(
    "kernel",
    [lambda x: x + x, lambda x: x.max(), lambda x: np.exp(x), lambda x: x[:, :1].sum(1), lambda x: np.outer(x, x)],
)
def test_what_adds_nothing_up_has_no_length(kernel):
    assert longest(kernel, ROWS) is None


def swallowed(array, axis):
    """Tell whether ones are lost beside a number so large that the dtype itself has a spacing of 2 there."""
    big = array.dtype.type(2.0 ** (2 if array.dtype.itemsize == 1 else np.finfo(np.float16).nmant + 1))
    if array.dtype == ml_dtypes.bfloat16:
        big = array.dtype.type(2.0**8)
    ones = np.ones_like(array)
    first = np.moveaxis(ones, axis, 0)
    first[0] = big
    return bool((np.asarray(np.add.reduce(ones, axis=axis)).astype(float) == float(big)).all())


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_precision_is_that_in_which_numpy_adds(dtype, axis, order):
    array = np.ones((6, 6), dtype, order=order)
    found = longest(lambda x: x.sum(axis), array)
    own = {np.float16: 11, ml_dtypes.bfloat16: 8}[dtype]
    assert found == LongSum(6, own if swallowed(array, axis) else 24, products=False)


def test_rows_of_float16_are_added_in_float32_and_columns_are_not():
    array = np.ones((6, 6), np.float16)
    assert longest(lambda x: x.sum(1), array).precision == 24
    assert longest(lambda x: x.sum(0), array).precision == 11
    assert longest(lambda x: x.sum((0, 2)), np.ones((3, 4, 5), np.float16)).precision == 11
    assert longest(lambda x: np.cumsum(x, 1), array).precision == 11
    assert longest(lambda x: x.mean(0), array).precision == 24


def test_of_several_sums_that_of_the_largest_terms_times_roundoff_is_told():
    array = np.ones((6, 4000), np.float16)
    assert longest(lambda x: (x.sum(1), x.sum(0)), array) == LongSum(6, 11, products=False)


def test_a_device_adds_in_its_own_accumulator(tmp_path):
    inner = DeviceArithmetic(device_named("mlu370", tmp_path))
    array = np.ones((6, 7), np.float32)
    for kernel, unit, products in (
        (lambda x: x.sum(1), inner.device.adder("float32"), False),
        (lambda x: x @ x.T, inner.device.multiplier("float32"), True),
    ):
        found = longest(kernel, array, inner=inner)
        assert (found.terms, found.products) == (7, products)
        assert found.precision <= unit.accumulator.precision < 24
