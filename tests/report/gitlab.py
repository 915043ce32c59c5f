"""What a reviewer sees in GitLab of uploaded JUnit files, by GitLab's documented rules; it shares no code with precreg.

https://docs.gitlab.com/ci/testing/unit_test_reports/ and lib/gitlab/ci/parsers/test/junit.rb,
lib/gitlab/ci/reports/test_case.rb, test_suite_comparer.rb of GitLab.
"""

import hashlib
import re
from typing import NamedTuple
from xml.etree import ElementTree

MOST_BYTES = 30 * 2**20
"""Of one file; a larger one is not read."""

MOST_LISTED = 100
LEAST_LISTED = 10
"""Failures that the widget lists: new ones first, and a few of each kind in any case."""

TYPECASTS = frozenset(
    (
        "array",
        "base64Binary",
        "boolean",
        "date",
        "dateTime",
        "datetime",
        "decimal",
        "double",
        "duration",
        "file",
        "float",
        "hash",
        "hexBinary",
        "integer",
        "string",
        "symbol",
        "yaml",
    )
)
"""What the attribute `type` of any element means to the reader of XML: a body to convert, or to refuse."""

_STATUSES = {"failure": "failed", "error": "error", "skipped": "skipped"}
_ATTACHMENT = re.compile(r"\[\[ATTACHMENT\|(?P<path>.+?)\]\]")


class Test(NamedTuple):
    """A test as its own page shows it. Properties are not read, and output only of what failed or ended in an error."""

    suite: str
    classname: str
    name: str
    status: str
    text: str
    file: str | None
    attachment: str | None

    @property
    def key(self):
        return hashlib.sha256(f"{self.suite}_{self.classname}_{self.name}".encode()).hexdigest()


class Widget(NamedTuple):
    """The test summary of a merge request: names of what fails now alone, still, and no more."""

    new: list[str]
    existing: list[str]
    resolved: list[str]


def pipeline(uploads):
    """Return the tests of a pipeline by job and key, from (name of the job, XML) pairs.

    The parts of a parallel job are one suite, and of tests with one identity only the last survives.
    """
    suites = {}
    for job, xml in uploads:
        tests = suites.setdefault(re.sub(r"[ :]+(\d+[\s:/\\]+\d+|\[.*\])$", "", job), {})
        tests.update((test.key, test) for test in read(xml))
    return suites


def read(xml):
    """Return the tests of one file in order, those with one identity too."""
    if len(xml.encode()) > MOST_BYTES:
        raise ValueError("the file is larger than GitLab reads")
    root = ElementTree.fromstring(xml)
    if root.tag not in ("testsuites", "testsuite"):
        raise ValueError(f"GitLab reads testsuites or testsuite but got {root.tag}")
    return [_test(suite, case) for suite in root.iter("testsuite") for case in suite.findall("testcase")]


def compare(base, head):
    """Return what the widget lists: failures and errors alike, told apart by what the target branch has."""
    bad = [(job, test) for job, tests in head.items() for test in tests.values() if test.status in ("failed", "error")]
    before = {
        job: {key for key, test in tests.items() if test.status in ("failed", "error")} for job, tests in base.items()
    }
    new = [test.name for job, test in bad if test.key not in before.get(job, ())]
    existing = [test.name for job, test in bad if test.key in before.get(job, ())]
    resolved = [
        test.name
        for job, tests in head.items()
        for test in tests.values()
        if test.status == "success" and test.key in before.get(job, ())
    ]
    return Widget(new[:MOST_LISTED], existing[: _left(new)], resolved[: _left(new, existing)])


def _left(*used):
    return max(MOST_LISTED - sum(map(len, used)), LEAST_LISTED)


def _test(suite, case):
    found = next((child for tag in _STATUSES for child in case.findall(tag)), None)
    status = "success" if found is None else _STATUSES[found.tag]
    texts = [] if found is None else [_content(found)]
    attachment = None
    if status in ("failed", "error"):
        texts += [_content(child) for tag in ("system-out", "system-err") for child in case.findall(tag)]
        written = _ATTACHMENT.search(case.findtext("system-out", ""))
        attachment = written["path"] if written else None
    text = "\n\n".join(filter(None, texts))
    return Test(suite.get("name"), case.get("classname"), case.get("name"), status, text, case.get("file"), attachment)


def _content(element):
    """Return the body; of an element that has attributes alone GitLab has no text to show."""
    if element.get("type") in TYPECASTS:
        raise ValueError(f"GitLab converts or refuses a body of type={element.get('type')}")
    return element.text or ""
