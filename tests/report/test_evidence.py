"""What binds a verdict, in one line and in the tables of every report."""

import pytest
from msgspec.structs import replace

from precreg.report import describe, evidence
from precreg.report.detail import detail
from precreg.types import Finding, Location, Reason, Status, Verdict
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
MISSED = replace(BROKEN, metric="match_ratio", current=0.99993, limit=1.0, ratio=None)
GUARD = replace(STATISTIC, metric="max_abs_error", rule="guard", lower=None, upper=None, floor=None, limit=4.0)
BUDGET = Finding(Reason.OVER_BUDGET, "", "", "duration_s", None, 0.9, 0.5, 1.8, 1.5, rule="budget")
LOST = Finding(Reason.REGRESSED, "", "w", "match_ratio", None, 0.999931, 1.0, 0.999931, 1.0, rule="hard")
BIASED = replace(STATISTIC, metric="bias", ratio=1.1, lower=1.06, upper=1.14, floor=None, limit=1.05)
HARD = Finding(Reason.NON_FINITE_MISMATCH, "8 of 945 elements differ", "out", seed=0, current=8, limit=0, rule="hard")


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (
            STATISTIC,
            "statistic on mean_abs_error of out: 4.9 times, 4.73 to 5.06, noise explains 1.001, at most 1.02 allowed",
        ),
        (GUARD, "guard on max_abs_error of out: 4.9 times, at most 4 allowed"),
        (BUDGET, "budget on duration_s: 1.8 times, at most 1.5 allowed"),
        (BROKEN, "bound on max_ulp of out: 7, at most 4 allowed (suites/tolerances.yaml:3)"),
        (MISSED, "bound on match_ratio of out: 0.99993, at least 1 allowed (suites/tolerances.yaml:3)"),
        (
            replace(BROKEN, current=None),
            "bound on max_ulp of out: undefined, at most 4 allowed (suites/tolerances.yaml:3)",
        ),
        (HARD, "hard: non_finite_mismatch"),
        (LOST, "hard on match_ratio of w: is 0.999931, was 1"),
        (BIASED, "statistic on bias of out: 0.1 of the mean |d| more, 0.06 to 0.14, at most 0.05 allowed"),
        (
            replace(STATISTIC, ratio=None, lower=None, upper=None),
            "statistic on mean_abs_error of out: was exact, noise explains 1.001, at most 1.02 allowed",
        ),
    ],
)
def test_what_is_said_of_each_rule(finding, text):
    assert evidence.said(finding) == text


def test_bounds_of_an_interval_may_be_unknown():
    assert evidence.interval(replace(STATISTIC, upper=None)) == "at least 4.73"
    assert evidence.interval(replace(STATISTIC, lower=None)) == "at most 5.06"
    assert evidence.interval(GUARD) == ""


def test_an_interval_that_ends_just_above_the_limit_does_not_look_like_the_limit():
    assert evidence.interval(replace(STATISTIC, lower=1.020004, upper=1.5)) == "1.020004 to 1.5"


def test_the_first_finding_binds_and_a_record_may_not_know_how():
    verdict = Verdict(Status.FAILED, Reason.REGRESSED, "", (STATISTIC, BROKEN))
    assert evidence.binding(verdict) == [evidence.said(STATISTIC)]
    assert evidence.binding(regressed().verdict) == evidence.binding(skipped().verdict) == []
    assert evidence.binding(Verdict(Status.PASSED, Reason.IDENTICAL, "")) == []


def test_a_row_has_the_interval_the_noise_and_the_rule():
    (row,) = describe.rows(judged_by(STATISTIC).verdict)
    assert (row.ratio, row.interval, row.noise, row.allowed, row.rule) == (
        "4.9",
        "4.73 to 5.06",
        "1.001",
        "1.02",
        "statistic",
    )
    assert describe.rows(judged_by(BROKEN).verdict)[0][5:] == ("1.75", "", "", "<= 4", "bound")


def test_what_one_opens_has_the_rule_and_who_set_a_bound():
    shown = detail(judged_by(BROKEN))
    assert shown["notes"][-1] == f"rule: {evidence.said(BROKEN)}"
    assert shown["findings"][0][-2:] == ["bound", "suites/tolerances.yaml:3"]
    assert detail(judged_by(STATISTIC))["findings"][0][-2:] == ["statistic", ""]
