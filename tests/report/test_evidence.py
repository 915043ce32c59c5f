"""What binds a verdict, in one line and in the tables of every report."""

import pytest
from msgspec.structs import replace

from precreg.report import describe
from precreg.report import describe as evidence
from precreg.report.case_detail import describe_case
from precreg.types.case import Location
from precreg.types.verdict import Finding, Reason, Status, Verdict
from tests.report.made import STATISTIC, judged_by, regressed, skipped

BROKEN = Finding(
    Reason.OUT_OF_TOLERANCE,
    "max_ulp is 7",
    "out",
    "max_ulp",
    0,
    current=7.0,
    limit=4.0,
    ratio=1.75,
    source=Location("suites/tolerances.yaml", 3),
    rule="bound",
)
GUARD = replace(STATISTIC, metric="max_abs_error", rule="guard", lower=None, upper=None, floor=None, limit=4.0)
FEWER = replace(GUARD, metric="match_ratio", current=0.81, baseline=0.9, ratio=0.9, limit=0.95)
BUDGET = Finding(Reason.OVER_BUDGET, "", "", "duration_s", None, 0.9, 0.5, 1.8, 1.5, rule="budget")
HARD = Finding(Reason.NON_FINITE_MISMATCH, "8 of 945 elements differ", "out", seed=0, current=8, limit=0, rule="hard")


def test_bounds_of_an_interval_may_be_unknown():
    assert evidence.format_interval(replace(STATISTIC, upper=None)) == "at least 4.73"
    assert evidence.format_interval(replace(STATISTIC, lower=None)) == "at most 5.06"
    assert evidence.format_interval(GUARD) == ""


def test_an_interval_that_ends_just_above_the_limit_does_not_look_like_the_limit():
    assert evidence.format_interval(replace(STATISTIC, lower=1.020004, upper=1.5)) == "1.020004 to 1.5"


def test_a_ratio_just_above_what_noise_explains_does_not_look_like_it():
    (row,) = describe.finding_rows(
        judged_by(replace(STATISTIC, ratio=1.147, lower=1.03, upper=1.28, floor=1.1466)).verdict, ()
    )
    assert (row.ratio, row.noise, row.allowed) == ("1.147", "1.1466", "1.02")


def test_a_rule_is_named_where_no_row_of_figures_names_it_and_a_record_may_not_know_it():
    assert [evidence.failing_rules(judged_by(each).verdict) for each in (STATISTIC, BROKEN, GUARD)] == [[], [], []]
    assert evidence.failing_rules(judged_by(HARD).verdict) == ["hard"]
    assert evidence.failing_rules(regressed().verdict) == evidence.failing_rules(skipped().verdict) == []
    assert evidence.failing_rules(Verdict(Status.PASSED, Reason.IDENTICAL, "")) == []


def test_a_row_has_the_interval_the_noise_and_the_rule():
    (row,) = describe.finding_rows(judged_by(STATISTIC).verdict, ())
    assert (row.ratio, row.interval, row.noise, row.allowed, row.rule) == (
        "4.9",
        "4.73 to 5.06",
        "1.001",
        "1.02",
        "statistic",
    )
    assert describe.finding_rows(judged_by(BROKEN).verdict, ())[0][5:] == ("1.75", "", "", "<= 4", "bound")


@pytest.mark.parametrize(
    ("finding", "ratio", "allowed"), [(GUARD, "4.9", "4"), (BUDGET, "1.8", "1.5"), (FEWER, "0.9", "0.95")]
)
def test_what_a_ratio_may_be_stands_beside_the_ratio(finding, ratio, allowed):
    (row,) = describe.finding_rows(judged_by(finding).verdict, ())
    assert (row.ratio, row.allowed, row.rule) == (ratio, allowed, finding.rule)


def test_a_hard_rule_allows_what_the_baseline_has_and_not_a_ratio_of_1():
    lost = replace(STATISTIC, rule="hard", current=1e-49, baseline=0.0, ratio=None, limit=1.0, lower=None, upper=None)
    (row,) = describe.finding_rows(judged_by(replace(lost, floor=None)).verdict, ())
    assert (row.current, row.baseline, row.ratio, row.allowed) == ("1e-49", "0", "", "<= 0")
    fewer = replace(lost, metric="match_ratio", current=0.97, baseline=0.98, ratio=0.97 / 0.98, floor=None)
    (row,) = describe.finding_rows(judged_by(fewer).verdict, ())
    assert (row.current, row.baseline, row.allowed) == ("0.97", "0.98", ">= 0.98")


def test_what_one_opens_has_the_rule_and_who_set_a_bound():
    assert describe_case(judged_by(HARD))["notes"] == ["rule: hard"]
    assert describe_case(judged_by(BROKEN))["findings"][0][-2:] == ["bound", "suites/tolerances.yaml:3"]
    assert describe_case(judged_by(STATISTIC))["findings"][0][-2:] == ["statistic", ""]
