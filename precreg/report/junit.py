"""Write JUnit XML, in GitLab's dialect or in Jenkins' strict schema junit-10.xsd.

GitLab identifies a test by suite, class and case name, so these contain no time, commit or shard. It keeps either of
two tests with one identity, so twins are joined. Its list of failures shows the name alone, so the name is the whole
id. It shows the body of a failure, so the text is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from precreg.report.case_context import CaseContext, context_of, look_command, reproduce_command
from precreg.report.case_values import position_rows
from precreg.report.causes import describe_diagnosis, diagnoses_of
from precreg.report.describe import (
    describe_provenance,
    describe_unseen,
    describe_unseen_kind,
    failing_rules,
    failure_tail,
    finding_notes,
    finding_rows,
    finding_table,
    repository_path,
    sort_results,
    strip_controls,
)
from precreg.report.groups import measure_loss
from precreg.report.processes import explain_process_changes
from precreg.report.sections import explain_run_finding, finding_location, group_run_findings
from precreg.report.significant_digits import describe_digits, digits_properties
from precreg.report.story import describe_loss_size
from precreg.types import TIERS, CaseResult, Diagnosis, RunFinding, RunRecord, Status
from precreg.verdict import UnseenKind, unseen_cases, unseen_kind

if TYPE_CHECKING:
    from junit_xml import TestCase

JunitDialect = Literal["gitlab", "strict"]
# The attributes of the root that both dialects require.
_TOTALS = ("errors", "failures", "tests")
# GitLab refuses a report above 30 MB. Messages and bodies are most of it; 10,000 failures without them take 8 MB.
MAX_TEXT_BYTES = 15_000_000
# The document is never larger: 1 MB is room for the line that counts the rest.
MAX_FILE_BYTES = 29_000_000
# One traceback must not take the room of other failures.
MAX_BODY_CHARACTERS = 20_000
# The attribute shows in lists; the body has the whole message, if the file has room for bodies.
MAX_MESSAGE_CHARACTERS = 1_000
MAX_SHORT_MESSAGE_CHARACTERS = 100


def render_run_junit(record: RunRecord, dialect: JunitDialect) -> str:
    """Write one test suite per tier, its cases sorted by name, with the times of the subjects in seconds.

    Findings on the run form a suite of their own, `precreg.run`, with one test per kind and case or file.
    """
    cases = _without_twins(record.results)
    texts = _texts(cases, record)
    suites = [
        _suite(tier, [case for case in cases if case.tier == tier], record, dialect, texts)
        for tier in TIERS
        if any(case.tier == tier for case in cases)
    ]
    found = [_finding(group, record, dialect) for group in _apart(group_run_findings(record.findings))]
    # A suite of its own: a finding on a case must not have the identity of the test of that case.
    on_run = [junit_suite("precreg.run", found)] if found else []
    return junit_document([*suites, *on_run], time=_seconds(cases))


def junit_document(suites: Sequence[ElementTree.Element], **attributes: str) -> str:
    """Write suites as one document; the root sums their counts and has the given attributes.

    A document above `MAX_FILE_BYTES` loses tests, passed tests first, and a suite of its own counts them.
    """
    text = _document(suites, attributes)
    fits = len(text.encode(errors="replace")) <= MAX_FILE_BYTES
    return text if fits else _document([*suites, _shorten(suites)], attributes)


def _document(suites: Sequence[ElementTree.Element], attributes: Mapping[str, str]) -> str:
    totals = {total: str(sum(int(suite.get(total, 0)) for suite in suites)) for total in _TOTALS}
    # GitLab accepts testsuites and testsuite as root; only testsuites holds more than one tier.
    root = ElementTree.Element("testsuites", {**totals, **attributes})
    root.extend(suites)
    # Without line breaks a diff or a pager shows the whole report as one line.
    ElementTree.indent(root, "\t")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _shorten(suites: Sequence[ElementTree.Element]) -> ElementTree.Element:
    """Remove the tests that have no room in the document, and return a suite that counts them by status."""
    from junit_xml import TestCase

    # Findings on the run are the last suite. They come first here: there are few, and they concern all cases.
    tests = [(suite, test) for suite in reversed(suites) for test in suite.findall("testcase")]
    tests.sort(key=lambda each: _RANKS[_test_status(each[1])])
    room, removed, numbers = MAX_FILE_BYTES, set[int](), Counter[str]()
    for suite, test in tests:
        room -= len(ElementTree.tostring(test, encoding="unicode").encode(errors="replace"))
        # A later and smaller test stays out, too: a gap in the middle would look like a complete list.
        if room < 0:
            removed.add(id(test))
            status = _test_status(test)
            for total in {"tests", status} & {*suite.attrib}:
                suite.set(total, str(int(suite.attrib[total]) - 1))
            numbers[status] += 1
    for suite in suites:
        suite[:] = [each for each in suite if id(each) not in removed]
    counts = ", ".join(f"{number:,} {status}" for status, number in numbers.items())
    note = TestCase("tests left out", classname="report.left_out")
    note.add_skipped_info(f"left out: {counts} of {len(tests):,} tests. {_REASON_TO_LEAVE_OUT}")
    return junit_suite("precreg.report", [note])


_REASON_TO_LEAVE_OUT = "The file has at most 29 MB, because GitLab refuses a report above 30 MB; record.json has all."
_RANKS = {"failures": 0, "errors": 0, "skipped": 1, "passed": 2}  # failures and errors stay longest


def _test_status(test: ElementTree.Element) -> str:
    """Return the name of the attribute of a suite that counts tests like this one."""
    children = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    return next((name for child, name in children.items() if test.find(child) is not None), "passed")


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


def _suite(
    tier: str, cases: Sequence[CaseResult], record: RunRecord, dialect: JunitDialect, texts: Mapping[str, _Text]
) -> ElementTree.Element:
    advice = {note.kind: note.advice for note in describe_unseen(record)}
    tests = [_test(case, record, dialect, advice, texts.get(case.id)) for case in cases]
    element = junit_suite(f"precreg.{tier}", tests)
    element.set("time", _seconds(cases))
    for test, case in zip(element.findall("testcase"), cases, strict=True):
        test.set("time", _seconds([case]))
    # Jenkins' schema knows no properties.
    if dialect == "gitlab" and (unseen := unseen_cases(cases)):
        properties = ElementTree.Element("properties")
        for kind, found in unseen.items():
            ElementTree.SubElement(properties, "property", name=f"precreg.{kind}", value=str(len(found)))
        element.insert(0, properties)
    if dialect == "gitlab":
        for test, case in zip(element.findall("testcase"), cases, strict=True):
            _add_properties(test, digits_properties(case))
    return element


def _add_properties(test: ElementTree.Element, named: Sequence[tuple[str, str]]) -> None:
    if not named:
        return
    properties = ElementTree.Element("properties")
    for name, value in named:
        ElementTree.SubElement(properties, "property", name=strip_controls(name), value=value)
    test.insert(0, properties)


def _test(
    case: CaseResult, record: RunRecord, dialect: JunitDialect, advice: Mapping[UnseenKind, str], text: _Text | None
) -> TestCase:
    from junit_xml import TestCase

    test = TestCase(
        # XML 1.0 forbids control characters even as references, and a parser drops the whole file for one of them.
        strip_controls(case.id),
        classname=strip_controls(f"{case.tier}.{case.suite}"),
        # Jenkins' schema knows neither file nor line and refuses both.
        file=strip_controls(repository_path(record, case.source.file)) if dialect == "gitlab" else None,
        line=case.source.line if dialect == "gitlab" else None,
    )
    verdict = case.verdict
    message, body = text or _Text("", "")
    match verdict.status:
        case Status.FAILED:
            test.add_failure_info(message, body, verdict.reason)
        case Status.ERROR:
            test.add_error_info(message, body, verdict.reason)
        # GitLab has no status for a proposal. As a failure it would mark every new case as broken.
        case Status.SKIPPED | Status.PROPOSED:
            test.add_skipped_info(f"{verdict.reason}: {message}", body)
        # The test passes, and its details show that it is wrong.
        case Status.PASSED:
            given = (_passed_output(case, advice), *describe_digits(case), *explain_process_changes(case))
            lines = filter(None, given)
            test.stdout = strip_controls("\n".join(lines)) or None
    return test


def _passed_output(case: CaseResult, advice: Mapping[UnseenKind, str]) -> str:
    """Return the output of a test that passes although it is wrong, or although not every loss would have been seen."""
    kind = unseen_kind(case)
    if kind is None:
        return case.verdict.message if case.verdict.excused else ""
    return "\n".join(filter(None, (case.verdict.message, describe_unseen_kind(kind), advice[kind])))


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
        # A finding may be about a case, and the list of failures must not show the name of the case twice.
        strip_controls(f"{first.about}: {first.kind}"),
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


class _Text(NamedTuple):
    """The message of a test that did not pass, and the text of its details."""

    message: str
    body: str


def _texts(cases: Sequence[CaseResult], record: RunRecord) -> dict[str, _Text]:
    """Return the texts of all tests that did not pass, by id; beyond `MAX_TEXT_BYTES` the smallest losses have none."""
    found: dict[str, _Text] = {}
    size = 0
    known, context = diagnoses_of(record), context_of(record)
    for case in sort_results([case for case in cases if case.verdict.status is not Status.PASSED]):
        if size <= MAX_TEXT_BYTES:
            message = _cut(strip_controls(case.verdict.message), MAX_MESSAGE_CHARACTERS)
            whole = _Text(message, _cut(_body(case, known, context), MAX_BODY_CHARACTERS))
            size += sum(len(escape(part).encode(errors="replace")) for part in whole)
        found[case.id] = whole if size <= MAX_TEXT_BYTES else _short_text(case, context)
    return found


def _body(case: CaseResult, known: Mapping[str, Diagnosis], context: CaseContext) -> str:
    """Write the message, the size of the loss, the worst place, the cause, and the command to reproduce."""
    verdict = case.verdict
    # GitLab shows the details of a failure without its name. So the body repeats id and message.
    sentences = [
        _title(case),
        verdict.message,
        *finding_notes(verdict),
        *(f"loss      {size}" for size in [describe_loss_size(measure_loss(case))] if size),
        *(f"worst     {place}" for place in [_worst_place(case)] if place),
        *(f"rule      {rule}" for rule in failing_rules(verdict)),
    ]
    parts = [
        sentences,
        [] if case.diagnosis is None else describe_diagnosis(case.diagnosis, known),
        _commands(case, context),
        finding_table(finding_rows(verdict, case.outcome.described)),
        failure_tail(case),
        describe_digits(case),
        explain_process_changes(case),
        describe_provenance(case),
    ]
    return strip_controls("\n\n".join("\n".join(lines) for lines in parts if lines))


def _short_text(case: CaseResult, context: CaseContext) -> _Text:
    """Write the text of a case whose details have no room."""
    rest = "The details are left out, because GitLab refuses a report above 30 MB; record.json has them."
    body = strip_controls("\n".join([_title(case), *_commands(case, context), rest]))
    return _Text(_cut(strip_controls(case.verdict.message), MAX_SHORT_MESSAGE_CHARACTERS), body)


def _title(case: CaseResult) -> str:
    return f"{case.id}: {case.verdict.status}, {case.verdict.reason}"


def _worst_place(case: CaseResult) -> str:
    """Write the worst position of the output that failed first, with its two values; empty without one."""
    given = case.outcome.comparisons if case.verdict.status is Status.FAILED else ()
    output = next((finding.output for finding in case.verdict.findings if finding.output), None)
    compared = [each for each in given if each.output == output]
    rows = [row for each in compared for row in islice(position_rows(each, each.worst), 1)]
    if not rows:
        return ""
    # NaN and infinities have no distance, and are the worst.
    _, index, actual, reference, distance = max(rows, key=lambda row: float(row[-1] or "inf"))
    apart = f", |difference| {distance}" if distance else ""
    place = "" if index == "[]" else f" at {index}"
    return f"{output}{place}: actual {actual}, reference {reference}{apart}"


def _commands(case: CaseResult, context: CaseContext) -> list[str]:
    """Write the commands that reproduce a failure and look into it."""
    if case.verdict.status not in (Status.FAILED, Status.ERROR):
        return []
    again = f"reproduce {reproduce_command(case, context)}"
    is_known = case.diagnosis is not None and bool(case.diagnosis.causes)
    look = "" if is_known else look_command(case)
    return [again, f"look      {look}"] if look else [again]


def _cut(text: str, characters: int) -> str:
    rest = len(text) - characters
    return text if rest <= 0 else f"{text[:characters]}... ({rest} more characters are in record.json)"


def _seconds(cases: Sequence[CaseResult]) -> str:
    """Sum times as a plain decimal, because the schema has no exponent, and at most three decimals."""
    return f"{sum(case.outcome.execution.duration_s for case in cases):.3f}"
