"""axe-core finds nothing on any page: at three widths, light and dark, in both languages, with everything open."""

import pytest

from precreg.comparison.html import render_comparison_html
from precreg.report import html
from precreg.report.divergence.page import render_divergence_html
from precreg.report.drift.files import render_drift_html
from precreg.report.history_page import render_history_html
from precreg.report.quantization.page import render_quantization_html
from precreg.report.quantization.steps import render_quantization_steps_html
from precreg.report.trace.page import render_trace_html
from precreg.report.training.page import render_training_view
from precreg.report.training.record_view import render_training_html
from precreg.report.two_runs_page import render_two_runs_html
from tests.browser.axe import axe_violations
from tests.browser.pages import BY_CSS, in_the_dark, on_paper, on_screen
from tests.browser.test_case_panel import with_map
from tests.browser.test_history_page import made as history_made
from tests.browser.test_html_report import many_causes
from tests.comparison.made import everything as everything_compared
from tests.report.divergence.test_page import RECORD as DIVERGED
from tests.report.drift.made import everything as everything_drifts
from tests.report.made import road, run_of
from tests.report.quantization.made import drawn, full_record, full_steps, of_arrays
from tests.report.studies.made import both
from tests.report.test_two_runs import PATHS, all_parts
from tests.report.trace.traced import dumped, layered, long_trace
from tests.report.training.made import full_view
from tests.report.training.test_record_view import made as observed_training

PAGES = {
    "few cases": lambda: html.render_run_html(road()),
    "failures": lambda: html.render_run_html(many_causes()),
    "Chinese": lambda: html.render_run_html(many_causes(), "zh"),
    "studies": lambda: html.render_run_html(both()),
    "trace": lambda: render_trace_html(layered(steps=4)),
    "long trace": lambda: render_trace_html(long_trace(500)),
    "dumps": lambda: render_trace_html(dumped()),
    "training": lambda: render_training_view(full_view()),
    "quantization": lambda: render_quantization_html(full_record()),
    "quantization of arrays": lambda: render_quantization_html(of_arrays(**{"encoder.layers.11.dense": drawn(8, 40)})),
    "quantization steps": lambda: render_quantization_steps_html(full_steps()),
    "observed training": lambda: render_training_html(observed_training()),
    "divergence": lambda: render_divergence_html(DIVERGED),
    "drift": lambda: render_drift_html(everything_drifts()),
    "comparison": lambda: render_comparison_html(everything_compared()),
    "history": lambda: render_history_html(history_made()),
    "Chinese history": lambda: render_history_html(history_made(), "zh"),
    "two runs": lambda: render_two_runs_html(all_parts(), PATHS),
    "Chinese two runs": lambda: render_two_runs_html(all_parts(), PATHS, "zh"),
}
OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true"


def settled(browser):
    """Wait for the layout, and for the tables that become reachable by keys after it."""
    browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 50))")


def violations(browser):
    settled(browser)
    found = axe_violations(browser)
    with in_the_dark(browser):
        return found + axe_violations(browser)


@pytest.mark.parametrize("width", [1280, 768, 375])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(open_page, page, width):
    browser = open_page(PAGES[page]())
    with on_screen(browser, width, is_mobile=width < 400):
        assert violations(browser) == []
        browser.execute_script(OPEN_ALL)
        assert violations(browser) == []


@pytest.mark.parametrize("width", [1280, 768, 375])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_axe_finds_nothing_in_an_open_case(open_page, language, width):
    case = with_map("ab", "!.")
    with_panel = html.render_run_html(run_of(case), language)
    browser = open_page(with_panel, width, case.id)
    with on_screen(browser, width, is_mobile=width < 400):
        assert browser.find_element(BY_CSS, "#detail .message").is_displayed()
        browser.execute_script(OPEN_ALL)
        assert violations(browser) == []


MISTAKES = {
    "link-in-text-block": "<p>a long enough text with <a href='#x' style='text-decoration: none'>a link</a> inside</p>",
    "button-name": "<button></button>",
    "color-contrast": "<p style='color: #999; background: #fff'>faint words</p>",
    "landmark-no-duplicate-main": "<main>second</main>",
}


@pytest.mark.parametrize("rule", MISTAKES)
def test_axe_sees_a_mistake(open_page, rule):
    browser = open_page(PAGES["few cases"]())
    browser.execute_script(
        "document.querySelector('main').insertAdjacentHTML('beforeend', arguments[0])", MISTAKES[rule]
    )
    assert rule in {text.partition(":")[0] for text in axe_violations(browser)}


MOVING = """
document.head.append(Object.assign(document.createElement("style"), {textContent:
  "@keyframes blink { to { opacity: 0 } } #moving { animation: blink 1s infinite; transition: opacity 1s }"}));
document.querySelector("main").append(Object.assign(document.createElement("p"), {id: "moving", textContent: "x"}));
"""


@pytest.mark.parametrize("page", ["few cases", "trace", "drift", "comparison", "history", "two runs"])
def test_nothing_moves_for_a_reader_who_prefers_that(open_page, page):
    browser = open_page(PAGES[page]())
    browser.execute_script(MOVING)
    moving = "return document.getElementById('moving').getAnimations().length"
    assert browser.execute_script(moving) == 1
    reduced = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": reduced})
    try:
        assert browser.execute_script(moving) == 0
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("page", ["few cases", "trace", "drift", "comparison", "history", "two runs"])
def test_paper_is_white_for_a_reader_who_prefers_the_dark(open_page, page):
    browser = open_page(PAGES[page]())
    colours = "const {color, backgroundColor} = getComputedStyle(document.body); return [color, backgroundColor]"
    with on_paper(browser, prefers_dark=True):
        assert browser.execute_script(colours) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
        assert not any(each.is_displayed() for each in browser.find_elements(BY_CSS, ".tools, .pager"))
        boxes = browser.find_elements(BY_CSS, ".scroll")
        assert {each.value_of_css_property("overflow-x") for each in boxes} == {"visible"}, "paper does not scroll"
