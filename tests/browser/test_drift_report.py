"""The report of a drift monitor in a real browser: charts are drawn, nothing complains, and it fits a phone."""

import pytest

from precreg.report.drift import files as html
from tests.browser.pages import BY_CSS, all_of, on_phone
from tests.report.drift.made import everything, recorded, steady, stepped


@pytest.fixture
def opened(open_page):
    """Return a function that opens a record's report."""
    return lambda record: open_page(html.render_drift_html(record))


def test_the_findings_are_drawn_with_their_marks(opened):
    browser = opened(everything())
    assert browser.find_element(BY_CSS, "h1").text == "1 case drifts"
    figure = browser.find_element(BY_CSS, "#f0 figure svg")
    assert figure.rect["height"] > 100
    assert len(all_of(browser, "#f0 circle")) == 40
    for kind in ("series", "accepted", "anchor", "mark.environment", "mark.change"):
        line = browser.find_element(BY_CSS, f"#f0 .{kind}")
        assert line.value_of_css_property("stroke") not in ("none", "")
    assert browser.find_element(BY_CSS, "#f0 figcaption").text.startswith("mean_abs_error; environment changed")


def test_a_link_of_the_table_leads_to_the_drawing(opened):
    browser = opened(recorded(*(stepped(f"{number:03}") for number in range(30))))
    browser.find_element(BY_CSS, "tbody tr:nth-child(25) a").click()
    assert browser.current_url.endswith("#f24")
    assert abs(browser.execute_script("return document.getElementById('f24').getBoundingClientRect().top")) < 50


def test_steady_series_can_be_opened(opened):
    browser = opened(recorded(steady()))
    browser.find_element(BY_CSS, "summary").click()
    assert browser.find_element(BY_CSS, ".steady svg").is_displayed()


def test_a_phone_shows_it_without_scrolling_sideways(opened):
    browser = opened(everything())
    with on_phone(browser):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
