"""report.html as text: one file, inert whatever a record holds, small whatever a run holds. tests/browser opens it."""

import base64
import gc
import hashlib
import json
import re
import sys
import time
from functools import cached_property
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from precreg.report import html
from precreg.report.html_data import MAX_PASSED_IN_DETAIL, json_for_script
from precreg.types.verdict import Reason, Status
from precreg.types.warning import Orphan, ToleranceWarning, UnlistedDtype
from tests.report.made import (
    CHANGED,
    LOOSENED,
    REMOVED,
    UNUSED,
    crashed,
    improved,
    large,
    passed,
    proposed,
    regressed,
    road,
    run_of,
    various,
    verdict,
)
from tests.report.page_data import details_of, rows_of

MAX_PAGE_BYTES = 5e6


class Page(HTMLParser):
    """The elements of a page, and the text of its scripts by id."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self._texts, self._inside = [], {}, [], None
        self._written = text
        self.feed(text)

    @cached_property
    def text(self):
        return "".join(self._texts)

    @cached_property
    def rows(self):
        return rows_of(self._written)

    @cached_property
    def details(self):
        return details_of(self._written)

    def data(self, id):
        """Return the data of a script, as it stands in the page."""
        return json.loads(self.scripts[id])

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "script":
            self._inside = dict(attributes).get("id", "code")
            self.scripts[self._inside] = ""

    def handle_endtag(self, tag):
        if tag == "script":
            self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.scripts[self._inside] += data
        else:
            self._texts.append(data)


def page(*results, **changes):
    return Page(html.render_run_html(run_of(*results, **changes)))


@pytest.fixture(scope="module")
def thousands():
    return large(10_000)


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img onerror=x>',
    "{{ 7 * 7 }}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_record_is_neither_markup_nor_code(text):
    case = regressed(text, parameters={text: text}, tags=(text,))
    changed = {
        "project": text,
        "orphans": (Orphan(text, text, text),),
        "warnings": (ToleranceWarning(text, UnlistedDtype(text, text), (text,)),),
        "findings": (replace(LOOSENED, about=case.id, message=text, allowed=text), replace(REMOVED, about=text)),
        "against": text,
        "started": text,
        "environment": replace(road().environment, label=text, facts={text: text}),
        "git": replace(road().git, branch=text, commit=text),
    }
    hostile = page(case, crashed(text, text), improved(text), **changed)
    findings = (replace(LOOSENED, about=regressed("tame").id, allowed="tame"), REMOVED)
    tame = page(
        regressed("tame"),
        crashed("tame"),
        improved("tame"),
        orphans=(Orphan("tame", "tame"),),
        warnings=(ToleranceWarning("tame", UnlistedDtype("tame", "tame")),),
        findings=findings,
        against="tame",
    )
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in tame.elements]
    assert hostile.rows[0]["id"] == f"unit/row_sum/{text}"
    assert text in hostile.text


def test_nothing_is_fetched():
    written = html.render_run_html(road())
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|\bsrc=|@import|url\(", written)
    assert not [tag for tag, _ in Page(written).elements if tag in ("link", "img", "iframe", "object")]


def test_a_page_does_not_keep_its_record():
    record = road()
    held = sys.getrefcount(record)
    gc.disable()
    try:
        html.render_run_html(record)
        assert sys.getrefcount(record) == held
    finally:
        gc.enable()


def test_the_policy_lets_only_the_pages_own_script_run():
    written = page(regressed())
    policy = next(attributes["content"] for tag, attributes in written.elements if "http-equiv" in attributes)
    digest = base64.b64encode(hashlib.sha256(written.scripts["code"].encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}';" in policy


def test_rows_are_worst_first_and_say_what_the_terminal_says():
    rows = page(passed(), proposed(), regressed()).rows
    assert [row["status"] for row in rows] == ["failed", "proposed", "passed"]
    assert rows[0] == {
        "id": "unit/row_sum/float16-8x256",
        "tier": "unit",
        "status": "failed",
        "reason": "regressed",
        "metric": "mean_abs_error",
        "current": "0.1175",
        "baseline": "0.024",
        "loss": "4.9 x the baseline",
        "times": 4.896,
        "seconds": 0.0004,
        "time": "0.4 ms",
        "message": "out: mean_abs_error grew 4.9x over the baseline (0.024 -> 0.1175, allowed 1.1x)",
        "group": 0,
    }
    assert figures(rows[1]) == ["", "", "", ""]
    assert figures(rows[2]) == ["mean_abs_error", "5.05e-06", "5.05e-06", ""]


def figures(row):
    return [row[name] for name in ("metric", "current", "baseline", "loss")]


def test_a_failure_without_a_metric_shows_none_that_did_not_fail():
    mismatch = verdict(Reason.NON_FINITE_MISMATCH, Status.FAILED, "8 of 945 elements differ", current=8.0, limit=0.0)
    (row,) = page(regressed(verdict=mismatch)).rows
    assert (row["reason"], *figures(row)) == ("non_finite_mismatch", "", "", "", "")
    assert row["times"] is None, "infinity, which JSON has not"


def test_the_overview_says_what_the_terminal_says():
    text = page(regressed(), orphans=(Orphan("unit/old/x", "baselines/generic/unit/old.json"),)).text
    for part in ("1 case regressed against its baseline", "cpu-x86_64", "1a2b3c4d", "0.31 s", "unit/old/x", "2.4.6"):
        assert part in text


def test_an_empty_run_has_a_page():
    assert "There was no case to judge" in page(exit_code=2).text


def test_the_page_opens_in_the_language_that_is_asked_for():
    chinese, english = (html.render_run_html(road(), language) for language in ("zh", "en"))
    assert '<html lang="zh-Hans">' in chinese
    assert ">变差的用例</span>" in chinese
    assert '<html lang="en">' in english
    assert ">What got worse</span>" in english


def test_a_run_outside_git_has_a_page():
    assert "none" in page(regressed(), git=None).text


def test_ten_thousand_cases_stay_small_and_are_written_in_seconds(thousands):
    began = time.process_time()
    written = html.render_run_html(thousands)
    assert time.process_time() - began < 20
    assert len(written.encode()) < MAX_PAGE_BYTES
    assert len(rows_of(written)) == 10_000
    details = details_of(written)
    assert {case.id for case in thousands.results if case.verdict.status == "failed"} < set(details)
    assert len(details) == 200 + MAX_PASSED_IN_DETAIL


def test_ten_thousand_failures_stay_small_and_the_worst_keep_their_details():
    written = html.render_run_html(various(10_000, share_failed=1.0))
    assert len(written.encode()) < MAX_PAGE_BYTES
    details = details_of(written)
    assert 500 < len(details) < 10_000
    assert list(details) == [row["id"] for row in rows_of(written)[: len(details)]]


def test_json_in_a_script_reads_back():
    value = {"<!--": ["</script>", "&amp;", "\u2028\u2029", "é"]}
    text = json_for_script(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_findings_on_the_run_are_shown_with_links_to_cases_that_are_there():
    shown = page(regressed(), findings=(UNUSED, CHANGED, LOOSENED, REMOVED), against="0c1d2e3f4a5b")
    assert "On the run: 2 binding, 1 allowed, 1 told" in shown.text
    for part in (
        LOOSENED.message,
        "suites/unit/row_sum.yaml:14",
        f"allowed: {CHANGED.allowed}",
        REMOVED.about,
        "0c1d2e3f",
    ):
        assert part in shown.text
    rows = [attributes["data-found"] for tag, attributes in shown.elements if "data-found" in attributes]
    assert rows == ["binding", "binding", "allowed", "told"]
    links = [attributes["href"] for tag, attributes in shown.elements if tag == "a"]
    # The story, the group and the finding: the other findings are about no case of the page.
    assert links == ["#unit/row_sum/float16-8x256"] * 3


def test_a_run_without_findings_has_no_section_of_them():
    classes = [attributes.get("class") or "" for _, attributes in page(regressed()).elements]
    assert not [names for names in classes if "findings" in names.split()]


def test_very_many_findings_stay_few_rows():
    many = tuple(replace(LOOSENED, about=f"unit/row_sum/{i}") for i in range(html.MAX_HTML_FINDINGS + 7))
    shown = page(findings=many)
    assert len([1 for _, attributes in shown.elements if "data-found" in attributes]) == html.MAX_HTML_FINDINGS
    assert "And 7 more in record.json." in shown.text
