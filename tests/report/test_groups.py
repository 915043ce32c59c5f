"""How large losses are on one scale, and which cases are one group."""

from math import inf

import pytest
from msgspec.structs import replace

from precreg.report.groups import group_failures, group_results, loss_size, measure_loss
from precreg.types.outcome import Positions
from precreg.types.verdict import Finding, Reason, RepeatDifference, Status, Verdict
from tests.report.causes.test_diagnosis import CAST, SWAPPED, diagnosis
from tests.report.made import (
    TOLERANCE,
    comparison,
    crashed,
    improved,
    nondeterministic,
    passed,
    proposed,
    regressed,
    skipped,
    verdict,
)


def failing(*findings, name="x", **changes):
    return regressed(name, verdict=Verdict(Status.FAILED, findings[0].reason, "", findings), **changes)


def bound(metric, current, limit, ratio=None):
    return Finding(
        Reason.OUT_OF_TOLERANCE, "", "out", metric, 0, current=current, limit=limit, ratio=ratio, rule="bound"
    )


def lost(metric, current, baseline, ratio=None):
    return Finding(Reason.REGRESSED, "", "out", metric, current=current, baseline=baseline, ratio=ratio, rule="hard")


def measured(worst):
    changed = replace(comparison(0, 0.1, 0.2), worst=worst)
    return replace(regressed().outcome, comparisons=(changed,))


def test_a_regression_is_a_multiple_of_the_baseline():
    size = measure_loss(regressed())
    assert (round(size.times, 3), size.unit) == (4.896, "baseline")
    assert size.finding.metric == "mean_abs_error"


def test_a_broken_bound_is_a_multiple_of_the_tolerance():
    size = measure_loss(failing(bound("max_ulp", 7.0, 4.0, 1.75), bound("max_abs_error", 5.0, 2.0, 2.5)))
    assert (size.times, size.unit, size.finding.metric) == (2.5, "tolerance", "max_abs_error")


def test_a_bias_below_zero_is_as_large_as_above():
    assert loss_size(failing(bound("bias", -3.0, 1.0, -3.0))) == 3.0


def test_a_lost_match_is_as_large_as_the_error_of_its_worst_element():
    # atol 1e-5 and rtol 1e-2 allow 0.01001 at 1, and the error is 0.5.
    outcome = measured(Positions([3, 4], [1.5, 0.0], [1.0, 0.0]))
    case = failing(bound("match_ratio", 0.999, 1.0), outcome=outcome, tolerances={"out": TOLERANCE})
    assert loss_size(case) == pytest.approx(0.5 / 0.01001)
    golden = failing(lost("match_ratio", 0.999, 1.0, 0.999), outcome=outcome, tolerances={"out": TOLERANCE})
    assert measure_loss(golden)[:2] == (pytest.approx(0.5 / 0.01001), "tolerance")


@pytest.mark.parametrize("worst", [None, Positions([0], ["nan"], [1.0]), Positions([0], [1e308], [-1e308])])
def test_a_lost_match_without_a_finite_distance_is_infinite(worst):
    assert loss_size(failing(bound("match_ratio", 0.9, 1.0), outcome=measured(worst))) == inf


def test_shares_and_decibels_are_compared_by_the_errors_behind_them():
    assert loss_size(failing(lost("match_ratio", 0.97, 0.99, 0.98))) == pytest.approx(3.0)
    assert loss_size(failing(lost("snr", 40.0, 60.0))) == pytest.approx(10.0)


@pytest.mark.parametrize(
    "finding",
    [
        bound("max_ulp", 3.0, 0.0),
        bound("max_rel_error", None, 0.5),
        lost("mean_abs_error", 1e-9, 0.0),
        Finding(Reason.MISSING_OUTPUT, rule="hard"),
        Finding(Reason.NON_FINITE_MISMATCH, current=8.0, limit=0.0),
    ],
)
def test_a_loss_without_a_multiple_is_infinite(finding):
    assert loss_size(failing(finding)) == inf


def test_crashes_are_infinite_and_cases_without_a_judge_have_no_loss():
    assert loss_size(crashed()) == inf
    assert [loss_size(case) for case in (proposed(), skipped(), passed())] == [0.0, 0.0, 0.0]


def test_repeats_that_differ_are_at_the_limit_and_infinite_with_nan():
    assert loss_size(nondeterministic()) == inf
    differences = (RepeatDifference("partial", 0, 2, (0,), 1, 8, 1e-7),)
    finite = nondeterministic(outcome=replace(nondeterministic().outcome, execution=_differing(differences)))
    assert loss_size(finite) == 1.0


def _differing(differences):
    return replace(nondeterministic().outcome.execution, differences=differences)


def test_an_improvement_has_its_ratio():
    assert measure_loss(improved())[:2] == (0.5, "baseline")


def test_equal_causes_of_a_suite_are_one_group_and_the_largest_loss_is_first():
    def case(name, times, **changes):
        return failing(lost("rms_error", times, 1.0, times), name=name, **changes)

    swapped = [case(name, times, diagnosis=diagnosis("found", SWAPPED)) for name, times in (("a", 2.0), ("b", 5.0))]
    cast = case("c", 3.0, diagnosis=diagnosis("found", CAST))
    unknown = case("d", 9.0, diagnosis=diagnosis("unknown"))
    elsewhere = case("e", 1.5, suite="col_sum")
    groups = group_failures([*swapped, cast, unknown, elsewhere, passed(), crashed()])
    assert [[each.name for each in group.results] for group in groups] == [["d"], ["b", "a"], ["c"], ["e"]]
    assert [group.loss.times for group in groups] == [9.0, 5.0, 3.0, 1.5]
    assert groups[1].key.cause == (SWAPPED.rewrite, "operation", SWAPPED.place.name, *_line(SWAPPED))
    assert (groups[1].cause, groups[1].diagnosed) == (SWAPPED, 2)
    assert groups[3].key.suite == "unit/col_sum"


def _line(cause):
    site = cause.present or cause.place.site
    return site.file, site.line


def test_cases_that_no_diagnosis_reached_join_a_single_cause():
    reached = regressed("a", diagnosis=diagnosis("found", SWAPPED))
    (group,) = group_failures([reached, regressed("b"), regressed("c")])
    assert (len(group.results), group.diagnosed, group.cause) == (3, 1, SWAPPED)
    other = regressed("d", diagnosis=diagnosis("found", CAST))
    assert sorted(len(group.results) for group in group_failures([reached, other, regressed("b")])) == [1, 1, 1]


def test_operators_of_a_suite_are_groups_of_their_own():
    cases = [regressed(op, parameters={"op": op}) for op in ("add", "mul")]
    assert [group.key.operator for group in group_failures(cases)] == ["add", "mul"]


def test_an_exception_is_one_group_whatever_its_numbers_are():
    def raising(name, message):
        failure = replace(crashed().outcome.execution.failure, message=message)
        execution = replace(crashed().outcome.execution, failure=failure)
        shown = verdict(failure.reason, Status.ERROR, message)
        return crashed(name, verdict=shown, outcome=replace(crashed().outcome, execution=execution))

    cases = [raising("a", "shape (8, 4) is odd"), raising("b", "shape (16, 2) is odd"), raising("c", "no module x")]
    groups = group_results(cases)
    assert [[each.name for each in group.results] for group in groups] == [["a", "b"], ["c"]]
    assert group_failures(cases) == ()


def test_the_order_does_not_depend_on_the_order_of_the_cases():
    cases = [regressed(str(number)) for number in range(5)]
    assert group_failures(cases) == group_failures(reversed(cases))
