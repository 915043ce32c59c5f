"""docs/bisect.md: its search is run on the repository of 60 commits, its options and codes held against the program."""

import re
import shlex
from pathlib import Path

from precreg.cli.bisect import bisect_command
from precreg.diagnose.bisection.judgement import SearchBudget
from precreg.diagnose.bisection.packages import ENVIRONMENTS_FOLDER
from tests.docs.test_docs import commands, matches, table
from tests.e2e.bisected import BROKEN, COMMITS, sixty_commits
from tests.e2e.command import git, precreg

PAGE = (Path(__file__).parents[2] / "docs" / "bisect.md").read_text()
# docs/precision_bisection.md explains the search for a wider dtype, and its options.
OF_PRECISION = {"--precision", "--bound", "--metric", "--limit", "--keep-in", "--write"}


def test_the_search_prints_what_the_page_shows(tmp_path):
    project, commits = sixty_commits(tmp_path)
    git(project, "tag", "v1.0", commits[0])
    line, expected = commands(PAGE)[0]
    done = precreg(project, *shlex.split(line))
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.splitlines()
    assert len(shown) == len(expected.splitlines())
    for part, found in zip(expected.splitlines(), shown, strict=True):
        assert matches(part, found), (part, found)
    assert f"{COMMITS} commits" in PAGE
    assert f"{len(BROKEN)} of them cannot be imported" in PAGE


def test_options_and_their_defaults():
    rows = {row["option"].split()[0]: row["default"] for row in table(PAGE, "option", "default", "meaning")}
    options = {option.opts[0] for option in bisect_command.params if option.opts[0].startswith("--")}
    assert set(rows) == {name.strip("`") for name in rows} == options - {"--config"} - OF_PRECISION
    budget = SearchBudget()
    assert (rows["--max-seeds"], rows["--pair-seconds"]) == (str(budget.seeds), f"{budget.seconds:g}")
    help_ = {option.opts[0]: option.help for option in bisect_command.params if hasattr(option, "help")}
    assert f"Default: {budget.seeds}." in help_["--max-seeds"]
    assert f"Default: {budget.seconds:g}." in help_["--pair-seconds"]


def test_each_command_of_the_page_is_one_that_the_program_takes():
    for line in re.findall(r"^\$ (?:git bisect run )?precreg bisect (.*)$", PAGE, re.MULTILINE):
        bisect_command.make_context("bisect", shlex.split(line))
    assert f"`{ENVIRONMENTS_FOLDER}`" in PAGE
