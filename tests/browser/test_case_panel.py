"""The panel of one case as a reviewer uses it: the command is copied, links are followed, folded tables opened."""

import pytest
from msgspec.structs import replace

from precreg.report import html
from precreg.types.case import Location
from precreg.types.outcome import ErrorGrid, Positions
from precreg.types.record import EarlierValue, GitState, MetricHistory, SourceLinks
from tests.browser.accessibility import problems_of
from tests.browser.pages import BY_CSS, all_of, in_the_dark, on_paper, on_screen
from tests.report.made import crashed, improved, regressed, run_of

LINKS = SourceLinks("https://x.org/p/-/blob/{commit}/{path}#L{line}", "https://x.org/p/-/commit/{commit}")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
EARLIER = tuple(
    EarlierValue(f"c{at}ffee", f"2026-11-{at + 10}T00:00:00+00:00", (0.02, 0.021, 0.11)[at]) for at in range(3)
)


def with_map(*rows, shape=(4, 6), **changes):
    case = regressed(subject=Location("kernels.py", 7), history=MetricHistory("out", "mean_abs_error", EARLIER, 0.03))
    worst = Positions(list(range(9)), [1.5] * 9, [1.0] * 9)
    first = replace(case.outcome.comparisons[0], shape=shape, worst=worst, error_map=ErrorGrid(2.0, rows), **changes)
    return replace(case, outcome=replace(case.outcome, comparisons=(first, case.outcome.comparisons[1])))


@pytest.fixture
def panel(open_page):
    """Return a function that opens the panel of a case."""

    def open_panel(case, width=1280, **changes):
        record = replace(
            run_of(case), git=GitState(COMMIT, "main", False, "Ada <a@example.org>"), links=LINKS, **changes
        )
        return open_page(html.render_run_html(record), width, case.id)

    return open_panel


def one(browser, selector):
    return browser.find_element(BY_CSS, f"#detail {selector}")


def test_the_command_is_copied_or_selected(panel):
    browser = panel(regressed())
    assert one(browser, ".command code").text == "precreg run unit/row_sum/float16-8x256"
    one(browser, ".command button").click()
    assert browser.execute_script("return getSelection().toString()") == "precreg run unit/row_sum/float16-8x256"
    assert one(browser, ".copied").text in ("copied", "selected: press Ctrl+C or \u2318C")


def test_the_panel_names_the_size_of_the_loss_and_the_next_commands(panel):
    browser = panel(regressed())
    assert one(browser, ".bar .status").text == "failed, regressed, 4.9 x the baseline"
    commands = [code.text for code in all_of(browser, "#detail .command code")]
    assert commands == [f"precreg {name} unit/row_sum/float16-8x256" for name in ("run", "diagnose", "trace")]
    all_of(browser, "#detail .command button")[2].click()
    assert [each.text for each in all_of(browser, "#detail .copied")] == ["", "", "copied"]


def test_links_lead_to_lines_and_commits(panel):
    browser = panel(with_map("abcdef", "ABCDEF", "0.!zZa", "aaaaaa"))
    hrefs = [anchor.get_attribute("href") for anchor in all_of(browser, "#detail a")]
    assert f"https://x.org/p/-/blob/{COMMIT}/suites/unit/row_sum.yaml#L1" in hrefs
    assert f"https://x.org/p/-/blob/{COMMIT}/kernels.py#L7" in hrefs
    assert f"https://x.org/p/-/commit/{COMMIT}" in hrefs
    assert "https://x.org/p/-/commit/c2ffee" in hrefs


def test_the_map_has_a_cell_for_each_character_with_its_place_and_value(panel):
    browser = panel(with_map("abcdef", "ABCDEF", "0.!zZa", "aaaaaa"))
    titles = [title.get_attribute("textContent") for title in all_of(browser, "#detail .grid title")]
    assert len(titles) == 24
    assert titles[0] == "0, 0: about 1.8"
    assert titles[12:15] == ["2, 0: no error", "2, 1: no finite pair", "2, 2: NaN or infinity on one side"]
    assert len(all_of(browser, "#detail .grid .wrong")) == 1


def test_the_course_marks_the_first_bad_commit(panel):
    browser = panel(with_map("a"))
    assert "First bad: commit c2ffee" in one(browser, ".since").text
    assert len(all_of(browser, "#detail .dot")) == 2
    assert len(all_of(browser, "#detail .dot-bad")) == 2


def test_tables_show_the_worst_rows_and_fold_the_others(panel):
    browser = panel(with_map("a"))
    more = next(each for each in all_of(browser, "#detail details") if each.text.startswith("6 more"))
    assert not more.find_element(BY_CSS, "table").is_displayed()
    more.find_element(BY_CSS, "summary").click()
    assert len(more.find_elements(BY_CSS, "tbody tr")) == 6
    assert "0x3e00" in more.text


@pytest.mark.parametrize("width", [1280, 768, 375])
@pytest.mark.parametrize(
    "make", [lambda: with_map("ab", "!."), crashed, improved], ids=["failed", "crashed", "improved"]
)
def test_the_panel_has_no_barrier_at_any_width(panel, make, width):
    browser = panel(make())
    with on_screen(browser, width, is_mobile=width < 500):
        # The page below the panel has tests of its own.
        browser.execute_script("document.querySelectorAll('#detail details').forEach((one) => { one.open = true; })")
        browser.execute_script("document.querySelectorAll('main .scroll').forEach((one) => { one.tabIndex = 0; })")
        assert problems_of(browser) == []
        assert one(browser, "h2").rect["width"] <= width
        with in_the_dark(browser):
            assert problems_of(browser) == []


def test_a_hostile_record_is_text_and_no_link(panel):
    hostile = "javascript:alert(1)//<img src=x onerror=alert(1)>"
    case = regressed(subject=Location(hostile, 1), history=MetricHistory(hostile, "mean_abs_error", EARLIER, 0.03))
    browser = panel(case, history_problem=hostile)
    assert all_of(browser, "img") == []
    assert not [each for each in all_of(browser, "#detail a") if not each.get_attribute("href").startswith("https://")]


def test_a_print_of_an_open_case_is_the_case(panel):
    browser = panel(with_map("ab", "cd"))
    with on_paper(browser):
        assert one(browser, ".message").is_displayed()
        assert not browser.find_element(BY_CSS, "main").is_displayed()
        assert not one(browser, ".command button").is_displayed()
