"""A wider unit of a device: against exact rationals, and beside the operations that stay the device's."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic import exact_round
from precreg.arithmetic.devices import DeviceArithmetic, arithmetic_of_device, device_named, simulate_array
from precreg.arithmetic.devices.wide import WideUnit
from precreg.arithmetic.formats import FORMATS
from precreg.errors import UserError

DEVICE = device_named("mlu370")
FLOAT32 = FORMATS["float32"]

# Twelve bits and few exponents: float64 adds products of two of them exactly.
short = st.integers(-4095, 4095).map(lambda number: np.float32(number / 64))


def simulated(array, *places):
    return simulate_array(np.asarray(array), WideUnit(DeviceArithmetic(DEVICE), places))


def exact(number):
    return np.float32(float(exact_round(Fraction(number), FLOAT32)))


@given(st.lists(st.tuples(short, short), min_size=1, max_size=40))
def test_sums_and_products_are_the_exact_ones_rounded_once(pairs):
    x, y = (np.array(each, np.float32) for each in zip(*pairs, strict=True))
    terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in pairs]
    assert simulated(x, "matmul") @ y == exact(sum(terms))
    assert simulated(x, "dot").dot(y) == exact(sum(terms))
    assert simulated(x, "add.reduce").sum() == exact(sum(Fraction(float(each)) for each in x))
    products = np.asarray(simulated(x, "multiply") * y)
    assert products.dtype == np.float32
    assert products.tolist() == [exact(each) for each in terms]
    sums = np.asarray(np.add.accumulate(simulated(x, "add.accumulate")))
    assert sums.tolist() == [exact(sum(Fraction(float(each)) for each in x[: place + 1])) for place in range(x.size)]


@given(st.lists(short, min_size=2, max_size=40))
def test_other_operations_stay_the_devices(values):
    x = np.array(values, np.float32)
    plain, wide = simulate_array(x, DeviceArithmetic(DEVICE)), simulated(x, "matmul", "exp")
    for compute in (lambda x: x * x, lambda x: x.sum(), lambda x: x.astype(np.float16), lambda x: np.cumsum(x)):
        assert np.array_equal(np.asarray(compute(wide)), np.asarray(compute(plain)))


def test_a_line_chooses_its_operations_alone():
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    line = test_a_line_chooses_its_operations_alone.__code__.co_firstlineno + 4
    chosen = simulated(x, f"test_wide.py:{line}")
    first = chosen.sum()
    other = chosen.sum()
    assert first == np.float32(x.sum(dtype=np.float64))
    assert other == simulate_array(x, DeviceArithmetic(DEVICE)).sum() != first


def test_a_line_and_a_name_choose_one_operation():
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    line = test_a_line_and_a_name_choose_one_operation.__code__.co_firstlineno + 4
    chosen = simulated(x, f"add.*@test_wide.py:{line}")
    product, total = chosen * chosen, chosen.sum()
    plain = simulate_array(x, DeviceArithmetic(DEVICE))
    assert np.array_equal(np.asarray(product), np.asarray(plain * plain))
    assert total == np.float32(x.sum(dtype=np.float64)) != plain.sum()


def test_casts_comparisons_and_writes_in_place():
    x = np.array([1.00048828125, 3, 2], np.float32)
    everything = simulated(x, "*")
    assert np.asarray(everything.astype(np.float16)).tolist() == x.astype(np.float16).tolist()
    assert (everything > 1).tolist() == [True, True, True]
    np.add.at(everything, [0, 0], np.float32(1))
    assert np.asarray(everything).tolist() == [3.00048828125, 3, 2]
    assert everything.argmax() == 0


def test_a_table_has_the_operations_of_its_wider_unit(tmp_path):
    write(tmp_path, "like: mlu370\nwide: [add.reduce, 'kernels.py:12', exp@kernels.py:12]\n")
    device = device_named("npu", tmp_path)
    assert device.wide == ("add.reduce", "kernels.py:12", "exp@kernels.py:12")
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    assert simulate_array(x, arithmetic_of_device(device)).sum() == np.float32(x.sum(dtype=np.float64))


@pytest.mark.parametrize(
    ("wide", "expected"),
    [
        ("add", "expected a list of operations but got wide=add"),
        ("[]", "expected a list of operations but got wide="),
        ("['a b']", "expected an operation or a line, such as add.reduce, kernels.py:12 or exp@kernels.py:12, but got"),
        ("['exp@kernels.py']", "but got wide=exp@kernels.py"),
        ("['kernels.py:0']", "but got wide=kernels.py:0"),
        ("[1]", "expected text but got"),
    ],
)
def test_a_wider_unit_without_sense_is_an_error_with_its_line(tmp_path, wide, expected):
    write(tmp_path, f"like: mlu370\nwide: {wide}\n")
    with pytest.raises(UserError) as error:
        device_named("npu", tmp_path)
    assert error.value.slug == "bad-device"
    assert expected in error.value.message
    assert error.value.line == 3


def write(folder, text):
    (folder / "suites/devices").mkdir(parents=True)
    (folder / "suites/devices/npu.yaml").write_text(f"about: a device\n{text}")
