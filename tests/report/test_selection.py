"""What was selected: added up over runs, and said."""

import pytest

from precreg.report import html, terminal
from precreg.report import summaries as markdown
from precreg.report.describe import describe_run_selection as shown
from precreg.report.sections import describe_selection, merge_selections
from tests.report.made import passed, run_of

FAST = {"tags": ["fast"]}


def tiers(*names):
    return {"tiers": list(names)}


@pytest.mark.parametrize(
    ("given", "together"),
    [
        ([{}], {}),
        ([{}, tiers("unit")], {}),
        ([tiers("model"), tiers("unit")], tiers("unit", "model")),
        ([tiers("unit"), tiers("integration", "model")], {}),
        ([FAST, {**tiers("unit"), **FAST}], FAST),
        ([{**tiers("unit"), "shard": "1/2"}, {**tiers("unit"), "shard": "2/2"}], tiers("unit")),
        (
            [{"changed_since": "a1"}, {"changed_since": "b2"}],
            {"any": [{"changed_since": "a1"}, {"changed_since": "b2"}]},
        ),
        ([{"any": [FAST, tiers("unit")]}, tiers("model")], {"any": [FAST, tiers("unit", "model")]}),
        ([{"any": [FAST, tiers("unit")]}, {}], {}),
        ([tiers("bench"), tiers("unit")], tiers("unit", "bench")),
        ([{"tiers": 5}, {"tiers": 5}], {"tiers": 5}),
        ([{"any": "x"}], {"any": "x"}),
    ],
)
def test_selections_add_up(given, together):
    def in_order(selection):
        parts = selection.get("any")
        return sorted(map(str, parts)) if isinstance(parts, list) else selection

    assert in_order(merge_selections(given)) == in_order(together)


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ({}, ""),
        (tiers("unit", "model"), "tier unit, model"),
        ({"patterns": ["a*"], "suites": ["s"], "changed_since": "main"}, "pattern a*; suite s; changed since main"),
        ({"any": [FAST, tiers("unit")]}, "tag fast or tier unit"),
        ({"handwritten": ["x"]}, "handwritten x"),
    ],
)
def test_what_was_selected_is_said_in_words(selection, words):
    assert describe_selection(selection) == words


def test_the_shard_is_said_of_a_record():
    assert shown(run_of(selection={**tiers("unit"), "shard": "1/2"})) == "tier unit; shard 1/2"
    assert shown(run_of(selection={"shard": "1/2"})) == "shard 1/2"


def test_every_report_says_that_it_is_not_of_the_whole_project():
    part = run_of(passed(), selection=tiers("unit", "model"))
    assert "\nselected  tier unit, model\n" in terminal.render_run_terminal(part, colour=False)
    assert "\nNot the whole project, but tier unit, model.\n" in markdown.render_run_markdown(part)
    assert ">tier unit, model</span></dd>" in html.render_run_html(part)


def test_no_report_of_a_whole_project_speaks_of_it():
    for text in (
        terminal.render_run_terminal(run_of(passed()), colour=False),
        markdown.render_run_markdown(run_of(passed())),
    ):
        assert "selected" not in text
        assert "whole project" not in text
    assert "selected</span></dt>" not in html.render_run_html(run_of(passed()))
