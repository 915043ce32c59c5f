"""docs/reduce.md: its story runs as the page shows it, and its tables name the options and exit codes."""

import re

import pytest

from precreg.cli.reduce import reduce_command
from tests.docs.test_docs import matches, page, table, write_files
from tests.e2e.command import change, git, precreg

PAGE = page("reduce.md")


@pytest.fixture
def project(tmp_path):
    folder = write_files(tmp_path, PAGE)
    git(folder, "init", "-q")
    return folder


def test_the_story_happens_as_the_page_tells_it(project):
    happened = []
    for kind, name, body in re.findall(
        r"^```(diff|console|python)([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    ):
        if kind == "diff":
            old, new = (line[1:] for line in body.splitlines())
            change(project / name.partition("file=")[2], old, new)
        elif "shows=" in name:
            assert body in (project / name.partition("shows=")[2]).read_text()
        for command, shown in re.findall(r"^\$ precreg (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
            done = precreg(project, *command.split())
            printed = done.stdout.splitlines()
            for line in filter(None, shown.splitlines()):
                assert any(matches(line.strip(), found.strip()) for found in printed), f"{line}\nnot in\n{done.stdout}"
            happened.append(done.returncode)
    # A smaller part fails; its suite fails; without the fault it is new.
    assert happened == [0, 1, 2]


def test_every_option_is_in_the_table():
    told = [name for row in table(PAGE, "option", "meaning") for name in re.findall(r"--\w+", row["option"])]
    assert sorted(told) == sorted(name for option in reduce_command.params for name in option.opts if name[:2] == "--")


def test_every_exit_code_is_in_the_table():
    assert [row["code"] for row in table(PAGE, "code", "when")] == ["0", "1", "2"]
