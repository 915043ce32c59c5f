"""docs/compare-runs.md: its command prints the lines of the page, and its table has every part."""

from typing import get_args

import pytest

from precreg.cli.report import compare_with_baseline_command
from precreg.report.page_words import CATALOGUES
from precreg.report.two_runs import MIN_TIME_RATIO
from precreg.report.two_runs_text import MAX_TEXT_GROUPS, MAX_TEXT_LINES, PartKey
from precreg.verdict.regression import RUN_ALPHA
from tests.docs.test_docs import commands, matches, page, sections, table
from tests.e2e.command import change, copy_of, precreg
from tests.e2e.test_road import KERNEL, NARROW, ROAD, WIDE

PAGE = page("compare-runs.md")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = copy_of(ROAD, tmp_path_factory.mktemp("page"))
    narrow = (project / KERNEL).read_text()
    change(project / KERNEL, NARROW, WIDE)
    change(project / KERNEL, "    return total\n\n\ndef exact", "    return total.astype(x.dtype)\n\n\ndef exact")
    precreg(project, "run", "--output", "before")
    (project / KERNEL).write_text(narrow)
    precreg(project, "run", "--output", "now")
    return project


def test_the_command_prints_the_lines_of_the_page(project):
    ((arguments, expected),) = commands(PAGE)
    done = precreg(project, *arguments.split())
    assert done.returncode == 1
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for line in filter(str.strip, expected.splitlines()):
        assert any(matches(" ".join(line.split()), each) for each in shown), f"{line}\nnot in\n{done.stdout}"


def test_the_table_has_every_part_in_its_order():
    titles = [CATALOGUES["en"][f"part_{key}"].split(":")[0].split(",")[0] for key in get_args(PartKey)]
    assert [row["part"] for row in table(sections(PAGE)["The parts"], "part", "content")] == titles


def test_the_formats_and_numbers_of_the_page():
    (option,) = [each for each in compare_with_baseline_command.params if each.name == "output_format"]
    rows = table(sections(PAGE)["Formats"], "option", "output")
    assert [row["option"].strip("` ").removeprefix("--format ") for row in rows] == [*option.type.choices]
    assert f"at most {MAX_TEXT_GROUPS} groups and {MAX_TEXT_LINES} lines" in PAGE
    assert f"{MIN_TIME_RATIO} times" in PAGE
    assert f"error level of {RUN_ALPHA}" in PAGE
