"""The page of a comparison in a real browser: charts are drawn, the table works, and nothing complains."""

import re

import pytest
from msgspec.structs import replace

from precreg.comparison.html import MAX_DRAWN_PAIRS, render_comparison_html
from precreg.report.charts.figures import Picture, render_picture_html
from tests.browser.pages import BY_CSS, all_of, in_the_dark, on_phone
from tests.comparison.made import everything, failed, measured, passed, record_of, rounded
from tests.report.test_html import HOSTILE


@pytest.fixture(scope="module")
def thousands():
    """Return the page of 2,000 pairs, of which 40 fail."""
    good, bad = passed(), failed()
    pairs = [replace(bad if number % 50 == 0 else good, name=f"layer{number:04}/out") for number in range(2_000)]
    return render_comparison_html(record_of(*pairs))


def names(browser):
    return [cell.text for cell in all_of(browser, "#rows td:nth-child(2)")]


def test_charts_stand_in_the_page_with_size_and_colour(open_page):
    browser = open_page(render_comparison_html(everything()))
    drawn = all_of(browser, "#p2 figure svg")
    assert len(drawn) == 4
    assert all(one.rect["height"] > 50 and one.rect["width"] > 300 for one in drawn)
    for kind in ("bar-now", "bar-then", "heat", "dot"):
        (first, *_) = all_of(browser, f"#p2 .{kind}")
        assert first.value_of_css_property("fill") not in ("none", "", "rgb(0, 0, 0)")
    bars = [bar.rect["height"] for bar in all_of(browser, "#p2 .histogram .bar-now")]
    assert max(bars) > 100 > min(bars) > 5


def test_words_of_a_chart_do_not_leave_it(open_page):
    browser = open_page(render_comparison_html(everything()))
    outside = browser.execute_script("""
        return [...document.querySelectorAll("figure svg")].flatMap((svg) => {
          const box = svg.getBoundingClientRect();
          return [...svg.querySelectorAll("text")].filter((text) => {
            const own = text.getBoundingClientRect();
            return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1;
          }).map((text) => text.textContent);
        });""")
    assert outside == []


def test_the_table_finds_sorts_and_turns_pages(open_page, thousands):
    browser = open_page(thousands)
    assert len(names(browser)) == 100
    assert browser.find_element(BY_CSS, "#shown").text == "2,000 pairs"
    browser.find_element(BY_CSS, "[data-chip=passed]").click()
    assert browser.find_element(BY_CSS, "#shown").text == "1,960 of 2,000 pairs"
    browser.find_element(BY_CSS, "#next-page").click()
    assert browser.find_element(BY_CSS, "#page").text == "101 to 200 of 1,960"
    browser.find_element(BY_CSS, "[data-chip=passed]").click()
    browser.find_element(BY_CSS, "#search").send_keys("layer195 tolerance")
    assert names(browser) == [f"layer{number}/out" for number in range(1950, 1960)]
    browser.find_element(BY_CSS, "#headings th:nth-child(2) button").click()
    browser.find_element(BY_CSS, "#headings th:nth-child(2) button").click()
    assert names(browser) == [f"layer{number}/out" for number in range(1959, 1949, -1)]
    browser.find_element(BY_CSS, "#headings th:nth-child(5) button").click()
    assert names(browser)[0] == "layer1950/out", "the largest error comes first"


def test_a_link_of_the_table_leads_to_the_pair_and_back(open_page, thousands):
    browser = open_page(thousands)
    links = all_of(browser, "#rows a")
    assert len(links) == MAX_DRAWN_PAIRS
    links[30].click()
    assert browser.current_url.endswith("#p30")
    heading = browser.find_element(BY_CSS, "#p30 h2")
    assert heading.is_displayed()
    assert heading.text.endswith("layer1500/out")
    browser.find_element(BY_CSS, "#p30 .up").click()
    assert browser.current_url.endswith("#all")


def test_two_thousand_pairs_are_there_within_seconds_and_answer_at_once(open_page, thousands):
    browser = open_page(thousands)
    loaded = browser.execute_script("return performance.timing.domComplete - performance.timing.navigationStart")
    assert loaded < 10_000
    searched = browser.execute_script("""
        const search = document.getElementById("search"), began = performance.now();
        search.value = "layer1";
        search.dispatchEvent(new Event("input"));
        return performance.now() - began;""")
    assert searched < 1_000


@pytest.mark.parametrize("text", HOSTILE)
def test_names_stay_text(open_page, text):
    browser = open_page(render_comparison_html(record_of(failed(text), passed(f"{text}2"))))
    assert names(browser) == [text, f"{text}2"]
    assert browser.find_element(BY_CSS, "#p0 h2").text == f"out_of_tolerance {text}"


def test_tables_open_and_say_formulas(open_page):
    browser = open_page(render_comparison_html(record_of(failed())))
    for summary in all_of(browser, "#p0 summary"):
        summary.click()
    assert browser.find_element(BY_CSS, "#p0 abbr").get_attribute("title").startswith("max |d|")
    assert all(one.is_displayed() for one in all_of(browser, "#p0 table"))


def test_a_phone_shows_it_without_scrolling_sideways(open_page):
    browser = open_page(render_comparison_html(everything()))
    with on_phone(browser):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400


def test_the_dark_page_draws_other_colours(open_page):
    def colours():
        kinds = ("#p2 .bar-now", "#p2 .heat", "#p2 svg text")
        return [browser.find_element(BY_CSS, kind).value_of_css_property("fill") for kind in kinds]

    browser = open_page(render_comparison_html(everything()))
    light = colours()
    with in_the_dark(browser):
        assert all(one != other for one, other in zip(colours(), light, strict=True))


def test_the_picture_of_one_comparison_has_a_map(open_page):
    from precreg.measure.heatmap import heat_map

    actual, reference = rounded((3, 80, 100))
    actual[:, 10:20, 30:60] *= 2
    picture = Picture("layer0", "a.npy", "r.npy", measured(actual, reference), heat_map(actual, reference))
    browser = open_page(render_picture_html(picture))
    cells = browser.execute_script("""
        const cells = [...document.querySelectorAll(".map .heat")].filter((cell) => cell.querySelector("title"));
        const opacity = (cell) => Number(cell.getAttribute("fill-opacity"));
        return cells.map((cell) => [opacity(cell), cell.textContent, cell.getBoundingClientRect().width]);
    """)
    assert len(cells) == 64 * 64
    assert min(width for _, _, width in cells) > 4
    _, place, _ = max(cells)
    row, column = map(int, re.match(r"\[\.\.\., (\d+):\d+, (\d+):", place).groups())
    assert (10 <= row < 20, 29 <= column < 60) == (True, True), place
