"""What reports say of studies: tables, drawings, and nothing where there is none."""

import re
from html.parser import HTMLParser

from click import unstyle

from precreg.report import html, terminal
from precreg.report import summaries as markdown
from precreg.report.error_growth import growth_series
from precreg.report.studies import (
    MAX_DRAWN_STUDIES,
    MAX_STUDY_ROWS,
    describe_studies,
    draw_growth,
    growth_axes,
    studies_for_html,
)
from precreg.types.case import Note, Study, TradeOff
from tests.report.made import road, skipped
from tests.report.studies.made import GROWTH, TRADE_OFF, both, form, forms, link, rounding, studied, truncating


class Tables(HTMLParser):
    """The cells of each table of a page by its caption, and the labels of its drawings."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.labels, self._caption, self._cell = {}, [], None, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "svg" and "aria-label" in dict(attributes):
            self.labels.append(dict(attributes)["aria-label"])
        if tag == "caption":
            self._caption = ""
        if tag == "tr" and self.tables:
            list(self.tables.values())[-1].append([])
        if tag in ("td", "th") and self.tables:
            self._cell = ""

    def handle_endtag(self, tag):
        if tag == "caption":
            self.tables[self._caption] = []
            self._caption = None
        if tag in ("td", "th") and self._cell is not None:
            list(self.tables.values())[-1][-1].append(self._cell)
            self._cell = None

    def handle_data(self, data):
        if self._caption is not None:
            self._caption += data
        if self._cell is not None:
            self._cell += data


def test_the_table_of_a_growth():
    growth, _ = describe_studies(both())
    assert growth.columns == (
        *("series", "e of one", "direction", "depth"),
        *("measured", "exp(n e)", "sqrt(n)", "nearer", "grows like"),
    )
    assert growth.rows == (
        ("rounding", "6.67e-07", "0.00", "1024", "6.4e-05", "0.000683", "6.4e-05", "sqrt(n)", "n^0.50"),
        ("truncating", "-0.0001", "-1.00", "1024", "0.0973", "0.0973", "0.0115", "exp(n e)", "n^0.99"),
    )


def test_the_table_of_a_trade_off_says_what_is_not_faster_and_what_has_the_same_bits():
    _, trade_off = describe_studies(both())
    assert trade_off.columns == (
        *("form", "time", "speed-up", "error", "error ratio", "mean ULP", "matches", "use", "risk"),
    )
    assert [row[:5] for row in trade_off.rows] == [
        ("none", "10 ms", "1", "1e-06", "1"),
        ("broken", "not measured: ValueError: no", "", "", ""),
        ("fp16", "40 ms", "0.25 (not faster)", "0.004", "4000"),
        ("unrolled", "5 ms", "2", "1e-06", "1 (same bits)"),
    ]
    assert trade_off.rows[-1][-2:] == ("long sums", "the number of lanes")
    assert "this run on this machine" in trade_off.remark


def test_columns_without_any_text_are_left_out():
    (growth,) = describe_studies(studied(*truncating((1, 4, 16)), studies=[GROWTH]))
    assert growth.columns == ("series", "e of one", "direction", "depth", "measured", "grows like")
    (trade_off,) = describe_studies(studied(form("fp16", 0.04, 4e-3, "d2"), studies=[TRADE_OFF]))
    assert trade_off.columns == ("form", "time", "error", "mean ULP", "matches")


def test_a_study_whose_suite_did_not_run_is_not_told():
    assert describe_studies(studied(*forms(), studies=[GROWTH])) == []
    assert describe_studies(road()) == []


def test_the_terminal_has_the_tables_without_what_the_suite_says():
    text = unstyle(terminal.render_run_terminal(both(), colour=True))
    assert "study    unit/growth   error growth over depth\n         series      e of one  direction" in text
    assert "study    unit/forms   precision against speed, by form\n" in text
    assert "long sums" not in text
    assert "study" not in terminal.render_run_terminal(road(), colour=False)


def test_markdown_has_the_tables():
    text = markdown.render_run_markdown(both())
    assert "## Error growth over depth: `unit/growth`\n\n| series | e of one |" in text
    assert "| unrolled | 5 ms | 2 | 1e-06 | 1 (same bits) | 2 | 0.9375 at rtol 0.01 | long sums | the number of" in text
    assert "##" not in markdown.render_run_markdown(road())


def test_the_page_has_a_drawing_for_each_series_beside_the_table():
    page = Tables(html.render_run_html(both()))
    growth, trade_off = describe_studies(both())
    tables = {caption: cells for caption, cells in page.tables.items() if " of unit/" in caption}
    assert tables == {
        "Error growth over depth of unit/growth": [list(growth.columns), *map(list, growth.rows)],
        "Precision against speed, by form of unit/forms": [list(trade_off.columns), *map(list, trade_off.rows)],
    }
    assert len(page.labels) == 2
    assert page.labels[1] == (
        "mean_rel_error of truncating: 0.0001 at depth 1, 0.0973 at depth 1024; at worst the law exp(n e) is off by "
        "a factor of 1, sqrt(n) of 8.44"
    )


def test_a_page_without_studies_has_nothing_of_them():
    assert "studies" not in html.render_run_html(road())


def test_text_of_a_suite_is_not_markup():
    hostile = "</td></table><script>alert(1)</script>"
    note = Study("unit/forms", trade_off=TradeOff("form", "none", {"fp16": Note(hostile, hostile)}))
    written = html.render_run_html(
        studied(form("fp16", 0.04, 4e-3, hostile), link(hostile, 1, 1e-6, 1, 0), studies=[note, GROWTH])
    )
    assert written.count("<script") == 4
    assert "<script>alert" not in written
    assert "<script>" not in markdown.render_run_markdown(studied(form("fp16", 0.04, 4e-3, "d"), studies=[note]))


def dots(svg):
    return {
        text: (float(x), float(y), "foretold" in class_)
        for class_, x, y, text in re.findall(
            r'<circle class="([^"]*)" cx="(\S*)" cy="(\S*)" r="3.5"><title>(.*?)<', svg
        )
    }


def test_panels_share_their_axes_and_fitted_points_differ_from_foretold_ones():
    both_series = growth_series(GROWTH.growth, "unit/growth", [*truncating(), *rounding()])
    shared = growth_axes(both_series)
    drawn = [dots(draw_growth(one, shared, "depth", "mean_rel_error")) for one in both_series]
    for panel in drawn:
        assert [foretold for _, _, foretold in panel.values()] == [False] * 3 + [True] * 3
    assert [x for x, _, _ in drawn[0].values()] == [x for x, _, _ in drawn[1].values()]
    rounded, truncated = ([y for _, y, _ in panel.values()] for panel in drawn)
    assert all(below > above for below, above in zip(rounded, truncated, strict=True))
    decade = shared.upward.at(-4) - shared.upward.at(-3)
    # sixteen times as many operations are four times the error of a walk
    assert abs((rounded[1] - rounded[3]) / decade - 0.602) < 0.001


def test_both_axes_are_named_on_every_panel():
    both_series = growth_series(GROWTH.growth, "unit/growth", [*truncating(), *rounding()])
    for one in both_series:
        drawn = draw_growth(one, growth_axes(both_series), "depth", "max_rel_error")
        assert re.findall(r">([a-z_]+)</text>", drawn) == ["depth", "max_rel_error"]


def test_exact_points_are_not_drawn_and_a_series_of_them_has_no_panel():
    exact = [link("exact", n, 0.0, 0, 0) for n in (1, 4)]
    assert studies_for_html(studied(*exact, studies=[GROWTH]))[0]["panels"] == []
    mixed = growth_series(GROWTH.growth, "unit/growth", [*exact, *rounding()])
    assert dots(draw_growth(mixed[0], growth_axes(mixed), "depth", "mean_rel_error")) == {}


def test_no_law_is_drawn_where_all_that_it_is_fitted_to_is_exact():
    (one,) = growth_series(
        GROWTH.growth, "unit/growth", [link("late", n, 0.0, 0, 0) for n in (1, 16)] + [link("late", 64, 1e-3, 1, 0)]
    )
    panel = draw_growth(one, growth_axes([one]), "depth", "mean_rel_error")
    assert [foretold for _, _, foretold in dots(panel).values()] == [True]
    assert "polyline" not in panel


def test_a_law_far_above_what_was_measured_does_not_flatten_the_rest():
    far = [link("far", n, error, 100, 0) for n, error in ((1, 0.5), (16, 4.0), (10**6, 5.0))]
    found = growth_series(GROWTH.growth, "unit/growth", far)
    assert growth_axes(found).upward.high < 2


def test_many_series_are_drawn_up_to_a_number():
    many = [link(f"d{n:02}", 1, 1e-6, 1, 1) for n in range(MAX_DRAWN_STUDIES + 3)]
    (one,) = studies_for_html(studied(*many, studies=[GROWTH]))
    assert (len(one["panels"]), one["beyond"], len(one["study"].rows)) == (MAX_DRAWN_STUDIES, 3, MAX_DRAWN_STUDIES + 3)


def test_long_tables_say_how_much_more_there_is():
    many = studied(*(link(f"d{n:03}", 1, 1e-6, 1, 1) for n in range(MAX_STUDY_ROWS + 2)), studies=[GROWTH])
    assert html.render_run_html(many).count("<td>d") == MAX_STUDY_ROWS
    assert "And 2 more." in html.render_run_html(many)
    assert f"And {MAX_STUDY_ROWS + 2 - markdown.MAX_MARKDOWN_ROWS} more." in markdown.render_run_markdown(many)
    assert f"and {MAX_STUDY_ROWS + 2 - terminal.MAX_STUDY_LINES} more" in terminal.render_run_terminal(
        many, colour=False
    )


def test_a_study_whose_cases_were_all_skipped_is_left_out():
    left = [
        skipped(name, id=f"unit/forms/{name}", suite="forms", parameters={"form": name}) for name in ("none", "fp16")
    ]
    assert describe_studies(studied(*left)) == []
    assert [study.suite for study in describe_studies(studied(*left, form("unrolled", 0.005, 1e-6, "d1")))] == [
        "unit/forms"
    ]
