"""Summaries of changed baselines: totals, suites, the largest changes, and nothing that becomes markup."""

from precreg.baseline.changes import sort_changes
from precreg.baseline.store import BaselineKey
from precreg.report.baseline_changes import (
    MAX_CHANGED_CASES,
    MAX_CHANGED_SUITES,
    count_changes,
    render_changes_markdown,
    render_changes_terminal,
)
from tests.baseline.test_changes import change, measured


def worse(number, suite="a", reason="why"):
    """Return a loss of 1 % for each number."""
    place = BaselineKey("generic", f"unit/{suite}/{number:04}")
    return change(measured(rms_error=1.0), measured(rms_error=1 + number / 100), place)._replace(reason=reason)


FEW = sort_changes([worse(1), worse(50), change(measured(rms_error=1.0), measured(rms_error=0.5))])
MANY = sort_changes(worse(number, suite=f"s{number % 30}") for number in range(1, 501))


def test_few_changes_are_rows_with_the_largest_loss_first():
    assert render_changes_markdown(FEW, since="0123456789abcdef").splitlines() == [
        "### Baselines: 3 cases (2 worse, 1 better) since `01234567`",
        "",
        "| case | metric | old | new | ratio | reason |",
        "|---|---|---|---|---|---|",
        "| `unit/a/0050` | out: rms_error | 1 | 1.5 | 1.5x worse | why |",
        "| `unit/a/0001` | out: rms_error | 1 | 1.01 | 1.01x worse | why |",
        "| `unit/a/x` | out: rms_error | 1 | 0.5 | 0.5x better | why |",
    ]


def test_without_changes_the_note_says_so():
    assert render_changes_markdown([], since="0123456789") == "### Baselines: no figure changed since `01234567`\n"


def test_five_hundred_changes_fit_two_screens_and_name_the_command_for_the_rest():
    text = render_changes_markdown(MANY, command="precreg baseline diff --verbose")
    assert text.startswith("### Baselines: 500 cases (500 worse)\n\n| suite |")
    assert len(text.splitlines()) < 60
    assert text.count("\n| `unit/s") == MAX_CHANGED_SUITES + MAX_CHANGED_CASES
    assert "And 10 more suites." in text
    assert text.endswith("And 480 cases more: `precreg baseline diff --verbose`\n")
    # The suite of the largest loss comes first.
    assert "| `unit/s20` | 17 | 17 | 0 | 0 | 0500: out: rms_error 6x worse | why |" in text.splitlines()[4]


def test_everything_is_everything():
    assert render_changes_markdown(MANY, everything=True).count("\n| `unit/") == 500
    assert len(render_changes_terminal(MANY, everything=True)) == 501


def test_a_terminal_has_suites_and_the_largest_changes():
    lines = render_changes_terminal(MANY)
    assert lines[0].split() == ["suite", "cases", "worse", "better", "other", "largest", "change", "reason"]
    assert "and 10 more" in lines
    assert len(lines) == 1 + MAX_CHANGED_SUITES + 1 + 2 + 1 + MAX_CHANGED_CASES
    assert lines[-MAX_CHANGED_CASES].startswith("unit/s20/0500  out: rms_error  1    6")


def test_reasons_of_a_suite_are_bounded():
    many = sort_changes(worse(number, reason=f"r{number}") for number in range(1, 30))
    assert "r29; r28 and 27 more |" in render_changes_markdown(many)


def test_no_text_of_a_project_becomes_markup():
    hostile = "<script>|[x](javascript:1)\n# `a` \x1b[31m"
    text = render_changes_markdown([worse(5, suite=hostile, reason=hostile)])
    row = text.splitlines()[-1]
    assert text.count("\n") == 5
    assert "\x1b" not in text
    assert "| \\<script\\>\\|\\[x\\](javascript:1) # \\`a\\` " in row
    assert row.count(" | ") == 5
    assert "\x1b" not in "".join(render_changes_terminal([worse(5, reason=hostile)]))


def test_totals_name_each_kind_that_occurs():
    removed = change(measured(rms_error=1.0), None)
    same = change(measured(rms_error=1.0), measured(digest="d9", rms_error=1.0))
    assert count_changes([*FEW, removed, same]) == "5 cases (2 worse, 1 removed, 1 better, 1 with other bits alone)"
