"""One review of a run, from its link to the copied command: reloads and the back button keep what a reviewer chose."""

import pytest
from msgspec.structs import replace
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from precreg.report import html
from tests.browser.pages import BY_CSS, all_of
from tests.report.made import large, regressed, run_of


@pytest.fixture(scope="module")
def page():
    """Return the page of 2,000 cases with 40 losses of one suite, and a larger one of another."""
    worst = regressed("float16-7x7")
    finding = replace(worst.verdict.findings[0], ratio=9.5)
    worst = replace(
        worst, id="unit/col_sum/float16-7x7", suite="col_sum", verdict=replace(worst.verdict, findings=(finding,))
    )
    return html.render_run_html(run_of(worst, *large(2_000).results))


class Reviewer:
    """Use the page as a person does: by what is to be seen."""

    def __init__(self, browser):
        self.browser = browser

    def one(self, selector):
        return self.browser.find_element(BY_CSS, selector)

    def click(self, selector):
        self.one(selector).click()

    def cases(self):
        return [anchor.text for anchor in all_of(self.browser, "#rows a")]

    def wait(self, selector, text):
        WebDriverWait(self.browser, 10).until(lambda _: text in self.one(selector).text)

    def view(self):
        """Return everything that the reviewer chose, as the page shows it."""
        pressed = [chip.text for chip in all_of(self.browser, "[data-chip][aria-pressed=true]")]
        title = all_of(self.browser, "#detail h2")
        return {
            "address": self.browser.current_url.partition("#")[2],
            "search": self.one("#search").get_attribute("value"),
            "statuses": pressed,
            "cases": self.cases(),
            "case": title[0].text if title and self.one("#detail").is_displayed() else "",
            "language": self.one("#language").get_attribute("value"),
            "heading": self.one("#worse-title").text,
        }

    def fetched(self):
        """Return the addresses that the page has loaded since it was opened."""
        return self.browser.execute_script("return performance.getEntriesByType('resource').map(({name}) => name)")


def test_a_reviewer_finds_the_worst_case_copies_its_command_and_can_share_the_link(open_page, page):
    reviewer = Reviewer(open_page(page, 1280))
    reviewer.click("[data-chip=failed]")
    reviewer.one("#search").send_keys("float16")
    filtered = reviewer.view()
    assert 1 < len(filtered["cases"]) < 41
    assert filtered["cases"][0] == "unit/col_sum/float16-7x7", "the worst case comes first"

    reviewer.browser.refresh()
    assert reviewer.view() == filtered

    reviewer.click("#rows a")
    reviewer.wait("#detail", "precreg run")
    opened = reviewer.view()
    assert opened["case"] == "unit/col_sum/float16-7x7"
    assert opened["cases"] == filtered["cases"]
    command = reviewer.one("#detail .command code").text
    assert command == "precreg run unit/col_sum/float16-7x7"
    reviewer.click("#detail .command button")
    assert reviewer.one("#detail .copied").text == "copied"

    reviewer.one("#language").find_element(BY_CSS, "option[value=zh]").click()
    chinese = reviewer.view()
    assert chinese["heading"] == "变差的用例"
    assert chinese["address"].endswith("lang=zh")
    assert reviewer.fetched() == []
    reviewer.browser.refresh()
    reviewer.wait("#detail", "precreg run")
    assert reviewer.view() == chinese

    reviewer.browser.back()
    reviewer.wait("#worse-title", "What got worse")
    assert reviewer.view() == opened
    reviewer.browser.back()
    WebDriverWait(reviewer.browser, 10).until(lambda _: not reviewer.one("#detail").is_displayed())
    assert reviewer.view() == filtered
    assert reviewer.fetched() == []

    # The clipboard has the command: the search takes it by a paste.
    search = reviewer.one("#search")
    search.clear()
    search.click()
    ActionChains(reviewer.browser).key_down(Keys.CONTROL).send_keys("v").key_up(Keys.CONTROL).perform()
    assert search.get_attribute("value") == command
