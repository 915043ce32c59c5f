"""report.html of a drift monitor as text: one inert file, small whatever the history holds. tests/browser opens it."""

import re
import sys
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from precreg.report.drift import files as html
from precreg.report.drift.files import HEIGHT, WIDTH, draw_drift_chart
from tests.history.drift.drawn import FACTS, run, series
from tests.report.drift.made import absent, everything, recorded, steady, stepped, unmeasured
from tests.report.test_html import HOSTILE


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def all_of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def chart_of(values, accepted=None, among=None, **options):
    record = recorded(
        series(values, accepted), **({"among": [run(n + 1) for n in range(len(values))]} if among is None else {})
    )
    return draw_drift_chart(record.results[0].metrics[0], record)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_history_is_neither_markup_nor_code(text):
    def page(word):
        among = [run(number, facts=FACTS | {"cpu": word}, commit=word, branch=word) for number in range(1, 21)]
        among += [run(number, "f2", facts=FACTS | {"cpu": word + "2"}, commit=word) for number in range(21, 41)]
        record = recorded(stepped(word, output=word), unmeasured(word), steady(word), among=among)
        return Page(html.render_drift_html(replace(record, project=word, environment=word, other_environments=(word,))))

    assert [tag for tag, _ in page(text).elements] == [tag for tag, _ in page("tame").elements]
    assert f"unit/mean/{text}" in page(text).text


def test_nothing_is_fetched_and_nothing_runs():
    page = Page(html.render_drift_html(everything()))
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?://|\bsrc=|@import|url\(", html.render_drift_html(everything()))
    policy = next(attributes["content"] for attributes in page.all_of("meta") if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_every_drawing_says_in_words_what_it_shows():
    drawings = [
        one for one in Page(html.render_drift_html(everything())).all_of("svg") if one.get("aria-hidden") != "true"
    ]
    assert drawings
    assert all(one["role"] == "img" for one in drawings)
    first = drawings[0]["aria-label"]
    assert first.startswith("mean_abs_error over 40 runs, 1 to 40: first 0.01, last 0.011, least 0.01, most 0.011")
    assert "accepted 0.01; at the anchor 3 0.01; mean_abs_error is worse than the baseline, since run 31" in first


def test_the_marks_of_a_chart():
    record = everything()
    chart = draw_drift_chart(record.results[0].metrics[0], record)
    assert [(mark.kind, mark.text) for mark in chart.marks] == [
        ("environment", "environment changed before run 31: numpy 2.4.5 to 2.4.6"),
        ("change", "worse from run 31 on"),
    ]
    assert chart.anchor == pytest.approx(float(chart.lines[0].split()[0].split(",")[1]))
    assert len(chart.dots) == 40
    assert chart.dots[30].y < chart.dots[29].y


def test_runs_without_a_value_leave_a_gap():
    chart = chart_of([1.0, 1.0, None, 2.0, 2.0])
    assert [len(line.split()) for line in chart.lines] == [2, 2]
    assert (
        draw_drift_chart(
            replace(recorded().settings and recorded(steady()).results[0].metrics[0], points=()), recorded()
        )
        is None
    )


LARGEST = sys.float_info.max


@pytest.mark.parametrize(
    "values",
    [
        [0.0] * 4,
        [5e-324] * 4,
        [1e308, 1e308, 2.0, 0.0],
        [LARGEST, 0.0, 0.0],
        [-LARGEST, LARGEST],
        [-3.0, 2.0, 1.0],
        [1.0] * 300,
    ],
)
def test_every_number_of_a_chart_lies_inside_it(values):
    chart = chart_of(values, values[0])
    for dot in chart.dots:
        assert 0 <= dot.x <= WIDTH
        assert 0 <= dot.y <= HEIGHT
    assert "nan" not in str(chart)
    assert len(chart.across) <= 10


def test_thousands_of_findings_stay_small_and_the_worst_are_drawn():
    found = recorded(*(stepped(f"{number:05}") for number in range(5000)))
    written = html.render_drift_html(found)
    assert len(written) < 12e6
    page = Page(written)
    assert len([one for one in page.all_of("article") if one.get("id")]) == html.MAX_DRAWN_SERIES
    assert len(page.all_of("tr")) < 2 * html.MAX_DRIFT_HTML_ROWS
    assert "And 4000 more; drift.json has them all." in page.text
    assert "4800 more findings are not drawn here." in page.text
    assert (
        "drift.json has no values at each run for 4000 outputs (4000 drift); "
        "for one case: precreg drift unit/mean/01000" in page.text
    )


def test_outputs_that_were_not_judged_beyond_the_limit_are_counted(monkeypatch):
    monkeypatch.setattr(html, "MAX_DRIFT_HTML_ROWS", 5)
    found = recorded(*(steady(name) for name in "abcdefgh"), *(absent(name) for name in "pqrstuv"))
    page = Page(html.render_drift_html(found))
    assert len(page.all_of("li")) == 5
    assert "And 2 more; drift.json has them all." in page.text
    assert "more" not in Page(html.render_drift_html(everything())).text
