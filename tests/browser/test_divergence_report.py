"""The page of two runs of a training in a real browser: curves and maps that can be seen, and a phone's width."""

from msgspec.structs import replace

from precreg.report.divergence.page import render_divergence_html
from tests.browser.accessibility import problems_of
from tests.browser.pages import BY_CSS, all_of, in_the_dark, on_screen
from tests.report.divergence.test_page import RECORD

# A name without a space must not widen the page.
LONG_NAME = "model.encoder.layers.11.self_attention.output_projection.weight_quantizer.scale"


def long_names():
    parting = replace(RECORD.parted, parameter=LONG_NAME)
    courses = (replace(RECORD.courses[0], parameter=LONG_NAME), *RECORD.courses[1:])
    run = replace(RECORD.a, name=f"benchmarks.training.{LONG_NAME}:train")
    return replace(RECORD, a=run, parted=parting, beyond=parting, courses=courses)


def test_a_phone_shows_it_without_scrolling_sideways(open_page):
    browser = open_page(render_divergence_html(long_names()))
    with on_screen(browser, 375, is_mobile=True):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 375
        assert problems_of(browser) == []
        with in_the_dark(browser):
            assert problems_of(browser) == []


def test_curves_and_limits_are_visible_in_light_and_dark(open_page):
    browser = open_page(render_divergence_html(RECORD))

    def colours():
        strokes = [
            (each.rect["height"], each.value_of_css_property("stroke"))
            for each in all_of(browser, ".course path, .course polyline")
        ]
        assert all(height > 0 for height, _ in strokes[:1])
        return {stroke for _, stroke in strokes} - {"none"}

    def background():
        return browser.find_element(BY_CSS, "body").value_of_css_property("background-color")

    light, paper = colours(), background()
    assert light
    assert paper not in light
    with in_the_dark(browser):
        dark, night = colours(), background()
        assert night != paper
        assert night not in dark


def test_keys_scroll_each_picture(open_page):
    browser = open_page(render_divergence_html(RECORD))
    boxes = all_of(browser, ".scroll")
    assert len(boxes) == 3
    assert all(each.get_attribute("tabindex") == "0" for each in boxes)
