"""Repeats: the operation at which a second run in one process departs from the first one."""

import numpy as np

from precreg.arithmetic.devices import NumpyArithmetic, simulate_array
from precreg.diagnose.places import expression_at
from precreg.diagnose.repeats import first_difference
from tests.diagnose.bases import normal


def found_in(function, **inputs):
    def compute(inputs, params, arithmetic):
        return {
            "out": np.asarray(function(**{key: simulate_array(value, arithmetic) for key, value in inputs.items()}))
        }

    return first_difference(compute, inputs, {}, NumpyArithmetic())


def test_a_buffer_that_nobody_clears_is_the_operand_that_differs():
    buffer = np.zeros(8, np.float32)

    def kernel(x):
        doubled = x * np.float32(2)
        total = doubled + buffer
        buffer[:] = np.asarray(total) * 1e-7
        return total

    found = found_in(kernel, x=normal(8))
    assert (expression_at(found.key), found.operand) == ("doubled + buffer", 1)


def test_random_numbers_are_the_operand_that_differs():
    generator = np.random.default_rng(0)

    def kernel(x):
        return x * generator.normal(size=8).astype(np.float32)

    assert found_in(kernel, x=normal(8)).operand == 1


def test_another_path_differs_at_its_first_operation():
    calls = []

    def kernel(x):
        calls.append(x)
        return x + x if len(calls) % 2 else x - x

    found = found_in(kernel, x=normal(8))
    assert (expression_at(found.key), found.operand) == ("x - x", None)


def test_a_computation_that_repeats_has_no_difference():
    assert found_in(lambda x: np.exp(x) / np.exp(x).sum(), x=normal(8)) is None
