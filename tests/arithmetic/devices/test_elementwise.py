"""Operations on elements: each device's against rational arithmetic, and numpy's dtypes."""

import numpy as np
import pytest

from precreg.arithmetic.devices.array import SimulatedArray, plain_array, simulate_array
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import Device, Elementwise
from precreg.arithmetic.exact import exact_add, exact_divide, exact_multiply, exact_round, exact_sqrt, exact_subtract
from precreg.arithmetic.formats import FORMATS, Rounding, numpy_dtype
from tests.arithmetic.devices.on_devices import DEVICES, device, hard, on, same_bits

TABLES = [(name, dtype) for name in DEVICES for dtype in device(name).device.elementwise]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
EXACT = {
    np.add: exact_add,
    np.subtract: exact_subtract,
    np.multiply: exact_multiply,
    np.divide: exact_divide,
    np.sqrt: exact_sqrt,
}


def read(values, entry):
    """Return numbers as an operation reads them."""
    numbers = [float(value) for value in values]
    return [exact_round(x, entry.input, entry.rounding) for x in numbers] if entry.input else numbers


@pytest.mark.parametrize("function", EXACT, ids=lambda function: function.__name__)
@pytest.mark.parametrize(("name", "dtype"), TABLES)
def test_every_operation_is_the_exact_result_rounded_once(name, dtype, function):
    entry = device(name).device.elementwise[dtype]
    operands = [hard(dtype, seed=seed) for seed in range(function.nin)]
    operands[-1] = np.roll(operands[-1], 5)
    result = function(*(on(name, operand) for operand in operands))
    numbers = zip(*(read(operand, entry) for operand in operands), strict=True)
    expected = [EXACT[function](*values, entry.format, entry.rounding) for values in numbers]
    assert isinstance(result, SimulatedArray)
    assert result.dtype == numpy_dtype(dtype)
    assert same_bits(result, expected)


@pytest.mark.parametrize(("name", "dtype"), TABLES)
def test_square_reciprocal_and_powers_are_made_of_them(name, dtype):
    x = on(name, hard(dtype))
    assert same_bits(np.square(x), x * x)
    if dtype != "bfloat16":  # of which numpy takes powers by logarithms, and the reciprocal in float32
        assert same_bits(x**2, x * x)
        assert same_bits(x**0.5, np.sqrt(x))
        if name != "ascend":  # where it is Newton's
            assert same_bits(np.reciprocal(x), 1.0 / x)


def test_a_python_number_is_rounded_once_to_the_format():
    """0.1 in float32 and then in 21 bits would be rounded twice."""
    entry = device("mlu370").device.elementwise["float32"]
    tenth = exact_round(0.1, entry.format, entry.rounding)
    x = hard("float32")
    numbers = read(x, entry)
    assert same_bits(on("mlu370", x) * 0.1, [exact_multiply(n, tenth, entry.format, entry.rounding) for n in numbers])
    assert (on("mlu370", x) + 1).dtype == np.float32


@pytest.mark.parametrize("function", [np.exp, np.log1p, np.arctan, np.sinh, np.cbrt], ids=lambda f: f.__name__)
def test_a_function_that_is_not_approximated_is_rounded_once(function):
    entry = device("mlu370").device.elementwise["float32"]
    x = np.abs(np.random.default_rng(0).normal(size=40)).astype(np.float32)
    wide = function(np.array(read(x, entry)))
    assert same_bits(function(on("mlu370", x)), [exact_round(float(y), entry.format, entry.rounding) for y in wide])


def test_what_only_chooses_and_compares_is_numpys():
    x, y = hard("float32"), np.roll(hard("float32"), 3)
    for function in (np.maximum, np.fmin, np.copysign, np.fmod):
        assert same_bits(function(on("mlu370", x), y), function(x, y))
    compared = on("mlu370", x) < y
    assert type(compared) is np.ndarray
    assert (compared == (x < y)).all()
    assert same_bits(np.negative(on("mlu370", x)), -x)


def test_a_dtype_without_an_entry_is_numpys():
    x = hard("float64")
    assert same_bits(on("mlu370", x) / 3, x / 3)
    mixed = on("ascend", hard("float16")) * np.arange(72)
    assert mixed.dtype == np.float64


@pytest.mark.parametrize(
    "value", [2, 0.5, np.float32(3), np.float16(3), np.float64(3), np.ones(72), np.arange(72), True]
)
def test_dtypes_are_those_that_numpy_gives(value):
    x = hard("float32")
    assert (on("mlu370", x) * value).dtype == (x * value).dtype
    assert (value - on("mlu370", x)).dtype == (value - x if value is not True else x).dtype


def test_stochastic_rounding_draws_by_the_seed_of_the_table():
    def computed(seed):
        entry = Elementwise(FORMATS["bfloat16"], Rounding.STOCHASTIC, seed=seed)
        x = simulate_array(
            np.linspace(1, 2, 500, dtype=np.float32), DeviceArithmetic(Device("s", "", {"float32": entry}))
        )
        return plain_array(x * np.float32(1.001))

    assert np.array_equal(computed(1), computed(1))
    assert not np.array_equal(computed(1), computed(2))
