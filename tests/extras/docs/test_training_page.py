"""docs/training.md: its script prints what it shows, its command runs, and its tables are those of the program."""

import subprocess
import sys
from dataclasses import MISSING, fields
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest

import precreg as package
from precreg.training import Recipe
from precreg.types import TrainingEventKind
from tests.docs.test_docs import sections, table, write_files
from tests.e2e.command import precreg, repository

PAGE = (Path(__file__).parents[3] / "docs" / "training.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return repository(write_files(tmp_path_factory.mktemp("training"), PAGE))


def test_the_script_prints_what_the_page_shows(folder):
    done = subprocess.run([sys.executable, "observed.py"], cwd=folder, capture_output=True, text=True, check=True)
    assert f"```text\n{done.stdout}```" in PAGE
    assert "<h2>Gradient flow by parameter and step</h2>" in (folder / "training.html").read_text()
    assert (folder / "training.json").exists()


def test_the_command_runs(folder):
    (command,) = (line.strip() for line in PAGE.splitlines() if line.startswith("    precreg training train:make"))
    done = precreg(folder, *command.split()[1:])
    assert done.returncode == 0, done.stderr
    assert "leave its bits unchanged" in done.stdout


def test_the_tables_are_those_of_the_program():
    parts = sections(PAGE)
    assert [row["event"] for row in table(parts["Events"], "event", "meaning")] == [*get_args(TrainingEventKind)]
    optional = [field.name for field in fields(Recipe) if field.default is not MISSING]
    rows = table(parts["From the command line"], "member", "meaning")
    assert sorted(row["member"] for row in rows) == sorted(optional)
    arguments = signature(package.observe).parameters
    for row in table(parts["In your loop"], "argument", "default", "meaning"):
        assert row["default"] == str(arguments[row["argument"]].default)
