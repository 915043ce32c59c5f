"""The page of a training in a real browser: radio buttons select a map, and it fits a phone."""

from precreg.report.training.page import render_training_view
from precreg.report.training.record_view import render_training_html
from tests.browser.pages import BY_CSS, all_of, on_phone
from tests.report.training.made import full_view
from tests.report.training.test_record_view import made


def test_a_radio_button_selects_the_figure_of_the_map(open_page):
    browser = open_page(render_training_view(full_view()))
    panes = all_of(browser, ".pane")
    assert [pane.is_displayed() for pane in panes] == [True, False]
    browser.find_element(BY_CSS, "label[for='map-1']").click()
    assert [pane.is_displayed() for pane in panes] == [False, True]


def test_the_window_and_skipped_steps_are_visible(open_page):
    browser = open_page(render_training_view(full_view()))
    for kind in ("figure .band", "figure .skip", "figure .bin.lost", "figure .bin.subnormal"):
        shape = browser.find_element(BY_CSS, kind)
        assert shape.rect["height"] > 0
        assert shape.value_of_css_property("fill") not in ("none", "rgb(0, 0, 0)")


def test_a_phone_shows_it_without_scrolling_sideways(open_page):
    browser = open_page(render_training_view(full_view()))
    with on_phone(browser):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400


def test_the_page_of_a_record_shows_the_figures_of_its_map(open_page):
    browser = open_page(render_training_html(made()))
    labels = all_of(browser, "label[for^='map-']")
    names = [label.text for label in labels]
    labels[names.index("lost updates")].click()
    (shown,) = [pane for pane in all_of(browser, ".pane") if pane.is_displayed()]
    cells = [each.get_attribute("textContent") for each in shown.find_elements(BY_CSS, "title")]
    # One of four intended updates was lost, at steps 0 and 10.
    assert [cell for cell in cells if "0.25" in cell], cells
    with on_phone(browser):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
