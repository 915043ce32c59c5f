"""What `precreg compare` prints, from records alone."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from precreg.comparison.summary import advise_pair
from precreg.comparison.terminal import MAX_FAILURES, render_comparison_terminal
from precreg.measure.comparison import add_benchmark
from precreg.types.comparison import ExecutionOrder, SomeNames
from precreg.types.pair import AverageRatio, BenchmarkDifference
from precreg.types.verdict import Finding, Reason
from precreg.types.warning import StoredText
from tests.comparison.made import everything, failed, identical, missing, passed, record_of, reshaped


def lines(*pairs, **changes):
    return render_comparison_terminal(record_of(*pairs, **changes), colour=False).splitlines()


def test_one_pair_shows_its_figures_with_what_is_allowed():
    text = lines(passed())
    assert text[0] == "precreg 0.1.0: a against the reference r"
    assert text[2] == "float16 against float64, shape 4×6×10"
    row = next(line.split() for line in text if line.startswith("match_ratio"))
    assert row[1:] == ["1", ">=", "1"]
    assert "passed   layer0/out   within_tolerance" in text


def test_one_pair_shows_where_it_is_worst():
    text = lines(failed())
    worst = text[next(index for index, line in enumerate(text) if line.startswith("worst positions")) + 1]
    assert worst.startswith("[")
    assert worst.count(",") == 2
    one_sided = next(index for index, line in enumerate(text) if line.startswith("NaN or infinity on one side")) + 1
    assert text[one_sided].split()[:4] == ["[3,", "5,", "9]", "nan"]
    assert any("1 nan_mismatched" in line for line in text)


def test_a_pair_that_failed_is_given_advice_after_its_verdict():
    text = lines(failed())
    verdict = next(index for index, line in enumerate(text) if line.startswith("FAILED"))
    said = advise_pair(failed())
    assert said
    assert [f"advice   {each}" for each in said] == [line for line in text[verdict:] if line.startswith("advice")]
    assert "advice" not in "\n".join(lines(replace(failed(), verdict=passed().verdict)))


def test_positions_beyond_those_that_are_shown_are_counted():
    text = lines(failed())
    shown = len(record_of(failed()).pairs[0].comparison.worst.index)
    assert f"and {shown - 10} more in the record" in text


def test_a_benchmark_has_a_column():
    pair = replace(passed(), benchmark=failed().comparison)
    header = next(line for line in lines(pair) if line.startswith("metric"))
    assert header.split() == ["metric", "value", "benchmark", "unit", "allowed"]
    assert "benchmark" not in next(line for line in lines(passed()) if line.startswith("metric"))


def beside(pair):
    """Return a pair with a benchmark that is nearly exact, and with the ratios to it."""
    other = replace(failed().comparison, metrics={**failed().comparison.metrics, "mare": 1e-7})
    return replace(pair, comparison=add_benchmark(pair.comparison, other), benchmark=other)


def test_a_ratio_shows_what_it_divides_by_and_a_floor_is_named():
    bound = replace(passed().tolerance.bounds[0], metric="floored_mare_ratio", limit=10.0)
    pair = replace(beside(passed()), tolerance=replace(passed().tolerance, bounds=(bound,)))
    rows = {line.split()[0]: line.split() for line in lines(pair) if line}
    assert rows["mare_ratio"][2:] == ["1e-07", "benchmark"]
    assert rows["floored_mare_ratio"][2:] == ["0.0004883", "(floor)", "benchmark", "<=", "10"]
    # Nobody asked for the others.
    assert "floored_mere_ratio" not in rows


def test_the_nearer_side_is_told():
    ratio = AverageRatio("mean_abs_error", 1.58e-7, 1e-7, 1.58, 1.5, 1.66)
    pair = replace(beside(passed()), difference=BenchmarkDifference("benchmark", (ratio,)))
    assert lines(pair)[-3].strip() == (
        "worse than the benchmark: mean_abs_error is 1.58 times the benchmark's "
        "(1.58e-07 against 1e-07, between 1.5 and 1.66)"
    )
    same = replace(passed("layer2/out"), difference=BenchmarkDifference("same_bits"))
    shown = replace(passed("layer3/out"), difference=BenchmarkDifference("none", (ratio,)))
    text = lines(pair, same, shown, passed())
    assert "against the benchmark: 1 worse, 1 with the same bits, 1 without a difference shown" in text


@pytest.mark.parametrize(
    ("nearer", "ratios", "sentence"),
    [
        (
            "benchmark",
            (
                AverageRatio("mean_abs_error", 1e-14, 0.0, None),
                AverageRatio("mean_log2_ulp", 5.0, -2.0, 128.0, 127.0, 129.0),
            ),
            "worse than the benchmark: mean_abs_error is 1e-14, the benchmark's 0",
        ),
        (
            "actual",
            (
                AverageRatio("mean_abs_error", 0.0, 1e-14, 0.0),
                AverageRatio("mean_log2_ulp", -2.0, 5.0, 0.0078, 0.0077, 0.0079),
            ),
            "better than the benchmark: mean_abs_error is 0, the benchmark's 1e-14",
        ),
        (
            "unknown",
            (AverageRatio("mean_abs_error", 0.362, 0.001, 362.0),),
            "mean_abs_error is 362 times the benchmark's (0.362 against 0.001), "
            "without an interval: fewer than 5 groups of elements",
        ),
    ],
)
def test_a_side_without_errors_or_without_an_interval_is_described_by_its_errors(nearer, ratios, sentence):
    pair = replace(beside(passed()), difference=BenchmarkDifference(nearer, ratios))
    assert sentence in [line.strip() for line in lines(pair)]


def test_a_ratio_to_a_benchmark_without_errors_is_infinite():
    bound = replace(passed().tolerance.bounds[0], metric="mare_ratio", limit=10.0)
    pair = passed()
    exact = replace(pair.comparison, metrics={**pair.comparison.metrics, "mare": 0.0})
    pair = replace(
        pair,
        tolerance=replace(pair.tolerance, bounds=(bound,)),
        comparison=add_benchmark(pair.comparison, exact),
        benchmark=exact,
    )
    row = next(line.split() for line in lines(pair) if line.startswith("mare_ratio"))
    assert row[1:] == ["infinite", "0", "benchmark", "<=", "10"]


def test_a_bound_on_what_is_not_defined_is_shown_as_such():
    bound = replace(passed().tolerance.bounds[0], metric="max_rel_error", limit=1.0)
    pair = passed()
    metrics = {name: value for name, value in pair.comparison.metrics.items() if name != "max_rel_error"}
    pair = replace(
        pair,
        tolerance=replace(pair.tolerance, bounds=(bound,)),
        comparison=replace(pair.comparison, metrics=metrics),
    )
    row = next(line.split() for line in lines(pair) if line.startswith("max_rel_error"))
    assert row[1:] == ["undefined", "<=", "1"]


@pytest.mark.parametrize("pair", [missing(), reshaped()])
def test_one_pair_that_could_not_be_measured_says_why(pair):
    text = lines(pair)
    assert f"         {pair.verdict.message}" in text
    assert not any(line.startswith("worst positions") for line in text)


def test_many_pairs_show_those_that_failed_worst_first():
    mild, bad = failed("mild", ratio=1.5), failed("bad", ratio=9.0)
    text = lines(passed(), mild, missing("gone"), bad, identical())
    table = [line.split()[1] for line in text if line.startswith("FAILED")]
    assert table == ["gone", "bad", "mild"]
    assert "3 failed, 2 passed in 1.25 s" in text
    assert text[-1].startswith("exit 1: 3 of 5 pairs fail")


def test_many_failures_are_counted():
    text = lines(*(failed(f"layer{number:02}") for number in range(MAX_FAILURES + 3)))
    assert sum(line.startswith("FAILED") for line in text) == MAX_FAILURES
    assert "and 3 more" in text


def test_where_nothing_was_compared_it_says_why():
    finding = Finding(Reason.MISSING_OUTPUT, "nothing was compared: no name is on both sides")
    text = lines(findings=(finding,), exit_code=2)
    assert text[-1] == "exit 2: nothing was compared: no name is on both sides"


def test_warnings_and_files_are_named():
    text = render_comparison_terminal(everything(), colour=False, written=[Path("r.html")]).splitlines()
    assert "warning   rtol 1e-3 is below the unit roundoff of float16" in text
    assert "written   r.html" in text
    many = lines(passed(), warnings=tuple(StoredText(f"w{number}") for number in range(8)))
    assert "warning   and 3 more in the record" in many


def test_colour_adds_nothing_but_colour():
    for record in (everything(), record_of(passed()), record_of(failed())):
        coloured = render_comparison_terminal(record, colour=True)
        assert click.unstyle(coloured) == render_comparison_terminal(record, colour=False)
        assert "\x1b[" in coloured


def test_a_name_is_one_line_of_bounded_length():
    text = lines(failed("new\nexit 0: fine"), failed("deep/" * 40 + "layer0"))
    assert not any(line.startswith("exit 0") for line in text)
    assert max(map(len, text)) < 130
    assert any("deep/layer0  " in line for line in text)


def test_nothing_reaches_a_terminal_that_should_not():
    assert "\x1b" not in render_comparison_terminal(record_of(passed("\x1b[31mred"), failed("\x1b]0;x")), colour=False)


def test_the_first_failing_pair_is_named_in_order():
    text = lines(passed("l.0"), failed("l.1", ratio=1.5), failed("l.2", ratio=9.0))
    (first,) = [line for line in text if line.startswith("first failing")]
    assert first.startswith("first failing: l.1 (2 of 3 in order): out_of_tolerance, match_ratio ")
    # The list of failures has the worst first.
    assert [line.split()[1] for line in text if line.startswith("FAILED")] == ["l.2", "l.1"]


def test_an_absent_array_does_not_hide_the_first_wrong_values():
    text = "\n".join(lines(missing("l.0"), passed("l.1"), failed("l.2")))
    assert "first failing: l.0 (1 of 3 in order): missing_output" in text
    assert "first failing by its values: l.2: out_of_tolerance" in text


def test_a_group_stands_for_its_pairs_in_the_list():
    text = lines(*(missing(f"gone.{number}") for number in range(30)), failed("l.1"))
    assert [line.split()[1] for line in text if line.startswith("FAILED")] == ["l.1"]
    assert any(line.startswith("30     missing_output") and "gone.0, gone.1" in line for line in text)


def test_the_source_of_the_order_is_named_with_all_that_it_misses():
    order = ExecutionOrder("file", ("o.txt",), SomeNames(("x", "y", "z"), 4), SomeNames(("l.9",)))
    assert (
        "order     the order of o.txt; 1 array is not in it and comes last, by name (l.9); "
        "7 names of it match no array (x, y, z and 4 more)"
    ) in lines(passed("l.1"), passed("l.9"), order=order)
    assert "order     by name, numbers by value" in lines(passed("a"), passed("b"))


def test_without_a_failure_the_level_of_the_error_is_named():
    assert "no lasting rise of the error beyond 4 times the median before, in 2 pairs" in lines(
        passed("a"), passed("b")
    )


def test_the_curve_has_a_line_a_pair_with_its_tolerance():
    text = lines(passed("l.0"), passed("l.1"), failed("l.2"))
    rows = {line.split()[0]: line for line in text if line.startswith("l.")}
    assert [*rows] == ["l.0", "l.1", "l.2"]
    assert rows["l.0"].count("*") == rows["l.0"].count("|") == 1
    assert rows["l.0"].index("*") < rows["l.0"].index("|")
    # The failing pair has a larger error, further to the right.
    assert rows["l.2"].index("X") > rows["l.0"].index("*")


def test_a_curve_of_many_pairs_stays_short():
    text = lines(*(passed(f"l.{number}") for number in range(1000)))
    assert len(text) < 30
    assert any(line.startswith("l.0 and 61 after it") for line in text)


def test_regressions_are_listed_in_order_with_what_was_not_compared():
    settings = replace(record_of().settings, benchmark="old")
    old = passed().comparison
    worse = Finding(Reason.REGRESSED, "m", metric="rms_error", current=3e-3, baseline=1e-3, ratio=3.0)
    regressed = replace(passed("l.7"), benchmark=old, benchmark_path="b", regressed=(worse,))
    later = replace(regressed, name="l.9")
    kept = replace(passed("l.1"), benchmark=old, benchmark_path="b")
    text = lines(kept, regressed, later, passed("l.8"), missing("l.2"), settings=settings)
    rows = [line.split() for line in text if "rms_error" in line]
    assert rows == [[name, "rms_error", "0.001", "0.003", "3"] for name in ("l.7", "l.9")]
    assert (
        "2 of 3 pairs regressed against the benchmark, the first in order is l.7; with --regression they fail" in text
    )
    assert "not compared with the benchmark: 1 without a benchmark, 1 not measured themselves" in text
    judging = lines(kept, regressed, settings=replace(settings, regression=True))
    assert "1 of 2 pairs regressed against the benchmark, the first in order is l.7" in judging


LONG = "encoder.layers.11.self_attention.output"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_fit_the_width_of_the_terminal(width):
    pairs = [failed(f"layer{number:02}.{LONG}", ratio=1.5 + number, seed=number) for number in range(25)]
    record = record_of(*pairs, missing(f"gone.{LONG}"), reshaped(), exit_code=1)
    text = render_comparison_terminal(record, colour=False, width=width)
    assert not [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1]
    # The curve keeps a mark a line, and the part of a name that differs.
    assert len([line for line in text.splitlines() if line.endswith(".") and "X" in line]) >= 8
    assert "layer00" in text
    coloured = render_comparison_terminal(record, colour=True, width=width)
    assert click.unstyle(coloured) == text


def test_a_quiet_comparison_has_a_line_for_each_failing_pair():
    record = record_of(failed("b"), passed(), missing("a"), exit_code=1)
    text = render_comparison_terminal(record, colour=False, quiet=True).splitlines()
    assert text[:2] == ["FAILED   a   missing_output", "FAILED   b   out_of_tolerance"]
    assert len(text) == 3
    assert text[2].startswith("exit 1: ")
    many = record_of(*(failed(f"layer{number:02}") for number in range(MAX_FAILURES + 3)), exit_code=1)
    assert "... and 3 more" in render_comparison_terminal(many, colour=False, quiet=True)


def test_the_summary_imports_neither_the_page_nor_the_runs_of_cases():
    names = "plan_comparison, compare_pairs, finish_comparison, render_comparison_terminal"
    code = f"import sys; from precreg.comparison import {names}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert {"precreg.comparison.terminal", "precreg.run.workers.place"} <= imported
    heavy = {"precreg.comparison.html", "precreg.report.html", "precreg.run.pipeline", "precreg.vcs.dependency"}
    assert not heavy & imported
