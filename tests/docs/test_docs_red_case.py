"""docs/red-case.md: a job becomes red, and each of its three ends makes it green, as the page shows."""

import re
import shlex
import shutil

import pytest

from precreg.types.verdict import Reason
from tests.docs.test_docs import matches, page, table, write_files
from tests.e2e.command import accept_on_main, change, git, precreg, repository

PAGE = page("red-case.md")
BLOCK = re.compile(r"^```(diff|console)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PARTS = {title.strip(): body for title, _, body in (each.partition("\n") for each in PAGE.split("\n## "))}
LOOKING = ("1. Read the job", "2. Reproduce it", "3. Find the cause", "4. Find the commit")
ENDS = ("Fix the code", "Accept the loss", "Change the tolerance")


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """Return the repository whose branch `faster` has the change of the page."""
    folder = accept_on_main(repository(write_files(tmp_path_factory.mktemp("red") / "project", PAGE)))
    git(folder, "checkout", "-qb", "faster")
    follow(folder, next(iter(PARTS.values())))
    git(folder, "commit", "-qam", "Compute the variance in one pass")
    return folder


def follow(folder, text):
    """Make each change and run each command of a part of the page, and compare the output."""
    for kind, options, body in BLOCK.findall(text):
        if kind == "diff":
            lines = {sign: "".join(re.findall(rf"^\{sign}(.*\n)", body, re.MULTILINE)) for sign in "-+"}
            change(folder / options.partition("change=")[2], lines["-"], lines["+"])
            continue
        for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            line, *expected = command.splitlines()
            run(folder, line, expected, int(options.partition("exit=")[2] or 0))


def run(folder, line, expected, code):
    """Run one command, and find its lines in the output in their order."""
    program, *arguments = shlex.split(line)
    if program == "git":
        git(folder, *arguments)
        return
    seconds = "120" if any("cause:" in each for each in expected) else "0"
    done = precreg(folder, *arguments, PRECREG_DIAGNOSE=seconds)
    assert done.returncode == code, done.stdout + done.stderr
    shown = iter(done.stdout.splitlines())
    for wanted in expected:
        assert any(matches(wanted, line) for line in shown), f"$ {line}\n{wanted!r} is not in\n{done.stdout}"


@pytest.mark.parametrize("title", [*LOOKING, *ENDS])
def test_each_part_happens_as_the_page_shows(red, tmp_path, title):
    folder = shutil.copytree(red, tmp_path / "project")
    if title == "Accept the loss":  # proposals come from a run
        precreg(folder, "run")
    assert BLOCK.search(PARTS[title])
    follow(folder, PARTS[title])
    if title in ENDS:
        assert precreg(folder, "run", "--against", "main...").returncode == 0
    if title in ENDS[1:]:
        assert git(folder, "status", "--short", "--", "suites", "baselines") == ""


def test_every_reason_of_the_table_is_one():
    rows = table(PAGE, "reason", "meaning", "next step")
    listed = {name for row in rows for name in re.findall(r"[a-z_]+", row["reason"]) if "FINDING" not in row["reason"]}
    assert listed <= set(Reason)
    assert {"regressed", "out_of_tolerance", "new", "stale"} <= listed
