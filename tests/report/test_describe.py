"""What all reports say of a case: order, tables, provenance, sentences."""

import pytest
from msgspec.structs import replace

from precreg.report import describe
from precreg.types.verdict import Finding, Reason, Status, Verdict
from tests.report.made import (
    CHANGED,
    LOOSENED,
    REMOVED,
    UNUSED,
    crashed,
    improved,
    passed,
    proposed,
    regressed,
    road,
    run_of,
    skipped,
    verdict,
)


def beyond_tolerance(name):
    return regressed(name, verdict=verdict(Reason.OUT_OF_TOLERANCE, Status.FAILED))


def with_ratio(name, ratio):
    case = regressed(name)
    return replace(case, verdict=replace(case.verdict, findings=(replace(case.verdict.findings[0], ratio=ratio),)))


def in_ci(name):
    return proposed(name, verdict=verdict(Reason.NEW, Status.FAILED, "no baseline"))


def test_worst_first():
    undefined = with_ratio("undefined", None)
    ordered = [undefined, with_ratio("nine", 9.0), with_ratio("two", 2.0), in_ci("new"), crashed(), proposed()]
    ordered += [skipped(), passed("a"), passed("b")]
    assert describe.sort_results(reversed(ordered)) == ordered


def test_counts_name_every_status_once_worst_first():
    record = run_of(passed("a"), skipped(), crashed("x"), crashed("y"), proposed(), regressed(), passed("b"))
    assert describe.describe_status_counts(record) == "1 failed, 2 errors, 1 proposed, 1 skipped, 2 passed"
    assert describe.describe_status_counts(run_of()) == "no cases"


def test_a_row_tells_a_factor_from_a_limit():
    grown = Finding(Reason.REGRESSED, "", "out", "rms_error", None, 0.1405, 0.0299, 4.699, 1.1)
    above = Finding(Reason.OUT_OF_TOLERANCE, "", "out", "max_ulp", 1, current=7.0, limit=4.0, ratio=1.75)
    below = Finding(Reason.OUT_OF_TOLERANCE, "", "out", "match_ratio", 0, current=0.999931, limit=0.999934)
    absent = Finding(Reason.OUT_OF_TOLERANCE, "", "out", "max_rel_error", 0, limit=0.5)
    assert describe.finding_rows(Verdict(Status.FAILED, Reason.REGRESSED, "", (grown, above, below, absent)), ()) == [
        ("out", "", "rms_error", "0.1405", "0.0299", "4.7", "", "", "1.1", ""),
        ("out", "1", "max_ulp", "7", "", "1.75", "", "", "<= 4", ""),
        ("out", "0", "match_ratio", "0.999931", "", "", "", "", ">= 0.999934", ""),
        ("out", "0", "max_rel_error", "undefined", "", "", "", "", "<= 0.5", ""),
    ]


def test_a_match_ratio_that_fell_is_held_against_the_baseline_itself():
    lost = Finding(Reason.REGRESSED, "", "w", "match_ratio", None, 0.99993, 1.0, 0.99993, limit=1.0)
    (row,) = describe.finding_rows(Verdict(Status.FAILED, Reason.REGRESSED, "", (lost,)), ())
    assert (row.current, row.baseline, row.ratio, row.allowed) == ("0.99993", "1", "0.99993", ">= 1")


def test_a_ratio_barely_above_what_is_allowed_does_not_look_like_it():
    barely = Finding(Reason.REGRESSED, "", "out", "rms_error", None, 1.10004, 1.0, 1.10004, 1.1)
    (row,) = describe.finding_rows(Verdict(Status.FAILED, Reason.REGRESSED, "", (barely,)), ())
    assert (row.ratio, row.allowed) == ("1.10004", "1.1")


def test_notes_are_the_findings_that_neither_the_sentence_nor_the_table_has():
    said = Finding(Reason.EMPTY, "no element", "out", seed=0)
    findings = (
        said,
        Finding(Reason.EMPTY, "no pair", "out", seed=1),
        Finding(Reason.EMPTY, "gone"),
        regressed_metric(),
    )
    assert describe.finding_notes(Verdict(Status.FAILED, Reason.EMPTY, "out: no element", findings)) == [
        "out, seed 1: no pair",
        "gone",
    ]


def regressed_metric():
    return regressed().verdict.findings[0]


def test_a_table_leaves_out_empty_columns_and_counts_what_it_leaves_out():
    rows = describe.finding_rows(regressed().verdict, ())
    assert describe.finding_table(rows) == [
        "output  metric          current  baseline  ratio  allowed",
        "out     mean_abs_error  0.1175   0.024     4.9    1.1",
        "out     rms_error       0.1405   0.0299    4.7    1.1",
    ]
    assert describe.finding_table(rows, max_rows=1)[1:] == [
        "out     mean_abs_error  0.1175   0.024     4.9    1.1",
        "and 1 more",
    ]
    assert describe.finding_table([]) == []


def test_provenance_names_the_files_and_why_the_baseline_was_accepted():
    assert describe.describe_provenance(regressed()) == [
        "baseline  baselines/generic/unit/row_sum.json, accepted 2026-11-02 at 0c1d2e3f: first version",
        "suite     suites/unit/row_sum.yaml:1",
    ]
    assert describe.describe_provenance(proposed()) == ["suite     suites/unit/row_sum.yaml:1"]


def test_provenance_has_the_facts_of_the_kinds_that_computed():
    result = regressed()
    execution = replace(
        result.outcome.execution,
        facts={"torch": "2.13.0", "accelerator": "cuda NVIDIA H100"},
        oracle_facts={"torch": "2.13.0", "device": "cpu"},
    )
    lines = describe.describe_provenance(replace(result, outcome=replace(result.outcome, execution=execution)))
    assert lines[1:] == [
        "suite     suites/unit/row_sum.yaml:1, on cuda NVIDIA H100",
        "facts     torch 2.13.0, accelerator cuda NVIDIA H100",
        "reference torch 2.13.0, device cpu",
    ]


def test_the_tail_of_a_failure_is_its_end_and_bounded():
    lines = describe.failure_tail(crashed(detail="\n".join(f"line {i}" for i in range(100))))
    assert lines[-1] == "line 99"
    assert len(lines) == describe.MAX_TAIL_LINES
    assert sum(map(len, describe.failure_tail(crashed(detail="x" * 9999)))) == describe.MAX_TAIL_CHARACTERS
    assert describe.failure_tail(passed()) == []


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        ((regressed(),), "1 case regressed against its baseline"),
        ((regressed("a"), regressed("b")), "2 cases regressed against their baselines"),
        ((regressed("a"), regressed("b"), crashed("c"), crashed("d")), "2 regressed, 2 errors"),
        ((regressed("a"), crashed("b")), "1 regressed, 1 error"),
        ((beyond_tolerance("a"), beyond_tolerance("b"), regressed()), "2 out of tolerance, 1 regressed"),
        ((regressed(), in_ci("new")), "1 regressed, 1 new"),
        ((crashed("a"), crashed("b"), proposed(), passed()), "3 cases could not be judged: 2 subject errors, 1 new"),
        ((passed(),), "nothing regressed against the baselines"),
        ((passed(), skipped()), "nothing regressed against the baselines; 1 case skipped"),
        ((skipped(),), "nothing was judged: 1 case skipped"),
        ((), "there was no case to judge"),
    ],
)
def test_one_sentence_says_why_the_exit_code_is_what_it_is(results, sentence):
    assert describe.run_exit_sentence(run_of(*results)) == sentence


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        (
            (regressed(),),
            "1 case regressed against its baseline; 2 findings on the run: 1 case_removed, 1 bound_loosened",
        ),
        (
            (crashed(),),
            "2 findings on the run: 1 case_removed, 1 bound_loosened; 1 case could not be judged: 1 subject error",
        ),
        ((passed(),), "2 findings on the run: 1 case_removed, 1 bound_loosened"),
        ((), "2 findings on the run: 1 case_removed, 1 bound_loosened"),
    ],
)
def test_findings_on_the_run_are_part_of_the_sentence_before_what_was_not_judged(results, sentence):
    assert describe.run_exit_sentence(run_of(*results, findings=(LOOSENED, REMOVED, CHANGED, UNUSED))) == sentence


def test_findings_that_do_not_bind_are_not():
    assert (
        describe.run_exit_sentence(run_of(passed(), findings=(CHANGED,))) == "nothing regressed against the baselines"
    )


def test_plain_leaves_out_what_could_move_a_cursor_or_turn_a_text_around():
    assert describe.strip_controls("a\x1b[2Jb\x00c\x9bd\u202ee\ud800f\uffff\r\n\tgé𝛼") == "a[2Jbcdef\n\tgé𝛼"


def test_improved_cases_are_named():
    assert describe.improved_cases(run_of(improved("b"), passed(), improved("a"))) == [
        "unit/row_sum/a",
        "unit/row_sum/b",
    ]


def test_the_commit_is_short_and_may_be_missing():
    assert describe.describe_commit(road().git) == "1a2b3c4d"
    assert describe.describe_commit(None) == "none"
