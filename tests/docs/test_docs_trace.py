"""docs/trace.md: its story is run in a repository, change by change, and its tables are compared with the program."""

import re
import subprocess
import sys
from typing import get_args

import pytest

from precreg.cli.trace import trace_command
from precreg.shadow.ledger import (
    COMPLETE_SHARES,
    FIRST_LOSS_EPS,
    FIRST_LOSS_GROWTH,
    MANY_EPS,
    MIN_CHAIN,
    NARROW_LOSS_EPS,
    LossCause,
)
from precreg.shadow.trace_file import MAX_STORED_OPERATIONS
from precreg.shadow.watch import FIRST_ELEMENTS, MAX_ELEMENTS
from precreg.types.trace import OperationNote
from tests.docs.test_docs import matches, page, table, write_files
from tests.e2e.command import change, git, precreg

PAGE = page("trace.md", "trace-reading.md", "trace-cost.md")
SAID = " ".join(PAGE.split())


@pytest.fixture
def project(tmp_path):
    folder = write_files(tmp_path, PAGE)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a good version")
    return folder


def story():
    """Yield each change of a file and each command with its lines, in the order of the page."""
    for kind, name, body in re.findall(r"^```(diff|console)([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        if kind == "diff":
            old, new = (line[1:] for line in body.splitlines())
            yield name.partition("file=")[2] or "suites/unit/kernels.py", old, new
        else:
            for command, shown in re.findall(r"^\$ precreg (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
                yield "", command, shown


def test_the_story_happens_as_the_page_tells_it(project):
    happened = 0
    for changed, first, second in story():
        if changed:
            git(project, "checkout", "-q", "--", changed)
            change(project / changed, first, second)
            continue
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', first)]
        done = precreg(project, *words)
        assert done.returncode == (1 if words[0] == "run" else 0), done.stderr
        printed = done.stdout.splitlines()
        for line in filter(None, second.splitlines()):
            assert any(matches(line, found) for found in printed), f"{line}\nnot in\n{done.stdout}"
            happened += 1
    assert happened > 20


def test_the_page_of_the_story_is_written(project):
    precreg(project, "trace", "rms_norm", "--report", "page.html", "--json", "trace.json")
    assert "</html>" in (project / "page.html").read_text()
    assert precreg(project, "trace", "show", "trace.json").returncode == 0


@pytest.mark.parametrize("script", re.findall(r"^```python run=numpy\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
def test_scripts_run(script, tmp_path):
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in ("subtract 7\n", "3 y\n")


def test_every_option_is_in_the_table():
    told = [name for row in table(PAGE, "option", "meaning") for name in re.findall(r"--?\w+(?:-\w+)*", row["option"])]
    options = [name for option in trace_command.params if option.opts[0].startswith("-") for name in option.opts]
    assert sorted(told) == sorted(set(options))


def test_causes_and_notes_are_those_of_the_program():
    told = {row["guess"] for row in table(PAGE, "guess", "reason")}
    assert told == set(get_args(LossCause)) - {"rounding", "overflow"}
    rows = {row["column"]: row["meaning"] for row in table(PAGE, "column", "meaning")}
    listed = rows["note"].partition(": ")[2].split(", ")
    assert {name.replace(" ", "_") for name in listed} == set(get_args(OperationNote)) - {""}


def test_numbers_of_the_page_are_those_of_the_program():
    assert f"exceeds {NARROW_LOSS_EPS:g} ULP in a format of 16 bits or fewer, and {FIRST_LOSS_EPS:g} ULP" in SAID
    assert f"by more than {FIRST_LOSS_GROWTH:g}, to more than {FIRST_LOSS_EPS:g} ULP" in SAID
    assert f"at least {MIN_CHAIN} times" in SAID
    assert SAID.count(f"errs by more than {MANY_EPS:g} ULP of its own dtype") == 2
    assert f"outside {COMPLETE_SHARES[0]} to {COMPLETE_SHARES[1]} is a warning" in SAID
    assert f"at most {MAX_STORED_OPERATIONS:,} operations" in SAID
    assert f"first {FIRST_ELEMENTS} elements" in SAID
    assert f"At most {MAX_ELEMENTS:,} elements are listed" in SAID
