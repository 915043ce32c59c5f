"""The sentence of a run, sizes of losses, and differences of environments in words."""

from math import inf

import pytest
from msgspec.structs import replace

from precreg.report.groups import LossSize, group_failures, group_results
from precreg.report.story import (
    MAX_SHORT_MESSAGE,
    describe_environments,
    describe_group_cause,
    describe_loss_size,
    describe_run_story,
    group_unjudged,
    short_message,
)
from precreg.types.verdict import ChangedEnvironment, EnvironmentFact, Finding, Reason, Status, Verdict
from tests.report.causes.test_diagnosis import CAST, SWAPPED, diagnosis
from tests.report.made import LOOSENED, crashed, passed, proposed, regressed, run_of, skipped, verdict


def story(*results, **changes):
    return describe_run_story(run_of(*results, **changes), group_failures(results)).text


def test_the_story_has_what_how_much_since_when_and_why():
    assert story(regressed(diagnosis=diagnosis("found", SWAPPED)), passed(), findings=(LOOSENED,)) == (
        "1 of 2 cases regressed: in unit/row_sum/float16-8x256, mean_abs_error is 4.9 x the baseline "
        "(0.024 -> 0.1175), compared with commit 0c1d2e3f (accepted 2026-11-02); "
        "cause: multiply before divide at ops/adam.py:49; 1 finding on the run: 1 bound_loosened"
    )


def test_the_worst_of_several_losses_is_named_and_reasons_are_counted():
    bound = Finding(Reason.OUT_OF_TOLERANCE, "", "out", "max_ulp", 0, current=40.0, limit=4.0, ratio=10.0, rule="bound")
    broken = regressed("ulp", verdict=Verdict(Status.FAILED, Reason.OUT_OF_TOLERANCE, "", (bound,)))
    assert story(regressed("a"), regressed("b"), broken) == (
        "3 of 3 cases failed (2 regressed, 1 out_of_tolerance); in the worst, unit/row_sum/ulp, "
        "max_ulp is 10 x the tolerance (40, limit 4)"
    )


def test_a_loss_without_a_number_has_its_message():
    missing = verdict(Reason.MISSING_OUTPUT, Status.FAILED, "output 'y' is missing", rule="hard")
    assert story(regressed("a", verdict=missing)) == (
        "1 case failed (missing_output): in unit/row_sum/a, output 'y' is missing"
    )


def test_without_a_failure_the_story_is_the_sentence_of_the_exit_code():
    assert story(passed()) == "Nothing regressed against the baselines"
    assert story(crashed(), passed()) == "1 case could not be judged: 1 subject error"


def test_a_cause_in_an_input_has_no_line():
    assert "; cause: cast to float16 in input x" in story(regressed(diagnosis=diagnosis("found", CAST)))


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (LossSize(2.5, "tolerance"), "2.5 x the tolerance"),
        (LossSize(1.0004, "baseline"), "1.0004 x the baseline"),
        (LossSize(2.13, "baseline time"), "2.13 x the baseline's time"),
        (LossSize(inf, ""), ""),
        (LossSize(0.0, ""), ""),
        (LossSize(1.0, ""), ""),
        (LossSize(inf, "baseline", Finding(Reason.REGRESSED, baseline=0.0)), "the baseline is exact"),
        (LossSize(inf, "tolerance", Finding(Reason.OUT_OF_TOLERANCE, limit=0.0)), "the tolerance is 0"),
        (LossSize(inf, "tolerance", Finding(Reason.OUT_OF_TOLERANCE, limit=0.5)), ""),
    ],
)
def test_sizes_are_written_with_their_unit(loss, text):
    assert describe_loss_size(loss) == text


def test_a_group_has_the_cause_and_the_number_of_cases_in_which_it_was_found():
    found = regressed("a", diagnosis=diagnosis("found", SWAPPED))
    (group,) = group_failures([found, regressed("b")])
    assert describe_group_cause(group).endswith("34 of 34 changed elements (found in 1 of 2 cases)")
    (unknown,) = group_failures([regressed("b")])
    assert describe_group_cause(unknown) == ""


def test_a_short_message_is_one_line():
    case = regressed("a", verdict=verdict(Reason.REGRESSED, Status.FAILED, f"{'x' * 500}\nsecond"))
    assert len(short_message(case)) == MAX_SHORT_MESSAGE
    assert short_message(case).endswith("x...")


def test_environments_are_counted_by_their_difference():
    changed = ChangedEnvironment((EnvironmentFact("numpy", "2.3.5", "2.5.1"),))
    elsewhere = replace(passed().baseline, difference=changed)
    results = [passed("a", baseline=elsewhere), passed("b", baseline=elsewhere), passed("c")]
    (note,) = describe_environments(results)
    assert note[:2] == ("generic: numpy 2.3.5 -> 2.5.1", ["unit/row_sum/a", "unit/row_sum/b"])
    assert note.chinese == "generic：numpy 2.3.5 -> 2.5.1"


def test_errors_come_before_cases_without_a_baseline_and_skipped_ones():
    groups = group_unjudged(group_results([skipped(), proposed(), crashed(), regressed()]))
    assert [group.key.status for group in groups] == [Status.ERROR, Status.PROPOSED, Status.SKIPPED]
