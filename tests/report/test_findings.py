"""What all reports say of findings on a run: their order, what they mean for it, and where to look."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.report import sections as findings
from precreg.report.sections import Standing
from precreg.types.case import Location
from precreg.types.warning import FindingKind, RunFinding
from tests.report.made import CHANGED, LOOSENED, REMOVED, SUITE, UNUSED, passed, run_of


def test_what_binds_is_first_without_a_factor_before_all_then_by_factor():
    worse, allowed = replace(LOOSENED, factor=9.0), replace(LOOSENED, allowed="why")
    expected = (REMOVED, worse, LOOSENED, allowed, CHANGED, UNUSED)
    assert all(findings.sort_run_findings(order) == expected for order in permutations(expected))


def test_a_finding_is_kept_once():
    again = RunFinding(FindingKind.CASE_REMOVED, REMOVED.about, REMOVED.message)
    assert findings.sort_run_findings([REMOVED, again, REMOVED]) == (REMOVED,)


@pytest.mark.parametrize(
    ("finding", "standing"),
    [
        (LOOSENED, Standing.BINDING),
        (CHANGED, Standing.ALLOWED),
        (UNUSED, Standing.TOLD),
        (replace(UNUSED, allowed="why"), Standing.TOLD),
        (replace(LOOSENED, allowed=""), Standing.ALLOWED),
    ],
)
def test_the_standing_of_a_finding(finding, standing):
    assert findings.finding_standing(finding) is standing


def test_findings_of_one_kind_about_one_thing_stand_together():
    other = replace(LOOSENED, message="rtol may be 0.1 and could be 0.01", factor=10.0)
    assert findings.group_run_findings([CHANGED, LOOSENED, other]) == [[other, LOOSENED], [CHANGED]]


def test_what_is_explained():
    assert findings.explain_run_finding(LOOSENED) == [LOOSENED.message, "at        suites/unit/row_sum.yaml:14"]
    assert findings.explain_run_finding(CHANGED) == [CHANGED.message, f"allowed   {CHANGED.allowed}"]


def test_a_factor_is_said_in_times_and_may_be_missing():
    assert (findings.format_finding_factor(LOOSENED), findings.format_finding_factor(REMOVED)) == ("4 times", "")
    assert findings.format_finding_factor(replace(LOOSENED, factor=1.0345)) == "1.03 times"


@pytest.mark.parametrize(
    ("finding", "place"),
    [
        (LOOSENED, "suites/unit/row_sum.yaml:14"),
        (UNUSED, "baselines/allow.yaml"),
        (replace(UNUSED, about="suites/tolerances.yaml"), "suites/tolerances.yaml"),
        (CHANGED, str(SUITE)),
        (replace(CHANGED, about="unit/row_sum"), str(SUITE)),
        (REMOVED, "baselines/allow.yaml"),
        (replace(REMOVED, source=Location("")), "baselines/allow.yaml"),
    ],
)
def test_the_place_to_look_at(finding, place):
    assert str(findings.finding_location(run_of(passed()), finding)) == place


def test_counts_and_the_sentence_name_what_is_there():
    every = [LOOSENED, replace(LOOSENED, about="unit/b"), REMOVED, CHANGED, UNUSED]
    assert findings.describe_finding_counts(every) == "3 binding, 1 allowed, 1 told"
    assert findings.describe_failing_findings(every) == "3 findings on the run: 2 bound_loosened, 1 case_removed"
    assert findings.describe_failing_findings([REMOVED]) == "1 finding on the run: 1 case_removed"
    assert (findings.describe_finding_counts([]), findings.describe_failing_findings([CHANGED, UNUSED])) == ("", "")


FOUND = st.builds(
    RunFinding,
    st.sampled_from(FindingKind),
    st.sampled_from(["unit/a/b", "unit/a"]),
    st.sampled_from(["one", "other"]),
    st.none() | st.sampled_from([1.0, 2.0]),
    st.none() | st.builds(Location, st.sampled_from(["suites/a.yaml"]), st.integers(1, 3)),
    st.none() | st.just("why"),
    st.booleans(),
)


@given(st.lists(FOUND, max_size=6), st.randoms())
def test_order_and_repetition_do_not_matter(some, random):
    shuffled = [*some, *some[:2]]
    random.shuffle(shuffled)
    assert findings.sort_run_findings(shuffled) == findings.sort_run_findings(some)
    assert {*findings.sort_run_findings(some)} == {*some}
