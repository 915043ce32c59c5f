"""The page of a trace in a real browser: pictures are drawn, tables sort and search, and nothing complains."""

import pytest
from msgspec.structs import replace
from selenium.webdriver.common.keys import Keys

from precreg.report.trace.page import render_trace_html
from precreg.types import Site
from tests.browser.accessibility import problems_of
from tests.browser.pages import BY_CSS, all_of, in_the_dark, on_phone, on_screen
from tests.report.test_html import HOSTILE
from tests.report.trace.traced import OPERATIONS, attention, dumped, layered, long_trace


@pytest.fixture
def opened(open_page):
    """Return a function that opens the page of a trace."""
    return lambda trace: open_page(render_trace_html(trace))


def column(browser, table, place):
    return [cell.text for cell in all_of(browser, f"#{table} [data-rows] td:nth-child({place})")]


def test_pictures_stand_in_the_page_with_size_and_colour(opened):
    browser = opened(layered(steps=4))
    drawn = all_of(browser, "figure svg")
    assert len(drawn) == 3
    assert all(one.rect["height"] > 100 and one.rect["width"] > 500 for one in drawn)
    for kind in (".own", ".heat"):
        (first, *_) = all_of(browser, f"figure {kind}")
        assert first.value_of_css_property("fill") not in ("none", "", "rgb(0, 0, 0)")
    assert browser.find_element(BY_CSS, "polyline.curve").value_of_css_property("stroke") not in ("none", "")


@pytest.mark.parametrize("trace", [attention(), layered(steps=6), long_trace(500)], ids=["short", "steps", "long"])
def test_words_of_a_picture_do_not_leave_it(opened, trace):
    browser = opened(trace)
    outside = browser.execute_script("""
        return [...document.querySelectorAll("figure svg")].flatMap((svg) => {
          const box = svg.getBoundingClientRect();
          return [...svg.querySelectorAll("text")].filter((text) => {
            const own = text.getBoundingClientRect();
            return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1;
          }).map((text) => text.textContent);
        });""")
    assert outside == []


def test_tables_sort_search_and_turn_pages_each_on_its_own(opened):
    browser = opened(long_trace(500))
    assert column(browser, "operations", 1) == [str(number) for number in range(1, 51)]
    browser.find_element(BY_CSS, "#operations [data-next]").click()
    assert column(browser, "operations", 1)[0] == "51"
    headings = [button.text for button in all_of(browser, "#operations [data-headings] button")]
    own = headings.index("own") + 1
    browser.find_element(BY_CSS, f"#operations [data-headings] th:nth-child({own}) button").click()
    assert column(browser, "operations", 1)[0] == "250", "the largest own error comes first"
    assert browser.find_element(BY_CSS, f"#operations th:nth-child({own})").get_attribute("aria-sort") == "descending"
    browser.find_element(BY_CSS, "#operations [data-search]").send_keys("kernels.py:41")
    assert browser.find_element(BY_CSS, "#operations [data-shown]").text == "3 of 500 rows"
    assert browser.find_element(BY_CSS, "#groups [data-shown]").text == "200 rows"


def test_the_keyboard_reaches_search_and_headings(opened):
    browser = opened(attention())
    browser.find_element(BY_CSS, "body").send_keys("/")
    assert browser.switch_to.active_element.get_attribute("data-search") is not None
    (first, *_) = all_of(browser, "#operations [data-headings] button")
    assert first.text == "no."
    first.send_keys(Keys.ENTER)
    # The rows and headings are new, and the focus stays where it was.
    assert browser.switch_to.active_element.text == "no."
    assert browser.find_element(BY_CSS, "#operations th").get_attribute("aria-sort") == "ascending"


def test_a_long_trace_keeps_a_small_document(opened):
    browser = opened(long_trace(5_000))
    assert browser.find_element(BY_CSS, "#operations [data-shown]").text == "5,000 rows"
    assert browser.execute_script("return document.querySelectorAll('*').length") < 5_000


@pytest.mark.parametrize("text", HOSTILE)
def test_names_stay_text(opened, text):
    operations = tuple(replace(each, name=text, site=Site(text, 1, text)) for each in OPERATIONS)
    browser = opened(attention(operations=operations))
    assert text in browser.find_element(BY_CSS, "h1").text
    assert text in column(browser, "operations", 2)


def test_a_phone_shows_it_without_scrolling_sideways(opened):
    browser = opened(dumped())
    with on_phone(browser):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400


def test_the_dark_page_draws_other_colours(opened):
    def colours():
        found = [("figure .heat", "fill"), ("figure svg text", "fill"), ("polyline.curve", "stroke")]
        return [browser.find_element(BY_CSS, kind).value_of_css_property(name) for kind, name in found]

    browser = opened(layered())
    light = colours()
    with in_the_dark(browser):
        assert all(one != other for one, other in zip(colours(), light, strict=True))


TRACES = {"short": attention(), "dumps": dumped(), "steps": layered(steps=4), "long": long_trace(500)}


@pytest.mark.parametrize("width", [1280, 768, 375])
@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_everybody_can_read_and_reach_everything(opened, trace, width):
    browser = opened(trace)
    with on_screen(browser, width):
        assert problems_of(browser) == []
        with in_the_dark(browser):
            assert problems_of(browser) == []


def test_the_arrow_keys_scroll_a_table_that_is_too_wide(opened):
    browser = opened(attention())
    with on_screen(browser, 375):
        (box, *_) = all_of(browser, "#operations .scroll")
        assert browser.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", box)
        box.send_keys(Keys.ARROW_RIGHT)
        moved = "return new Promise((done) => arguments[0].addEventListener('scrollend', done, {once: true}))"
        browser.execute_script(f"if (!arguments[0].scrollLeft) {moved}", box)
        assert browser.execute_script("return arguments[0].scrollLeft", box) > 0


MISTAKES = {
    "contrast": "<p style='color: #999; background: #fff'>faint words</p>",
    "contrast 2": "<svg role='img' aria-label='m'><rect width='50' height='50' fill='#222'/><text y='9'>a</text></svg>",
    "no name": "<button></button>",
    "no image": "<svg><text y='20'>words</text></svg>",
    "a heading leaves": "<h4>deep</h4>",
    "not one h1": "<h1>second</h1>",
    "an id twice": "<p id='main'>second</p>",
    "only a mouse": "<div style='overflow-x: auto; width: 50px'><p style='width: 500px'>wide</p></div>",
    "the page is": "<p style='width: 5000px'>wide</p>",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_check_of_a_page_sees_a_mistake(opened, mistake):
    browser = opened(attention())
    assert problems_of(browser) == []
    browser.execute_script(
        "document.querySelector('main').insertAdjacentHTML('beforeend', arguments[0])", MISTAKES[mistake]
    )
    assert [each for each in problems_of(browser) if each.startswith(mistake)]


def test_every_picture_has_a_description(opened):
    browser = opened(layered(steps=3))
    assert all(len(svg.get_attribute("aria-label")) > 20 for svg in all_of(browser, "figure svg"))
