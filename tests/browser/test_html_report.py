"""The HTML report as a reviewer uses it: opened from a file, filtered, sorted, searched, a case looked into."""

import re
from urllib.parse import quote

import pytest
from msgspec.structs import replace
from selenium.webdriver.support.ui import WebDriverWait

from precreg.report import html
from precreg.report.findings import add_messages
from precreg.report.groups import group_failures
from precreg.report.story import describe_run_story
from precreg.types.verdict import ChangedEnvironment, EnvironmentFact, Finding, Reason
from tests.browser.accessibility import problems_of
from tests.browser.pages import BY_CSS, all_of, in_the_dark, on_paper, on_phone, on_screen
from tests.report.causes.test_diagnosis import CAST, SWAPPED, diagnosis
from tests.report.made import (
    CHANGED,
    LOOSENED,
    REMOVED,
    STATISTIC,
    UNUSED,
    crashed,
    improved,
    judged_by,
    large,
    nondeterministic,
    passed,
    proposed,
    regressed,
    road,
    run_of,
    skipped,
)
from tests.report.studies.made import both
from tests.report.test_run_sentences import SENTENCES as RUN_SENTENCES
from tests.report.test_run_sentences import finding as run_finding
from tests.report.test_sentences import SENTENCES


@pytest.fixture
def opened(open_page):
    """Return a function that opens a record's report, at a case."""
    return lambda record, case="": open_page(html.render_run_html(record), 1600, case)


@pytest.fixture(scope="module")
def thousands():
    return large(10_000)


def one_of(browser, selector):
    return browser.find_element(BY_CSS, selector)


def ids(browser):
    return [anchor.text for anchor in all_of(browser, "#rows a")]


def column(browser, name):
    place = [heading.text for heading in all_of(browser, "#headings th")].index(name) + 1
    return [cell.text for cell in all_of(browser, f"#rows td:nth-child({place})")]


def click_heading(browser, name):
    next(button for button in all_of(browser, "#headings button") if button.text == name).click()


def detail(browser):
    return one_of(browser, "#detail").text


def test_the_sentence_and_the_cases_worst_first(opened):
    browser = opened(road())
    assert one_of(browser, "h1").text == (
        "1 of 3 cases regressed: in unit/row_sum/float16-8x256, mean_abs_error is 4.9 x the baseline "
        "(0.024 -> 0.1175), compared with commit 0c1d2e3f (accepted 2026-11-02)"
    )
    assert column(browser, "status") == ["failed", "proposed", "passed"]
    assert column(browser, "loss") == ["4.9 x the baseline", "", ""]
    assert column(browser, "case")[1] == "unit/row_sum/float16-16x64\nno baseline in cpu-x86_64, cpu, generic"


def test_chips_and_numbers_of_the_overview_filter(opened):
    browser = opened(run_of(regressed(), passed("a"), passed("b", tier="model"), crashed()))
    one_of(browser, "[data-chip=passed]").click()
    assert ids(browser) == ["model/row_sum/b", "unit/row_sum/a"]
    assert one_of(browser, "#shown").text == "2 of 4 cases"
    one_of(browser, ".cell[data-tier=model][data-status=passed]").click()
    assert ids(browser) == ["model/row_sum/b"]
    one_of(browser, "#clear").click()
    assert len(ids(browser)) == 4


def test_every_word_of_a_search_must_occur(opened):
    browser = opened(run_of(passed("float16-8x8"), passed("float16-4x4"), passed("float32-8x8")))
    one_of(browser, "#search").send_keys("FLOAT16 8x8")
    assert ids(browser) == ["unit/row_sum/float16-8x8"]
    one_of(browser, "#search").send_keys(" nonsense")
    assert one_of(browser, "#rows").text == "No case matches."


def test_numbers_are_sorted_as_numbers_in_both_directions(opened):
    browser = opened(run_of(*(_with_ratio(ratio) for ratio in (9.0, 10.5, 100.0, 1e6, 1.25))))
    rising = [f"{ratio} x the baseline" for ratio in ("1.25", "9", "10.5", "100", "1e+06")]
    click_heading(browser, "loss")
    assert column(browser, "loss") == rising[::-1]
    click_heading(browser, "loss")
    assert column(browser, "loss") == rising
    assert one_of(browser, "[aria-sort]").get_attribute("aria-sort") == "ascending"


def _with_ratio(ratio):
    case = regressed(f"r{ratio}")
    finding = replace(case.verdict.findings[0], ratio=ratio)
    return replace(case, verdict=replace(case.verdict, findings=(finding,)))


def test_ten_thousand_cases_a_hundred_at_a_time(opened, thousands):
    browser = opened(thousands)
    assert len(ids(browser)) == 100
    assert one_of(browser, "#page").text == "1 to 100 of 10,000"
    first = ids(browser)
    one_of(browser, "#next-page").click()
    assert one_of(browser, "#page").text == "101 to 200 of 10,000"
    assert not set(first) & set(ids(browser))
    one_of(browser, "#search").send_keys("x9999")
    assert [id.rpartition("x")[2] for id in ids(browser)] == ["9999"]
    assert not one_of(browser, "#pager").is_displayed()


def test_ten_thousand_cases_are_there_within_seconds(opened, thousands):
    browser = opened(thousands)
    assert browser.execute_script("return performance.getEntriesByType('navigation')[0].duration") < 5_000


def test_a_case_is_opened_walked_from_and_closed_by_keys(opened):
    browser = opened(road())
    all_of(browser, "#rows a")[0].send_keys("\n")
    assert browser.current_url.endswith("#unit/row_sum/float16-8x256")
    assert "mean_abs_error grew 4.9x over the baseline" in detail(browser)
    one_of(browser, "#detail").send_keys("j")
    assert "unit/row_sum/float16-16x64" in detail(browser)
    assert "no baseline in" in detail(browser)
    one_of(browser, "#detail").send_keys("\ue00c")  # Escape
    assert not one_of(browser, "#detail").is_displayed()
    assert browser.switch_to.active_element.text == "unit/row_sum/float16-16x64"


def test_where_repeats_differ_is_a_table(opened):
    browser = opened(run_of(nondeterministic()))
    all_of(browser, "#rows a")[0].send_keys("\n")
    shown = detail(browser)
    assert "Where repeats differ" in shown
    assert "partial 0 1 and 2 [0, 37] 12 of 512" in shown
    assert "1.19e-07" in shown
    assert "rest 1 1 and 3" in shown


def test_a_link_to_a_case_shows_all_that_is_known_of_it(opened):
    browser = opened(road(), "unit/row_sum/float16-8x256")
    for each in all_of(browser, "#detail details"):
        each.find_element(BY_CSS, "summary").click()
    text = detail(browser)
    for part in (
        "suites/unit/row_sum.yaml:14",
        "suite float16",
        "Ada <ada@example.org>",
        "first version",
        "cc01…",
        "[3]",
    ):
        assert part in text
    assert [figure.get_attribute("aria-label") for figure in all_of(browser, "#detail svg")] == [
        "share of elements in each bin",
        "share of elements with at most this error",
    ]
    assert len(all_of(browser, ".bar-now")) == 2
    assert all_of(browser, ".plain tr.bad")


def test_charts_have_no_broken_numbers_at_the_edges_of_the_floats(opened):
    case = regressed()
    edges = replace(case.outcome.comparisons[0].histogram, bins=[0, 1, 3, 4, 8187], counts=[1, 1, 1, 1, 1])
    comparison = replace(case.outcome.comparisons[0], histogram=edges, heat=[0.0, 5e-324, 1e308])
    browser = opened(run_of(replace(case, outcome=replace(case.outcome, comparisons=(comparison,)))), case.id)
    assert all_of(browser, "#detail svg")
    assert "NaN" not in one_of(browser, "#detail").get_attribute("innerHTML")
    assert "Infinity" not in one_of(browser, "#detail").get_attribute("innerHTML")


def test_a_failure_shows_its_traceback(opened):
    assert "Traceback (most recent call last)" in detail(opened(run_of(crashed()), "unit/row_sum/crashes"))


def test_a_case_beyond_the_limit_says_where_its_details_are(opened, thousands):
    last = thousands.results[-1]
    assert "left out to keep the report small" in detail(opened(thousands, last.id))


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "50% & #1?"])
def test_a_name_is_text_wherever_it_stands(opened, name):
    case = regressed(name, parameters={name: name}, tags=(name,))
    finding = replace(case.verdict.findings[0], message=name, output=name)
    browser = opened(run_of(replace(case, verdict=replace(case.verdict, message=name, findings=(finding,)))))
    one_of(browser, "#rows a").click()
    assert one_of(browser, "#detail h2").text == f"unit/row_sum/{name}"
    assert all_of(browser, "img") == []
    assert len(all_of(browser, "script")) == 4


def test_a_phone_shows_the_table_without_scrolling_sideways(opened):
    browser = opened(run_of(regressed(), crashed()))
    with on_phone(browser):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
        one_of(browser, "#rows a").click()
        assert one_of(browser, "#detail").rect["width"] <= 400


def test_studies_open_to_drawings_and_tables(opened):
    browser = opened(both())
    growth, trade_off = all_of(browser, "details.study")
    assert not growth.find_element(BY_CSS, ".panel svg").is_displayed()
    for study in (growth, trade_off):
        study.find_element(BY_CSS, "summary").click()
    panels = growth.find_elements(BY_CSS, ".panel svg")
    assert [panel.rect["height"] > 150 for panel in panels] == [True, True]
    filled = [dot.value_of_css_property("fill") for dot in panels[0].find_elements(BY_CSS, "circle")]
    assert len(filled) == 6
    assert len(set(filled[:3])) == len(set(filled[3:])) == 1
    assert filled[0] != filled[3]
    for law in ("line-now", "line-then"):
        assert panels[0].find_element(BY_CSS, f".{law}").value_of_css_property("stroke") != "none"
    assert "0.25 (not faster)" in trade_off.text


def found(browser):
    return [row.text.split()[0] for row in all_of(browser, "[data-found]") if row.is_displayed()]


def test_findings_on_the_run_are_chosen_by_chips_and_the_search_and_lead_to_their_case(opened):
    browser = opened(run_of(regressed(), passed(), findings=(UNUSED, CHANGED, LOOSENED, REMOVED)))
    assert found(browser) == ["binding", "binding", "allowed", "told"]
    assert one_of(browser, ".status.binding").value_of_css_property("color") == one_of(
        browser, ".status.failed"
    ).value_of_css_property("color")
    for standing in ("allowed", "told"):
        one_of(browser, f"[data-standing={standing}]").click()
    assert found(browser) == ["allowed", "told"]
    for standing in ("allowed", "told"):
        one_of(browser, f"[data-standing={standing}]").click()
    one_of(browser, "#search").send_keys("float16")
    assert found(browser) == ["binding", "allowed"]
    one_of(browser, "#clear").click()
    assert len(found(browser)) == 4
    next(anchor for anchor in all_of(browser, ".findings a") if anchor.text == LOOSENED.about).click()
    assert one_of(browser, "#detail h2").text == LOOSENED.about


def test_what_binds_a_verdict_stands_once_in_its_row(opened):
    shown = detail(opened(run_of(judged_by(STATISTIC)), judged_by(STATISTIC).id))
    assert "rule: statistic" not in shown
    assert "out mean_abs_error 0.1175 0.024 4.9 4.73 to 5.06 1.001 1.02 statistic" in shown


def test_the_details_of_a_failed_case_say_why(opened):
    browser = opened(run_of(regressed("x", diagnosis=diagnosis("found", SWAPPED, runners_up=(CAST,)))))
    all_of(browser, "#rows a")[0].send_keys("\n")
    shown = detail(browser)
    assert "Why" in shown
    for words in ("multiply before divide at ops/adam.py:49", "runner-up", "cast to float16 in input x", "to do"):
        assert words in shown


def many_causes():
    """Return a run of losses of two suites, a crash, an improvement, a case without a baseline and findings."""
    known = diagnosis("found", SWAPPED)
    losses = [regressed(f"f{number:02}", diagnosis=known) for number in range(14)]
    broken = [replace(_with_ratio(9.5), id="unit/col_sum/a", suite="col_sum", name="a")]
    found = (UNUSED, CHANGED, LOOSENED, REMOVED)
    return run_of(*losses, *broken, crashed(), improved(), proposed(), passed(), findings=found)


def test_equal_causes_are_one_group_the_largest_loss_first_and_open_to_their_cases(opened):
    browser = opened(many_causes())
    first, second = all_of(browser, ".worse .group")
    assert first.text.splitlines()[:2] == ["9.5 x the baseline", "regressed in unit/col_sum"]
    assert second.text.splitlines()[0] == "4.9 x the baseline"
    assert "multiply before divide at adam.py:49" in second.text
    assert "14 cases" in second.text
    assert not second.find_element(BY_CSS, "table").is_displayed()
    second.find_element(BY_CSS, "summary").click()
    assert len(second.find_elements(BY_CSS, "tbody tr")) == html.MAX_GROUP_CASES
    next(a for a in second.find_elements(BY_CSS, "a") if a.text == "show these 14 cases in the table").click()
    assert ids(browser) == [f"unit/row_sum/f{number:02}" for number in range(14)]
    assert one_of(browser, "#of-group").text == "cases of one group: regressed, unit/row_sum"
    one_of(browser, "#clear").click()
    assert len(ids(browser)) == 19


def test_the_parts_of_the_page_are_in_the_order_of_a_reviewers_questions(opened):
    browser = opened(many_causes())
    assert [heading.text for heading in all_of(browser, "main h2") if heading.is_displayed()] == [
        "What got worse",
        "What improved",
        "What could not be judged, or only in part",
        "Changed baselines and tolerances, and losses of the whole run",
        "Environment",
        "All cases",
    ]
    assert [group.text.splitlines()[0] for group in all_of(browser, ".improved .group")] == ["0.5 x the baseline"]
    assert "subject_error in unit/row_sum" in one_of(browser, ".unjudged .groups").text


def test_filters_search_sort_page_and_case_are_in_the_address(opened, thousands):
    browser = opened(thousands)
    one_of(browser, "[data-chip=passed]").click()
    one_of(browser, "#search").send_keys("float16 x")
    click_heading(browser, "case")
    one_of(browser, "#next-page").click()
    chosen = ids(browser)
    address = browser.current_url.partition("#")[2]
    assert address == "?search=float16+x&status=passed&sort=case&page=2"
    all_of(browser, "#rows a")[3].click()
    assert one_of(browser, "#detail h2").text == chosen[3]
    browser.refresh()
    assert ids(browser) == chosen
    assert one_of(browser, "#detail h2").text == chosen[3]
    assert one_of(browser, "#search").get_attribute("value") == "float16 x"
    assert one_of(browser, "[data-chip=passed]").get_attribute("aria-pressed") == "true"
    assert one_of(browser, "th[aria-sort=ascending]").text == "case"


def test_the_back_button_goes_through_the_steps_of_the_reader(opened):
    browser = opened(many_causes())
    one_of(browser, "[data-chip=failed]").click()
    all_of(browser, "#rows a")[0].click()
    # A browser announces a new address after the click.
    shown = WebDriverWait(browser, 10).until(lambda _: one_of(browser, "#detail h2"))
    assert shown.text == "unit/col_sum/a"
    browser.back()
    WebDriverWait(browser, 10).until(lambda _: not one_of(browser, "#detail").is_displayed())
    assert one_of(browser, "#shown").text == "15 of 19 cases"
    browser.back()
    assert one_of(browser, "#shown").text == "19 cases"
    browser.forward()
    assert one_of(browser, "#shown").text == "15 of 19 cases"


@pytest.mark.parametrize(
    "address",
    ["?status=nonsense&tier=<b>&group=99999&sort=x&page=-1", "?page=999999999", "?group=1e9", "%E0%A4%A?q", "?lang=xx"],
)
def test_an_address_that_makes_no_sense_shows_all_cases(opened, address):
    browser = opened(many_causes(), address)
    assert one_of(browser, "#shown").text == "19 cases"
    assert len(ids(browser)) == 19


def settled_problems(browser):
    """Return the problems of the page after its layout."""
    browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 50))")
    return problems_of(browser)


@pytest.mark.parametrize("width", [1280, 768, 375])
@pytest.mark.parametrize("make", [many_causes, road, both])
def test_the_page_is_accessible_at_every_width(opened, width, make):
    browser = opened(make())
    with on_screen(browser, width, is_mobile=width < 400):
        assert settled_problems(browser) == []
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        assert settled_problems(browser) == []
        with in_the_dark(browser):
            assert settled_problems(browser) == []


def test_paper_has_the_details_of_the_failures(opened):
    browser = opened(many_causes())
    printed = one_of(browser, ".printed")
    assert not printed.is_displayed()
    with on_paper(browser):
        assert len(printed.find_elements(BY_CSS, "article")) == 16
        for words in ("mean_abs_error", "[3]", "127.75", "multiply before divide", "suites/unit/row_sum.yaml:1"):
            assert words in printed.text
        assert "precreg run unit/col_sum/a" in printed.text
        controls = all_of(browser, "#tools, #pager, .language, .findings .chips, aside, .printed button, .printed a")
        assert not any(each.is_displayed() for each in controls)
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert all(group.get_attribute("open") for group in all_of(browser, ".worse .group"))
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert not any(group.get_attribute("open") for group in all_of(browser, ".worse .group"))


PAINT = "performance.getEntriesByName('first-contentful-paint')"


def test_ten_thousand_cases_are_there_at_once_and_answer_at_once(opened, thousands):
    browser = opened(thousands)
    WebDriverWait(browser, 10).until(lambda _: browser.execute_script(f"return {PAINT}.length"))
    measured = browser.execute_script(f"""
        const search = document.getElementById("search");
        const time = (act) => {{
          const began = performance.now();
          act();
          document.body.offsetHeight;
          return performance.now() - began;
        }};
        const type = (text) => () => {{ search.value = text; search.dispatchEvent(new Event("input")); }};
        const click = (selector, at = 0) => () => document.querySelectorAll(selector)[at].click();
        return {{
          paint: {PAINT}[0].startTime,
          loaded: performance.getEntriesByType("navigation")[0].duration,
          search: time(type("float16 x1")),
          clear: time(click("#clear")),
          chip: time(click("[data-chip=passed]")),
          sort: time(click("#headings button", 2)),
          page: time(click("#next-page")),
        }};""")
    print(", ".join(f"{name} {value:.0f} ms" for name, value in measured.items()))
    # The page aims at 1 s for the first view and 100 ms for a filter; a busy machine may take ten times as long.
    assert measured.pop("loaded") < 10_000
    assert measured.pop("paint") < 10_000
    assert max(measured.values()) < 1_000


def test_the_page_speaks_chinese_by_a_switch_and_keeps_it_in_the_address(opened):
    browser = opened(many_causes())
    select = one_of(browser, "#language")
    select.find_element(BY_CSS, "option[value=zh]").click()
    assert [heading.text for heading in all_of(browser, "#headings th")][:3] == ["状态", "用例", "损失"]
    assert one_of(browser, "#worse-title").text == "变差的用例"
    assert one_of(browser, "#shown").text == "19 个用例"
    assert one_of(browser, "#search").get_attribute("placeholder").startswith("搜索")
    assert one_of(browser, "html").get_attribute("lang") == "zh-Hans"
    browser.refresh()
    assert one_of(browser, "#worse-title").text == "变差的用例"
    browser.back()
    assert one_of(browser, "#worse-title").text == "What got worse"


# Sentences, and neither names, numbers, options nor code.
ENGLISH = re.compile(r"(?:\b[A-Za-z][a-z']*\b[ ,]+){3,}\b[A-Za-z][a-z']*\b")
# Texts of a page in the page's order, without code, ids and the words of a traceback.
TEXTS = """
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      const isCode = parent.closest("script, noscript, code, pre, option, .id, td a, h1 a, #language");
      if (!isCode) found.push(walker.currentNode.textContent);
    }
    const labels = [...document.querySelectorAll("[aria-label], [title], [placeholder]")]
      .flatMap((one) => ["aria-label", "title", "placeholder"].map((name) => one.getAttribute(name))).filter(Boolean);
    return [...found, ...labels];
"""


def many_reasons():
    """Return a run with verdicts of all kinds, findings on the run, warnings, orphans, and notes."""
    facts = [(Finding(Reason.REGRESSED, fact=fact, **fields), at) for at, (fact, fields, _) in enumerate(SENTENCES)]
    results = [
        regressed(f"s{at:03}", verdict=replace(regressed().verdict, message="", findings=(each,))) for each, at in facts
    ]
    changed = ChangedEnvironment((EnvironmentFact("numpy", "2.3.5", "2.5.1"),))
    results += [passed("moved", baseline=replace(passed().baseline, difference=changed)), nondeterministic(), skipped()]
    on_run = tuple(run_finding(fact) for fact, _ in RUN_SENTENCES)
    record = replace(many_causes(), findings=on_run)
    return add_messages(replace(record, results=(*record.results, *results)))


def english_left(browser, record):
    """Return the English sentences on a page, apart from formulas, commands, and words that no fact of ours states."""
    of_cases = [each for result in record.results for each in result.verdict.findings if each.fact is None]
    quoted = {each.message for each in (*of_cases, *record.findings) if each.fact is None}
    quoted |= {f"{each.output}: {each.message}" for each in of_cases}
    texts = (re.sub(r"precreg [ -~]*", "", text) for text in browser.execute_script(TEXTS))
    return {text for text in texts if ENGLISH.search(text) and text.strip() not in quoted and "(unit: " not in text}


def test_the_chinese_page_has_no_english_sentence(opened):
    record = many_reasons()
    browser = opened(record)
    assert len(english_left(browser, record)) > 100
    one_of(browser, "#language option[value=zh]").click()
    assert english_left(browser, record) == set()
    # Facts of all kinds are in messages of the table; a panel has words of its own by the kind of its case.
    for result in [*record.results[:1], *record.results[14:19], *record.results[-3:]]:
        browser.execute_script("location.hash = arguments[0]", f"{quote(result.id)}?lang=zh")
        WebDriverWait(browser, 5).until(lambda _, id=result.id: one_of(browser, "#detail-title").text == id)
        assert english_left(browser, record) == set()


def test_a_page_in_chinese_begins_in_chinese_and_has_the_numbers_of_the_english_one(open_page):
    record = many_causes()
    browser = open_page(html.render_run_html(record, "zh"))
    chinese = one_of(browser, "h1").text
    assert "个用例" in chinese
    assert [cell for cell in column(browser, "损失") if cell.startswith("基线的")]
    one_of(browser, "#language option[value=en]").click()
    english = one_of(browser, "h1").text
    assert english == describe_run_story(record, group_failures(record.results)).text
    assert sorted(re.findall(r"\d[\d.e-]*", chinese)) == sorted(re.findall(r"\d[\d.e-]*", english))
    assert not [cell for cell in column(browser, "loss") if "倍" in cell]


def test_chinese_words_are_searched(opened):
    browser = opened(many_causes())
    one_of(browser, "#language option[value=zh]").click()
    one_of(browser, "#search").send_keys("没有基线")
    assert one_of(browser, "#shown").text == "1 / 19 个用例"
