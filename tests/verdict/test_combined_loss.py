"""Small losses of many cases: what none shows alone, the suite shows together."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.types.case import Location
from precreg.types.record import CaseResult
from precreg.types.verdict import Reason, Status
from precreg.types.warning import FindingKind
from precreg.verdict.judge import Policy, judge_case
from precreg.verdict.whole_run import combined_losses
from tests.verdict.drawn import accepted, errors, outcome, tolerance
from tests.verdict.made import ENVIRONMENT, case


def result(number, factor, *, suite="s", limits=None, same_bits=False):
    """Return a case of 300 elements whose errors are all drawn anew, and larger by a factor."""

    def drawn(seed, draw, scale=1.0):
        return errors(seed, scale=scale, shape=(12, 25), draw=draw)

    found = accepted(outcome(lambda seed: drawn(seed, 2 * number)))
    on = outcome(lambda seed: drawn(seed, 2 * number + 1, factor), name="a" if same_bits else "b")
    held = {"out": limits or tolerance()}
    verdict = judge_case(case(), on, held, found, ENVIRONMENT, Policy(baselines=600))
    name = f"{number}"
    ids = (f"unit/{suite}/{name}", "unit", suite, name, Location("s.yaml"), "reference", "1:d", {}, (), on, verdict)
    return CaseResult(*ids, tolerances=held, baseline=found)


def losses(results, environment=ENVIRONMENT):
    return list(combined_losses(results, environment))


LITTLE = [result(number, 1.06) for number in range(24)]


def test_twenty_four_small_losses_are_one_finding_and_no_case_fails_alone():
    assert {each.verdict.status for each in LITTLE} == {Status.PASSED}
    (found,) = losses(LITTLE)
    assert (found.kind, found.about, found.binding) == (FindingKind.COMBINED_LOSS, "unit/s", True)
    ratios = [
        np.mean([np.abs(errors(seed, shape=(12, 25), draw=2 * n + 1)).mean() for seed in range(3)])
        / np.mean([np.abs(errors(seed, shape=(12, 25), draw=2 * n)).mean() for seed in range(3)])
        for n in range(24)
    ]
    assert found.factor == pytest.approx(1.06 * np.exp(np.mean(np.log(ratios))), rel=2e-3)
    assert (found.fact.cases, found.fact.metric, found.fact.factor) == (24, "mean_abs_error", found.factor)
    assert 1 < found.fact.lower < found.factor
    assert found.fact.p_value < 1e-3


def test_the_order_of_results_does_not_matter():
    assert losses(LITTLE[::-1]) == losses(LITTLE)


def test_other_errors_of_the_same_size_are_no_finding():
    assert losses([result(100 + number, 1.0) for number in range(24)]) == []


def test_a_suite_is_not_blamed_for_another():
    fine = [result(200 + number, 1.0, suite="fine") for number in range(8)]
    assert [found.about for found in losses([*LITTLE, *fine])] == ["unit/s"]


def test_four_cases_are_no_sample():
    assert losses([result(number, 2.0) for number in range(4)]) == []


def test_cases_that_repeat_one_draw_are_one():
    """Five cases that a parameter without effect tells apart: the noise of one is no evidence of five."""
    one = result(1, 1.2)
    assert losses([replace(one, id=f"unit/s/{number}") for number in range(6)]) == []


def test_a_case_of_which_an_output_was_not_measured_is_no_evidence():
    whole = [result(number, 2.0) for number in range(6)]
    assert len(losses(whole)) == 1
    unmeasured = [replace(each, outcome=replace(each.outcome, comparisons=()), tolerances={}) for each in whole]
    assert losses(unmeasured) == []


def test_cases_that_statistics_do_not_judge_are_no_evidence():
    off = replace(tolerance(), regression={})
    assert losses([result(number, 2.0, limits=off) for number in range(6)]) == []
    assert losses([result(number, 2.0, same_bits=True) for number in range(6)]) == []
    assert losses(LITTLE, replace(ENVIRONMENT, fingerprint="another")) == []
    assert losses([replace(each, baseline=None) for each in LITTLE]) == []


def test_a_clear_loss_is_told_of_the_suite_too():
    found = [result(number, 2.0) for number in range(6)]
    assert {each.verdict.reason for each in found} == {Reason.REGRESSED}
    (finding,) = losses(found)
    assert finding.factor > 1.8


def test_losses_of_one_dtype_are_found_among_cases_of_another():
    """The gains of float64 hide the losses of float32 where all cases are one sample."""

    def of_dtype(each, dtype):
        entry = each.baseline.entry
        outputs = {"out": replace(entry.outputs["out"], dtype=dtype)}
        return replace(each, baseline=replace(each.baseline, entry=replace(entry, outputs=outputs)))

    worse = [of_dtype(result(number, 1.1), "float32") for number in range(12)]
    better = [of_dtype(result(number, 0.9), "float64") for number in range(12, 24)]
    (found,) = losses([*worse, *better])
    assert (found.about, found.fact.dtype, found.fact.cases) == ("unit/s", "float32", 12)
    assert losses(better) == []
