"""Two versions of a computation, made by hand: which operation loses more than before."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.shadow.alignment import SketchedTrace, sketch_of
from precreg.shadow.versions import compare_versions, first_growth, pair_operations
from precreg.types import ErrorSize, Site, TracedArray, VersionDifference
from tests.shadow.made import operation, output, trace

EPS32, EPS16 = 2.0**-23, 2.0**-10
TOLERANCE = 1e-9
X = np.random.default_rng(0).standard_normal((8, 16))
KNOWN = [sketch_of(X)]
FOUND = VersionDifference(revision="main", commit="0" * 40)


def version(*steps):
    """Return the sketched trace of steps (name, exact value, own error in eps of float32, dtype)."""
    operations = tuple(
        operation(number, name, own=own * EPS32, dtype=dtype, sources=(number - 1,))
        for number, (name, _, own, dtype) in enumerate(steps, 1)
    )
    return SketchedTrace(operations, tuple(sketch_of(value) for _, value, _, _ in steps))


BEFORE = version(
    ("multiply", X * 2, 0.3, "float32"), ("add", X * 2 + 1, 0.3, "float32"), ("exp", np.exp(X * 2 + 1), 0.4, "float32")
)


def compared(now, before=BEFORE, number=None):
    number = len(now.operations) if number is None else number
    made = trace(now.operations, outputs=(output(number=number),))
    return compare_versions(made, now, before, KNOWN, FOUND)


def test_equal_versions_have_no_difference():
    found = compared(BEFORE)
    assert (found.first, found.kind, found.formula, found.matched, found.operations) == (None, None, None, 3, 3)


def test_a_conversion_that_is_new_is_named_with_the_operation_that_follows_it():
    now = version(
        ("multiply", X * 2, 0.3, "float32"),
        ("astype", X * 2, 0.3 * EPS16 / EPS32, "float16"),
        ("add", X * 2 + 1, 0.3 * EPS16 / EPS32, "float16"),
        ("exp", np.exp(X * 2 + 1), 0.4, "float32"),
    )
    found = compared(now)
    assert (found.kind, found.first.number, found.counterpart) == ("new", 2, None)
    assert (found.formula, found.matched) == (None, 3)


def test_an_operation_whose_own_error_grew_is_named_with_its_counterpart():
    now = version(
        ("multiply", X * 2, 0.3, "float32"),
        ("add", X * 2 + 1, 40.0, "float32"),
        ("exp", np.exp(X * 2 + 1), 90.0, "float32"),
    )
    found = compared(now)
    assert (found.kind, found.first.number, found.counterpart.number) == ("grew", 2, 2)


def test_an_operation_of_another_name_and_the_same_value_is_its_counterpart():
    now = version(
        ("left_shift", X * 2, 0.3, "float32"),
        ("add", X * 2 + 1, 0.3, "float32"),
        ("fast_exp", np.exp(X * 2 + 1), 30.0, "float32"),
    )
    found = compared(now)
    assert (found.kind, found.first.name, found.counterpart.name) == ("grew", "fast_exp", "exp")


@pytest.mark.parametrize(("before", "now"), [(0.01, 0.4), (3.0, 4.0), (5.0, 0.1), (0.0, 0.0)])
def test_noise_and_correct_rounding_are_no_growth(before, now):
    one, other = operation(1, own=now * EPS32), operation(1, own=before * EPS32)
    assert first_growth(trace([one]), [other], {1: 1}) is None


def test_an_operation_that_rounds_to_a_coarser_dtype_grew():
    now = operation(1, own=0.3 * EPS16, dtype="float16")
    assert first_growth(trace([now]), [operation(1, own=0.3 * EPS32)], {1: 1}).kind == "grew"


def test_one_more_rounding_is_named_if_nothing_else_grew():
    now = version(
        ("multiply", X * 2, 0.3, "float32"),
        ("add", X * 2 + 1, 0.3, "float32"),
        ("multiply", X * 2 + 1, 0.3, "float32"),
        ("exp", np.exp(X * 2 + 1), 0.4, "float32"),
    )
    found = compared(now)
    assert (found.kind, found.first.number) == ("new", 3)


def test_operations_without_an_own_error_are_no_growth():
    now = replace(BEFORE, operations=tuple(replace(each, own=None) for each in BEFORE.operations))
    assert compared(now).first is None


def test_another_formula_is_named():
    now = version(
        ("multiply", X * 2, 0.3, "float32"),
        ("subtract", X * 2 - 1, 0.3, "float32"),
        ("exp", np.exp(X * 2 - 1), 0.4, "float32"),
    )
    found = compared(now)
    assert (found.formula.other, found.formula.first.name, found.formula.counterpart.name) == (
        "version",
        "subtract",
        "add",
    )


def test_pairs_keep_the_order_of_execution_and_repeated_operations():
    repeated = version(*[("add", X + 1, 0.1, "float32")] * 4)
    assert pair_operations(repeated, repeated, TOLERANCE) == {1: 1, 2: 2, 3: 3, 4: 4}
    shorter = SketchedTrace(repeated.operations[:2], repeated.sketches[:2])
    assert pair_operations(repeated, shorter, TOLERANCE) == {1: 1, 2: 2}
    assert pair_operations(shorter, SketchedTrace((), ()), TOLERANCE) == {}


def test_values_that_an_engine_does_not_know_are_paired_by_nothing():
    unknown = SketchedTrace(BEFORE.operations, (None, None, None))
    assert pair_operations(unknown, unknown, TOLERANCE) == {}
    mixed = replace(BEFORE.operations[0], inputs=(TracedArray("int64", (2,)),), own=ErrorSize(EPS32))
    assert first_growth(trace([mixed]), [], {}).kind == "new"


def growth(now, before, error, former):
    """Return the growth of operations with (own error in eps, share of the output), of which each has a counterpart."""
    made = trace(
        [operation(number, own=own * EPS32, shares={"out": share}) for number, (own, share) in enumerate(now, 1)],
        outputs=(output(rounding=ErrorSize(error * EPS32)),),
    )
    others = [operation(number, own=own * EPS32) for number, own in enumerate(before, 1)]
    pairs = {number: number for number in range(1, len(others) + 1)}
    return first_growth(made, others, pairs, (output(rounding=ErrorSize(former * EPS32)),))


def test_a_small_growth_before_the_cause_is_not_named():
    found = growth([(0.2, 0.001), (0.8, 0.002), (300.0, 0.997)], [0.0, 0.5, 0.3], 320.0, 0.6)
    assert (found.operation.number, found.output) == (3, "out")
    assert found.explained == pytest.approx(0.997, rel=1e-2)


def test_a_large_growth_that_reaches_no_output_is_not_named():
    found = growth([(900.0, 0.0), (5.0, 1.0)], [0.3, 0.3], 5.0, 0.3)
    assert found.operation.number == 2


def test_many_small_growths_of_one_line_explain_the_error_together():
    line = Site("k.py", 9)
    terms = [operation(n, own=0.3 * EPS32, shares={"out": 0.033}, site=line) for n in range(2, 32)]
    made = trace(
        [operation(1, own=0.4 * EPS32, shares={"out": 0.01}), *terms], outputs=(output(rounding=ErrorSize(9 * EPS32)),)
    )
    found = first_growth(made, [], {}, (output(rounding=ErrorSize(0.1 * EPS32)),))
    assert (found.operation.number, found.kind) == (2, "new")
    assert found.explained == pytest.approx(30 * 0.033, rel=0.05)


def test_without_shares_a_loss_beyond_normal_rounding_is_named_before_a_small_growth():
    made = trace([operation(1, own=0.8 * EPS32), operation(2, own=300 * EPS32)])
    found = first_growth(made, [operation(1, own=0.3 * EPS32), operation(2, own=0.3 * EPS32)], {1: 1, 2: 2})
    assert (found.operation.number, found.explained) == (2, None)
