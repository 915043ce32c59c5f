"""Evidence of several cases of one suite and dtype on fresh inputs."""

from math import log, sqrt

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.types import PAIRED_LOSS, FindingKind, PairedFigure, PairedRun
from precreg.verdict import pooled_losses
from tests.verdict.drawn import tolerance
from tests.verdict.test_combined_loss import result as result_of_case

RESULT = result_of_case(1, 1.0)
SEEDS = 64


def result(number, mean, error, *, suite="s", dtype="float32", end="not_clear", metric="mean_abs_error"):
    """Return a case with one figure on fresh seeds: the mean of log ratios and its standard error."""
    figure = PairedFigure("out", dtype, metric, np.exp(mean), 0.0, 0.0, mean, error)
    paired = PairedRun(SEEDS, end != "not_clear", judged=True, end=end, figures=(figure,))
    limits = {"out": replace(tolerance(), regression={PAIRED_LOSS: 0.05})}
    name = f"unit/{suite}/{number}"
    return replace(RESULT, id=name, suite=suite, name=str(number), paired=paired, tolerances=limits)


def test_small_losses_that_no_case_shows_are_a_finding_together():
    every = [result(number, log(1.12), 0.05) for number in range(16)]
    (found,) = pooled_losses(every)
    assert (found.kind, found.about, found.binding) == (FindingKind.COMBINED_LOSS, "unit/s", True)
    assert (found.fact.cases, found.fact.dtype, found.fact.metric) == (16, "float32", "mean_abs_error")
    assert found.factor == pytest.approx(1.12)
    half_width = 0.05 / sqrt(16) * 1.96
    assert found.fact.lower == pytest.approx(np.exp(log(1.12) - half_width), rel=1e-3)
    assert list(pooled_losses(every[:2])) == [], "two of them show nothing yet"


def test_a_group_with_a_failed_case_and_other_dtypes_and_suites_stay_apart():
    every = [result(number, log(1.12), 0.05) for number in range(16)]
    assert list(pooled_losses([*every, result(99, 0.0, 0.1, end="worse")])) == []
    others = [result(n, log(1.12), 0.05, dtype="float16" if n % 2 else "float32", suite=f"s{n % 4}") for n in range(8)]
    assert list(pooled_losses(others)) == []


def test_a_loss_that_is_not_relevant_is_no_finding():
    assert list(pooled_losses([result(number, log(1.04), 0.001) for number in range(16)])) == []


def test_results_without_fresh_seeds_are_no_evidence():
    assert list(pooled_losses([replace(RESULT, id=f"unit/s/{n}") for n in range(8)])) == []


def test_equal_versions_are_called_worse_less_often_than_the_level():
    rng = np.random.default_rng(4)
    alarms = sum(
        bool(list(pooled_losses([result(n, log(1.05) + rng.normal(0, 0.05), 0.05) for n in range(5)])))
        for _ in range(400)
    )
    assert alarms <= 12, "a level of 1 % gives 4 of 400 on average"


def test_outputs_of_several_dtypes_have_the_metrics_of_their_own_dtype():
    """Integers have no metric in ULP, and the other outputs of the same cases do."""

    def mixed(number):
        one = result(number, log(1.12), 0.05, metric="mean_ulp")
        (ulps,) = one.paired.figures
        others = (replace(ulps, output="index", dtype="int32", metric="mean_abs_error", log_mean=0.0),)
        limits = {**one.tolerances, "index": one.tolerances["out"]}
        return replace(one, paired=replace(one.paired, figures=(ulps, *others)), tolerances=limits)

    (found,) = pooled_losses([mixed(number) for number in range(16)])
    assert (found.fact.dtype, found.fact.metric) == ("float32", "mean_ulp")
