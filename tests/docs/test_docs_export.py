"""docs/export.md: its chain is run in order, and its tables are held against the program."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from precreg.cli.export import EXPORT_SUFFIXES, export_command
from precreg.subject.call import name_outputs
from tests.docs.test_docs import commands, sections, table, write_files
from tests.e2e.command import precreg

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
COMMANDS = commands(PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_files(tmp_path_factory.mktemp("export"), PAGE)
    subprocess.run([sys.executable, "make.py"], cwd=folder, check=True)
    return folder


def test_the_chain_prints_what_the_page_shows(folder):
    assert len(COMMANDS) == 5
    for arguments, expected in COMMANDS:
        done = precreg(folder, *arguments.split())
        *lines, code = expected.splitlines()
        assert f"exit {done.returncode}" == code, done.stdout + done.stderr
        shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
        assert {" ".join(line.split()) for line in lines} <= set(shown)


def test_every_option_is_told_of():
    options = {name for option in export_command.params for name in option.opts if name.startswith("--")}
    told = table(sections(PAGE)["Options"], "option", "says")
    assert {name for row in told for name in re.findall(r"--[a-z-]+", row["option"])} == options
    assert set(re.findall(r"`(\.\w+)`", next(row["says"] for row in told if row["option"] == "--output FILE"))) == {
        *EXPORT_SUFFIXES
    }


def test_nodes_are_called_as_the_table_says():
    rows = {row["the function returns"]: row["nodes"] for row in table(PAGE, "the function returns", "nodes")}
    assert list(name_outputs((1.0, 2.0))) == re.findall(r"\d", rows["a tuple or list of arrays"])
    assert list(name_outputs(1.0)) == [rows["one array, or a number"]]
