"""A trace in a terminal: the answer first, then shares, lines and operations, and every reason to doubt it."""

import re
from math import inf

import pytest
from msgspec.structs import replace

from precreg.report.trace.rows import short_files
from precreg.report.trace.terminal import render_trace_terminal
from precreg.types import (
    ErrorSize,
    OperationPlace,
    OrderDifference,
    Site,
    SiteTotals,
    TracedArray,
    TracedOutput,
    ValueRange,
)
from tests.report.trace.traced import (
    CUT,
    EPS16,
    FLIP,
    OPERATIONS,
    OUTPUT,
    attention,
    changed,
    dumped,
    formula_fault,
    grown,
    layered,
    operation,
)


def shown(trace, **options):
    return render_trace_terminal(trace, **options).splitlines()


def line_of(lines, start):
    (found,) = [line for line in lines if line.startswith(start)]
    return found


def test_the_answer_comes_first():
    lines = shown(attention())
    assert lines[0] == "unit/attention/float16  seed 3  float16  numpy 2.4.6"
    assert lines[2] == (
        "first loss: kernels.py:41 `scores = q @ k.T`, matmul: own error 870 ULP of float16 "
        "(float16 accumulator?); 92 % of the error of out"
    )
    assert lines[3] == (
        "out: error 871 ULP of float16, 2.5 of the tolerance; rounding 871, formula 1.02e-06: rounding dominates"
    )
    assert line_of(lines, "coverage") == (
        "coverage: 6 operations, 0 without own error, 0 not shadowed, 0 without a share, 0 cuts, 0 flips; "
        "shares of out add up to 0.998"
    )
    assert line_of(lines, "shadow") == "shadow float64, two shadows agree to 2e-15; bits equal a plain run's"
    assert not [line for line in lines if line.startswith("warning")]


def test_operations_with_the_largest_shares_come_first():
    lines = shown(attention())
    start = lines.index("largest shares of the error of out, errors in ULP of float16")
    assert re.split(r"\s+", lines[start + 1])[:6] == ["no.", "share", "own", "inherited", "total", "amplified"]
    ranked = [line.split() for line in lines[start + 2 : start + 7]]
    assert [row[0] for row in ranked] == ["4", "5", "2", "1", "6"]
    assert ranked[0][1:6] == ["92", "%", "870", "435", "870"]


@pytest.mark.parametrize(("unit", "own"), [("ulp", "870"), ("relative", "0.85"), ("tolerance", "0.85")])
def test_errors_have_the_unit_that_is_chosen(unit, own):
    lines = shown(attention(), unit=unit)
    (row,) = [line.split() for line in lines if line.split()[:1] == ["4"]]
    assert own in row
    # A share of 92 % of 2.5 tolerances.
    assert ("2.3" in row) is (unit == "tolerance")


def test_all_operations_are_shown_in_order_if_asked():
    lines = shown(attention(), every=True)
    start = line_of(lines, "all operations")
    after = lines[lines.index(start) + 2 :]
    assert [row.split()[0] for row in after[:6]] == ["1", "2", "3", "4", "5", "6"]
    assert not [line for line in shown(attention()) if line.startswith("all operations")]


def test_a_place_is_cut_at_the_width_of_the_terminal():
    for width in (80, 100):
        lines = shown(attention(), every=True, width=width)
        start = lines.index(line_of(lines, "largest shares"))
        assert max(map(len, lines[start + 1 : start + 7])) <= width


def test_a_narrow_terminal_leaves_columns_out_and_names_them():
    lines = shown(attention(), width=70)
    assert "  not shown at this width: largest, shape, inherited, amplified" in lines
    assert not [line for line in shown(attention(), width=140) if "not shown" in line]


def test_lines_are_grouped_and_modules_if_there_are_any():
    by_line = shown(attention())
    assert "by line, share of the error of out, largest own and total error in ULP of float16" in by_line
    by_module = shown(layered())
    start = by_module.index("by module, share of the error of out, largest own and total error in ULP of float16")
    assert by_module[start + 2].endswith("layers.5.norm")
    assert by_module[start + 2].split()[0] == "80"
    assert "and 4 more: --all shows them" in by_module
    assert not [line for line in shown(layered(), every=True) if line.startswith("and ")]


def test_files_of_one_name_keep_the_folder_that_tells_them_apart():
    paths = ["a/b/kernels/norm.py", "a/b/networks/norm.py", "a/b/loss.py"]
    operations = tuple(replace(each, site=Site(path, 7)) for each, path in zip(OPERATIONS, paths, strict=False))
    assert short_files(attention(operations=operations)) == {
        paths[0]: "kernels/norm.py",
        paths[1]: "networks/norm.py",
        paths[2]: "loss.py",
    }


def test_integers_have_no_rounding_and_take_no_place_of_the_main_output():
    best = TracedOutput(name="best", dtype="int64", shape=(8,), whole=ErrorSize(0.19), tolerances=inf)
    lines = shown(attention(outputs=(OUTPUT, best)))
    assert lines[4] == "best: relative error 0.19; int64 has no rounding"
    assert "largest shares of the error of out, errors in ULP of float16" in lines


def test_an_output_without_an_elementwise_bound_has_no_part_of_a_tolerance():
    lines = shown(attention(outputs=(replace(OUTPUT, tolerances=inf),)), unit="tolerance")
    assert "tolerance" not in lines[3]
    assert not any("inf" in line for line in lines)


def test_without_a_first_loss_the_largest_share_is_named():
    calm = attention(operations=changed(4, own=ErrorSize(0.4 * EPS16)))
    assert shown(calm)[2] == (
        "largest share: kernels.py:41 `scores = q @ k.T`, matmul: own error 0.4 ULP of float16; "
        "92 % of the error of out; no known own error exceeds 2 ULP of float16"
    )


def test_losses_that_reach_no_output_are_named_as_such():
    rounded = replace(OUTPUT, rounding=ErrorSize(0.3 * EPS16), whole=ErrorSize(0.3 * EPS16))
    answer = shown(attention(outputs=(rounded,)))[2]
    assert answer.startswith("largest share: kernels.py:41 `scores = q @ k.T`, matmul: own error 870 ULP of float16")
    assert answer.endswith("the losses inside reach no output: its errors come from a last rounding")


def test_a_sum_that_loses_a_little_each_time_is_named():
    chain = tuple(
        operation(number, "add", 7, 0.9, number, 0.05, sources=(number - 1, 0), dtype="float16")
        for number in range(1, 13)
    )
    assert (
        "add: 8 times on its own result, own errors together 2.55 ULP of float16"
        in shown(attention(operations=chain))[2]
    )


def test_a_trace_that_saw_nothing_does_not_call_it_exact():
    nothing = attention(operations=(), outputs=(replace(OUTPUT, rounding=None, sum_of_shares=None),), same_bits=None)
    lines = shown(nothing)
    assert lines[2] == "no first loss is known: the trace saw no operation with an own error"
    assert "rounding not known: the trace lost this output" in lines[3]
    assert line_of(lines, "coverage") == "coverage: no operation was recorded, 0 cuts, 0 flips; no shares"


def test_an_overflow_and_an_amplification_are_named():
    overflow = shown(attention(operations=changed(4, own=ErrorSize(inf))))[2]
    assert "matmul: a finite exact value became infinite or NaN; 92 %" in overflow
    amplified = attention(operations=changed(4, own=ErrorSize(0.3 * EPS16), amplification=2000.0))
    assert "it amplifies the errors of its inputs 2000 times, to 870 ULP of float16" in shown(amplified)[2]


def test_a_formula_that_dominates_is_the_answer():
    formula = replace(OUTPUT, rounding=ErrorSize(1e-4), formula=ErrorSize(2.5e-3), whole=ErrorSize(2.5e-3))
    calm = attention(outputs=(formula,), operations=OPERATIONS[:3])
    lines = shown(calm, unit="relative")
    assert lines[2] == (
        "formula differs: without rounding, out still differs from the reference by 0.0025, 25 times its rounding error"
    )
    assert lines[4].endswith("rounding 0.0001, formula 0.0025: formula dominates")


def test_a_formula_behind_a_cut_may_be_rounding_that_the_shadow_lost():
    formula = replace(OUTPUT, rounding=ErrorSize(1e-4), formula=ErrorSize(2.5e-3), whole=ErrorSize(2.5e-3))
    lines = shown(attention(outputs=(formula,), operations=OPERATIONS[:3], events=(CUT,)), unit="relative")
    assert lines[2].endswith("times its rounding error; or rounding before the 3 cuts, which the shadow lost")


def test_a_run_with_other_bits_is_said_before_its_figures():
    assert shown(attention(same_bits=False))[2].startswith("read with care: the traced run has other bits")
    assert shown(attention(same_bits=False, repeats=False))[2].startswith("read with care: two plain runs differ")


def test_an_output_without_an_error_has_nothing_that_dominates():
    exact = replace(OUTPUT, rounding=ErrorSize(0.0), formula=ErrorSize(0.0), whole=ErrorSize(0.0))
    assert "dominates" not in line_of(shown(attention(outputs=(exact,))), "out: error 0")


def test_columns_of_rare_things_are_there_only_if_they_occur():
    heading = next(line for line in shown(attention(), every=True) if line.startswith("no."))
    for name in ("NaN", "Inf", "subnormal", "saturated", "lost bits", "step", "phase", "note"):
        assert name not in heading
    rare = attention(
        operations=(
            operation(1, "subtract", 42, 0.1, 5.0, 0.5, range=ValueRange(1.0, 2.0, 1, 2, 3, 4), lost_bits=9.0, step=0),
            operation(2, "add", 42, None, 5.0, phase="backward", note="not_shadowed"),
        )
    )
    lines = shown(rare, every=True, width=200)
    start = lines.index(line_of(lines, "all operations"))
    for name in ("NaN", "Inf", "subnormal", "saturated", "lost bits", "step", "phase", "note"):
        assert name in lines[start + 1]
    assert lines[start + 3].split()[:3] == ["2", "-", "-"]
    assert "not shadowed" in lines[start + 3]


def test_whatever_weakens_a_trace_is_printed():
    doubtful = replace(OUTPUT, sum_of_shares=0.7, shadow_error=0.5)
    trace = attention(
        operations=changed(6, own=None, note="not_shadowed", shares={}),
        events=(CUT, FLIP),
        outputs=(doubtful,),
        same_bits=False,
        left_out=12,
        watched_left_out=7,
    )
    lines = shown(trace)
    assert line_of(lines, "coverage").startswith(
        "coverage: 18 operations, 1 without own error, 1 not shadowed, 1 without a share, 3 cuts, 1 flip;"
    )
    assert line_of(lines, "cut: ") == (
        "cut: float 3 times: a value left the shadow, and comes back as exact, "
        "at kernels.py:42 `scores = scores * scale`"
    )
    assert "2 of 64 elements" in line_of(lines, "flip: ")
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert len(warnings) == 5
    assert "the shares of out add up to 0.7, outside 0.95 to 1.05" in warnings[1]
    assert "two shadows differ by 0.5, and the measured error is 0.851" in warnings[2]


def test_events_beyond_the_first_are_counted():
    trace = attention(events=tuple(replace(CUT, name=f"float{number}") for number in range(14)))
    assert "and 4 more events: --all shows them" in shown(trace)
    assert sum(line.startswith("cut: ") for line in shown(trace, every=True)) == 14


def test_controls_of_a_project_do_not_reach_the_terminal():
    hostile = Site("a\x1b[31m.py", 1, "x\u202e = 1", "m\x00")
    assert not {"\x1b", "\u202e", "\x00"} & set(render_trace_terminal(attention(operations=changed(4, site=hostile))))


def test_the_first_line_of_another_formula_is_named_with_its_counterpart():
    lines = shown(formula_fault(), unit="relative")
    assert lines[3:5] == [
        "from here the formula differs: norm.py:9 `y = x / np.sqrt(var)`, sqrt; "
        "4 of 6 operations have the same exact value in the reference",
        "the reference has there: norm.py:19 `y = x / np.sqrt(var + eps)`, add",
    ]
    unknown = replace(formula_fault(), formula=replace(formula_fault().formula, problem="it is a table"))
    assert shown(unknown)[3] == "the operations of the reference are not known: it is a table"
    equal = replace(formula_fault(), formula=replace(formula_fault().formula, first=None, matched=6))
    assert shown(equal)[3].startswith(
        "the operations do not show where the formula parts from the reference: 6 of 6 operations"
    )


def test_the_first_own_error_that_grew_is_named_with_both_lines():
    lines = shown(grown())
    assert lines[2:4] == [
        "first own error that grew since v1.2 (01234567): kernels.py:41 `scores = q @ k.T`, matmul: "
        "870 ULP of float16; before: 0.4 ULP of float16, at kernels.py:40 `scores = matmul(q, k.T)`",
        "out: rounding 1.2 ULP of float16 at v1.2 (01234567), 871 ULP of float16 now",
    ]
    new = attention(against=replace(grown().against, kind="new", counterpart=None))
    assert shown(new)[2].startswith("first new operation with an error since v1.2 (01234567): kernels.py:41")
    none = attention(against=replace(grown().against, kind=None, first=None))
    assert shown(none)[2] == "no own error grew against v1.2 (01234567); 6 of 6 operations have a counterpart"


def test_the_first_stored_tensor_that_is_not_explained_is_named():
    lines = shown(dumped(), unit="relative")
    assert lines[2:4] == [
        "first tensor of npu that this run does not explain: layers.13: 0.5, here 0.001; 7 of 20 tensors like it",
        "not compared: 2 only in the folder (head, ...), 1 of another shape (embed)",
    ]
    start = lines.index("stored tensors in order, total errors relative")
    shown_layers = [line.split()[-1] for line in lines[start + 2 : start + 14]]
    assert shown_layers == [f"layers.{number}" for number in range(7, 19)]
    assert "and 8 more: --all shows them" in lines
    assert shown(dumped(bad=99))[2] == "this run explains the errors of all 20 tensors of npu"


def test_a_golden_and_a_missing_oracle_are_named():
    golden = shown(replace(formula_fault(), oracle="golden"))
    assert "still differs from the golden by" in golden[2]
    lines = shown(attention(oracle_problem="it raised ValueError", repeats=False))
    assert "warning: no oracle to compare with: it raised ValueError" in lines
    assert line_of(lines, "warning: two plain runs differ")


def test_another_version_with_another_formula_names_where_they_part():
    part = replace(formula_fault().formula, other="version")
    lines = shown(attention(against=replace(grown().against, formula=part)))
    assert lines[3].startswith("from here the formula differs: norm.py:9")
    assert lines[4].startswith("the other version has there: norm.py:19")


CAUSES = {
    "cast": ({"inputs": (TracedArray("float32", (8,)),), "name": "astype"}, "float32", 1.0, "(cast to float16?)"),
    "cancellation": ({"amplification": 5e3, "lost_bits": 9.0}, "float16", 0.1, "(cancellation, 9 bits lost?)"),
    "approximation": ({"name": "exp"}, "float16", 90.0, "(approximation of exp?)"),
    "accumulator": ({"name": "sum"}, "float16", 90.0, "(float16 accumulator?)"),
}


@pytest.mark.parametrize(("changes", "normal", "own", "words"), CAUSES.values(), ids=CAUSES)
def test_the_probable_cause_of_a_loss_has_a_question_mark(changes, normal, own, words):
    found = changed(4, own=ErrorSize(own * EPS16), **changes)
    loss = attention(operations=(found[3],), dtype=normal)
    assert words in shown(loss)[2]


def test_operations_that_a_stored_trace_leaves_out_count_in_their_lines():
    known, other = Site("kernels.py", 41, "scores = q @ k.T"), Site("other.py", 3, "y = g(x)")
    sites = (
        SiteTotals(site=known, operations=98, own=0.1 * EPS16, total=900.0 * EPS16, shares={"out": 0.01}),
        SiteTotals(site=other, operations=5, own=0.2 * EPS16, total=0.3 * EPS16),
    )
    lines = shown(attention(left_out=103, left_out_sites=sites))
    assert "93 %  870    900         100  kernels.py:41 `scores = q @ k.T`" in " ".join(lines)
    assert any(line.split()[:4] == ["-", "0.2", "0.3", "5"] for line in lines)
    assert "warning: 103 operations are not in this stored trace" in lines


ORDER = OrderDifference(
    other="golden",
    output="out",
    changed=34,
    elements=1024,
    first=OperationPlace(2, "multiply", Site("adam.py", 47, "return (rate * m) / d"), "float32", (8, 128)),
    counterpart=OperationPlace(3, "divide", Site("oracle.py", 33, "q = m / d"), "float32", (8, 128)),
    own_steps=1,
    other_steps=1,
)


def test_another_order_than_the_golden_s_is_named_before_the_loss():
    lines = shown(attention(order=ORDER, oracle="golden"))
    assert lines[2:4] == [
        "the order of operations differs from the golden's: adam.py:47 `return (rate * m) / d`, multiply; "
        "34 of 1,024 elements of out differ (3.3 %)",
        "the golden has there: oracle.py:33 `q = m / d`, divide",
    ]
    assert lines[4].startswith("first loss: ")
    assert not any("order" in line for line in shown(attention()))


def test_steps_of_one_side_alone_are_named():
    assert shown(attention(order=replace(ORDER, counterpart=None, other_steps=0)))[2].endswith(
        "elements of out differ (3.3 %), and the golden has no step in its place"
    )
    lines = shown(attention(order=replace(ORDER, first=None, own_steps=0, other_steps=2)))
    assert lines[2] == (
        "the order of operations differs: the golden takes 2 steps more: oracle.py:33 `q = m / d`, divide; "
        "34 of 1,024 elements of out differ (3.3 %)"
    )


def test_another_order_than_a_version_s_replaces_its_new_operation():
    order = replace(ORDER, other="version", commit="0123456789", changed=0, elements=0)
    version = replace(grown().against, order=order, kind="new", counterpart=None)
    lines = shown(attention(against=version))
    assert lines[2] == (
        "the order of operations differs from the other version at 01234567's: adam.py:47 `return (rate * m) / d`, "
        "multiply; out has other bits"
    )
    assert not any(line.startswith("first new operation") for line in lines)
    # A loss that explains the growth of an output's error stays the answer.
    lines = shown(attention(against=replace(version, explained=0.9, output="out")))
    assert lines[2].startswith("first new operation")
    assert lines[3].startswith("the order of operations differs")


def test_an_output_beyond_a_tolerance_of_0_comes_first():
    met = replace(OUTPUT, name="met", tolerances=0.0)
    assert "largest shares of the error of out, errors in ULP of float16" in shown(
        attention(outputs=(met, replace(OUTPUT, tolerances=inf)))
    )


def looped(count=50):
    """Return the operations of a loop over one line, each of which explains a small part."""
    return tuple(operation(number, "add", 41, 0.3, 0.2 * number**0.5, 1 / count) for number in range(1, count + 1))


def test_a_line_that_runs_often_is_named_as_a_whole():
    assert shown(attention(operations=looped()))[2].startswith(
        "largest share: kernels.py:41 `scores = q @ k.T`, add 50 times: own errors up to 0.3 ULP of float16; "
        "100 % of the error of out; no known own error"
    )
    loss = replace(looped()[30], own=ErrorSize(5 * EPS16))
    assert shown(attention(operations=(*looped()[:30], loss, *looped()[31:])))[2].endswith(
        "add: own error 5 ULP of float16 (approximation of add?); its line explains 100 % of the error of out"
    )
    left = SiteTotals(site=looped()[0].site, operations=950, shares={"out": 0.5})
    many = attention(operations=looped(100)[:50], left_out=950, left_out_sites=(left,))
    assert "add 1,000 times: own errors up to 0.3 ULP of float16; 100 % of the error of out" in shown(many)[2]


def test_one_operation_that_explains_most_of_its_line_is_named_alone():
    operations = (operation(1, "matmul", 41, 0.4, 0.4, 0.8), operation(2, "multiply", 41, 0.3, 0.5, 0.2))
    answer = shown(attention(operations=operations))[2]
    place = "kernels.py:41 `scores = q @ k.T`"
    assert answer.startswith(f"largest share: {place}, matmul: own error 0.4 ULP of float16; 80 % of the error of out")


def test_flipped_integers_are_counted_with_the_largest_own_error_before_them():
    best = TracedOutput(name="best", dtype="int64", shape=(64,), whole=ErrorSize(0.19), tolerances=inf)
    flip = replace(FLIP, number=4)
    assert shown(attention(outputs=(OUTPUT, best), events=(flip,)))[4] == (
        "best: 2 of 64 elements differ from the exact choice of argmax; the largest own error before it: "
        "kernels.py:41 `scores = q @ k.T`, matmul: 870 ULP of float16; int64 has no rounding"
    )
    # Another shape, or two events that fit, name none.
    other = replace(flip, elements=8)
    twice = (flip, replace(flip, site=Site("kernels.py", 51)))
    for events in ((other,), twice):
        assert shown(attention(outputs=(OUTPUT, best), events=events))[4].startswith("best: relative error 0.19;")


def test_an_output_without_a_sum_of_shares_says_why():
    def coverage(**changes):
        lines = shown(attention(outputs=(replace(OUTPUT, sum_of_shares=None, **changes),)))
        return line_of(lines, "coverage: ").rpartition("; ")[2]

    infinite = ErrorSize(inf)
    assert coverage(rounding=infinite, range=ValueRange(nan=12)) == "no sum of shares of out: it has 12 NaN"
    assert coverage(rounding=infinite, range=ValueRange(nan=1, inf=3)).endswith("it has 1 NaN and 3 Inf")
    assert coverage(rounding=infinite, range=ValueRange()).endswith("its exact value is not finite")
    assert coverage(rounding=ErrorSize(0.0)) == "no shares of out: its rounding error is 0"
    assert coverage(dtype="int64", rounding=None) == "no shares of out: int64 has no rounding"
    assert coverage() == "no shares"
    lines = shown(attention(outputs=(replace(OUTPUT, range=ValueRange(inf=5)),)))
    assert line_of(lines, "coverage: ").endswith("shares of out add up to 0.998, out has 5 Inf")


def test_an_overflow_explains_a_sum_that_is_not_complete():
    overflow = replace(CUT, kind="overflow", times=4)
    lines = shown(attention(outputs=(replace(OUTPUT, sum_of_shares=0.0),), events=(overflow,)))
    assert line_of(lines, "warning: the shares").endswith(
        "the ranking is not complete, because 4 operations overflowed"
    )


def test_a_tolerance_without_parts_is_named_as_such():
    lines = shown(attention(outputs=(replace(OUTPUT, tolerances=inf),)), unit="tolerance")
    assert "  no parts of a tolerance: no output has a share and an elementwise tolerance above 0" in lines
    assert not any("no parts of" in line for line in shown(attention(), unit="tolerance"))
