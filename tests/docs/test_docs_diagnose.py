"""docs/diagnose.md: its run is run, and its tables are compared with the program."""

import re
import shutil
from typing import get_args

from precreg.cli.run import run_command
from precreg.pytest_plugin import MAX_SECONDS
from precreg.report.diagnosis import cause_line
from precreg.run.explanation import _EXPLAINABLE, DIAGNOSE_SECONDS
from precreg.types.diagnosis import DiagnosisStatus
from tests.docs.test_docs import commands, matches, names, page, table
from tests.e2e.command import change, precreg
from tests.e2e.test_run_diagnosis import CHANGES, FILE, accepted
from tests.report.test_diagnosis import CAST, LEFT, SWAPPED, diagnosis

__all__ = ["accepted"]
PAGE = page("diagnose.md")


def test_the_run_prints_what_the_page_shows(accepted, tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(accepted, folder)
    change(folder / FILE, *next(iter(CHANGES.items())))
    shown = [(words, expected) for words, expected in commands(PAGE) if words.startswith("run ")]
    assert shown
    for words, expected in shown:
        done = precreg(folder, *words.split(), PRECREG_DIAGNOSE="300")
        for part in expected.splitlines():
            assert any(matches(part, line) for line in done.stdout.splitlines()), (part, done.stdout)


def test_the_options_and_their_defaults():
    rows = {
        row["option"].split()[0].partition("=")[0]: row["default"]
        for row in table(PAGE, "option", "default", "meaning")
    }
    option = next(each for each in run_command.params if each.name == "diagnose")
    assert float(rows["--diagnose"]) == DIAGNOSE_SECONDS == option.default
    assert f"Default: {DIAGNOSE_SECONDS:g}." in option.help
    assert option.envvar in PAGE
    assert option.type.max == MAX_SECONDS
    assert rows["--precreg-diagnose"] == "0"


def test_the_verdicts_that_are_diagnosed():
    line = re.search(r"^- A case is diagnosed if its verdict is .*?\.$", PAGE, re.MULTILINE | re.DOTALL)[0]
    assert set(names(line)) == {str(reason) for reason in _EXPLAINABLE}


def test_the_first_words_of_each_status():
    rows = [row["first words"] for row in table(PAGE, "first words", "meaning")]
    two = (SWAPPED, CAST)
    causes = {"found": two[:1], "several": two, "partial": two[1:], "nondeterministic": (LEFT,)}
    lines = [cause_line(diagnosis(status, *causes.get(status, ()))) for status in get_args(DiagnosisStatus)]
    longest = [max((words for words in rows if line.startswith(words)), key=len) for line in lines]
    assert sorted(longest) == sorted(rows)
