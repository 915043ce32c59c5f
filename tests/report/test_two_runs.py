"""Two records compared: kinds of cases, the exit code, and the three texts and the page of the same facts."""

import re

import pytest
from markdown_it import MarkdownIt
from msgspec import json
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.report.two_runs import compare_records
from precreg.report.two_runs_page import MAX_PAGE_LINES, render_two_runs_html
from precreg.report.two_runs_text import (
    MAX_TEXT_LINES,
    ComparedPaths,
    comparison_json,
    comparison_parts,
    render_two_runs_markdown,
    render_two_runs_terminal,
)
from precreg.types import Environment, Reason, Status
from tests.report.made import comparison, crashed, improved, passed, regressed, run_of, skipped, verdict

PATHS = ComparedPaths("reports", "earlier/reports")
EARLIER = "2026-11-20T09:00:00+00:00"


def run_before(*results, **changes):
    return run_of(*results, **({"started": EARLIER} | changes))


def compared(now, before):
    return compare_records(run_of(*now), run_before(*before))


def kinds(found):
    return {pair.now.name: pair.kind for pair in found.pairs}


def with_bits(result, digest):
    execution = replace(result.outcome.execution, outputs={"out": (digest, digest)})
    return replace(result, outcome=replace(result.outcome, execution=execution))


def with_errors(result, *means):
    """Return a result whose errors at its seeds have these means, so other bits."""
    rows = tuple(comparison(seed, mean, mean * 1.2) for seed, mean in enumerate(means))
    outcome = replace(with_bits(result, f"{means}").outcome, comparisons=rows)
    return replace(result, outcome=outcome)


def redefined(result):
    return replace(result, definition="1:other")


def with_inputs(result):
    execution = replace(result.outcome.execution, inputs=("other", "inputs"))
    return replace(result, outcome=replace(result.outcome, execution=execution))


def test_a_case_that_failed_since_fails_the_comparison():
    found = compared([regressed("a"), passed("b")], [passed("a"), passed("b")])
    assert (kinds(found), found.exit_code) == ({"a": "newly_failing", "b": "same"}, 1)
    back = compared([passed("a")], [regressed("a")])
    assert (kinds(back), back.exit_code) == ({"a": "fixed"}, 0)


def test_a_known_failure_is_no_news():
    found = compared([regressed("a")], [regressed("a")])
    assert (kinds(found), found.exit_code) == ({"a": "same"}, 0)


def test_a_passed_case_with_larger_errors_is_worse_by_the_thresholds_of_its_tolerance():
    # Each allows 10 % of growth. These records have no group sums, so no statistic judges.
    found = compared([with_errors(passed("a"), 6e-6, 6e-6)], [with_errors(passed("a"), 5e-6, 5e-6)])
    assert (kinds(found), found.exit_code) == ({"a": "worse"}, 1)
    (pair,) = found.pairs
    assert pair.judged.verdict.reason is Reason.REGRESSED
    assert {each.metric for each in pair.errors.findings} == {"mean_abs_error", "rms_error"}
    close = compared([with_errors(passed("a"), 5.2e-6, 5.2e-6)], [with_errors(passed("a"), 5e-6, 5e-6)])
    assert (kinds(close), close.exit_code) == ({"a": "unjudged"}, 0)


def test_the_earlier_tolerance_judges():
    loose = with_errors(passed("a"), 6e-6, 6e-6)
    tolerance = replace(loose.tolerances["out"], regression={"mean_abs_error": 9.0, "rms_error": 9.0})
    loose = replace(loose, tolerances={"out": tolerance})
    strict = with_errors(passed("a"), 5e-6, 5e-6)
    found = compared([loose], [strict])
    assert (kinds(found), found.exit_code) == ({"a": "worse"}, 1)
    assert {(each.name, each.before, each.now) for each in found.pairs[0].bounds} == {
        ("regression mean_abs_error", 0.1, 9.0),
        ("regression rms_error", 0.1, 9.0),
    }
    assert kinds(compared([strict], [loose])) == {"a": "unjudged"}


def test_new_nans_are_worse_and_old_ones_are_not():
    def contaminated(number):
        result = with_errors(passed("a"), 5e-6 + number * 1e-12, 5e-6)
        rows = tuple(
            replace(row, counts={**row.counts, "nan_mismatched": number}) for row in result.outcome.comparisons
        )
        return replace(result, outcome=replace(result.outcome, comparisons=rows))

    assert kinds(compared([contaminated(2)], [contaminated(0)])) == {"a": "worse"}
    assert kinds(compared([contaminated(2)], [contaminated(1)])) == {"a": "worse"}
    assert kinds(compared([contaminated(1)], [contaminated(2)])) == {"a": "unjudged"}


@pytest.mark.parametrize(
    ("now", "obstacle"),
    [(redefined(passed("a")), "definition"), (with_inputs(passed("a")), "inputs"), (crashed("a"), "error")],
)
def test_a_case_that_cannot_be_compared_is_no_pass(now, obstacle):
    found = compared([now, passed("b")], [passed("a"), passed("b")])
    assert (found.pairs[0].kind, found.pairs[0].obstacle, found.exit_code) == ("not_comparable", obstacle, 2)
    assert "1 case could not be compared" in render_two_runs_terminal(found, PATHS).splitlines()[-1]


def test_a_case_that_is_missing_cannot_be_compared_unless_it_was_not_selected():
    before = run_before(passed("a"), passed("b"))
    whole = compare_records(run_of(passed("a")), before)
    assert (whole.exit_code, [each.name for each in whole.missing]) == (2, ["b"])
    part = compare_records(run_of(passed("a"), selection={"patterns": ["a"]}), before)
    assert (part.exit_code, [each.name for each in part.unselected]) == (0, ["b"])
    more = compare_records(run_of(passed("a"), passed("b"), regressed("c")), before)
    assert (more.exit_code, [each.name for each in more.added]) == (0, ["c"])


def test_skipped_and_proposed_cases_have_another_verdict():
    new = passed("b", verdict=verdict(Reason.NEW, Status.PROPOSED, "no baseline"))
    found = compared([skipped("a"), new], [passed("a"), passed("b")])
    assert (kinds(found), found.exit_code) == ({"a": "other_verdict", "b": "other_verdict"}, 0)


def test_records_that_have_nothing_in_common_are_refused():
    with pytest.raises(UserError, match="without a common id") as found:
        compared([passed("a")], [passed("b")])
    assert found.value.slug == "not-comparable"
    with pytest.raises(UserError, match="one run twice"):
        compare_records(run_of(passed("a")), run_of(passed("a")))


def test_a_forged_record_without_digests_compares_by_verdicts_alone():
    bare = passed("a")
    bare = replace(bare, outcome=replace(bare.outcome, execution=replace(bare.outcome.execution, outputs={})))
    assert kinds(compared([bare], [passed("a")])) == {"a": "same"}
    assert kinds(compared([passed("a")], [bare])) == {"a": "same"}


def test_swapped_runs_are_noticed_with_the_command():
    text = render_two_runs_terminal(compare_records(run_before(passed("a")), run_of(passed("a"))), PATHS)
    assert "the other way round: precreg report --compare earlier/reports reports" in text
    assert "the other way round" not in render_two_runs_terminal(compared([passed("a")], [passed("a")]), PATHS)


def test_environments_and_times_are_facts_without_a_judgement():
    facts = {"numpy": "2.5.0", "cpu": "a"}
    other = Environment("cpu-x86_64", ("cpu-x86_64", "generic"), "0000aaaa", facts)
    slow = passed("a")
    slow = replace(slow, outcome=replace(slow.outcome, execution=replace(slow.outcome.execution, duration_s=0.02)))
    found = compare_records(run_of(slow, environment=other), run_before(passed("a"), environment=other))
    assert [(each.before, each.now) for each in found.times.changes] == [(0.0004, 0.02)]
    assert found.exit_code == 0
    text = render_two_runs_terminal(found, PATHS)
    assert "unit/row_sum/a: 0.4 ms -> 20 ms (50x)" in text
    moved = compare_records(run_of(slow, environment=other), run_before(passed("a")))
    text = render_two_runs_terminal(moved, PATHS)
    assert "numpy 2.4.6 -> 2.5.0" in text
    assert "20 ms" not in text


def all_parts():
    """Return a comparison with a case in nearly every part."""
    bounds = {"out": replace(passed().tolerances["out"], regression={})}
    now = [
        regressed("fails"),
        regressed("fails-too"),
        with_errors(passed("worse"), 6e-6, 6e-6),
        redefined(passed("defined")),
        passed("mended"),
        skipped("skips"),
        replace(passed("looser"), tolerances=bounds),
        passed("new"),
    ]
    before = [
        passed("fails"),
        passed("fails-too"),
        with_errors(passed("worse"), 5e-6, 5e-6),
        passed("defined"),
        regressed("mended"),
        passed("skips"),
        passed("looser"),
        passed("gone"),
    ]
    return compared(now, before)


def test_every_format_has_every_part():
    found = all_parts()
    parts = comparison_parts(found)
    assert [part.key for part in parts] == [
        "newly_failing",
        "worse",
        "not_comparable",
        "missing",
        "fixed",
        "other_verdict",
        "bounds",
        "added",
    ]
    texts = [
        render_two_runs_terminal(found, PATHS),
        render_two_runs_markdown(found, PATHS),
        render_two_runs_html(found, PATHS),
    ]
    for text in texts:
        for part in parts:
            assert part.title in text
        assert "2 cases failed now and passed before, 1 case significantly worse" in text
        for name in ("fails", "worse", "defined", "gone", "mended", "skips", "looser", "new"):
            assert f"unit/row_sum/{name}" in text
    data = json.decode(comparison_json(found, PATHS))
    assert (data["exit_code"], data["missing"], data["added"]) == (1, ["unit/row_sum/gone"], ["unit/row_sum/new"])
    assert {each["id"].rpartition("/")[2]: each["kind"] for each in data["cases"]} == kinds(found)


def test_failures_of_one_suite_are_one_group():
    text = render_two_runs_terminal(all_parts(), PATHS)
    assert "FAILED   unit/row_sum/fails   regressed   the worst of 2 cases, 4.9 x the baseline\n" in text
    assert "others    1 more of unit/row_sum: fails-too\n" in text


def test_a_failure_with_the_same_bits_is_explained():
    failed = replace(regressed("a"), outcome=passed("a").outcome)
    assert "compared  its bits are the same: its baseline or its tolerance changed" in render_two_runs_terminal(
        compared([failed], [passed("a")]), PATHS
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_width(width):
    text = render_two_runs_terminal(all_parts(), PATHS, width=width)
    longest = max((line for line in text.splitlines()), key=len)
    # Only an id or a path may be wider, because it is copied.
    assert len(longest) <= width or len(longest.split()) <= 2


def test_colours_change_no_word():
    plain, coloured = (render_two_runs_terminal(all_parts(), PATHS, colour=each) for each in (False, True))
    assert "\x1b[31m" in coloured
    assert [re.sub(r" +", " ", re.sub("\x1b\\[[0-9;]*m", "", line)) for line in coloured.splitlines()] == [
        re.sub(r" +", " ", line) for line in plain.splitlines()
    ]


HOSTILE = "<script>alert(1)</script>|`[a](javascript:b)`\x1b[31m"


def test_texts_of_records_stay_text():
    bad = regressed(HOSTILE, verdict=verdict(Reason.REGRESSED, Status.FAILED, HOSTILE))
    found = compare_records(
        run_of(bad, project=HOSTILE), run_before(passed(HOSTILE), redefined(passed(HOSTILE + "x")), project=HOSTILE)
    )
    paths = ComparedPaths(HOSTILE, HOSTILE)
    page = render_two_runs_html(found, paths)
    assert "<script>alert" not in page
    assert page.count("<script") == 2
    markdown = render_two_runs_markdown(found, paths)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown)
    inline = {child.type for token in tokens for child in token.children or ()}
    assert not inline & {"html_inline", "link_open"}
    blocks = {token.content.split(">")[0] for token in tokens if token.type == "html_block"}
    assert blocks <= {"<details", "</details"}
    assert "\x1b" not in render_two_runs_terminal(found, paths) + page + markdown


def test_very_many_cases_are_counted():
    number = 1000
    found = compared([redefined(passed(f"{i}")) for i in range(number)], [passed(f"{i}") for i in range(number)])
    text = render_two_runs_terminal(found, PATHS)
    assert f"and {number - MAX_TEXT_LINES} more: --format json" in text
    assert len(text.splitlines()) < 30
    page = render_two_runs_html(found, PATHS)
    assert f"And {number - MAX_PAGE_LINES} more;" in page
    assert len(page) < 200_000
    assert len(render_two_runs_markdown(found, PATHS)) < 10_000
    assert len(json.decode(comparison_json(found, PATHS))["cases"]) == number


def test_the_page_speaks_chinese():
    page = render_two_runs_html(all_parts(), PATHS, "zh")
    assert '<html lang="zh-Hans">' in page
    assert "现在失败、之前通过：2" in page
    assert "显著变差：1" in page


def test_an_improvement_shows_the_largest_gain():
    found = compared([improved("a")], [passed("a")])
    assert (kinds(found), found.exit_code) == ({"a": "same"}, 0)  # the accepted baseline judged it, and bits are equal
