"""JUnit XML: held to Jenkins' schema in the strict dialect, read as GitLab reads it in the other."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from msgspec.structs import replace

from precreg.report import junit
from precreg.report.junit import render_run_junit
from precreg.types.case import Location
from precreg.types.outcome import Execution, Outcome
from precreg.types.record import TEST_DEFINED_PREFIX
from precreg.types.verdict import Finding, Reason, Status, Verdict
from precreg.types.warning import FindingKind
from tests.report.gitlab import TYPECASTS, pipeline
from tests.report.golden import RECORD, expected, settled
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
    verdict,
)

JENKINS = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit-10.xsd")))
EVERYTHING = run_of(
    regressed("m", tier="model"), crashed(), proposed(), skipped(), improved(), passed("i", tier="integration")
)


def valid(xml):
    return JENKINS.validate(etree.fromstring(xml.encode()))


def as_gitlab_reads(xml):
    """Return (name, status, text, file) of each test that GitLab keeps of one report."""
    tests = pipeline([("job", xml)])["job"].values()
    return [(test.name, test.status, test.text, test.file) for test in tests]


@pytest.mark.parametrize(("dialect", "name"), [("gitlab", "junit.xml"), ("strict", "junit-strict.xml")])
def test_the_golden_record_gives_the_golden_file(dialect, name):
    assert settled(render_run_junit(RECORD, dialect)) == settled(expected(name))


@pytest.mark.parametrize("record", [EVERYTHING, run_of(), road()], ids=["everything", "nothing", "road"])
def test_the_strict_dialect_keeps_jenkins_schema(record):
    assert valid(render_run_junit(record, "strict")), JENKINS.error_log


def test_the_schema_would_refuse_the_other_dialect():
    assert not valid(render_run_junit(EVERYTHING, "gitlab"))


def test_names_hold_nothing_that_changes_from_run_to_run():
    again = replace(EVERYTHING, started="2027", duration_s=9.0, git=None, results=EVERYTHING.results[::-1])
    assert render_run_junit(again, "strict") == render_run_junit(EVERYTHING, "strict")
    root = ElementTree.fromstring(render_run_junit(EVERYTHING, "strict"))
    assert [suite.get("name") for suite in root] == ["precreg.unit", "precreg.integration", "precreg.model"]
    assert {case.get("classname") for case in root[0]} == {"unit.row_sum"}


def test_totals_are_those_of_the_cases():
    root = ElementTree.fromstring(render_run_junit(EVERYTHING, "strict"))
    assert {name: root.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "6",
        "failures": "1",
        "errors": "1",
    }
    assert (root[0].get("tests"), root[0].get("skipped")) == ("4", "2")


def test_skipped_and_proposed_say_why_where_a_reader_of_either_kind_looks():
    root = ElementTree.fromstring(render_run_junit(EVERYTHING, "gitlab"))
    messages = [found.get("message") for found in root.iter("skipped")]
    assert messages == ["new: no baseline in cpu-x86_64, cpu, generic", "unavailable: device:npu is not there"]
    assert all(
        message.partition(": ")[2] in found.text for message, found in zip(messages, root.iter("skipped"), strict=True)
    )


def test_no_reason_is_a_word_that_gitlabs_reader_would_convert_a_body_by():
    assert not TYPECASTS & set(Reason)


@pytest.mark.parametrize(("seconds", "shown"), [(1e-9, "0.000"), (0.0014999, "0.001"), (1234567.8918, "1234567.892")])
@pytest.mark.parametrize("dialect", ["gitlab", "strict"])
def test_times_are_plain_decimals_of_three_digits_however_short(dialect, seconds, shown):
    timed = replace(passed().outcome, execution=Execution(duration_s=seconds))
    root = ElementTree.fromstring(render_run_junit(run_of(passed(outcome=timed)), dialect))
    assert root.get("time") == root[0].get("time") == root[0][0].get("time") == shown


def test_of_two_cases_that_xml_cannot_tell_apart_the_worse_is_kept():
    record = run_of(passed("a"), regressed("a\x01"), passed("a\x02"))
    assert [(name, status) for name, status, *_ in as_gitlab_reads(render_run_junit(record, "gitlab"))] == [
        ("unit/row_sum/a", "failed")
    ]


@given(st.text(st.characters()))
def test_any_text_gives_xml_that_a_parser_reads(text):
    finding = Finding(Reason.REGRESSED, text, text, text or "m", current=1.0)
    failed = regressed(text, verdict=Verdict(Status.FAILED, Reason.REGRESSED, text, (finding,)), suite=text)
    record = run_of(
        failed, crashed("c", detail=text), skipped(verdict=verdict(Reason.UNAVAILABLE, Status.SKIPPED, text))
    )
    assert valid(render_run_junit(record, "strict")), JENKINS.error_log
    assert len(as_gitlab_reads(render_run_junit(record, "gitlab"))) == 3


def test_the_name_of_every_test_is_unique():
    ofs = (
        regressed("a", suite="sums", id="unit/sums/a"),
        regressed("a", suite="means", id="unit/means/a"),
        regressed("a", tier="model"),
    )
    root = ElementTree.fromstring(render_run_junit(run_of(*ofs, findings=(LOOSENED, REMOVED)), "gitlab"))
    names = [test.get("name") for test in root.iter("testcase")]
    assert len(set(names)) == len(names) == 5
    assert {"unit/sums/a", "unit/means/a", "model/row_sum/a"} <= set(names)


def test_a_failure_says_how_much_where_and_what_to_type():
    ((_, _, text, _),) = as_gitlab_reads(render_run_junit(run_of(regressed("a b")), "gitlab"))
    lines = text.splitlines()
    assert "loss      4.9 x the baseline" in lines
    assert "worst     out at [3]: actual 127.75, reference 128.25, |difference| 0.5" in lines
    assert "reproduce precreg run 'unit/row_sum/a b'" in lines
    assert "look      precreg diagnose 'unit/row_sum/a b'" in lines


def test_an_error_is_reproduced_and_has_no_numerical_cause():
    ((_, _, text, _),) = as_gitlab_reads(render_run_junit(run_of(crashed()), "gitlab"))
    assert "reproduce precreg run unit/row_sum/crashes" in text
    assert "precreg diagnose" not in text


def test_a_case_of_a_test_is_reproduced_by_pytest():
    of_test = regressed(definition=f"{TEST_DEFINED_PREFIX}1", source=Location("tests/test_sums.py", 7))
    ((_, _, text, _),) = as_gitlab_reads(render_run_junit(run_of(of_test), "gitlab"))
    assert "reproduce pytest tests/test_sums.py" in text


@pytest.mark.parametrize("text", ["one of many words ", "<<<&&&>>> \u4e2d\u6587 "])
def test_ten_thousand_failures_stay_below_gitlabs_limit(text):
    lost = verdict(Reason.REGRESSED, Status.FAILED, text * 180)
    failing = replace(large(1), results=tuple(regressed(f"case-{i}", verdict=lost) for i in range(10_000)))
    xml = render_run_junit(failing, "gitlab")
    assert len(xml.encode()) < 30e6
    bodies = [failure.text for failure in ElementTree.fromstring(xml).iter("failure")]
    short = [body for body in bodies if "details are left out" in body]
    assert 0 < len(short) < len(bodies) == 10_000
    assert all("reproduce precreg run unit/row_sum/case-" in body for body in bodies)


@pytest.mark.parametrize("dialect", ["gitlab", "strict"])
def test_a_report_without_room_keeps_failures_and_counts_the_rest(monkeypatch, dialect):
    finding = LOOSENED
    results = [*(passed(f"a{i}") for i in range(300)), *(proposed(f"b{i}") for i in range(50))]
    results += [regressed(f"c{i}") for i in range(5)] + [crashed(f"d{i}") for i in range(5)]
    record = replace(run_of(*results), findings=(finding,))
    whole = render_run_junit(record, dialect)
    monkeypatch.setattr(junit, "MAX_FILE_BYTES", limit := len(whole.encode()) // 2)
    short = render_run_junit(record, dialect)
    assert len(short.encode()) <= limit + 1500
    assert dialect == "gitlab" or valid(short)
    root = ElementTree.fromstring(short)
    of = {suite.get("name"): suite for suite in root}
    assert {test.get("name") for test in root.iter("testcase")} >= {
        test.get("name") for test in ElementTree.fromstring(whole).iter("testcase") if test.find("failure") is not None
    }
    assert [len(root.findall(f".//{status}")) for status in ("failure", "error")] == [5 + finding.binding, 5]
    kept = sum(suite.get("name") != "precreg.report" and len(suite.findall("testcase")) for suite in root)
    for suite in root:
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        assert int(suite.get("skipped")) == len(suite.findall("testcase/skipped"))
    message = of["precreg.report"].find(".//skipped").get("message")
    left_out = re.findall(r"(\d+) (?:skipped|passed)", message)
    assert sum(map(int, left_out)) == 361 - kept > 0
    assert f"of {361} tests" in message


def test_a_long_text_does_not_take_the_room_of_others():
    finding = Finding(Reason.REGRESSED, "m" * 50_000, "out", "mean_abs_error", current=1.0)
    failed = regressed(verdict=Verdict(Status.FAILED, Reason.REGRESSED, "m" * 50_000, (finding,)))
    failure = next(ElementTree.fromstring(render_run_junit(run_of(failed), "gitlab")).iter("failure"))
    assert failure.get("message") == f"{'m' * 1000}... (49000 more characters are in record.json)"
    assert len(failure.text) < 20_100


def test_an_outcome_without_comparisons_has_a_body():
    missing = regressed(outcome=Outcome("x", "1:d", Execution()), tolerances={}, baseline=None)
    (_, status, text, _) = as_gitlab_reads(render_run_junit(run_of(missing), "gitlab"))[0]
    assert status == "failed"
    assert "suites/unit/row_sum.yaml:1" in text


def test_the_place_where_repeats_first_differ_stands_in_the_failure():
    ((_, status, text, _),) = as_gitlab_reads(render_run_junit(run_of(nondeterministic()), "gitlab"))
    assert status == "failed"
    assert "starts in output 'partial' at [0, 37]: 12 of 512 elements differ" in text
    assert "total: differs too" in text


FINDINGS = (UNUSED, CHANGED, LOOSENED, REMOVED)


def test_findings_on_the_run_are_a_suite_of_their_own():
    root = ElementTree.fromstring(render_run_junit(run_of(regressed(), findings=FINDINGS), "gitlab"))
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in root] == [
        ("precreg.unit", "1", "1"),
        ("precreg.run", "4", "2"),
    ]
    assert (root.get("tests"), root.get("failures")) == ("5", "3")
    tests = [(test.get("classname"), test.get("name"), test.get("file"), test.get("line")) for test in root[1]]
    assert tests == [
        ("run.allowance_unused", "baselines/allow.yaml: allowance_unused", "baselines/allow.yaml", None),
        ("run.baseline_changed", f"{CHANGED.about}: baseline_changed", "baselines/allow.yaml", None),
        ("run.bound_loosened", f"{LOOSENED.about}: bound_loosened", "suites/unit/row_sum.yaml", "14"),
        ("run.case_removed", f"{REMOVED.about}: case_removed", "baselines/allow.yaml", None),
    ]


def test_what_binds_fails_and_what_does_not_passes_with_its_text():
    xml = render_run_junit(run_of(findings=FINDINGS), "gitlab")
    assert [(name, status) for name, status, *_ in as_gitlab_reads(xml)] == [
        ("baselines/allow.yaml: allowance_unused", "success"),
        (f"{CHANGED.about}: baseline_changed", "success"),
        (f"{LOOSENED.about}: bound_loosened", "failed"),
        (f"{REMOVED.about}: case_removed", "failed"),
    ]
    failure = next(ElementTree.fromstring(xml).iter("failure"))
    assert (failure.get("type"), failure.get("message")) == ("bound_loosened", LOOSENED.message)
    assert failure.text == f"{LOOSENED.message}\nat        suites/unit/row_sum.yaml:14"
    written = [element.text for element in ElementTree.fromstring(xml).iter("system-out")]
    assert written == [UNUSED.message, f"{CHANGED.message}\nallowed   {CHANGED.allowed}"]


def test_findings_keep_jenkins_schema():
    assert valid(render_run_junit(run_of(regressed(), findings=FINDINGS), "strict")), JENKINS.error_log
    assert valid(render_run_junit(run_of(findings=FINDINGS), "strict")), JENKINS.error_log


def test_no_kind_is_a_word_that_gitlabs_reader_would_convert_a_body_by():
    assert not TYPECASTS & set(FindingKind)


def test_of_findings_that_xml_cannot_tell_apart_all_are_told_and_the_worst_decides():
    twin = replace(LOOSENED, about=LOOSENED.about + "\x01", message="rtol, too", allowed="why")
    ((name, status, text, _),) = as_gitlab_reads(render_run_junit(run_of(findings=(twin, LOOSENED)), "gitlab"))
    assert (name, status) == (f"{LOOSENED.about}: bound_loosened", "failed")
    assert LOOSENED.message in text
    assert "rtol, too" in text


@given(st.text(st.characters()))
def test_any_text_of_a_finding_gives_xml_that_a_parser_reads(text):
    found = [replace(one, about=text, message=text, allowed=why) for one, why in ((LOOSENED, None), (CHANGED, text))]
    xml = run_of(findings=tuple(found))
    assert valid(render_run_junit(xml, "strict")), JENKINS.error_log
    assert [status for _, status, *_ in as_gitlab_reads(render_run_junit(xml, "gitlab"))] == ["success", "failed"]


def test_what_binds_stands_in_the_text_of_a_failure():
    ((_, _, text, _),) = as_gitlab_reads(render_run_junit(run_of(judged_by(STATISTIC)), "gitlab"))
    assert re.search(r"^out +mean_abs_error .* 4\.73 to 5\.06 +1\.001 +1\.02 +statistic$", text, re.MULTILINE)
