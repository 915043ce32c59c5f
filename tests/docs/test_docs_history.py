"""docs/history.md: its commands are run in order in a real project, and its tables held against the program."""

from pathlib import Path

import pytest
from msgspec.structs import fields

from precreg.cli.history import DEFAULT
from precreg.history.exchange import CaseLine, ExportHeader, RunLine
from precreg.history.rows import HISTORY_SCHEMA
from precreg.history.series import KeptCase
from precreg.history.store import WAIT_S
from tests.docs.test_docs import commands, matches, sections, table
from tests.e2e.command import git, precreg, repository, with_suite

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text()

SUITE = """\
suite: s
subject: k:same
reference: k:same
inputs: {x: {shape: [32], dtype: float32, normal: {mean: 0, std: 1}}}
"""


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE))


def test_commands_print_what_the_page_shows(project):
    """The project is one whose baselines are accepted, at a commit that is tagged."""
    precreg(project, "run", "--jobs", "0")
    precreg(project, "baseline", "accept", "--all", "--reason", "first version")
    git(project, "tag", "v1.0")
    shown = commands(PAGE)
    assert len(shown) == 9
    for command, expected in shown:
        done = precreg(project, *command.split())
        assert done.returncode == 0, done.stderr
        assert expected == "...\n" or matches(expected, done.stdout), (command, done.stdout)


def test_the_keys_of_an_export_are_in_the_table():
    rows = table(PAGE, "line", "key", "meaning")
    for kind, line in (("header", ExportHeader), ("run", RunLine), ("case", CaseLine)):
        assert [row["key"] for row in rows if row["line"] == kind] == [field.name for field in fields(line)]
    assert rows[0]["meaning"] == HISTORY_SCHEMA
    kept = [row["key"].strip("`") for row in table(PAGE, "key", "content")]
    assert kept == [field.name for field in fields(KeptCase)]


def test_the_place_and_the_patience_are_those_of_the_program():
    assert table(PAGE, "place", "named by")[0]["place"] == f"`.precreg/{DEFAULT}` in the project"
    assert "for up to a minute" in sections(PAGE)["The place of the history"]
    assert WAIT_S == 60
