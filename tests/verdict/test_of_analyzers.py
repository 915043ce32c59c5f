"""Metrics of analyzers are judged by the description that their comparison carries."""

import pytest
from msgspec.structs import replace

from precreg.types.metric import MetricDescription, described_metric
from precreg.types.verdict import Reason
from precreg.verdict.judge import Policy, is_acceptable, judge_case
from precreg.verdict.limits import allowed_ratio, metric_growth, satisfies_bound
from tests.verdict.made import ENVIRONMENT, baseline, bound, case, comparison, entry, outcome, tolerance

MORE_IS_BETTER = MetricDescription("judged.gain", "dB", "gain", "higher", "ours")
LESS_IS_BETTER = MetricDescription("judged.loss", "1", "loss", "lower", "ours")


def measured(value, metric, seed=0):
    return replace(comparison(seed), metrics=comparison().metrics | {metric.name: value}, described=(metric,))


def both_seeds(value, metric):
    return measured(value, metric), measured(value, metric, 1)


def reasons(now, then, metric, growth=0.1):
    """Return the reasons of all findings on the metric, where its growth is judged, with other bits than before."""
    limits = replace(tolerance(), regression={metric.name: growth})
    on = outcome(*both_seeds(now, metric))
    found = judge_case(case(), on, {"out": limits}, baseline(entry(**{metric.name: then})), ENVIRONMENT, Policy())
    return [finding.reason for finding in found.findings if finding.metric == metric.name]


@pytest.mark.parametrize(
    ("metric", "within", "beyond"),
    [(MORE_IS_BETTER, 20.0, 19.9), (LESS_IS_BETTER, 20.0, 20.1), (LESS_IS_BETTER, -30, 21)],
)
def test_a_bound_holds_in_the_direction_of_the_metric(metric, within, beyond):
    comparison_ = measured(within, metric)
    assert satisfies_bound(bound(metric.name, 20.0), comparison_.metrics[metric.name], (metric,))
    assert not satisfies_bound(bound(metric.name, 20.0), beyond, (metric,))
    limits = {"out": tolerance(**{metric.name: 20.0})}
    given = judge_case(case(), outcome(measured(beyond, metric)), limits, None, ENVIRONMENT, Policy())
    assert (given.reason, given.findings[0].metric) == (Reason.OUT_OF_TOLERANCE, metric.name)
    assert given.findings[0].fact.broken.at_least == (metric is MORE_IS_BETTER)


def test_a_bound_on_a_figure_that_is_absent_is_broken():
    absent = replace(comparison(), described=(LESS_IS_BETTER,))
    limits = {"out": tolerance(**{LESS_IS_BETTER.name: 1.0})}
    given = judge_case(case(), outcome(absent), limits, None, ENVIRONMENT, Policy())
    assert given.reason is Reason.OUT_OF_TOLERANCE
    assert given.findings[0].fact.broken.current is None


@pytest.mark.parametrize(
    ("metric", "now", "then", "found"),
    [
        (LESS_IS_BETTER, 1.2, 1.0, [Reason.REGRESSED]),
        (LESS_IS_BETTER, 1.05, 1.0, []),
        (LESS_IS_BETTER, 0.5, 1.0, []),
        (LESS_IS_BETTER, 0.1, 0.0, [Reason.REGRESSED]),
        (MORE_IS_BETTER, 50.0, 60.0, [Reason.REGRESSED]),
        (MORE_IS_BETTER, 58.0, 60.0, []),
        (MORE_IS_BETTER, 80.0, 60.0, []),
    ],
)
def test_growth_is_judged_in_the_direction_of_the_metric(metric, now, then, found):
    assert reasons(now, then, metric) == found


def test_the_direction_is_that_of_the_description():
    more, less = described_metric(MORE_IS_BETTER), described_metric(LESS_IS_BETTER)
    assert (metric_growth(more, 1.0, 3.0), allowed_ratio(more, 0.25)) == (2.0, 0.75)
    assert metric_growth(less, 1.0, 3.0) == -2.0


def test_an_unrelated_comparison_changes_no_verdict():
    limits = {"out": tolerance(**{MORE_IS_BETTER.name: 20.0})}
    on = outcome(measured(25.0, MORE_IS_BETTER))

    def judged():
        return judge_case(case(), on, limits, None, ENVIRONMENT, Policy())

    before = judged()
    assert before.reason is Reason.NEW
    measured(25.0, MORE_IS_BETTER._replace(better="lower"))
    assert judged() == before


def test_a_metric_that_the_baseline_lacks_may_be_accepted_though_no_bit_changed():
    as_before = outcome(*both_seeds(1.0, LESS_IS_BETTER), digests=("a0", "a1"))

    def may_accept(found):
        given = judge_case(case(), as_before, {"out": tolerance()}, found, ENVIRONMENT, Policy())
        assert given.reason is Reason.IDENTICAL
        return is_acceptable(case(), as_before, {"out": tolerance()}, found, ENVIRONMENT, given)

    assert may_accept(baseline())
    assert not may_accept(baseline(entry(**{LESS_IS_BETTER.name: 1.0})))
