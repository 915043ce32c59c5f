"""The summary on a terminal and in a log."""

from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from precreg.report.terminal import explain_result, render_brief, render_run_terminal
from precreg.types.outcome import Positions
from precreg.types.record import TEST_DEFINED_PREFIX
from precreg.types.verdict import Reason, Status
from precreg.types.warning import StoredText
from tests.report.golden import RECORD, WRITTEN, expected, settled
from tests.report.made import (
    CHANGED,
    LOOSENED,
    REMOVED,
    STATISTIC,
    UNUSED,
    comparison,
    crashed,
    improved,
    judged_by,
    nondeterministic,
    passed,
    proposed,
    regressed,
    road,
    run_of,
    skipped,
    verdict,
)


def test_the_golden_record_gives_the_golden_text():
    # The golden record has one fingerprint everywhere: that of the environment in which its baseline was accepted.
    seen = "seen      1 case gave the bits accepted in another environment: precreg baseline accept --seen\n"
    text = expected("terminal.txt").replace(seen, "")
    assert settled(render_run_terminal(RECORD, colour=False, reports=WRITTEN)) == settled(text)


def test_colour_adds_nothing_but_colour():
    coloured = render_run_terminal(RECORD, colour=True, reports=WRITTEN)
    assert click.unstyle(coloured) == render_run_terminal(RECORD, colour=False, reports=WRITTEN)
    assert coloured.count("\x1b[31m\x1b[1m") == 2  # FAILED, and the last line


def test_passed_cases_are_shown_when_asked_for():
    assert "float32-8x256" not in render_run_terminal(road(), colour=False)
    assert "passed   unit/row_sum/float32-8x256   identical\n" in render_run_terminal(
        road(), colour=False, verbosity="verbose"
    )


def of_suite(number, name="a", **changes):
    return regressed(name, suite=f"suite{number:02}", id=f"unit/suite{number:02}/{name}", **changes)


def larger(name, times):
    """Return a case whose error is so many times the baseline's."""
    finding = replace(STATISTIC, current=STATISTIC.baseline * times, ratio=times)
    return judged_by(finding, name)


def test_the_worst_twenty_groups_are_shown_and_the_others_counted():
    cases = [of_suite(number, name) for number in range(23) for name in ("a", "b")]
    text = render_run_terminal(run_of(*cases), colour=False)
    assert text.count("FAILED   ") == 20
    assert "... and 3 more groups of 6 cases in the report\n" in text
    one = render_run_terminal(run_of(*(of_suite(number) for number in range(21))), colour=False)
    assert "... and 1 more group of 1 case in the report\n" in one


def test_a_group_shows_its_worst_case_and_names_the_others():
    cases = [larger(f"n={number}", number + 1.5) for number in range(8)]
    text = render_run_terminal(run_of(*cases), colour=False)
    assert text.count("FAILED") == 1
    assert "FAILED   unit/row_sum/n=7   regressed   the worst of 8 cases, 8.5 x the baseline\n" in text
    assert (
        "         others    7 more of unit/row_sum, from 1.5 x the baseline: n=6, n=5, n=4, n=3, n=2 and 2 more\n"
        in text
    )


def test_a_verbose_summary_shows_every_case_in_full():
    cases = [larger(f"n={number}", number + 1.5) for number in range(30)]
    text = render_run_terminal(run_of(*cases, passed()), colour=False, verbosity="verbose")
    assert text.count("FAILED   ") == 30
    assert text.count("         suite     ") == 30
    assert "passed   unit/row_sum/float32-8x256   identical\n" in text
    assert "others    " not in text


def test_a_quiet_summary_has_a_line_for_each_group_and_the_exit_line():
    cases = [larger("a", 1.5), larger("b", 2.5), crashed("c"), crashed("d"), proposed("e"), passed()]
    assert render_run_terminal(run_of(*cases), colour=False, verbosity="quiet") == (
        "FAILED   unit/row_sum/b   regressed   the worst of 2 cases, 2.5 x the baseline\n"
        "ERROR    unit/row_sum/c   subject_error   the first of 2 cases\n"
        "PROPOSED unit/row_sum/e   new\n"
        "exit 1: 2 regressed, 2 errors\n"
    )
    calm = render_run_terminal(run_of(passed(), exit_code=0), colour=False, verbosity="quiet")
    assert calm == "exit 0: nothing regressed against the baselines\n"


def test_cases_without_a_baseline_are_one_paragraph_for_each_suite():
    text = render_run_terminal(run_of(*(proposed(f"n={number}") for number in range(7)), exit_code=2), colour=False)
    assert text.split("\n\n")[1] == (
        "PROPOSED 7 cases of unit/row_sum   new\n"
        "         no baseline in cpu-x86_64, cpu, generic\n"
        "         n=0, n=1, n=2, n=3, n=4 and 2 more"
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_width_and_no_word_is_cut(width):
    record = run_of(
        *(larger(f"n={number}", 2.0) for number in range(9)),
        crashed(),
        nondeterministic(),
        proposed(),
        improved(),
        findings=(LOOSENED, CHANGED, UNUSED, REMOVED),
        orphans=tuple(StoredText(f"unit/old/{i}") for i in range(7)),
    )
    wide = render_run_terminal(record, colour=False, reports=WRITTEN)
    text = render_run_terminal(record, colour=False, reports=WRITTEN, width=width)
    assert max(map(len, wide.splitlines())) > 120
    words = set(wide.split())
    beyond = [line for line in text.splitlines() if len(line) > width]
    # Only a word that is itself wider may be.
    assert not [line for line in beyond if len(line.split()) > 1]
    assert set(text.split()) - {"not", "shown", "at", "this", "width:"} <= words | {f"{word}," for word in words}


def test_a_narrow_terminal_loses_columns_and_names_them():
    text = render_run_terminal(run_of(judged_by(STATISTIC)), colour=False, width=80)
    assert "         output  metric          current  baseline  ratio  interval      allowed\n" in text
    assert "         not shown at this width: noise, rule\n" in text
    assert "interval      noise  allowed  rule\n" in render_run_terminal(
        run_of(judged_by(STATISTIC)), colour=False, width=120
    )


def test_a_long_id_stays_in_one_piece():
    result = regressed("x" * 90)
    text = render_run_terminal(run_of(result), colour=False, width=80)
    assert f"unit/row_sum/{'x' * 90}\n" in text


def scalar(actual, expected, seed=0, shape=()):
    worst = Positions([0], [actual], [expected])
    return replace(comparison(seed, 1.0, 1.0), shape=shape, reference_shape=shape, worst=worst)


def test_a_failed_scalar_shows_both_values_and_the_relative_error_of_its_worst_seed():
    compared = (scalar(2.5, 2.0, 0), scalar(2.0625, 2.0, 1))
    result = regressed()
    result = replace(result, outcome=replace(result.outcome, comparisons=compared))
    assert explain_result(result)[1] == "values    out: actual 2.5, expected 2, relative error 0.25 (seed 0)"
    of_one = replace(result.outcome, comparisons=(scalar(1e-3, 0.0, 7, (1, 1)),))
    assert explain_result(replace(result, outcome=of_one))[1] == (
        "values    out: actual 0.001, expected 0, absolute error 0.001 (seed 7)"
    )
    close = replace(result.outcome, comparisons=(scalar(0.1, 0.1 + 1e-12),))
    assert (
        "actual 0.1, expected 0.100000000001, relative error 1e-11" in explain_result(replace(result, outcome=close))[1]
    )
    none = replace(result.outcome, comparisons=(scalar("nan", 1.0),))
    assert explain_result(replace(result, outcome=none))[1] == "values    out: actual nan, expected 1.0 (seed 0)"
    assert not any(line.startswith("values") for line in explain_result(regressed()))


def test_the_time_is_that_of_the_whole_command():
    assert "\n1 passed in 0.31 s\n" in render_run_terminal(run_of(passed()), colour=False)
    assert "\n1 passed in 12.5 s\n" in render_run_terminal(run_of(passed()), colour=False, took_s=12.5)


def test_failures_are_looked_into_and_not_accepted():
    text = render_run_terminal(run_of(regressed(acceptable=True)), colour=False)
    assert "\nlook into precreg diagnose unit/row_sum/float16-8x256\n" in text
    assert "baseline accept" not in text
    for unmeasured in (crashed("c"), regressed(verdict=verdict(Reason.MISSING_OUTPUT, Status.FAILED))):
        text = render_run_terminal(run_of(unmeasured), colour=False)
        assert f"\nlook into precreg explain {unmeasured.id}\n" in text
    assert "look into" not in render_run_terminal(run_of(proposed(), passed(), exit_code=2), colour=False)


def test_nondeterminism_is_shown_from_where_it_starts():
    assert (
        "FAILED   unit/row_sum/stale-buffer   nondeterministic\n"
        "         starts in output 'partial' at [0, 37]: 12 of 512 elements differ, by at most 1.19e-07, "
        "between run 1 and 2 of seed 0\n"
        "         total: differs too: 1 of 1 elements differs, 1 of them NaN or infinite\n"
    ) in render_run_terminal(run_of(nondeterministic()), colour=False)


def test_an_error_shows_the_end_of_what_was_raised():
    text = render_run_terminal(run_of(crashed(), exit_code=2), colour=False)
    assert "ERROR    unit/row_sum/crashes   subject_error\n" in text
    assert "         ValueError: no\n" in text
    assert text.endswith("exit 2: 1 case could not be judged: 1 subject error\n")


def test_orphans_are_warned_of_and_many_are_counted():
    text = render_run_terminal(road(orphans=tuple(StoredText(f"unit/old/{i}") for i in range(7))), colour=False)
    assert (
        "warning   baselines without a case: unit/old/0, unit/old/1, unit/old/2, unit/old/3, unit/old/4 and 2 more"
        in text
    )


def test_improved_cases_are_named_and_may_be_accepted():
    text = render_run_terminal(run_of(improved(acceptable=True), exit_code=0), colour=False)
    assert "improved  unit/row_sum/better\n" in text
    assert "precreg baseline accept" in text


def test_only_what_is_proposed_may_be_accepted():
    for case in (proposed(acceptable=False), proposed(acceptable=True, baseline_id="unit/row_sum/other")):
        assert "precreg baseline accept" not in render_run_terminal(run_of(case), colour=False)
    assert "precreg baseline accept" in render_run_terminal(run_of(proposed(acceptable=True)), colour=False)


def test_ci_is_not_told_to_accept():
    assert "precreg baseline accept" not in render_run_terminal(
        run_of(proposed(acceptable=True), ci=True), colour=False
    )


def test_a_run_in_which_all_is_well_is_short():
    text = render_run_terminal(run_of(passed(), exit_code=0), colour=False, reports=[Path("reports/report.html")])
    assert text.splitlines()[1:] == [
        "",
        "1 passed in 0.31 s",
        "reports   reports/report.html",
        "exit 0: nothing regressed against the baselines",
    ]


def test_uncommitted_changes_and_a_missing_repository_are_said():
    dirty = road(git=replace(road().git, dirty=True))
    assert "commit 1a2b3c4d with uncommitted changes\n" in render_run_terminal(dirty, colour=False)
    assert "commit none\n" in render_run_terminal(road(git=None), colour=False)


def test_text_of_a_case_cannot_steer_the_terminal():
    case = crashed(detail="\x1b[2J\x1b]0;title\x07 all passed")
    assert "\x1b" not in render_run_terminal(run_of(case, proposed("\x1b[1mbold")), colour=False)


def test_tolerances_to_look_at_are_warned_of():
    warned = run_of(passed(), warnings=(StoredText("unit/s/a: rtol=1e-06 is below 1 ULP"),))
    shown = render_run_terminal(warned, colour=False)
    assert "warning   unit/s/a: rtol=1e-06 is below 1 ULP\n" in shown


def test_where_failures_are_shown_elsewhere_only_what_waits_is_listed():
    text = render_brief(road(), reports=WRITTEN)
    whole = render_run_terminal(road(), colour=False, reports=WRITTEN)
    assert "PROPOSED unit/row_sum/float16-16x64   new\n" in text
    assert "FAILED" not in text
    assert text.splitlines()[0] == whole.splitlines()[0]
    assert [line for line in whole.splitlines() if line.startswith(("reports", "accept"))] == [
        line for line in text.splitlines() if line.startswith(("reports", "accept"))
    ]
    assert "exit " not in text
    many = run_of(*(replace(proposed("a"), suite=f"suite{i:02}") for i in range(23)))
    assert "... and 3 more groups of 3 cases in the report\n" in render_brief(many, reports=())


def test_a_hand_written_test_is_not_called_a_suite_and_nothing_offers_to_explain_it():
    result = regressed(definition=f"{TEST_DEFINED_PREFIX}1:0")
    assert any(line.startswith("test      suites/") for line in explain_result(result))
    assert not any(line.startswith("suite") for line in explain_result(result))
    assert "look into" not in render_run_terminal(run_of(result), colour=False)
    assert "look into" in render_run_terminal(run_of(regressed()), colour=False)


def test_findings_on_the_run_follow_the_cases_worst_first():
    text = render_run_terminal(run_of(passed(), findings=(UNUSED, CHANGED, LOOSENED, REMOVED)), colour=False)
    assert text.split("\n\n")[1:] == [
        "FINDING  unit/row_sum/gone   case_removed\n"
        "         the case is gone, and its baseline judged it before\n"
        "FINDING  unit/row_sum/float16-8x256   bound_loosened   4 times\n"
        "         max_ulp may be 16 and could be 4\n"
        "         at        suites/unit/row_sum.yaml:14\n"
        "allowed  unit/row_sum/float32-8x256   baseline_changed   1.2 times\n"
        "         mean_abs_error was accepted at 1.2 times what it was\n"
        "         allowed   float16 sums from now on, see the decision of October\n"
        "told     baselines/allow.yaml   allowance_unused\n"
        "         entry 2 allows nothing any more",
        "1 passed in 0.31 s\n"
        "findings  2 binding, 1 allowed, 1 told\n"
        'allow     precreg allow --reason "WHY" adds these entries to the list in baselines/allow.yaml:\n'
        "          - case: unit/row_sum/gone\n"
        "            change: case_removed\n"
        "            reason: WHY\n"
        "          - case: unit/row_sum/float16-8x256\n"
        "            change: bound_loosened\n"
        "            reason: WHY\n"
        "exit 1: 2 findings on the run: 1 case_removed, 1 bound_loosened\n",
    ]


def test_a_finding_that_binds_is_red_and_no_other():
    text = render_run_terminal(run_of(passed(), findings=(LOOSENED, CHANGED, UNUSED)), colour=True)
    assert text.count(click.style("FINDING ", fg="red", bold=True)) == 1
    assert text.count("\x1b[31m") == 2  # and the last line
    assert click.unstyle(text) == render_run_terminal(
        run_of(passed(), findings=(LOOSENED, CHANGED, UNUSED)), colour=False
    )


def test_the_entries_to_add_are_bounded_and_the_others_counted():
    many = [replace(LOOSENED, about=f"unit/row_sum/{i:03}") for i in range(30)]
    text = render_run_terminal(run_of(passed(), findings=(*many, *many, CHANGED, UNUSED)), colour=False)
    assert text.count("          - case: unit/row_sum/0") == 5
    assert "            reason: WHY\n          # and 25 more\n" in text


def test_so_many_findings_are_shown_and_the_others_counted():
    many = [replace(LOOSENED, about=f"unit/row_sum/{i:03}") for i in range(30)]
    text = render_run_terminal(run_of(passed(), findings=(*many, UNUSED)), colour=False)
    assert text.count("FINDING  ") == 20
    assert "... and 10 binding, 1 told more in the report\n" in text


def test_findings_are_shown_where_failures_are_shown_elsewhere():
    assert "FINDING  unit/row_sum/gone" in render_brief(run_of(passed(), findings=(REMOVED,)), reports=())


def test_the_commit_that_judged_is_named():
    heading = render_run_terminal(run_of(passed(), against="0c1d2e3f4a5b"), colour=False).splitlines()[0]
    assert heading.endswith("commit 1a2b3c4d, against 0c1d2e3f")


def test_text_of_a_finding_cannot_steer_the_terminal():
    steering = replace(LOOSENED, about="\x1b[2Ja", message="\x1b]0;title\x07", allowed="\x1b[1m")
    assert "\x1b" not in render_run_terminal(run_of(findings=(steering,)), colour=False)


def test_figures_are_told_once_and_the_rule_with_them():
    assert explain_result(judged_by(STATISTIC))[:3] == [
        "out: mean_abs_error grew 4.9x over the baseline",
        "output  metric          current  baseline  ratio  interval      noise  allowed  rule",
        "out     mean_abs_error  0.1175   0.024     4.9    4.73 to 5.06  1.001  1.02     statistic",
    ]


def test_a_rule_without_figures_is_named():
    hard = replace(STATISTIC, message="its bits are not the baseline's", output="", metric="", rule="hard")
    assert explain_result(judged_by(hard))[1] == "rule      hard"


def test_cases_that_miss_the_same_are_one_line():
    missing = verdict(Reason.UNAVAILABLE, Status.SKIPPED, "needs torch, which is not installed")
    of_torch = [skipped(name, verdict=missing) for name in ("a", "b")]
    alone = skipped("on-npu")
    record = run_of(passed("good"), alone, *of_torch)
    lines = render_run_terminal(record, colour=False).splitlines()
    suite = f"{alone.tier}/{alone.suite}"
    assert f"SKIPPED  2 cases of {suite}   needs torch, which is not installed" in lines
    assert [line for line in lines if "SKIPPED" in line and "on-npu" in line]
    assert not [line for line in lines if f"{suite}/a" in line]
    every = render_run_terminal(record, colour=False, verbosity="verbose")
    assert f"SKIPPED  {suite}/a   unavailable" in every
    many = [skipped(f"case{number}", suite=f"suite{number:02}", verdict=missing) for number in range(12)]
    text = render_run_terminal(run_of(passed("good"), *many), colour=False)
    assert "SKIPPED  12 cases of" in text
    assert "suite07 and 4 more   needs torch" in text


def equal_errors(*names):
    """Return results of one suite whose errors have one message."""
    return [replace(crashed(name), id=f"unit/row_sum/{name}") for name in names]


def test_equal_errors_of_a_suite_are_one_group_with_names_and_the_number_of_the_others():
    names = [f"float32-{size}x{size}" for size in range(1000, 1040)]
    text = render_run_terminal(run_of(*equal_errors(*names), regressed("other")), colour=False)
    assert text.count("ERROR    ") == 1
    assert "ERROR    unit/row_sum/float32-1000x1000   subject_error   the first of 40 cases\n" in text
    [line] = [each.strip() for each in text.splitlines() if each.strip().startswith("others  ")]
    assert line == f"others    39 more of unit/row_sum: {', '.join(names[1:6])} and 34 more"
    assert "FAILED   unit/row_sum/other" in text


def test_an_error_alone_and_errors_with_other_messages_are_no_group():
    first, second = equal_errors("a", "b")
    other = replace(second, verdict=replace(second.verdict, message="another one"))
    text = render_run_terminal(run_of(first, other), colour=False)
    assert text.count("ERROR    unit/row_sum/") == 2
    assert "another one" in text
    assert "of 2 cases" not in text


def test_verbose_shows_every_error():
    text = render_run_terminal(run_of(*equal_errors("a", "b")), colour=False, verbosity="verbose")
    assert text.count("ERROR    unit/row_sum/") == 2
