"""A new derived metric is one entry of the table: it is measured, kept, judged, calibrated and drawn."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.comparison.terminal import _short_list
from precreg.history.drift.record import DriftState
from precreg.measure import compare_arrays
from precreg.measure.metrics import METRICS, baseline_metrics, metrics_markdown, relative_errors
from precreg.quality.bounds import calibrated_bounds, propose_limit
from precreg.report.case_detail import describe_case
from precreg.tolerance.layers import read_thresholds
from precreg.tolerance.pyramid import limit_problem
from precreg.types.metric import Metric
from precreg.types.verdict import Reason
from precreg.verdict.judge import Policy, judge_case
from tests.history.drift.drawn import judged
from tests.report.made import proposed
from tests.verdict.made import ENVIRONMENT, baseline, case, comparison, entry, outcome, tolerance

NAME = "relative_rms_error"


def _over_the_mean(metrics):
    return metrics["rms_error"] / metrics["mean_magnitude"] if metrics.get("mean_magnitude") else None


@pytest.fixture(autouse=True)
def metric(monkeypatch):
    added = Metric(
        NAME,
        "1",
        "rms_error / mean |r|",
        "lower",
        "test",
        family="relative",
        aggregate="mean",
        kept=True,
        judged=True,
        views=("terminal",),
        derive=_over_the_mean,
    )
    monkeypatch.setitem(METRICS, NAME, added)
    return added


def measured(actual, reference):
    return compare_arrays(np.array(actual), np.array(reference), rtol=0.0, atol=0.0)


def test_it_is_measured_where_it_is_defined():
    assert measured([1.5, 3.0], [1.0, 3.0]).metrics[NAME] == pytest.approx(0.125**0.5 / 2)
    assert NAME not in measured([0.5], [0.0]).metrics


def test_baselines_keep_it():
    assert NAME in baseline_metrics()
    found = measured([1.5, 3.0], [1.0, 3.0])
    kept = entry_from(outcome(found, digests=("a",)), "", "").outputs[found.output]
    assert kept.metrics[NAME] == [found.metrics[NAME]]


def test_a_bound_and_a_growth_on_it_are_judged():
    now = outcome(*(replace(comparison(seed), metrics=comparison().metrics | {NAME: 0.3}) for seed in (0, 1)))
    bound = judge_case(case(), now, {"out": tolerance(**{NAME: 0.25})}, None, ENVIRONMENT, Policy())
    assert (bound.reason, bound.findings[0].metric) == (Reason.OUT_OF_TOLERANCE, NAME)
    grows = {"out": replace(tolerance(), regression={NAME: 0.1})}
    grown = judge_case(case(), now, grows, baseline(entry(**{NAME: 0.2})), ENVIRONMENT, Policy())
    assert [finding.metric for finding in grown.findings if finding.reason is Reason.REGRESSED] == [NAME]


def test_tolerances_know_it_and_the_limits_it_may_have():
    assert limit_problem(NAME, 0.1) is None
    assert limit_problem(NAME, -0.1) == "a finite number that is not negative"
    assert relative_errors()[-1] == NAME


def test_thresholds_may_bound_it():
    (layer,) = read_thresholds(f'{{"{NAME}": 0.1}}', looser=False)["unit"]
    assert layer.bounds == {NAME: 0.1}


def test_it_is_calibrated_as_a_relative_error():
    _, bound = calibrated_bounds(tolerance(**{NAME: 0.1}), comparison(), "reference")
    assert (bound.limit, bound.floor) == (0.1, 2.0**-24)
    assert propose_limit(bound, 0.011, 0.011, 2.0, "float32") == {NAME: 0.022}


def test_drift_in_it_is_found_as_in_any_relative_error():
    """A mean of relative errors is a guard: a few references near 0 decide it."""
    assert judged([0.2] * 10 + [0.9] * 3, metric=NAME).state is DriftState.DRIFT
    assert judged([0.2] * 10 + [0.21] * 3, metric=NAME).state is DriftState.STEADY
    assert judged([0.2] * 13, metric=NAME).state is DriftState.STEADY


def test_reports_show_it(metric):
    assert NAME in _short_list()
    one = proposed()
    shown = replace(one.outcome.comparisons[0], metrics=one.outcome.comparisons[0].metrics | {NAME: 0.25})
    on = replace(one, outcome=replace(one.outcome, comparisons=(shown,)))
    rows = describe_case(on)["outputs"][0]["metrics"]
    assert [row[:3] for row in rows if row[0] == NAME] == [[NAME, "", "0.25"]]
    assert f"| `{NAME}` | 1 | {metric.formula.replace('|', chr(92) + '|')} | lower | test |" in metrics_markdown()
