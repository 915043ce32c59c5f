"""Runs that need not repeat: chance that a whole run shares is no loss, and a loss is seen nevertheless."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.measure.comparison import AVERAGES, compare_runs
from precreg.types.outcome import Execution, Outcome
from precreg.types.verdict import Reason
from precreg.verdict.judge import Policy, judge_case
from precreg.verdict.statistics.ratios import MATCH_MEASURE, MEASURES, error_ratios
from precreg.verdict.statistics.uncertainty import MIN_SAMPLES
from tests.verdict.made import ENVIRONMENT, baseline, case, tolerance

STATISTIC = replace(tolerance(), regression={"statistic": 0.02})
TRIALS = 40


def drawn(generator, seeds, repeats, spread=1e-6, dtype=np.float32):
    """Measure runs that share one relative error each: a scale that threads summed in another order every time."""
    comparisons = []
    for seed in range(seeds):
        reference = np.random.default_rng(seed).uniform(1, 2, size=(16, 20))
        runs = [(reference * (1 + spread * generator.normal())).astype(dtype) for _ in range(repeats)]
        comparisons.append(compare_runs(runs, reference, output="out", seed=seed, rtol=1e-4, atol=0))
    digests = tuple(f"{generator.integers(2**60):x}" for _ in range(seeds))
    inputs = tuple(f"i{seed}" for seed in range(seeds))
    return Outcome("unit/s/a", "1:d", Execution(inputs, {"out": digests}, unsteady=("out",)), tuple(comparisons))


def reasons(before, after, of, ruled=STATISTIC):
    accepted = baseline(entry_from(before, "f00d", "c0"))
    return judge_case(of, after, {"out": ruled}, accepted, ENVIRONMENT, Policy()).reason


def as_if_groups_told_all(outcome):
    return replace(outcome, comparisons=tuple(replace(one, runs=()) for one in outcome.comparisons))


@pytest.mark.parametrize(("seeds", "repeats"), [(3, 4), (1, 6), (6, 1), (3, 1)])
def test_chance_that_a_whole_run_shares_is_called_no_change(seeds, repeats):
    """Groups of one run agree with each other, and would call every second rerun of a seed worse or better."""
    generator, of = np.random.default_rng(4), case(deterministic=False, repeats=repeats)
    pairs = [[drawn(generator, seeds, repeats) for _ in "ab"] for _ in range(TRIALS)]
    found = [reasons(before, after, of) for before, after in pairs]
    misled = [reasons(before, as_if_groups_told_all(after), of) for before, after in pairs]
    assert found.count(Reason.WITHIN_TOLERANCE) >= TRIALS - 1
    assert seeds > 1 or misled.count(Reason.WITHIN_TOLERANCE) < TRIALS * 0.8


@pytest.mark.parametrize(("seeds", "repeats"), [(3, 8), (8, 4)])
def test_a_loss_beyond_what_runs_differ_by_is_called_one(seeds, repeats):
    generator, of = np.random.default_rng(5), case(deterministic=False, repeats=repeats)
    pairs = [(drawn(generator, seeds, repeats), drawn(generator, seeds, repeats, 2e-5)) for _ in range(TRIALS)]
    found = [reasons(before, after, of) for before, after in pairs]
    assert found.count(Reason.REGRESSED) > 0.9 * TRIALS
    back = [reasons(after, before, of) for before, after in pairs]
    assert back.count(Reason.IMPROVED) > 0.9 * TRIALS


def test_fewer_runs_than_a_statistic_needs_claim_none():
    outcome = drawn(np.random.default_rng(6), 2, 2)
    entry = entry_from(outcome, "f00d", "c0")
    assert MIN_SAMPLES > 2 * 2
    assert error_ratios(outcome.comparisons, entry.outputs["out"], entry.groups["out"]) == ()
    alone = as_if_groups_told_all(outcome).comparisons
    assert len(error_ratios(alone, entry.outputs["out"], entry.groups["out"])) == len(MEASURES)


def test_every_average_that_is_judged_is_kept_of_each_run():
    assert sorted(AVERAGES) == sorted(measure.metric for measure in (*MEASURES, MATCH_MEASURE))


def golden(generator, share):
    """Measure runs that differ from a golden in about a share of their elements."""
    comparisons = []
    for seed in range(3):
        reference = np.ones((20, 25), np.float32)
        runs = [np.where(generator.random((20, 25)) < share, np.float32(2), reference) for _ in range(5)]
        comparisons.append(compare_runs(runs, reference, output="out", seed=seed, rtol=0, atol=0))
    digests = tuple(f"{generator.integers(2**60):x}" for _ in range(3))
    return Outcome("unit/s/a", "1:d", Execution(("i0", "i1", "i2"), {"out": digests}), tuple(comparisons))


def test_of_a_golden_the_matches_that_a_run_loses_by_chance_are_no_loss():
    generator, of = np.random.default_rng(7), case(role="golden", deterministic=False, repeats=5)
    lenient = replace(STATISTIC, bounds=(), regression={})
    again = [reasons(golden(generator, 0.1), golden(generator, 0.1), of, lenient) for _ in range(40)]
    assert again.count(Reason.WITHIN_TOLERANCE) >= 39
    fewer = [reasons(golden(generator, 0.1), golden(generator, 0.2), of, lenient) for _ in range(40)]
    assert set(fewer) == {Reason.REGRESSED}
    strictly = [
        reasons(golden(generator, 0.1), as_if_groups_told_all(golden(generator, 0.1)), of, lenient) for _ in range(40)
    ]
    assert Reason.REGRESSED in strictly, "of a case that repeats any loss counts"
