"""docs/verdicts.md says how regressions are judged: its settings, rules, floors, examples are the program's."""

import re
from typing import get_args

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.arithmetic.formats import FORMATS
from precreg.measure.metrics import METRICS, baseline_metrics
from precreg.report.findings import describe_finding
from precreg.tolerance.pyramid import DEFAULT_GROWTHS, SHIPPED_LAYERS, resolve_tolerance
from precreg.types.outcome import Comparison
from precreg.types.record import BaselineOutput, Environment
from precreg.types.verdict import Reason, Rule
from precreg.verdict import regression as elsewhere
from precreg.verdict.judge import Policy, judge_case
from precreg.verdict.limits import (
    CORRECT_ROUNDING_ULP,
    MIN_ELEMENTS,
    ROUNDING_FLOOR_MAX_ULP,
    ROUNDING_FLOOR_ULP,
    SMALL_OUTPUT_RATIOS,
    growth_findings,
    rounding_floor,
)
from precreg.verdict.regression import (
    MIN_BASELINES,
    MIN_RELEVANT_BIAS_GROWTH,
    MIN_RELEVANT_GROUP_GROWTH,
    RUN_ALPHA,
    OutputEvidence,
    case_alpha,
    smallest_significant_ratio,
)
from precreg.verdict.statistics.ratios import INTERVAL_ALPHA, MEASURES, RARE_TESTS, TESTS_PER_OUTPUT, make_error_ratio
from precreg.verdict.statistics.uncertainty import (
    FEW_SAMPLES_ERROR_FACTOR,
    FEWER_SAMPLES_ERROR_FACTOR,
    MIN_SAMPLES,
    StandardError,
)
from tests.docs.test_docs import names, page, sections, table
from tests.verdict.drawn import FINGERPRINT, accepted, errors, outcome, tolerance
from tests.verdict.made import case

RULE = page("regression-rule.md", "regression-statistics.md")
PARTS = sections(RULE)


def flat(text):
    return " ".join(text.split())


def test_the_settings_are_the_shipped_ones():
    rows = table(RULE, "setting", "growth", "which allows")
    assert {row["setting"]: float(row["growth"]) for row in rows} == DEFAULT_GROWTHS
    for dtype in ("float16", "float32"):
        assert resolve_tolerance(SHIPPED_LAYERS, "out", dtype, ()).regression == DEFAULT_GROWTHS
    for row in rows:
        growth = float(row["growth"])
        wording = f"{growth:.0%} ".replace("%", " %") if growth < 1 else f"{1 + growth:g} times the baseline"
        assert row["which allows"].startswith(wording)


def test_the_rules_are_those_that_findings_name():
    assert {row["rule"] for row in table(RULE, "rule", "applies when")} < set(get_args(Rule))


def test_the_averages_are_those_that_are_judged():
    rows = table(PARTS["The statistic"], "metric", "in the scale of", "its ratio")
    assert [row["metric"] for row in rows] == [measure.metric for measure in MEASURES]
    for row in rows:
        assert (row["in the scale of"] == "the output") == (METRICS[row["metric"]].unit == "value")


def test_the_conditions_have_the_numbers_of_the_rule():
    text = flat(PARTS["The statistic"])
    assert "The level is 0.1 divided by" in text
    assert "32 at least" in text
    assert "wrong with 1 % at most" in text
    assert "above 1.02; for either bias above 1.2, for `rms_ulp` above 1.05" in text
    assert MIN_RELEVANT_GROUP_GROWTH == 0.05
    assert (RUN_ALPHA, MIN_BASELINES, INTERVAL_ALPHA, DEFAULT_GROWTHS["statistic"], MIN_RELEVANT_BIAS_GROWTH) == (
        0.1,
        32,
        0.01,
        0.02,
        0.2,
    )
    assert "divided by its outputs and by 10. Nine tests" in text
    assert "Five rare tests" in text
    assert (TESTS_PER_OUTPUT, RARE_TESTS) == (10, 5)
    assert "more than 1.5 times" in text
    assert "where it is more than 3 times" in text
    assert (FEWER_SAMPLES_ERROR_FACTOR, FEW_SAMPLES_ERROR_FACTOR) == (1.5, 3.0)
    assert "Where no sample has five units" in text
    assert MIN_SAMPLES == 5


def test_what_another_environment_explains():
    text = PARTS["Another environment"]
    rows = table(text, "formats of", "minimum relevant growth", "smallest growth", "a maximum may grow")
    assert [row["formats of"] for row in rows] == ["up to 11 significant bits", "more"]
    assert FORMATS["float16"].precision == elsewhere.MAX_NARROW_PRECISION == 11
    for row, dtype in zip(rows, ("float16", "float32"), strict=True):
        assert float(row["minimum relevant growth"]) == elsewhere.other_environment_growth(dtype)
        ulps = [float(number) for number in re.findall(r"[\d.]+(?= ULP)", row["smallest growth"])]
        assert ulps[0] == elsewhere.other_environment_ulp("mean_abs_error", dtype)
        assert all(
            ulps[-1] == elsewhere.other_environment_ulp(metric, dtype) for metric in ("rms_error", "mean_log2_ulp")
        )
    assert elsewhere.other_environment_maximum_factor("float16") == 1
    assert elsewhere.other_environment_maximum_factor("float32") * (1 + DEFAULT_GROWTHS["max_abs_error"]) == 8
    assert "8 times" in rows[1]["a maximum may grow"]
    assert f"off by {ROUNDING_FLOOR_ULP} ULP on average" in text


def test_what_noise_explains():
    given = outcome(errors)
    share = case_alpha(600) / TESTS_PER_OUTPUT
    output = OutputEvidence(given.comparisons, accepted(given).entry, tolerance(), "reference", True, share, ())
    rows = table(PARTS["The statistic"], "standard error", "noise alone")
    assert len(rows) == 5
    for row in rows:
        spread = make_error_ratio("out", "mean_abs_error", 0.1, StandardError(float(row["standard error"]), 3 * 16, 0))
        assert f"{smallest_significant_ratio(output, spread):.3f}" == row["noise alone"]


def test_the_message_of_the_page_is_what_is_said():
    """Errors drawn anew for a part of the elements, and a tenth larger."""
    shown = re.search(r"^```text\n(mean_abs_error grew .*)\n```$", RULE, re.MULTILINE)[1]
    here = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), FINGERPRINT, {})

    def larger(seed):
        redrawn = np.random.default_rng([seed, 5]).random((32, 48)) < 0.02
        return 1.1 * np.where(redrawn, errors(seed, draw=1), errors(seed))

    found = accepted(outcome(errors))
    verdict = judge_case(case(), outcome(larger, name="b"), {"out": tolerance()}, found, here, Policy(baselines=600))
    (said,) = (describe_finding(each) for each in verdict.findings if each.metric == "mean_abs_error")
    assert verdict.reason is Reason.REGRESSED
    assert re.sub(r"\d[\d.e-]*", "#", said) == re.sub(r"\d[\d.e-]*", "#", shown)


def test_the_floors_are_those_of_thresholds():
    text = PARTS["Thresholds and guards"]
    maxima = names(text.partition("for maxima (")[2].partition(")")[0])
    assert f"k = {ROUNDING_FLOOR_MAX_ULP:g} ULP for maxima" in text
    assert f"k = {ROUNDING_FLOOR_ULP:g} ULP for\neverything else" in text
    seeds = [comparison({"ulp_scale": scale, "mean_magnitude": 8.0}) for scale in (0.25, 0.75)]
    formulas = {row["unit of the metric"]: row["floor"] for row in table(text, "unit of the metric", "floor")}
    for name, metric in METRICS.items():
        is_relative = "rel_error" in name or name in ("mere", "mare", "diff1", "diff2")
        of_one = "1, relative errors, `mere`, `mare`, `diff1`, `diff2`" if is_relative else "1, shares and ratios"
        formula = formulas[of_one if metric.unit == "1" else metric.unit].replace("^", "**")
        k = ROUNDING_FLOOR_MAX_ULP if name in maxima else ROUNDING_FLOOR_ULP
        assert rounding_floor(seeds, metric) == eval(formula, {"k": k, "ulp_scale": 0.5, "mean_magnitude": 8.0}), name


def comparison(metrics, finite=1000):
    return Comparison("out", 0, "float16", (finite,), "float64", (finite,), metrics, {"finite": finite})


def test_the_example_of_a_threshold():
    text = flat(PARTS["Thresholds and guards"].partition("An example with")[2].partition("\n\n")[0])
    setting, scale, before, threshold, least, within, beyond = map(float, re.findall(r"0\.\d+", text))
    limits = replace(tolerance(), regression={"mean_abs_error": setting})
    then = BaselineOutput("float16", (1000,), ["digest"], {"mean_abs_error": [before]})

    def regressed(mean, finite=1000):
        seeds = [comparison({"mean_abs_error": mean, "ulp_scale": scale}, finite)]
        return [found.metric for found in growth_findings(seeds, then, limits, "reference")]

    assert threshold == pytest.approx(setting * before)
    assert least == pytest.approx(ROUNDING_FLOOR_ULP * scale)
    assert regressed(within) == []
    assert regressed(beyond) == ["mean_abs_error"]
    assert f"at least {MIN_ELEMENTS} finite pairs" in PARTS["Thresholds and guards"]
    assert regressed(beyond, MIN_ELEMENTS) == ["mean_abs_error"]
    assert regressed(beyond, MIN_ELEMENTS - 1) == []


def test_what_baselines_keep():
    kept = PARTS["What else holds"].partition("only these can have a threshold:")[2].partition(".")[0]
    assert tuple(names(kept)) == baseline_metrics()


def test_the_ratios_of_small_outputs():
    (row,) = table(PARTS["Small outputs"], "seeds", "1", "2", "3", "4", "5 or more")
    assert [float(row[seeds]) for seeds in ("1", "2", "3", "4", "5 or more")] == [*SMALL_OUTPUT_RATIOS]
    assert "1 to 15 elements" in PARTS["Small outputs"]
    assert (MIN_ELEMENTS, CORRECT_ROUNDING_ULP) == (16, 0.5)


def test_the_seeds_that_maxima_need():
    alpha = case_alpha(600) / TESTS_PER_OUTPUT / RARE_TESTS
    needed = next(seeds for seeds in range(99) if 0.5**seeds < alpha)
    assert f"needs {needed} seeds with 600 baselines" in flat(PARTS["Maxima"])
