"""docs/torch.md: its suites run, its commands print what it shows, and its tables are those of the program."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from precreg.subject.tensors import TORCH_DTYPES
from precreg.subject.torch.specification import _OPTIONS, HARDWARE
from tests.docs.test_docs import commands, files, sections, table, write_files
from tests.e2e.command import precreg, repository

PAGE = (Path(__file__).parents[3] / "docs" / "torch.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = repository(write_files(tmp_path_factory.mktemp("torch"), PAGE))
    subprocess.run([sys.executable, "make.py"], cwd=folder, check=True)
    return folder


def test_the_commands_print_what_the_page_shows(folder):
    found = commands(PAGE)
    assert len(found) == 2
    for arguments, expected in found:
        done = precreg(folder, *arguments.split())
        *lines, code = expected.splitlines()
        assert f"exit {done.returncode}" == code, done.stdout + done.stderr
        shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
        assert [line for line in shown if line in {" ".join(line.split()) for line in lines}] == [
            " ".join(line.split()) for line in lines
        ]


def test_every_suite_of_the_page_runs(folder):
    done = precreg(folder, "run")
    assert re.search(r"^8 proposed in ", done.stdout, re.MULTILINE), done.stdout


def test_the_change_from_numpy_to_torch_is_two_lines():
    suites = files(PAGE)
    before, after = (suites[f"suites/unit/{name}.yaml"].splitlines() for name in ("softmax", "softmax_torch"))
    assert len(before) == len(after)
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 2


def test_the_table_has_every_option():
    rows = table(sections(PAGE)["Options"], "option", "default", "meaning")
    assert [row["option"] for row in rows] == [*_OPTIONS]
    assert set(re.findall(r"`(\w+)`", rows[0]["meaning"])) == set(HARDWARE)


def test_the_page_lists_the_dtypes():
    text = sections(PAGE)["Dtypes"]
    assert {name for name in TORCH_DTYPES if name not in text} == {"int16", "int32", "uint16", "uint32"}
