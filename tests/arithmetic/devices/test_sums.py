"""Reductions and running sums on devices: against rational arithmetic, and numpy's options."""

import numpy as np
import pytest

from precreg.arithmetic.devices.array import SimulatedArray, plain_array, simulate_array
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import Device, Elementwise
from precreg.arithmetic.exact import exact_add, exact_multiply, exact_output, exact_round, exact_total
from precreg.arithmetic.formats import FORMATS, Rounding, numpy_dtype
from tests.arithmetic.devices.on_devices import DEVICES, device, hard, on, same_bits

SUMMED = [(name, dtype) for name in DEVICES for dtype in device(name).device.reductions]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def converted(values, unit):
    return [exact_round(float(value), unit.input, unit.conversion) for value in values]


def drawn(dtype, count, seed=1):
    return np.random.default_rng(seed).normal(size=count).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("count", [0, 1, 7, 200])
@pytest.mark.parametrize(("name", "dtype"), SUMMED)
def test_a_sum_is_added_in_the_order_of_the_table(name, dtype, count):
    unit = device(name).device.reductions[dtype]
    x = drawn(dtype, count)
    expected = exact_output(exact_total(converted(x, unit), unit), unit)
    total = on(name, x).sum()
    assert isinstance(total, SimulatedArray)
    assert total.dtype == x.dtype
    assert same_bits(total, expected)
    assert same_bits(sum_of_other_forms(name, x), np.full(4, expected))


def sum_of_other_forms(name, x):
    x = on(name, x)
    return np.array(
        [
            plain_array(np.sum(x)),
            plain_array(np.add.reduce(x)),
            plain_array(x[None].sum(1))[0],
            plain_array(x[:, None].sum()),
        ]
    )


@pytest.mark.parametrize(("name", "dtype"), SUMMED)
def test_infinities_and_nan_are_summed_as_ieee_says(name, dtype):
    x = hard(dtype)
    assert np.isnan(plain_array(on(name, x).sum()))
    assert plain_array(on(name, x[~np.isnan(x) & (x > -np.inf)]).sum()) == np.inf


@pytest.mark.parametrize(("name", "dtype"), SUMMED)
def test_a_running_sum_is_sequential(name, dtype):
    unit = device(name).device.reductions[dtype]
    x = drawn(dtype, 50)
    total, expected = 0.0, []
    for term in converted(x, unit):
        total = exact_add(total, term, unit.accumulator, unit.rounding)
        expected.append(exact_round(total, unit.output, unit.conversion))
    assert same_bits(np.cumsum(on(name, x)), expected)
    assert same_bits(on(name, np.stack([x, x])).cumsum(1)[1], expected)
    assert same_bits(np.add.accumulate(on(name, x[:, None]))[:, 0], expected)


def test_products_are_folded_from_the_first_term():
    entry = device("mlu370").device.elementwise["float32"]
    x = drawn("float32", 20)
    expected = exact_round(float(x[0]), entry.format, entry.rounding)
    for factor in x[1:]:
        factor = exact_round(float(factor), entry.format, entry.rounding)
        expected = exact_multiply(expected, factor, entry.format, entry.rounding)
    assert same_bits(np.prod(on("mlu370", x)), expected)
    assert same_bits(np.cumprod(on("mlu370", x))[-1], expected)


WHOLE = np.random.default_rng(3).integers(-9, 10, (3, 4, 5)).astype(np.float32)
"""Whole numbers: every order of adding them is exact, so all that can differ is which are added."""


@pytest.mark.parametrize("function", [np.add, np.multiply, np.maximum], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"axis": 1},
        {"axis": -1, "keepdims": True},
        {"axis": (0, 2)},
        {"axis": (2, 0), "keepdims": True},
        {"axis": None},
        {"axis": None, "keepdims": True},
        {"axis": (), "keepdims": False},
        {"axis": 1, "initial": 3.0},
        {"axis": 2, "where": WHOLE > 0, "initial": 1.0},
        {"axis": 1, "dtype": np.float64},
    ],
    ids=str,
)
def test_the_options_of_numpys_reductions(function, options):
    small = np.sign(WHOLE) if function is np.multiply else WHOLE
    expected = function.reduce(small, **options)
    result = function.reduce(on("mlu370", small), **options)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(plain_array(result), expected)


@pytest.mark.parametrize("function", [np.add, np.multiply], ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [3, -4, (0, 0), (0, -3), (1, 7)], ids=str)
def test_axes_that_are_not_there_or_twice_are_refused_as_by_numpy(function, axis):
    for array in (WHOLE, on("mlu370", WHOLE)):
        with pytest.raises(ValueError, match=r"axis"):
            function.reduce(array, axis=axis)


def test_what_has_no_identity_has_no_result_without_terms():
    for array in (WHOLE, on("mlu370", WHOLE)):
        with pytest.raises(ValueError, match="identity"):
            np.subtract.reduce(array[:0])
        with pytest.raises(ValueError, match="identity"):
            np.subtract.reduce(array, where=WHOLE > 0)


def test_what_a_sum_begins_with_has_the_dtype_of_its_terms():
    x = drawn("bfloat16", 20)
    total = np.sum(on("ascend", x), initial=0.1)
    assert total.dtype == x.dtype
    assert total == np.sum(on("ascend", x)) + x.dtype.type(0.1)


def test_sums_into_a_place_of_the_callers():
    place = np.zeros((3, 5), np.float32)
    assert np.add.reduce(on("ascend", WHOLE), axis=1, out=place) is place
    assert np.array_equal(place, WHOLE.sum(1))


@pytest.mark.parametrize("function", [np.add, np.multiply, np.maximum], ids=lambda f: f.__name__)
def test_the_other_methods_of_ufuncs(function):
    small = np.sign(WHOLE[0])
    for axis in (0, 1):
        starts = [0, 2, 1]
        for method, *arguments in (("reduceat", starts, axis), ("accumulate", axis)):
            result = getattr(function, method)(on("mlu370", small), *arguments)
            assert np.array_equal(plain_array(result), getattr(function, method)(small, *arguments))
    assert np.array_equal(plain_array(function.outer(on("mlu370", small), small)), function.outer(small, small))
    target, places = np.ones(4, np.float32), np.array([0, 3, 3, 0, 3])
    simulated_target = on("mlu370", target.copy())
    function.at(simulated_target, places, WHOLE[0, 0])
    function.at(target, places, WHOLE[0, 0])
    assert np.array_equal(plain_array(simulated_target), target)


@pytest.mark.parametrize("starts", [[0, 5], [-1]], ids=str)
def test_runs_begin_at_indices_that_there_are(starts):
    for array in (WHOLE[0], on("mlu370", WHOLE[0])):
        with pytest.raises(IndexError):
            np.add.reduceat(array, starts, axis=1)


def test_an_update_by_numbers_of_another_dtype_is_cast_by_the_device():
    x = on("mlu370", np.zeros(2, np.float32))
    np.add.at(x, [0], np.array([1 + 2**-23]))
    assert np.array_equal(plain_array(x), [1, 0])


def test_updates_in_place_go_one_after_the_other():
    """1 + 2^-21 + 2^-21 in 21 bits, truncated: each update is lost, though their sum would not be."""
    x = on("mlu370", np.ones(2, np.float32))
    np.add.at(x, np.array([0, 0, 1]), np.float32(2**-21))
    assert np.array_equal(plain_array(x), [1, 1])
    np.add.at(x, (np.array([1]),), np.float32(2**-20))
    assert np.array_equal(plain_array(x), [1, 1 + 2**-20])


@pytest.mark.parametrize("name", DEVICES)
def test_means_and_variances_are_made_of_sums(name):
    x = drawn("float32", 96).reshape(6, 16)
    count = np.float32(16)
    mean = on(name, x).sum(-1, keepdims=True) / count
    assert same_bits(on(name, x).mean(-1, keepdims=True), mean)
    assert same_bits(np.mean(on(name, x), axis=-1, keepdims=True), mean)
    centered = on(name, x) - mean
    assert same_bits(np.var(on(name, x), axis=-1), (centered * centered).sum(-1) / count)
    assert same_bits(np.std(on(name, x), axis=-1), np.sqrt((centered * centered).sum(-1) / count))


@pytest.mark.parametrize("name", DEVICES)
def test_a_mean_of_float16_is_rounded_once_at_the_end(name):
    x = drawn("float16", 64)
    wide = on(name, x).astype(np.float32)
    x = on(name, x)
    for mean in (x.mean(), np.mean(x), x.mean(0), x.mean(None, None, None, False)):
        assert isinstance(mean, SimulatedArray)
        assert mean.dtype == np.float16
        assert same_bits(mean, wide.mean().astype(np.float16))


def test_a_dtype_that_only_has_operations_on_elements_is_added_and_multiplied_by_these():
    entry = Elementwise(FORMATS["bfloat16"], Rounding.TOWARD_ZERO)
    alone = DeviceArithmetic(Device("alone", "", {"float32": entry}))
    x, y = drawn("float32", 30), drawn("float32", 30, seed=2)
    here, there = simulate_array(x, alone), simulate_array(y, alone)
    total = product = here[0] * np.float32(0)
    for a, b in zip(here, there, strict=True):
        total = total + a
        product = product + a * b
    assert same_bits(here.sum(), total)
    assert same_bits(here @ there, product)
    assert not same_bits(total, x.sum())
