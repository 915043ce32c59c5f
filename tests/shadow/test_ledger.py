"""First losses, their causes, the makers of outputs and the coverage, on traces made by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.shadow.ledger import (
    FIRST_LOSS_EPS,
    NARROW_LOSS_EPS,
    coverage_of,
    find_first_loss,
    find_flip,
    group_by_module,
    group_by_site,
    is_formula_dominant,
    maker_of,
    only_output,
    rank_by_share,
    suggest_cause,
    unit_of,
)
from precreg.types import ErrorSize, Site, TraceEvent, ValueRange
from tests.shadow.made import operation, output, trace

EPS32, EPS16 = 2.0**-23, 2.0**-10


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [("float16", 2.0**-10), ("bfloat16", 2.0**-7), ("float64", 2.0**-52), ("complex64", EPS32), ("int32", 2.0**-52)],
)
def test_the_unit_of_a_dtype_is_its_eps(dtype, unit):
    assert unit_of(dtype) == unit


def test_the_first_loss_is_the_first_operation_beyond_the_rounding_of_the_model():
    operations = [operation(1, own=EPS32), operation(2, own=20 * EPS32), operation(3, own=1.0)]
    loss = find_first_loss(trace(operations))
    assert (loss.operation.number, loss.reason) == (2, "own")


def test_an_operation_of_a_coarser_dtype_is_normal_in_a_model_of_that_dtype():
    operations = [operation(1, own=0.3 * EPS16, dtype="float16")]
    assert find_first_loss(trace(operations, dtype="float16")) is None
    assert find_first_loss(trace(operations, dtype="float32")).reason == "own"


def test_operations_on_their_own_results_lose_precision_together():
    """Each addition rounds well; from the 8th on, their errors together decide."""
    places = {"name": "add_", "own": 0.25 * 2.0**-7, "dtype": "bfloat16"}
    line = Site("k.py", 7)
    chain = [operation(number, site=line, sources=(number - 1,), **places) for number in range(1, 101)]
    loss = find_first_loss(trace(chain, dtype="bfloat16"))
    # 0.25 sqrt(n) > 2.
    assert (loss.operation.number, loss.reason, loss.cause, loss.times) == (65, "accumulated", "accumulator", 65)
    assert loss.together == pytest.approx(0.25 * 65**0.5 * 2.0**-7)
    apart = [operation(number, site=line, sources=(0,), **places) for number in range(1, 101)]
    assert find_first_loss(trace(apart, dtype="bfloat16")) is None
    assert find_first_loss(trace(chain[:64], dtype="bfloat16")) is None


def test_a_well_rounded_operation_that_amplifies_is_a_loss():
    operations = [
        operation(1, own=0.3 * EPS32),
        operation(2, "subtract", own=0.0, total=1e-3, amplification=8000.0, lost_bits=13.0),
    ]
    loss = find_first_loss(trace(operations))
    assert (loss.operation.number, loss.reason, loss.cause) == (2, "amplified", "cancellation")


def test_an_amplification_of_tiny_errors_is_none():
    operations = [operation(1, "subtract", total=8 * EPS32, amplification=100.0)]
    assert find_first_loss(trace(operations)) is None


def test_an_infinite_error_is_an_overflow():
    loss = find_first_loss(trace([operation(1, "multiply", own=math.inf)]))
    assert (loss.reason, loss.cause) == ("overflow", "overflow")


def test_a_loss_that_reaches_no_output_is_none():
    """The lost bits of a compensated sum have an own error of 100 % and make the sum better."""
    operations = [operation(1, own=0.3 * EPS32), operation(2, "subtract", own=1.0), operation(3, own=0.3 * EPS32)]
    good, bad = output(rounding=ErrorSize(0.9 * EPS32)), output("bad", rounding=ErrorSize(1.1 * EPS32))
    assert find_first_loss(trace(operations, outputs=(good,))) is None
    assert find_first_loss(trace(operations, outputs=(good, bad))).operation.number == 2
    assert find_first_loss(trace(operations, outputs=(good, output("unknown")))).operation.number == 2


def test_operations_without_own_errors_and_good_ones_are_no_loss():
    assert find_first_loss(trace([operation(1, own=None, total=0.0), operation(2, own=EPS32)])) is None
    assert find_first_loss(trace()) is None


@given(st.lists(st.floats(0.0, 1.0), max_size=20), st.sampled_from(["float16", "float32", "bfloat16"]))
def test_a_first_loss_is_beyond_the_limit_and_none_before_it_is(owns, dtype):
    operations = [operation(number, own=own) for number, own in enumerate(owns, 1)]
    limit = (FIRST_LOSS_EPS if dtype == "float32" else NARROW_LOSS_EPS) * unit_of(dtype)
    loss = find_first_loss(trace(operations, dtype=dtype))
    first = next((number for number, own in enumerate(owns, 1) if own > limit), None)
    assert (None if loss is None else loss.operation.number) == first


@pytest.mark.parametrize(
    ("cause", "made"),
    [
        ("cast", operation(1, "astype", own=0.3 * EPS16, dtype="float16", inputs=("float32",))),
        ("rounding", operation(1, "add", own=0.3 * EPS16, dtype="float16", inputs=("float16",))),
        ("accumulator", operation(1, "matmul", own=870 * EPS16, dtype="float16", inputs=("float16", "float16"))),
        ("accumulator", operation(1, "aten.native_layer_norm", own=9 * EPS32)),
        ("approximation", operation(1, "exp", own=9 * EPS32)),
        ("rounding", operation(1, "matmul", own=1.5 * EPS32)),
        ("cancellation", operation(1, "subtract", own=0.0, total=0.1, amplification=50.0, lost_bits=6.0)),
        ("rounding", operation(1, "add", own=0.0, total=0.1, amplification=50.0, lost_bits=0.5)),
        ("overflow", operation(1, "exp", own=math.inf)),
        ("underflow", operation(1, "multiply", own=ErrorSize(1.0, max_abs=1e-41))),
        ("approximation", operation(1, "multiply", own=ErrorSize(1.0, max_abs=1e-30))),
        ("rounding", operation(1, "custom", own=None)),
    ],
)
def test_the_cause_of_a_loss(cause, made):
    assert suggest_cause(made) == cause


@pytest.mark.parametrize(
    ("rounding", "formula", "dominant"),
    [(1e-7, 1e-3, True), (1e-3, 1e-7, False), (0.0, 1e-17, False), (0.0, 1e-5, True), (math.inf, 1e-5, False)],
)
def test_the_formula_dominates_if_it_explains_more_than_rounding(rounding, formula, dominant):
    assert is_formula_dominant(output(rounding=ErrorSize(rounding), formula=ErrorSize(formula))) is dominant


def test_the_rounding_of_a_golden_is_no_formula():
    close = output(rounding=ErrorSize(1e-3), formula=ErrorSize(1.4e-3))
    assert is_formula_dominant(close)
    assert not is_formula_dominant(close, "golden")
    assert is_formula_dominant(output(rounding=ErrorSize(1e-3), formula=ErrorSize(1e-2)), "golden")


def test_a_formula_that_nobody_measured_dominates_nothing():
    assert not is_formula_dominant(output(rounding=ErrorSize(1e-7)))
    assert not is_formula_dominant(output(formula=ErrorSize(1.0)))


def test_the_maker_of_an_output_is_the_last_operation_with_its_dtype_size_and_error():
    operations = [
        operation(1, total=1e-3),
        operation(2, total=1e-3, shape=(6,)),
        operation(3, total=1e-3, dtype="float64"),
        operation(4, total=2e-3),
        operation(5, total=1e-3, shape=(3, 3)),
    ]
    assert maker_of(operations, output(rounding=ErrorSize(1e-3))) == 2
    assert maker_of(operations, output(rounding=ErrorSize(5e-3))) is None
    assert maker_of(operations, output()) is None


def test_shares_rank_by_their_absolute_value():
    operations = [operation(1, shares={"out": 0.1}), operation(2, shares={"out": -0.5}), operation(3, shares={})]
    assert [each.number for each in rank_by_share(trace(operations), "out")] == [2, 1]


def test_groups_add_up_shares_and_keep_the_largest_errors():
    operations = [
        operation(1, own=1e-3, total=1e-3, shares={"out": 0.1}, site=Site("k.py", 5, "x", "layers.0")),
        operation(2, own=None, total=5e-3, shares={"out": 0.3}, site=Site("k.py", 5, "x", "layers.1")),
        operation(3, own=1e-4, total=1e-4, shares={}, site=Site("k.py", 6, "y", "layers.0")),
    ]
    first, second = group_by_site(operations)
    assert (first.key, first.operations, first.own, first.total, first.first) == ("k.py:5", 2, 1e-3, 5e-3, 1)
    assert first.shares == {"out": 0.4}
    assert (second.key, second.shares) == ("k.py:6", {})
    assert [(each.key, each.operations) for each in group_by_module(operations)] == [("layers.0", 2), ("layers.1", 1)]


@given(st.lists(st.tuples(st.integers(1, 4), st.floats(-1, 1)), max_size=30))
def test_groups_lose_no_operation_and_no_share(rows):
    operations = [
        operation(number, shares={"out": share}, site=Site("k.py", line))
        for number, (line, share) in enumerate(rows, 1)
    ]
    groups = group_by_site(operations)
    assert sum(group.operations for group in groups) == len(rows)
    assert sum(group.shares["out"] for group in groups) == pytest.approx(sum(share for _, share in rows), abs=1e-12)


def test_the_coverage_counts_what_a_trace_does_not_know():
    operations = [
        operation(1, own=None, note="created"),
        operation(2, own=0.0, note="moved"),
        operation(3, own=None, note="not_shadowed"),
        operation(4, own=1e-7, shares={"out": 0.7}),
        operation(5, own=1e-7),
        operation(6, own=None, note="random"),
    ]
    events = [
        TraceEvent("cut", 1, "float", Site(), times=3),
        TraceEvent("cut", 2, "item", Site()),
        TraceEvent("flip", 2, "argmax", Site(), times=2, changed=1, elements=9),
        TraceEvent("eager", 2, "f", Site()),
        TraceEvent("untraced", 2, "thread", Site()),
        TraceEvent("shares_cut", 2, "fft", Site()),
    ]
    made = trace(operations, events=tuple(events), outputs=(output(sum_of_shares=0.7), output("other")))
    coverage = coverage_of(made)
    assert (coverage.operations, coverage.without_own, coverage.not_shadowed, coverage.without_share) == (6, 1, 1, 2)
    assert (coverage.cuts, coverage.flips, coverage.weakened, coverage.shares_cut) == (4, 2, 2, 1)
    assert coverage.sums == {"out": 0.7}
    assert not coverage.adds_up


@pytest.mark.parametrize(("total", "adds_up"), [(0.95, True), (1.05, True), (0.9499, False), (1.0501, False)])
def test_shares_add_up_within_five_percent(total, adds_up):
    assert coverage_of(trace(outputs=(output(sum_of_shares=total),))).adds_up is adds_up


def test_one_output_keeps_its_own_shares():
    operations = [operation(1, shares={"a": 0.5, "b": 0.2}), operation(2, shares={"b": 0.8})]
    one = only_output(trace(operations, outputs=(output("a"), output("b"))), "a")
    assert [each.shares for each in one.operations] == [{"a": 0.5}, {}]
    assert [each.name for each in one.outputs] == ["a"]


def test_an_overflow_is_named_where_it_begins():
    """Infinities beside exact values that a float32 cannot hold have no error, and their root has one."""
    line, infinite = Site("k.py", 2), ValueRange(inf=3)
    operations = [
        operation(1, "multiply", sources=(0,), range=ValueRange(1.0, 1e30)),
        operation(2, "multiply", sources=(1,), site=line, range=infinite),
        operation(3, "where", sources=(0, 2), range=infinite),
        operation(4, "sum", sources=(2,), site=line, range=infinite),
        operation(5, "sqrt", own=math.inf, sources=(4, 3), range=infinite),
    ]
    events = (TraceEvent("overflow", 1, "multiply", line), TraceEvent("overflow", 3, "sum", line))
    loss = find_first_loss(trace(operations, events=events))
    assert (loss.operation.number, loss.reason, loss.cause) == (2, "overflow", "overflow")
    # The mask of `where` did not overflow, and without an event nothing did before the root.
    assert find_first_loss(trace(operations)).operation.number == 5


def test_the_flip_of_an_output_has_the_largest_own_error_on_its_way():
    operations = [
        operation(1, "matmul", own=3 * EPS32, sources=(0,)),
        operation(2, "exp", own=9 * EPS32, sources=(0,)),
        operation(3, "add", own=EPS32, sources=(1,)),
    ]
    best = output("best", dtype="int64", shape=(4,))
    flip = TraceEvent("flip", 3, "argmax", Site("k.py", 9), 1, 2, 4)
    found = find_flip(trace(operations, events=(flip,)), best)
    assert (found.event, found.largest.number) == (flip, 1)
    assert find_flip(trace(operations), best) is None
    exact = [operation(1, "add", sources=(0,))]
    assert find_flip(trace(exact, events=(replace(flip, number=1),)), best).largest is None


def test_outputs_without_a_sum_of_shares_have_a_reason():
    outputs = (
        output("whole", rounding=ErrorSize(0.1), sum_of_shares=1.0),
        output("infinite", rounding=ErrorSize(math.inf)),
        output("exact", rounding=ErrorSize(0.0)),
        output("best", dtype="int64"),
        output("lost"),
    )
    coverage = coverage_of(trace(outputs=outputs))
    assert coverage.sums == {"whole": 1.0}
    reasons = {"infinite": "not finite", "exact": "exact", "best": "no rounding", "lost": "unknown"}
    assert coverage.no_sums == reasons


def test_an_overflow_beyond_the_limit_of_masks_is_the_first_loss_behind_it():
    """x * x of 1e25 is infinite in float32. That has no error beside 1e50, and the root beside 1e25 has."""
    many, line = ValueRange(inf=6), Site("k.py", 13)
    operations = [
        operation(1, "multiply", site=line, range=many, sources=(0, 0)),
        operation(2, "sqrt", total=math.inf, inherited=ErrorSize(math.inf), range=many, sources=(1,)),
        operation(3, "divide", total=1.0, inherited=ErrorSize(1.0), sources=(0, 2)),
    ]
    out = (output(rounding=ErrorSize(1.0)),)
    loss = find_first_loss(trace(operations, events=(TraceEvent("overflow", 1, "multiply", line),), outputs=out))
    assert (loss.operation.number, loss.reason, loss.cause) == (1, "overflow", "overflow")
    assert find_first_loss(trace(operations, outputs=out)) is None
