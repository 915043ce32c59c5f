"""What the HTML report shows of one case."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.measure.metrics import METRICS
from precreg.report.case_detail import MAX_DETAIL_POSITIONS, describe_case, format_metric_ratio, unravel_index
from precreg.types.outcome import Positions
from tests.report.made import crashed, improved, nondeterministic, passed, proposed, regressed


def with_comparisons(case, *changes):
    first = case.outcome.comparisons[0]
    comparisons = tuple(replace(first, seed=seed, **change) for seed, change in enumerate(changes))
    return replace(case, outcome=replace(case.outcome, comparisons=comparisons))


def output(case):
    (only,) = describe_case(case)["outputs"]
    return only


def test_metrics_are_means_over_the_seeds_beside_the_baselines():
    assert output(regressed())["metrics"] == [
        ["mean_abs_error", "value", "0.1175", "0.024", "4.9", "regressed"],
        ["rms_error", "value", "0.1405", "0.0299", "4.7", "regressed"],
        ["bias", "value", "-0.05875", "", "", ""],
        ["match_ratio", "", "1", "", "", ""],
    ]


def test_only_as_many_seeds_are_compared_as_the_baseline_has():
    three = with_comparisons(regressed(), *({"metrics": {"rms_error": value}} for value in (1.0, 2.0, 600.0)))
    assert output(three)["metrics"] == [["rms_error", "value", "1.5", "0.0299", "50.2", "regressed"]]


def test_without_a_baseline_there_are_the_current_figures():
    assert output(proposed())["metrics"][0] == ["mean_abs_error", "value", "0.03", "", "", ""]


def test_an_improved_metric_says_so():
    assert output(improved())["metrics"][0][-1] == "improved"


@pytest.mark.parametrize(
    ("metric", "current", "baseline", "text"),
    [
        ("rms_error", 3.0, 2.0, "1.5"),
        ("rms_error", 3.0, 0.0, ""),
        ("rms_error", None, 2.0, ""),
        ("bias", -1.0, 2.0, "0.5"),
        ("mean_log2_ulp", -1.0, -2.0, "2"),
    ],
)
def test_a_ratio_is_given_where_it_says_something(metric, current, baseline, text):
    assert format_metric_ratio(METRICS[metric], current, baseline) == text


def test_tolerances_name_the_layer_and_the_line_that_set_them():
    assert output(regressed())["tolerance"] == [
        ["rtol", "0.01", "suite float16", "suites/unit/row_sum.yaml:14"],
        ["atol", "1e-05", "shipped", "precreg:standards/torch-2.13"],
        ["match_ratio", "≥ 1", "shipped", "precreg:standards/torch-2.13"],
        ["mean_abs_error", "≤ 1.1 × baseline", "", ""],
        ["rms_error", "≤ 1.1 × baseline", "", ""],
    ]


def test_a_share_may_fall_to_a_ratio_where_an_error_may_grow_to_one():
    case = regressed()
    shares = replace(case.tolerances["out"], regression={"equal_share": 0.25})
    assert output(replace(case, tolerances={"out": shares}))["tolerance"][-1][:2] == [
        "equal_share",
        "≥ 0.75 × baseline",
    ]


def test_histograms_of_the_seeds_are_one_beside_the_baselines():
    shown = output(regressed())
    assert shown["errors"] == {"zeros": 0, "bins": [4092, 4096], "counts": [6, 10]}
    assert shown["accepted"] == {"zeros": 1, "bins": [4080, 4084], "counts": [7, 8]}
    assert output(proposed())["accepted"] is None


def test_the_worst_positions_of_all_seeds_come_first():
    one = Positions([5, 0], [1.5, 1.25], [1.0, 1.0])
    other = Positions([4], [3.0], [1.0])
    case = with_comparisons(regressed(), *({"shape": (2, 3), "worst": worst} for worst in (one, other)))
    assert output(case)["worst"] == [
        ["1", "[1, 1]", "3", "1", "2"],
        ["0", "[1, 2]", "1.5", "1", "0.5"],
        ["0", "[0, 0]", "1.25", "1", "0.25"],
    ]


def test_positions_are_bounded():
    many = Positions(list(range(100)), [2.0] * 100, [1.0] * 100)
    case = with_comparisons(regressed(), {"shape": (100,), "worst": many, "non_finite": many})
    assert len(output(case)["worst"]) == len(output(case)["nonFinite"]) == MAX_DETAIL_POSITIONS


def test_values_one_ulp_apart_look_different():
    near = Positions([0], [0.1], [float(np.nextafter(0.1, 1))])
    ((_, _, actual, reference, distance),) = output(with_comparisons(regressed(), {"worst": near}))["worst"]
    assert float(actual) != float(reference)
    assert distance == "1.388e-17"


def test_values_that_json_has_no_number_for_stand_as_they_are():
    mixed = Positions([0, 1, 2], ["nan", 2**62 + 1, 1e308], [1.0, 2**62, -1e308])
    shown = output(with_comparisons(regressed(), {"non_finite": mixed, "worst": mixed}))
    assert shown["nonFinite"][0] == ["0", "[0]", "nan", "1.0"]
    assert sorted(row[-1] for row in shown["worst"]) == ["", "", "1"]


@given(st.lists(st.integers(1, 5), max_size=4))
def test_indices_are_numpys(shape):
    for index in range(int(np.prod(shape, dtype=int))):
        assert unravel_index(index, shape) == [int(along) for along in np.unravel_index(index, shape)]


def test_a_scalar_has_no_index():
    assert unravel_index(0, ()) == []


def test_the_heat_of_seeds_is_their_mean():
    case = with_comparisons(regressed(), {"heat": [1.0, 3.0]}, {"heat": [2.0, 5.0]})
    assert output(case)["heat"] == ["1.5", "4"]
    assert output(regressed())["heat"] == []


def test_digests_stand_beside_the_baselines():
    assert describe_case(regressed())["digests"] == [
        ["inputs", "0", "5e0a…", "5e0a…"],
        ["inputs", "1", "77b1…", "77b1…"],
        ["out", "0", "cc01…", "aa01…"],
        ["out", "1", "cc02…", "aa02…"],
    ]


def test_who_accepted_the_baseline_when_and_why():
    facts = dict(describe_case(regressed())["baseline"])
    assert facts["accepted"] == "2026-11-02 by Ada <ada@example.org> at 0c1d2e3f"
    assert facts["reason"] == "first version"


def test_a_failure_has_its_traceback_and_no_outputs():
    shown = describe_case(crashed(detail="Traceback"))
    assert (shown["failure"], shown["outputs"], shown["baseline"]) == ("Traceback", [], [])


def test_an_output_without_tolerance_or_measurements_is_shown_all_the_same():
    empty = {"metrics": {}, "counts": {}, "worst": None, "histogram": None, "shape": (), "reference_shape": (3,)}
    shown = output(replace(with_comparisons(passed(), empty), tolerances={}))
    assert [shown[name] for name in ("metrics", "counts", "tolerance", "worst", "nonFinite", "heat")] == [[]] * 6
    assert shown["about"] == "float16 against float64, shape scalar, 1 seed"


def test_tables_hold_text_alone():
    for case, name in product((regressed(), proposed(), passed()), ("metrics", "counts", "tolerance", "worst")):
        assert all(isinstance(cell, str) for row in output(case)[name] for cell in row)


def test_where_repeats_differ_is_a_table():
    assert describe_case(nondeterministic())["repeats"] == [
        ["partial", "0", "1 and 2", "[0, 37]", "12 of 512", "", "1.19e-07"],
        ["total", "0", "1 and 2", "[]", "1 of 1", "1", ""],
        ["rest", "1", "1 and 3", "", "", "", ""],
    ]
    assert describe_case(passed())["repeats"] == []
