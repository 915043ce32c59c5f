"""The pages of quantizations in a real browser: pictures that can be seen, also in the dark, and a phone's width."""

import pytest

from precreg.report.quantization.page import render_quantization_html
from precreg.report.quantization.steps import render_quantization_steps_html
from tests.browser.accessibility import problems_of
from tests.browser.pages import BY_CSS, all_of, in_the_dark, on_screen
from tests.report.quantization.made import full_record, full_steps, of_model

PAGES = {
    "model": lambda: render_quantization_html(full_record()),
    "many layers": lambda: render_quantization_html(of_model(60)),
    "steps": lambda: render_quantization_steps_html(full_steps(samples=80)),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_shows_it_without_scrolling_sideways(open_page, page):
    browser = open_page(PAGES[page]())
    with on_screen(browser, 375, is_mobile=True):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 375
        assert problems_of(browser) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_picture_is_seen_in_light_and_dark(open_page, page):
    browser = open_page(PAGES[page]())

    def fills():
        shapes = all_of(browser, "figure svg rect, figure svg circle")
        assert all(each.rect["height"] > 0 for each in all_of(browser, "figure svg"))
        return {each.value_of_css_property("fill") for each in shapes}

    light = fills()
    background = browser.find_element(BY_CSS, "body").value_of_css_property("background-color")
    assert background not in light
    with in_the_dark(browser):
        dark = fills()
        changed = browser.find_element(BY_CSS, "body").value_of_css_property("background-color")
        assert changed != background
        assert changed not in dark
        assert problems_of(browser) == []


def test_bars_are_as_long_as_their_figures(open_page):
    browser = open_page(render_quantization_html(of_model(3)))
    bars = all_of(browser, "section[aria-label='SQNR by layer'] rect.sqnr")
    widths = [bar.rect["width"] for bar in bars]
    # 28, 29 and 30 dB from zero.
    assert widths == pytest.approx([widths[-1] * each / 30 for each in (28, 29, 30)], rel=0.01)
