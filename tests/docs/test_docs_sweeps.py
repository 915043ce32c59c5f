"""docs/sweeps.md: its suite is run on its tables, and its keys are all there are."""

import shutil

from msgspec.structs import fields

from precreg.suite.figure_layers import FIGURE_GROWTH
from precreg.suite.files import TableEntry
from tests.docs.test_docs import commands, matches, page, table, write_files
from tests.e2e.command import precreg, repository

PAGE = page("sweeps.md")


def test_the_commands_print_what_the_page_shows(tmp_path):
    repository(write_files(tmp_path, PAGE))
    every = commands(PAGE)
    assert len(every) == 5
    for number, (arguments, expected) in enumerate(every):
        if number == 4:
            shutil.copy(tmp_path / "next.csv", tmp_path / "suites/unit/sweep.csv")
        done = precreg(tmp_path, *arguments.split())
        shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
        for line in expected.splitlines():
            assert any(matches(" ".join(line.split()), each) for each in shown), f"{line}\nnot in\n{done.stdout}"


def test_every_key_is_in_the_table():
    rows = table(PAGE, "key of `table`", "default", "meaning")
    assert [row["key of `table`"] for row in rows] == [each.name for each in fields(TableEntry)]
    required = [row["key of `table`"] for row in rows if row["default"] == "required"]
    assert required == [each.name for each in fields(TableEntry) if each.required]


def test_the_default_growth_is_that_of_the_page():
    assert f"the allowed ratio, {1 + FIGURE_GROWTH} by default" in PAGE
