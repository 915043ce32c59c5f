"""docs/loss-scale.md: its scripts and commands print what it shows, and its tables name the columns of the program."""

import subprocess
import sys

import pytest

from precreg.report.training.clip_sentences import CLIP_COLUMNS
from precreg.report.training.scale_sentences import SCALE_COLUMNS, TENSOR_COLUMNS
from tests.docs.test_docs import commands, matches, names, page, sections, table, write_files
from tests.e2e.command import precreg

PAGE = page("loss-scale.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = write_files(tmp_path_factory.mktemp("loss_scale"), PAGE)
    subprocess.run([sys.executable, "store.py"], cwd=made, check=True)
    return made


def test_the_commands_print_what_the_page_shows(folder):
    for command, shown in commands(PAGE):
        done = precreg(folder, *command.split())
        assert done.returncode == 0, done.stderr
        printed = [line.strip() for line in done.stdout.splitlines()]
        for line in filter(None, shown.splitlines()):
            assert any(matches(line.strip(), found) for found in printed), line
    assert (folder / "training.html").exists()


def test_the_script_prints_what_the_page_shows(folder):
    done = subprocess.run([sys.executable, "sweep.py"], cwd=folder, capture_output=True, text=True, check=True)
    assert f"```text\n{done.stdout}```" in PAGE


def test_the_tables_name_the_columns_of_the_program():
    window = sections(PAGE)["Read the window"]
    assert [row["column"] for row in table(window, "column", "meaning")] == list(SCALE_COLUMNS)
    listed = set(names(sections(PAGE)["Scales of fp8"]))
    assert set(TENSOR_COLUMNS) - {"tensor", "largest"} <= listed
    listed = set(names(sections(PAGE)["Clipping"]))
    assert {"steps clipped", "step cosine", "least", "sum cosine", "sum length"} <= set(CLIP_COLUMNS) & listed
