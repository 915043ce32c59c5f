"""docs/terminal.md: its project is run, and its numbers are those of the program."""

import pytest

from precreg.cli.console import LINES_IN_A_LOG
from precreg.cli.main import precreg as every_command
from precreg.report.terminal import MAX_RUN_GROUPS
from tests.docs.test_docs import commands, matches, page, sections, table, write_files
from tests.e2e.command import precreg, repository

PAGE = page("terminal.md")


def test_the_commands_print_what_the_page_shows(tmp_path):
    repository(write_files(tmp_path, PAGE))
    every = commands(PAGE)
    assert [arguments for arguments, _ in every] == ["run", "run --last-failed"]
    for arguments, expected in every:
        done = precreg(tmp_path, *arguments.split())
        assert done.returncode == 1
        shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
        for line in expected.splitlines():
            assert any(matches(" ".join(line.split()), each) for each in shown), f"{line}\nnot in\n{done.stdout}"


def test_the_numbers_of_the_page():
    assert f"{MAX_RUN_GROUPS} groups at most" in PAGE
    assert f"at most {LINES_IN_A_LOG} lines" in PAGE


@pytest.mark.parametrize("name", ["run", "report"])
def test_the_options_of_the_page_are_those_of_the_command(name):
    options = {text for parameter in _command(name).params for text in parameter.opts}
    rows = table(sections(PAGE)["Quiet and verbose"], "option", "summary", "progress")
    named = {text.strip(" `") for row in rows[1:] for text in row["option"].split(",")}
    assert named == {"-q", "--quiet", "-v", "--verbose"}
    assert named <= options
    assert "--color" in options


@pytest.mark.parametrize("name", ["compare", "calibrate", "faults", "selftest"])
def test_quiet_commands(name):
    assert "--quiet" in {text for parameter in _command(name).params for text in parameter.opts}


@pytest.mark.parametrize("name", ["run", "report", "compare", "drift"])
def test_commands_with_colours(name):
    assert "--color" in {text for parameter in _command(name).params for text in parameter.opts}


def _command(name):
    return every_command.get_command(None, name)
