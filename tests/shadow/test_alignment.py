"""Sketches of equal and of different values, and the operation at which two made computations part."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from msgspec.structs import replace

from precreg.shadow.alignment import (
    MAX_TOLERANCE,
    MIN_TOLERANCE,
    Reordering,
    bits_of,
    find_parting,
    find_reordering,
    is_same,
    match_tolerance,
    sketch_of,
)
from precreg.types import ErrorSize
from tests.shadow.made import sketched

VALUES = arrays(np.float64, array_shapes(max_dims=3, max_side=5), elements=st.floats(-1e6, 1e6, width=32))
TOLERANCE = 1e-6


@given(VALUES, st.randoms(use_true_random=False))
def test_an_array_is_the_same_in_another_shape_and_order(values, random):
    order = list(range(values.size))
    random.shuffle(order)
    assert is_same(sketch_of(values), sketch_of(values.reshape(-1)[order]), MIN_TOLERANCE)
    assert is_same(sketch_of(values), sketch_of(values.T), MIN_TOLERANCE)


@given(VALUES, st.integers(0, 2**32 - 1))
def test_noise_below_the_tolerance_changes_no_sketch(values, seed):
    noise = np.random.default_rng(seed).standard_normal(values.shape)
    moved = values + noise / max(np.linalg.norm(noise), 1e-300) * np.linalg.norm(values) * TOLERANCE / 4
    assert is_same(sketch_of(values), sketch_of(moved), TOLERANCE)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * (1 + 1e-5),
        lambda x: x + 1e-5,
        lambda x: -x,
        lambda x: np.abs(x),
        lambda x: x[:-1],
        lambda x: np.where(np.arange(x.size).reshape(x.shape) == 5, np.inf, x),
        lambda x: np.where(np.arange(x.size).reshape(x.shape) % 7 == 0, 0.0, x),
        lambda x: x + 1e-3 * np.sin(np.arange(x.size).reshape(x.shape)),
    ],
)
def test_other_values_have_another_sketch(change):
    x = np.random.default_rng(0).standard_normal((40, 25))
    assert not is_same(sketch_of(x), sketch_of(change(x)), TOLERANCE)


def test_integers_truth_values_and_complex_numbers_have_sketches_and_objects_none():
    assert is_same(sketch_of(np.array([1, 2, 3])), sketch_of(np.array([3.0, 2.0, 1.0])), TOLERANCE)
    assert sketch_of(np.array([True, False])).total == 1.0
    assert not is_same(sketch_of(np.array([1 + 2j])), sketch_of(np.array([1 - 2j])), TOLERANCE)
    assert sketch_of(np.array(["text"])) is None
    assert sketch_of(np.zeros((0, 3))).size == 0


def test_masked_constants_count_and_do_not_swamp_the_others():
    scores = np.array([[1.0, -np.inf], [2.0, 3.0]])
    other = np.array([[1.0, -3.4e38], [2.0, 3.0]])
    assert is_same(sketch_of(scores), sketch_of(other), TOLERANCE)
    assert not is_same(sketch_of(scores), sketch_of(np.array([[1.0, 4.0], [2.0, 3.0]])), TOLERANCE)


def test_the_tolerance_follows_the_error_that_is_searched():
    assert match_tolerance(1.0) == MAX_TOLERANCE
    assert match_tolerance(1e-6) == pytest.approx(1e-8)
    assert match_tolerance(0.0) == MIN_TOLERANCE


X = np.random.default_rng(1).standard_normal((8, 64)) * 1e-2
MEAN = X.mean(-1, keepdims=True)
VAR = X.var(-1, keepdims=True)
KNOWN = [sketch_of(X)]
REFERENCE = sketched(
    ("mean", MEAN, [0]),
    ("subtract", X - MEAN, [0, 1]),
    ("var", VAR, [0]),
    ("add", VAR + 1e-5, [3]),
    ("sqrt", np.sqrt(VAR + 1e-5), [4]),
    ("divide", (X - MEAN) / np.sqrt(VAR + 1e-5), [2, 5]),
)


def test_equal_computations_do_not_part():
    parting = find_parting(REFERENCE, REFERENCE, KNOWN, None, TOLERANCE)
    assert (parting.first, parting.counterpart, parting.matched) == (None, None, 6)


def test_a_dropped_epsilon_is_found_although_another_form_of_the_division_has_no_counterpart():
    own = sketched(
        ("var", VAR, [0]),
        ("mean", MEAN, [0]),
        ("subtract", X - MEAN, [0, 2]),
        ("reciprocal", 1 / np.sqrt(VAR), [1]),
        ("multiply", (X - MEAN) / np.sqrt(VAR), [3, 4]),
    )
    parting = find_parting(own, REFERENCE, KNOWN, 5, TOLERANCE)
    assert (parting.first, parting.matched) == (4, 3)
    assert REFERENCE.operations[parting.counterpart - 1].name == "add"


def test_another_form_of_the_same_formula_does_not_part():
    own = sketched(
        ("var", VAR, [0]),
        ("mean", MEAN, [0]),
        ("subtract", X - MEAN, [0, 2]),
        ("reciprocal", 1 / np.sqrt(VAR + 1e-5), [1]),
        ("multiply", (X - MEAN) / np.sqrt(VAR + 1e-5), [3, 4]),
    )
    parting = find_parting(own, REFERENCE, KNOWN, 5, TOLERANCE)
    assert (parting.first, parting.matched) == (None, 4)


def test_a_branch_beside_the_fault_hides_nothing():
    """The product with v comes after the fault and has a counterpart, but the fault leads to the output."""
    own = sketched(
        ("scale", X * 2.0, [0]),
        ("exp", np.exp(X * 2.0), [1]),
        ("v", X + 1, [0]),
        ("out", np.exp(X * 2) * (X + 1), [2, 3]),
    )
    other = sketched(
        ("scale", X * 0.5, [0]),
        ("exp", np.exp(X / 2), [1]),
        ("v", X + 1, [0]),
        ("out", np.exp(X / 2) * (X + 1), [2, 3]),
    )
    parting = find_parting(own, other, KNOWN, 4, TOLERANCE)
    assert (parting.first, parting.counterpart) == (1, 1)


def test_a_part_of_a_value_has_the_partner_of_the_whole():
    """One side projects three at once and takes them apart, the other one projects one after the other."""
    parts = [X + part for part in range(3)]
    whole = ("project", np.stack(parts), [0])
    last = ("add", parts[0] * parts[1] + parts[2], [1, 1, 1])
    together = sketched(whole, last, operands=[[X], parts])
    fault = ("add", parts[0] * parts[1] - parts[2], [1, 2, 3])
    one_by_one = [("project", part, [0]) for part in parts]
    apart = sketched(*one_by_one, fault, operands=[[X], [X], [X], parts])
    assert find_parting(apart, together, KNOWN, 4, TOLERANCE).first == 4
    assert find_parting(together, apart, KNOWN, 2, TOLERANCE).first == 2
    assert find_parting(apart, together, KNOWN, 4, TOLERANCE).counterpart == 2


def test_operations_without_known_sources_are_searched_in_the_order_of_execution():
    def without(trace):
        from msgspec.structs import replace

        return replace(trace, operations=tuple(replace(each, sources=None) for each in trace.operations))

    own = without(
        sketched(("var", VAR, [0]), ("reciprocal", 1 / np.sqrt(VAR), [1]), ("multiply", X / np.sqrt(VAR), [0, 2]))
    )
    parting = find_parting(own, without(REFERENCE), KNOWN, None, TOLERANCE)
    assert (parting.first, parting.counterpart) == (2, 4)


def test_a_value_that_the_engine_does_not_know_has_no_counterpart():
    own = sketched(("var", VAR, [0]), ("custom", np.array(["?"]), [1]), ("multiply", X, [2]))
    assert find_parting(own, REFERENCE, [], 2, TOLERANCE).first == 2


def test_a_computation_without_operations_does_not_part():
    nothing = sketched()
    assert find_parting(nothing, REFERENCE, KNOWN, None, TOLERANCE).first is None
    assert find_parting(REFERENCE, nothing, KNOWN, None, TOLERANCE).counterpart is None


def in_float32(*steps):
    """Return the sketched trace of steps (name, exact value, result in float32, sources) with the bits of results."""
    found = sketched(*((name, exact, sources) for name, exact, _, sources in steps))
    rounded = tuple(
        replace(each, own=ErrorSize(0.0 if np.array_equal(exact, result) else 1e-8))
        for each, (_, exact, result, _) in zip(found.operations, steps, strict=True)
    )
    return replace(found, operations=rounded, bits=tuple(bits_of(result) for _, _, result, _ in steps))


EPS32 = 2.0**-23
LOW = np.random.default_rng(2).uniform(1, 2, (3, 400)).astype(np.float32)
A, B, C = LOW.astype(np.float64)
LOW_A, LOW_B, LOW_C = LOW
STARTS = [sketch_of(each) for each in (A, B, C)]
DIVIDED = in_float32(
    ("divide", B / C, LOW_B / LOW_C, [0, 0]), ("multiply", A * (B / C), LOW_A * (LOW_B / LOW_C), [0, 1])
)
MULTIPLIED = in_float32(
    ("multiply", A * B, LOW_A * LOW_B, [0, 0]), ("divide", (A * B) / C, (LOW_A * LOW_B) / LOW_C, [1, 0])
)


def test_a_swapped_order_is_found_on_both_sides():
    assert not np.array_equal((LOW_A * LOW_B) / LOW_C, LOW_A * (LOW_B / LOW_C))
    assert find_parting(MULTIPLIED, DIVIDED, STARTS, None, TOLERANCE).first is None
    assert find_reordering(MULTIPLIED, DIVIDED, STARTS, None, EPS32) == Reordering((1,), (1,), 1)
    assert find_reordering(DIVIDED, DIVIDED, STARTS, None, EPS32) is None


def test_another_formula_is_no_other_order():
    other = in_float32(("divide", B / C, LOW_B / LOW_C, [0, 0]), ("add", A + B / C, LOW_A + LOW_B / LOW_C, [0, 1]))
    assert find_reordering(MULTIPLIED, other, STARTS, None, EPS32) is None
    assert find_reordering(sketched(), other, STARTS, None, EPS32) is None


def test_operations_that_round_nothing_are_no_other_order():
    half = in_float32(
        ("multiply", A * 0.5, LOW_A * np.float32(0.5), [0]),
        ("multiply", A * 0.5 * B, LOW_A * np.float32(0.5) * LOW_B, [1, 0]),
        ("multiply", A * B, LOW_A * LOW_B, [2]),
        ("divide", (A * B) / C, (LOW_A * LOW_B) / LOW_C, [3, 0]),
    )
    found = find_reordering(half, DIVIDED, STARTS, None, EPS32)
    assert 1 not in found.own
    assert 3 in found.own


def test_other_steps_before_equal_bits_do_not_count():
    """The sum has another order and the bits of the other computation; the swap comes after it."""
    total, low = (A + B) + C, ((A + B) + C).astype(np.float32)
    before = [("add", A + B, (A + B).astype(np.float32), [0, 0]), ("add", total, low, [1, 0])]
    other = [("add", B + C, (B + C).astype(np.float32), [0, 0]), ("add", total, low, [1, 0])]
    own = in_float32(
        *before, ("multiply", A * total, LOW_A * low, [0, 2]), ("divide", A * total / B, LOW_A * low / LOW_B, [3, 0])
    )
    others = in_float32(
        *other, ("divide", total / B, low / LOW_B, [2, 0]), ("multiply", A * total / B, LOW_A * (low / LOW_B), [0, 3])
    )
    assert find_reordering(own, others, STARTS, None, EPS32) == Reordering((3,), (3,), 3)


@given(VALUES, st.randoms(use_true_random=False))
def test_equal_elements_have_equal_bits_in_any_shape_order_and_dtype(values, random):
    order = list(range(values.size))
    random.shuffle(order)
    assert bits_of(values) == bits_of(values.reshape(-1)[order]) == bits_of(values.astype(np.float32))


@given(VALUES, st.data())
def test_one_bit_of_one_element_changes_the_number(values, data):
    if values.size:
        at = data.draw(st.integers(0, values.size - 1))
        moved = values.copy().reshape(-1)
        moved[at] = np.nextafter(moved[at], np.inf)
        assert bits_of(moved) != bits_of(values)


def test_zeros_and_nan_are_one_value_each_and_wide_numbers_have_none():
    assert bits_of(np.array([0.0, np.nan])) == bits_of(np.array([-0.0, -np.nan]))
    assert bits_of(np.array([0.0])) != bits_of(np.array([0.0, 0.0]))
    assert bits_of(np.zeros(2, np.longdouble)) is None
    assert bits_of(np.array(["text"])) is None
