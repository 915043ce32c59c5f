from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.types.case import STATISTIC, Bound, Location, Tolerance
from precreg.types.outcome import AxisGroups, Comparison, Execution, Outcome
from precreg.types.verdict import Reason, Status, Verdict
from precreg.verdict.judge import Policy
from precreg.verdict.regression import case_alpha
from precreg.verdict.statistics.ratios import error_ratios
from precreg.verdict.statistics.sequential import interim_analyses, is_conclusive, split_alpha, without_bounds

GROUPS, ELEMENTS = 16, 24
RTOL = Bound("rtol", 0.0, "suite", Location("s.yaml", 1))
TOLERANCE = Tolerance(RTOL, RTOL, (RTOL,), {STATISTIC: 0.02}, alternatives=((RTOL,),))


def outcome(rng, seeds, scale=1.0, digest="a"):
    """Return an outcome of so many seeds, with errors of one size in each of 16 groups of 24 elements."""
    return outcome_of([rng.normal(0, scale, (GROUPS, ELEMENTS)) for _ in range(seeds)], digest)


def outcome_of(errors, digest="a"):
    digests = tuple(f"{digest}{seed}" for seed in range(len(errors)))
    comparisons = tuple(map(comparison, range(len(errors)), errors))
    return Outcome("unit/s/x", "1:aa", Execution(tuple("i" * len(errors)), {"out": digests}), comparisons)


def comparison(seed, errors):
    shape = errors.shape
    size = np.abs(errors)
    sums = [size.sum(1), errors.sum(1), (errors**2).sum(1), size.sum(1), np.log2(size + 0.25).sum(1)]
    groups = AxisGroups([ELEMENTS] * GROUPS, *(part.tolist() for part in sums))
    metrics = {
        "mean_abs_error": float(size.mean()),
        "rms_error": float(np.sqrt((errors**2).mean())),
        "mean_ulp": float(size.mean()),
        "mean_log2_ulp": float(np.log2(size + 0.25).mean()),
        "bias": float(errors.mean()),
    }
    single = AxisGroups([], [], [], [], [], [])
    counts = {"finite": errors.size}
    return Comparison("out", seed, "float32", shape, "float64", shape, metrics, counts, groups=(groups, single))


def entry(outcome):
    return entry_from(outcome, "6f2a90c1", "1a2b3c4d")


def passed(reason=Reason.WITHIN_TOLERANCE):
    return Verdict(Status.PASSED, reason, "")


@pytest.mark.parametrize(
    ("seeds", "most", "looks"),
    [(3, 32, (3, 6, 12, 24)), (1, 32, (1, 2, 4, 8, 16, 32)), (3, 5, (3,)), (64, 32, (64,)), (2, 4, (2, 4))],
)
def test_looks_are_at_twice_the_seeds_each_time(seeds, most, looks):
    assert interim_analyses(seeds, most) == looks


@given(st.integers(1, 100_000), st.integers(1, 14))
def test_all_looks_together_have_the_error_level_of_the_case(baselines, looks):
    at_each = case_alpha(split_alpha(Policy(baselines=baselines), looks).baselines)
    assert at_each * looks <= case_alpha(baselines) < at_each * looks * 2.001


@pytest.mark.parametrize(
    ("verdict", "clear"),
    [
        (passed(Reason.IDENTICAL), True),
        (Verdict(Status.FAILED, Reason.REGRESSED, ""), True),
        (Verdict(Status.ERROR, Reason.CRASHED, ""), True),
        (Verdict(Status.FAILED, Reason.OVER_BUDGET, ""), False),
    ],
)
def test_what_is_the_same_or_failed_is_clear_and_a_time_is_measured_again(verdict, clear):
    rng = np.random.default_rng(1)
    assert is_conclusive(verdict, outcome(rng, 2, digest="b"), entry(outcome(rng, 2)), {"out": TOLERANCE}) is clear


def test_a_harmless_change_is_clear_when_its_interval_ends_below_what_is_material():
    """Errors that differ by a thousandth from the other version's need few seeds; errors of their own need many."""
    rng = np.random.default_rng(2)
    errors = [rng.normal(0, 1, (GROUPS, ELEMENTS)) for _ in range(4)]
    alike = [each * rng.normal(1, 0.001, each.shape) for each in errors]
    assert is_conclusive(passed(), outcome_of(alike, "b"), entry(outcome_of(errors)), {"out": TOLERANCE})
    assert not is_conclusive(passed(), outcome(rng, 4, digest="b"), entry(outcome_of(errors)), {"out": TOLERANCE})


def test_an_output_of_the_same_bits_and_one_that_no_statistic_judges_are_clear():
    rng = np.random.default_rng(3)
    other = entry(outcome(rng, 2))
    assert is_conclusive(passed(), outcome(rng, 2), other, {"out": TOLERANCE})
    unjudged = {"out": replace(TOLERANCE, regression={})}
    assert is_conclusive(passed(), outcome(rng, 2, digest="b"), other, unjudged)


def test_too_few_samples_are_not_clear():
    rng = np.random.default_rng(4)
    current, accepted = (ungrouped(outcome(rng, 2, digest=digest)) for digest in "ba")
    assert not is_conclusive(passed(), current, entry(accepted), {"out": TOLERANCE})


def ungrouped(outcome):
    return replace(outcome, comparisons=tuple(replace(each, groups=()) for each in outcome.comparisons))


def test_the_bounds_of_a_case_hold_for_its_own_seeds_alone():
    alone = without_bounds(TOLERANCE)
    assert (alone.bounds, alone.alternatives) == ((), ())
    assert alone.regression == TOLERANCE.regression


def test_false_alarms_of_all_looks_together_stay_below_the_level():
    """Two versions of the same errors: simulated at a level large enough to count, with the bound of docs/pairs.md."""
    rng = np.random.default_rng(6)
    level, runs, looks = 0.2, 250, interim_analyses(1, 8)
    shared_alarms = unshared_alarms = 0
    for _ in range(runs):
        current, accepted = (outcome(rng, looks[-1], digest=digest) for digest in "ab")
        chances = [chance_of_loss(current, accepted, seeds) for seeds in looks]
        shared_alarms += min(chances) < level / len(looks)
        unshared_alarms += min(chances) < level
    deviation = sqrt(level * (1 - level) / runs)
    assert shared_alarms / runs <= level + 2 * deviation
    assert unshared_alarms / runs > level + 2 * deviation, (
        "looking four times without sharing the level is no test of it"
    )


def chance_of_loss(current, accepted, seeds):
    """Return how likely noise makes the mean error grow as much as it did in the first seeds; 1 where it fell."""
    first = replace(accepted, comparisons=accepted.comparisons[:seeds])
    kept = entry(first)
    found = {
        change.metric: change
        for change in error_ratios(current.comparisons[:seeds], kept.outputs["out"], kept.groups["out"])
    }
    change = found["mean_abs_error"]
    return change.p_value if change.ratio > 1 else 1.0
