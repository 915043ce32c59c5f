"""summary.md: as GitLab's and GitHub's Markdown read it."""

import re

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from precreg.report.summaries import escape_markdown, markdown_code, render_run_markdown
from precreg.types.warning import StoredText
from tests.report.golden import RECORD, expected
from tests.report.made import (
    CHANGED,
    LOOSENED,
    REMOVED,
    STATISTIC,
    UNUSED,
    crashed,
    improved,
    judged_by,
    nondeterministic,
    passed,
    regressed,
    road,
    run_of,
)

HOSTILE = ["a|b", "`a`", "``", "|`|", "<script>alert(1)</script>", "a\nb", "[a](javascript:b)", "**a**", "\\|", "&lt;"]

FOLDED = re.compile(r"<details><summary>[^<]*</summary>\s*|</details>\s*")


def cells(markdown):
    """Return the text of every cell, row by row, as a Markdown parser reads the table."""
    rows, row = [], None
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown):
        if token.type == "inline":
            assert not {child.type for child in token.children} & {"html_inline", "link_open", "strong_open"}
        # Folded details have no other markup than these two elements and their summary.
        assert token.type != "html_block" or re.fullmatch(
            r"<details><summary>[^<]*</summary>\s*|</details>\s*", token.content
        )
        if token.type == "tr_open":
            rows.append(row := [])
        elif token.type == "table_close":
            row = None
        elif token.type == "inline" and row is not None:
            row.append("".join(child.content for child in token.children))
    return rows


def test_the_golden_record_gives_the_golden_text():
    assert render_run_markdown(RECORD) == expected("summary.md")


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text_in_its_own_cell(text):
    case = regressed(text)
    findings = tuple(replace(finding, output=text) for finding in case.verdict.findings)
    (_, row) = cells(render_run_markdown(run_of(replace(case, verdict=replace(case.verdict, findings=findings)))))
    assert len(row) == 9
    assert row[1] == f"unit/row_sum/{text}".replace("\n", " ")
    assert row[3] == text.replace("\n", " ")


def test_code_is_fenced_by_more_backticks_than_it_has():
    assert (markdown_code("a"), markdown_code("a`b"), markdown_code("``")) == ("`a`", "`` a`b ``", "``` `` ```")


def test_metric_names_stay_readable_in_the_source():
    assert escape_markdown("mean_abs_error") == "mean_abs_error"


def test_the_worst_fifty_and_a_count():
    text = render_run_markdown(run_of(*(regressed(f"{i:03}", suite=f"s{i}") for i in range(60))))
    assert text.count("| failed |") == 50
    assert "\n\nAnd 10 cases more in the report.\n" in text


def test_failures_of_one_suite_are_one_row_with_folded_details():
    text = render_run_markdown(run_of(*(regressed(f"{i:03}") for i in range(60))))
    ((_, row), *_) = [cells(text)]
    assert row[1] == "unit/row_sum/000 and 59 more"
    assert "<details><summary>60 cases of unit/row_sum: regressed, 4.9 x the baseline</summary>" in text
    assert "- compared with: commit 0c1d2e3f (accepted 2026-11-02)\n" in text
    assert "- reproduce: `precreg run unit/row_sum/000`\n" in text
    assert "- look into: `precreg diagnose unit/row_sum/000`\n" in text
    assert "`unit/row_sum/010` and 49 more\n" in text


def test_a_note_has_a_useful_size_however_many_groups_fail():
    text = render_run_markdown(run_of(*(regressed(f"{i:04}" * 20, suite=f"s{i}") for i in range(2000))))
    assert len(text) < 100_000
    left = int(re.search(r"\nDetails of (\d+) more groups are in the report\.\n", text)[1])
    assert text.count("<details>") == 2000 - left


def test_improved_cases_and_orphans_are_named():
    text = render_run_markdown(run_of(improved(), passed(), orphans=(StoredText("unit/old/x"),)))
    assert "Improved: `unit/row_sum/better`." in text
    assert "Baselines without a case: `unit/old/x`." in text
    assert "|" not in text


def test_a_case_without_figures_has_empty_cells():
    assert cells(render_run_markdown(run_of(crashed())))[1] == [
        "error",
        "unit/row_sum/crashes",
        "subject_error",
        *[""] * 6,
    ]


def test_a_run_outside_git_says_so():
    assert "no commit" in render_run_markdown(road(git=None))


def test_the_place_where_repeats_first_differ_stands_with_the_reason():
    (_, row) = cells(render_run_markdown(run_of(nondeterministic())))
    assert row[2].startswith(
        "nondeterministic: starts in output 'partial' at [0, 37]: 12 of 512 elements differ, by at"
    )


def test_findings_on_the_run_are_a_table_of_their_own():
    text = render_run_markdown(run_of(passed(), findings=(UNUSED, CHANGED, LOOSENED, REMOVED), against="0c1d2e3f4a5b"))
    assert "commit `1a2b3c4d`, against `0c1d2e3f`, 0.31 s." in text
    assert "## On the run: 2 binding, 1 allowed, 1 told\n" in text
    assert cells(text) == [
        ["finding", "about", "kind", "times", "what"],
        ["binding", REMOVED.about, "case_removed", "", REMOVED.message],
        ["binding", LOOSENED.about, "bound_loosened", "4", f"{LOOSENED.message} (suites/unit/row_sum.yaml:14)"],
        ["allowed", CHANGED.about, "baseline_changed", "1.2", f"{CHANGED.message}; allowed: {CHANGED.allowed}"],
        ["told", "baselines/allow.yaml", "allowance_unused", "", UNUSED.message],
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_finding_stays_text_in_its_own_cell(text):
    (_, row) = cells(
        render_run_markdown(run_of(findings=(replace(LOOSENED, about=text, message=text, source=None, allowed=text),)))
    )
    line = text.replace("\n", " ")
    assert row == ["allowed", line, "bound_loosened", "4", f"{line}; allowed: {line}"]


def test_very_many_findings_are_counted():
    many = tuple(replace(LOOSENED, about=f"unit/row_sum/{i:03}") for i in range(60))
    text = render_run_markdown(run_of(findings=many))
    assert text.count("| binding |") == 50
    assert "\n\nAnd 10 binding more in the report.\n" in text


def test_the_rule_stands_with_the_reason_and_the_interval_with_the_ratio():
    (_, row) = cells(render_run_markdown(run_of(judged_by(STATISTIC))))
    assert row[2:] == [
        "regressed (statistic)",
        "out",
        "mean_abs_error",
        "0.1175",
        "0.024",
        "4.9 (4.73 to 5.06, noise 1.001)",
        "1.02",
    ]


def test_equal_errors_are_one_row():
    alike = [replace(crashed(), id=f"unit/row_sum/{name}") for name in "abc"]
    text = render_run_markdown(run_of(*alike))
    assert text.count("| subject_error |") == 1
    assert "`unit/row_sum/a` and 2 more |" in text
    assert "- worst: `unit/row_sum/a`: ValueError: no\n" in text
