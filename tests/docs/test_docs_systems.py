"""docs/systems.md: its suites exist and are known bad where it says so, and its figures are those of the scripts."""

import re
import subprocess
import sys

import pytest

from precreg.suite.expand import expand_suite
from precreg.suite.load import load_suites
from tests.benchmarks.test_published_figures import SYSTEMS
from tests.docs.test_docs import page
from tests.e2e.command import PATIENCE_S, ROOT, environ

PAGE = page("systems.md", "systems-narrow.md", "systems-fixed-point.md", "systems-formats.md")
NUMBER = re.compile(r"[+-]?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
SUITES = {suite.id: suite for suite in load_suites(ROOT)}


def rows(text, columns):
    """Return the cells of each row of the tables with so many columns, without headings."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and "|---" not in line]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if len(row) == columns and row[0] not in ("suite", "figure", "layer")]


NAMED = [(row[0].strip("`"), bool(row[2])) for row in rows(PAGE, 3)]


@pytest.fixture(scope="module")
def printed():
    """Return (published, measured, mark) of each figure that the scripts print now: all of them, a quarter minute."""
    command = [sys.executable, ROOT / "benchmarks" / "published_figures.py", "--markdown"]
    done = subprocess.run(command, env=environ(), capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert re.findall(r"^`(\w+)`: .*\.$", done.stdout, re.MULTILINE) == SYSTEMS
    return {row[0]: tuple(row[1:]) for row in rows(done.stdout, 4)}


@pytest.mark.parametrize(("suite", "says_known_bad"), NAMED, ids=lambda value: str(value))
def test_a_suite_is_there_and_known_bad_where_the_page_says_so(suite, says_known_bad):
    assert suite in SUITES
    known_bad = any(case.expect_failure for case in expand_suite(SUITES[suite], ROOT))
    assert known_bad == says_known_bad


def test_no_suite_stands_twice():
    assert len(NAMED) == len(dict(NAMED)) > 40


def test_figures_are_those_that_the_scripts_print(printed):
    """Words and marks are the same; numbers within 5 %, for another machine may round the last digit otherwise."""
    for what, *cells in rows(PAGE, 4):
        assert what in printed
        published, measured, mark = printed[what]
        assert (cells[0], cells[2]) == (published, mark), what
        assert NUMBER.sub("#", cells[1]) == NUMBER.sub("#", measured), what
        if "time" not in what.split():
            assert numbers(cells[1]) == pytest.approx(numbers(measured), rel=0.05, abs=1e-9), what


def numbers(cell):
    return [float(found.replace(",", "")) for found in NUMBER.findall(cell)]


def test_every_claim_is_on_the_page_with_whether_it_reproduces(printed):
    shown = {row[0] for row in rows(PAGE, 4)}
    claims = {what for what, (published, _, mark) in printed.items() if published and mark}
    assert sorted(claims - shown) == []
    assert {"yes", "NO"} == {mark for _, _, mark in printed.values() if mark}


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([\w.-]+\.md)", PAGE):
        assert (ROOT / "docs" / target).exists()
