"""What the HTML report shows of one case."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.arithmetic import FORMATS, bit_fields, exact_round
from precreg.measure.metrics import METRICS
from precreg.report.case_context import (
    CaseContext,
    context_of,
    links_of,
    look_command,
    reproduce_command,
    search_commands,
)
from precreg.report.case_detail import describe_case, format_metric_ratio
from precreg.report.case_values import MAX_DETAIL_POSITIONS, hex_bits, ulp_distance
from precreg.types.case import Location
from precreg.types.diagnosis import OpaqueSubject
from precreg.types.outcome import ErrorGrid, Positions, unravel_index
from precreg.types.record import EarlierValue, MetricHistory, SourceLinks
from tests.report.causes.test_diagnosis import SWAPPED, diagnosis
from tests.report.made import crashed, improved, nondeterministic, passed, proposed, regressed, run_of


def with_comparisons(case, *changes):
    first = case.outcome.comparisons[0]
    comparisons = tuple(replace(first, seed=seed, **change) for seed, change in enumerate(changes))
    return replace(case, outcome=replace(case.outcome, comparisons=comparisons))


def output(case):
    (only,) = describe_case(case)["outputs"]
    return only


def test_metrics_are_means_over_the_seeds_beside_the_baselines():
    assert output(regressed())["metrics"] == [
        ["mean_abs_error", "value", "0.1175", "0.024", "4.9", "≤ 1.1 × baseline", "regressed"],
        ["rms_error", "value", "0.1405", "0.0299", "4.7", "≤ 1.1 × baseline", "regressed"],
        ["match_ratio", "", "1", "", "", "≥ 1", ""],
        ["bias", "value", "-0.05875", "", "", "", ""],
    ]


def test_only_as_many_seeds_are_compared_as_the_baseline_has():
    three = with_comparisons(regressed(), *({"metrics": {"rms_error": value}} for value in (1.0, 2.0, 600.0)))
    assert output(three)["metrics"] == [
        ["rms_error", "value", "1.5", "0.0299", "50.2", "≤ 1.1 × baseline", "regressed"]
    ]


def test_without_a_baseline_there_are_the_current_figures():
    assert output(proposed())["metrics"][0] == ["mean_abs_error", "value", "0.03", "", "", "≤ 1.1 × baseline", ""]


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
        ["1", "[1, 1]", "3", "1", "2", "2048", "0x4200", "0x3c00"],
        ["0", "[1, 2]", "1.5", "1", "0.5", "512", "0x3e00", "0x3c00"],
        ["0", "[0, 0]", "1.25", "1", "0.25", "256", "0x3d00", "0x3c00"],
    ]


def test_positions_are_bounded():
    many = Positions(list(range(100)), [2.0] * 100, [1.0] * 100)
    case = with_comparisons(regressed(), {"shape": (100,), "worst": many, "non_finite": many})
    assert len(output(case)["worst"]) == len(output(case)["nonFinite"]) == MAX_DETAIL_POSITIONS


def test_values_one_ulp_apart_look_different():
    near = Positions([0], [0.1], [float(np.nextafter(0.1, 1))])
    ((_, _, actual, reference, distance, *_),) = output(with_comparisons(regressed(), {"worst": near}))["worst"]
    assert float(actual) != float(reference)
    assert distance == "1.388e-17"


def test_values_that_json_has_no_number_for_stand_as_they_are():
    mixed = Positions([0, 1, 2], ["nan", 2**62 + 1, 1e308], [1.0, 2**62, -1e308])
    shown = output(with_comparisons(regressed(), {"non_finite": mixed, "worst": mixed}))
    assert shown["nonFinite"][0] == ["0", "[0]", "nan", "1.0", "0x7e00", "0x3c00"]
    assert sorted(row[4] for row in shown["worst"]) == ["", "", "1"]


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


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int32", "uint16", "complex64", "complex128"]
)
def test_bits_are_those_of_numpy(dtype):
    for value in (1, 3, 100) if "u" in dtype else (1, -2, 100):
        element = np.array(value, dtype)
        size = element.itemsize // (2 if element.dtype.kind == "c" else 1)
        parts = element.reshape(1).view(f"u{size}")
        text = str(element[()]) if element.dtype.kind == "c" else element.item()
        assert hex_bits(text, dtype) == " ".join(f"0x{int(part):0{2 * size}x}" for part in parts)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(value=st.floats(allow_nan=False), near=st.integers(-2, 2))
def test_bits_are_those_of_exact_arithmetic(dtype, value, near):
    format = FORMATS[dtype]
    # Ties and the ends of the normal numbers are as rare among all floats as they are hard.
    tie = float(np.float16(value if abs(value) < 1000 else 1.0)) * (1 + 2.0**-format.precision)
    for number in (
        value,
        tie,
        -0.0,
        *(end * (1 + near * 2.0**-52) for end in (format.smallest_normal, format.largest)),
    ):
        assert hex_bits(number, dtype) == bit_fields(exact_round(number, format), format).pattern


@pytest.mark.parametrize(
    ("value", "dtype"), [("1.5", "longdouble"), (1.5, "int8"), ("nan", "int8"), ("x", "complex64")]
)
def test_values_without_bits_in_the_dtype_have_none(value, dtype):
    assert hex_bits(value, dtype) == ""


def test_the_distance_in_ulp_is_exact():
    assert ulp_distance(float(np.nextafter(np.float32(0.1), 1)), float(np.float32(0.1)), "float32") == 1
    assert ulp_distance(3, 1, "int8") is None
    assert ulp_distance("nan", 1.0, "float32") is None
    value = np.complex64(0.1 + 0.3j)
    assert ulp_distance(str(value), str(np.complex128(value)), "complex64") == 0


def with_grid(*rows, largest=1.0):
    return with_comparisons(regressed(), {"shape": (4, 4), "error_map": ErrorGrid(largest, rows)})


def test_a_map_is_that_of_the_seed_with_the_largest_errors():
    grids = [ErrorGrid(0.5, ("ab",)), ErrorGrid(2.0, ("ba",))]
    shown = output(with_comparisons(regressed(), *({"error_map": grid} for grid in grids)))["map"]
    assert (shown["seed"], list(shown["rows"]), shown["shown"]) == (1, ["ba"], "2")
    assert output(regressed())["map"] is None


@pytest.mark.parametrize("rows", [(), ("ab", "a"), ("",), ("a" * 65,), ("a",) * 65])
def test_a_map_of_no_sensible_shape_is_left_out(rows):
    assert output(with_grid(*rows))["map"] is None


LINKS = SourceLinks("https://x.org/p/-/blob/{commit}/{path}#L{line}", "https://x.org/p/-/commit/{commit}")


def test_links_lead_to_the_suite_the_subject_and_the_commit():
    case = regressed(subject=Location("kernels/a b.py", 7))
    assert links_of(case, CaseContext("c0ffee", "sub", LINKS)) == [
        ["suite", "suites/unit/row_sum.yaml:1", "https://x.org/p/-/blob/c0ffee/sub/suites/unit/row_sum.yaml#L1"],
        ["subject", "kernels/a b.py:7", "https://x.org/p/-/blob/c0ffee/sub/kernels/a%20b.py#L7"],
        ["commit", "c0ffee", "https://x.org/p/-/commit/c0ffee"],
    ]
    assert [url for _, _, url in links_of(case, context_of(run_of(case)))] == ["", "", ""]


@pytest.mark.parametrize(
    "template", ["javascript:alert(1)//{path}", "//x.org/{path}", "data:text/html,{path}", "https:"]
)
def test_a_template_of_another_scheme_gives_no_link(template):
    assert links_of(regressed(), CaseContext("c0ffee", "", SourceLinks(template, template)))[0][2] == ""


def test_the_command_repeats_the_verdict():
    assert reproduce_command(regressed(), CaseContext()) == "precreg run unit/row_sum/float16-8x256"
    context = CaseContext(folder="a b", against="c0ffee")
    assert reproduce_command(regressed("[x] $y"), context) == (
        "precreg --project 'a b' run --against c0ffee 'unit/row_sum/[[]x] $y'"
    )
    assert reproduce_command(regressed(definition="pytest-1"), CaseContext()) == "pytest suites/unit/row_sum.yaml"


@pytest.mark.parametrize(
    ("values", "first", "words"),
    [
        ((0.01, 0.02, 0.1, None, 0.12), 2, "First bad: commit c2"),
        ((0.01, 0.1, 0.02), None, "This run is the first beyond the limit: the last of 3 runs before it was within."),
        ((0.1, 0.2), 0, "Already beyond the limit at the first run shown: commit c0"),
        ((None, 0.2), 1, "First bad: commit c1"),
        ((None,), None, "This run is the first"),
    ],
)
def test_the_first_bad_commit_begins_the_last_stretch_beyond_the_limit(values, first, words):
    earlier = tuple(EarlierValue(f"c{at}", f"2026-11-0{at + 1}", value) for at, value in enumerate(values))
    case = regressed(history=MetricHistory("out", "mean_abs_error", earlier, 0.03))
    shown = describe_case(case)["history"]
    assert shown["first"] == first
    assert words in shown["sentence"]
    assert shown["current"] == pytest.approx(0.1175)


def test_a_history_that_could_not_be_read_says_why():
    assert describe_case(regressed(), None, CaseContext(history_problem="no server"))["history"] == {
        "problem": "no server"
    }
    assert describe_case(regressed())["history"] is None


def test_the_commands_that_search_a_loss_fit_the_case():
    case = regressed("x[1]")
    assert search_commands(case, CaseContext()) == [
        "precreg diagnose 'unit/row_sum/x[[]1]'",
        "precreg trace 'unit/row_sum/x[[]1]'",
    ]
    found = regressed(diagnosis=diagnosis("found", SWAPPED))
    folder = CaseContext(folder="a b")
    assert search_commands(found, folder) == ["precreg --project 'a b' trace unit/row_sum/float16-8x256"]
    program = regressed("x[1]", opaque=OpaqueSubject("program", "c0ffee00deadbeef"))
    assert search_commands(program, folder) == [
        "precreg --project 'a b' bisect 'unit/row_sum/x[[]1]' --good c0ffee00 --bad ."
    ]
    assert look_command(program) == "precreg bisect 'unit/row_sum/x[1]' --good c0ffee00 --bad ."
    assert look_command(case) == "precreg diagnose 'unit/row_sum/x[1]'"
    training = regressed("x", opaque=OpaqueSubject("figures", arguments=("training", "a/train:make", "--advise")))
    assert search_commands(training, folder) == ["precreg --project 'a b' training a/train:make --advise"]
    assert look_command(training) == "precreg training a/train:make --advise"
    for unknown in (OpaqueSubject("program"), OpaqueSubject("recorded")):
        assert (search_commands(regressed(opaque=unknown), folder), look_command(regressed(opaque=unknown))) == ([], "")
    assert look_command(passed()) == look_command(crashed()) == ""
    for nothing_measured in (crashed(), passed(), nondeterministic(), regressed(definition="pytest-1")):
        assert search_commands(nothing_measured, CaseContext()) == []
