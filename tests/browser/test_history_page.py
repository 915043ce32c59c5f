"""The page of a history in a real browser: filters, a reload, a case, a suite, another language, phone and paper."""

import pytest
from msgspec.structs import replace
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.support.ui import WebDriverWait

from precreg.history.drift.trends import SuiteTrend
from precreg.report.history_page import render_history_html
from tests.browser.accessibility import problems_of
from tests.browser.pages import BY_CSS, all_of, in_the_dark, on_phone, on_screen
from tests.report.test_history_page import recorded, runs, step, trend

WORST = "unit/sum/worst [1]*"


def on_gpu(found):
    """Return the line of a case at the runs of the GPU, which are after the 60 runs of the CPU."""
    points = tuple(replace(point, run=point.run + 60) for point in found.lines[0].points)
    return replace(found.lines[0], environment="gpu", points=points)


def nights():
    """Return 60 runs of a CPU and 60 runs of a GPU."""
    first, second = runs(120)[:60], runs(120)[60:]
    return (*first, *(replace(run, environment="gpu") for run in second))


def made():
    """Two environments and two suites: cases that failed, regressed, improved, and stayed as they were."""
    worse = trend(
        WORST,
        [1.0] * 29 + [None] + [2.0] * 30,
        [step(31)],
        {"cpu": {30: "crashed"}},
        {"cpu": "identical", "gpu": "identical"},
    )
    worse = replace(worse, lines=(*worse.lines, on_gpu(trend(values=[3.0] * 60))))
    others = [
        trend(
            "unit/max/failing",
            [1.0] * 60,
            latest={"cpu": "out_of_tolerance"},
            failures={"cpu": {59: "out_of_tolerance"}},
        ),
        trend("unit/max/better", [1.0] * 30 + [0.5] * 30, [step(31, worse=False, ratio=0.5)]),
        *(trend(f"unit/sum/steady{number:03}", [1.0] * 60) for number in range(200)),
    ]
    nightly = range(1, 61)
    suites = (
        SuiteTrend("unit/max", "cpu", dict.fromkeys(nightly, 1.0), {59: 1}, dict.fromkeys(nightly, 2)),
        SuiteTrend("unit/sum", "cpu", {run: 1 + run / 60 for run in nightly}, {}, dict.fromkeys(nightly, 201)),
    )
    return recorded(worse, *others, suites=suites, runs=nights(), environments=("cpu", "gpu"))


@pytest.fixture
def opened(open_page):
    """Return a function that opens the page at a case, and waits for its drawings."""

    def open_at(place="", width=1600):
        browser = open_page(render_history_html(made()), width, place)
        wait_for(browser, lambda page: all_of(page, "#rows svg"))
        return browser

    return open_at


def wait_for(browser, condition):
    """Wait for a condition; the page may replace an element between its search and its reading."""
    WebDriverWait(browser, 20, ignored_exceptions=[StaleElementReferenceException]).until(condition)


def one_of(browser, selector):
    return browser.find_element(BY_CSS, selector)


def ids(browser):
    return [anchor.text for anchor in all_of(browser, "#rows a")]


def test_filters_and_the_open_case_outlast_a_reload(opened):
    browser = opened()
    assert (len(ids(browser)), ids(browser)[0]) == (100, WORST)
    assert one_of(browser, "#shown").text == "203 cases"
    one_of(browser, "[data-chip=regressed]").click()
    one_of(browser, "#suite option:nth-child(3)").click()
    assert ids(browser) == [WORST]
    one_of(browser, "#search").send_keys("step at run")
    one_of(browser, "#rows a").click()
    wait_for(browser, lambda page: all_of(page, "#detail figure"))
    browser.refresh()
    wait_for(browser, lambda page: all_of(page, "#detail figure"))
    assert one_of(browser, "#detail h2").text == WORST
    assert one_of(browser, "#search").get_attribute("value") == "step at run"
    assert one_of(browser, "#suite").get_attribute("value") == "unit/sum"
    assert one_of(browser, "#shown").text == "1 of 203 cases"
    one_of(browser, "body").send_keys("\ue00c")
    assert not one_of(browser, "#detail").is_displayed()
    one_of(browser, "#clear").click()
    assert one_of(browser, "#shown").text == "203 cases"


def test_a_case_is_drawn_with_its_environments_marks_and_verdicts(opened):
    browser = opened("unit/sum/worst%20%5B1%5D*")
    wait_for(browser, lambda page: all_of(page, "#detail figure"))
    drawing = one_of(browser, "#detail figure svg")
    assert drawing.rect["height"] > 150
    assert [label.text for label in all_of(browser, "#detail .label")] == ["gpu", "cpu"]
    colours = {label.value_of_css_property("color") for label in all_of(browser, "#detail .label")}
    assert len(colours) == 2, "each environment has its own colour"
    for kind in (".accepted", ".mark-worse", ".cross"):
        assert one_of(browser, f"#detail figure {kind}").value_of_css_property("stroke") not in ("none", "")
    # The run without a value leaves a gap: two stretches.
    assert one_of(browser, "#detail g.env-0 path:nth-child(2)").get_attribute("d").count("M") == 2
    words = drawing.get_attribute("aria-label")
    assert words == "mean_abs_error (out). cpu: 1 → 2, 1 … 2, failed 1; gpu: 3 → 3, 3 … 3"
    text = one_of(browser, "#detail").text
    assert "mean_abs_error regressed with a step at run 31: 1 -> 2, 2 times" in text
    assert "aaaaaaaa..bbbbbbbb" in text
    assert "crashed" in text


def test_the_axis_shows_time_and_the_keys_step_through_cases(opened):
    browser = opened()
    one_of(browser, "body").send_keys("j")
    one_of(browser, "#rows a").click()
    wait_for(browser, lambda page: all_of(page, "#detail figure"))
    by_run = one_of(browser, "#detail g.env-0 path:nth-child(2)").get_attribute("d")
    browser.execute_script("location.hash = '#unit/max/better?axis=time'")
    wait_for(browser, lambda page: "unit/max/better" in one_of(page, "#detail h2").text)
    assert one_of(browser, "#axis").get_attribute("value") == "time"
    assert one_of(browser, "#detail g.env-0 path:nth-child(2)").get_attribute("d") != by_run
    one_of(browser, "body").send_keys("k")
    wait_for(browser, lambda page: "unit/max/failing" in one_of(page, "#detail h2").text)


def test_a_suite_has_its_growth_and_leads_to_its_cases(opened):
    browser = opened()
    one_of(browser, ".suites tbody a").click()
    wait_for(browser, lambda page: all_of(page, "#detail figure"))
    assert one_of(browser, "#detail h2").text == "unit/max"
    assert "1 of 2 cases failed" in one_of(browser, "#detail").text
    one_of(browser, "#detail .quiet").click()
    assert ids(browser) == ["unit/max/failing", "unit/max/better"]
    assert not one_of(browser, "#detail").is_displayed()


def test_the_language_is_in_the_address(opened):
    browser = opened()
    one_of(browser, "#language option[value=zh]").click()
    assert one_of(browser, "html").get_attribute("lang") == "zh-Hans"
    assert one_of(browser, "#suites-title").text == "套件"
    assert [heading.text for heading in all_of(browser, "#headings th")][:2] == ["状态", "用例"]
    browser.refresh()
    assert one_of(browser, "#suites-title").text == "套件"


@pytest.mark.parametrize("width", [400, 800, 1600])
@pytest.mark.parametrize("place", ["", "unit/sum/worst%20%5B1%5D*", "unit/max"])
def test_no_width_breaks_a_rule_of_accessibility(opened, width, place):
    browser = opened(place)
    with on_screen(browser, width, is_mobile=width == 400):
        if place:
            wait_for(browser, lambda page: all_of(page, "#detail figure"))
        assert problems_of(browser) == []
        with in_the_dark(browser):
            assert problems_of(browser) == []


def test_a_phone_shows_readable_numbers(opened):
    browser = opened("unit/max")
    with on_phone(browser):
        wait_for(browser, lambda page: all_of(page, "#detail figure"))
        size = browser.execute_script(
            "const text = document.querySelector('#detail figure text'); return text.getBoundingClientRect().height"
        )
        assert size >= 9


def test_paper_has_the_drawings_of_the_worst_cases(opened):
    browser = opened()
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert [heading.get_attribute("textContent") for heading in all_of(browser, "#printed h3")] == [
        WORST,
        "unit/max/failing",
        "unit/max/better",
    ]
    assert len(all_of(browser, "#printed svg[role=img]")) == 3


def test_an_address_of_another_page_is_no_error(opened):
    browser = opened("unit/gone?state=unheard&suite=none&page=0&sort=-nothing&lang=xx&environment=npu")
    assert len(ids(browser)) == 100
    browser.execute_script("location.hash = '#%E0%A4%A'")
    assert len(ids(browser)) == 100
