"""Write a run as JUnit XML, in GitLab's dialect or in Jenkins' strict schema junit-10.xsd.

GitLab identifies a test by suite, class and case name, so these contain no time, commit or shard. It keeps either of
two tests with one identity, so twins are joined. It shows the body of a failure, so the text is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree

from precreg.report.describe import (
    describe_provenance,
    failing_rules,
    failure_tail,
    finding_notes,
    finding_rows,
    finding_table,
    repository_path,
    sort_results,
    strip_controls,
)
from precreg.report.sections import explain_run_finding, finding_location, group_run_findings
from precreg.types import TIERS, CaseResult, RunFinding, RunRecord, Status

if TYPE_CHECKING:
    from junit_xml import TestCase


JunitDialect = Literal["gitlab", "strict"]
# The attributes of the root that both dialects require.
_TOTALS = ("errors", "failures", "tests")


def render_run_junit(record: RunRecord, dialect: JunitDialect) -> str:
    """Write one test suite per tier, its cases sorted by name, with the times of the subjects in seconds.

    Findings on the run form a suite of their own, `precreg.run`, with one test per kind and case or file.
    """
    cases = _without_twins(record.results)
    suites = [
        _suite(tier, [case for case in cases if case.tier == tier], record, dialect)
        for tier in TIERS
        if any(case.tier == tier for case in cases)
    ]
    found = [_finding(group, record, dialect) for group in _apart(group_run_findings(record.findings))]
    # A suite of its own: a finding on a case must not have the identity of the test of that case.
    on_run = [junit_suite("precreg.run", found)] if found else []
    return junit_document([*suites, *on_run], time=_seconds(cases))


def junit_document(suites: Sequence[ElementTree.Element], **attributes: str) -> str:
    """Write suites as one document; the root sums their counts and has the given attributes."""
    totals = {total: str(sum(int(suite.get(total, 0)) for suite in suites)) for total in _TOTALS}
    # GitLab accepts testsuites and testsuite as root; only testsuites holds more than one tier.
    root = ElementTree.Element("testsuites", totals | attributes)
    root.extend(suites)
    # Without line breaks a diff or a pager shows the whole report as one line.
    ElementTree.indent(root, "\t")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def junit_suite(name: str, tests: Sequence[TestCase]) -> ElementTree.Element:
    """Make the element of one suite, which is the same in both dialects."""
    from junit_xml import TestSuite

    element: ElementTree.Element = TestSuite(name, tests).build_xml_doc()
    # junit-xml always writes it, and Jenkins' schema junit-10.xsd refuses it.
    del element.attrib["disabled"]
    return element


def _without_twins(results: Sequence[CaseResult]) -> list[CaseResult]:
    """Sort results by identity; of cases with one identity in XML, keep the worst."""
    by_identity = {
        (result.tier, strip_controls(result.suite), strip_controls(result.name)): result
        # A dict keeps the last value of a key. Reversed order therefore keeps the worst of two twins.
        for result in reversed(sort_results(results))
    }
    return [by_identity[identity] for identity in sorted(by_identity)]


def _suite(tier: str, cases: Sequence[CaseResult], record: RunRecord, dialect: JunitDialect) -> ElementTree.Element:
    element = junit_suite(f"precreg.{tier}", [_test(case, record, dialect) for case in cases])
    element.set("time", _seconds(cases))
    return element


def _test(case: CaseResult, record: RunRecord, dialect: JunitDialect) -> TestCase:
    from junit_xml import TestCase

    test = TestCase(
        # XML 1.0 forbids control characters even as references, and a parser drops the whole file for one of them.
        strip_controls(case.name),
        classname=strip_controls(f"{case.tier}.{case.suite}"),
        elapsed_sec=case.outcome.execution.duration_s,
        # Jenkins' schema knows neither file nor line and refuses both.
        file=strip_controls(repository_path(record, case.source.file)) if dialect == "gitlab" else None,
        line=case.source.line if dialect == "gitlab" else None,
    )
    verdict = case.verdict
    message = strip_controls(verdict.message)
    match verdict.status:
        case Status.FAILED:
            test.add_failure_info(message, _body(case), verdict.reason)
        case Status.ERROR:
            test.add_error_info(message, _body(case), verdict.reason)
        # GitLab has no status for a proposal. As a failure it would mark every new case as broken.
        case Status.SKIPPED | Status.PROPOSED:
            test.add_skipped_info(f"{verdict.reason}: {message}", _body(case))
    return test


def _apart(groups: Sequence[Sequence[RunFinding]]) -> list[list[RunFinding]]:
    """Join groups with one identity in XML, worst first, and sort them by identity."""
    joined: dict[tuple[str, str], list[RunFinding]] = {}
    for group in groups:
        # Names that differ only in control characters become equal in XML, and GitLab keeps one of two equal tests.
        joined.setdefault((group[0].kind, strip_controls(group[0].about)), []).extend(group)
    return [joined[identity] for identity in sorted(joined)]


def _finding(found: Sequence[RunFinding], record: RunRecord, dialect: JunitDialect) -> TestCase:
    """Make the test of the findings of one kind about one case or file; it fails if any of them is binding."""
    from junit_xml import TestCase

    first = found[0]
    place = finding_location(record, first)
    text = strip_controls("\n\n".join("\n".join(explain_run_finding(finding)) for finding in found))
    test = TestCase(
        strip_controls(first.about),
        classname=f"run.{first.kind}",
        file=strip_controls(repository_path(record, place.file)) if dialect == "gitlab" else None,
        line=place.line if dialect == "gitlab" else None,
    )
    if first.binding:
        test.add_failure_info(strip_controls(first.message), text, first.kind)
    else:
        # A test without a failure passes; its text is visible in the details only.
        test.stdout = text
    return test


def _body(case: CaseResult) -> str:
    verdict = case.verdict
    # GitLab's list shows the name alone, and the details of a failure show the body. So the body repeats id and
    # message.
    first = f"{case.id}: {verdict.status}, {verdict.reason}"
    sentences = [
        first,
        verdict.message,
        *finding_notes(verdict),
        *(f"rule      {rule}" for rule in failing_rules(verdict)),
    ]
    parts = [
        sentences,
        finding_table(finding_rows(verdict, case.outcome.described)),
        failure_tail(case),
        describe_provenance(case),
    ]
    return strip_controls("\n\n".join("\n".join(lines) for lines in parts if lines))


def _seconds(cases: Sequence[CaseResult]) -> str:
    """Sum times as a plain decimal, because the schema has no exponent."""
    return f"{sum(case.outcome.execution.duration_s for case in cases):.6f}"
