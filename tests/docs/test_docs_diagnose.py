"""docs/diagnose.md: its run is run, and its tables are compared with the program."""

import ast
import re
import shutil
from typing import get_args

import pytest

from precreg.arithmetic.faults import FAULTS, HARMLESS_CHANGES
from precreg.cli.diagnose import _EXIT_CODES, diagnose_command
from precreg.cli.run import run_command
from precreg.diagnose.bases import hypotheses_of, prepare_base
from precreg.diagnose.case_diagnosis import _ACCEPTED_SHARE, _UNDO_SHARE
from precreg.diagnose.change_kind import ChangeKind
from precreg.diagnose.evidence import MOST, NEARLY_ALL
from precreg.diagnose.rewrites.edges import param_hypotheses
from precreg.diagnose.rewrites.operations import BLOCKS
from precreg.diagnose.search import _LEAST, _MOST_CAUSES, FITTED_REST
from precreg.pytest_plugin import MAX_SECONDS
from precreg.report.causes.diagnosis import _OF_REPEATS, cause_line, describe_diagnosis
from precreg.report.causes.rewrite_words import _REWRITES
from precreg.run.explanation import _EXPLAINABLE, DIAGNOSE_SECONDS
from precreg.types.diagnosis import DiagnosisStatus, UnitExplanation
from tests.diagnose.bases import base_of, normal
from tests.docs.test_docs import PACKAGE, commands, matches, names, page, sections, table, write_files
from tests.e2e.command import accept_on_main, change, precreg, repository
from tests.report.causes.test_diagnosis import CAST, GRID, LEFT, SWAPPED, diagnosis, many_operations

PAGE = page("diagnose.md", "diagnose-reading.md", "diagnose-rewrites.md")
SECTIONS = sections(PAGE)


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Return a repository with the files of the page and their accepted baselines."""
    return accept_on_main(repository(write_files(tmp_path_factory.mktemp("accepted") / "project", PAGE)))


def story():
    """Return for each title of a change its hunks, and its commands with the exit code and the lines shown."""
    found = {}
    for kind, options, body in re.findall(r"^```(diff|console)([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        if kind == "diff":
            hunks = re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", body, re.MULTILINE)
            title, runs = options.partition("change=")[2], []
            found[title] = ([tuple(re.sub("^.", "", each, flags=re.M) for each in hunk) for hunk in hunks], runs)
        else:
            runs += [(int(options.partition("exit=")[2] or 0), *each) for each in commands(body)]
    return found


@pytest.mark.parametrize("title", story())
def test_each_part_of_the_story_happens_as_the_page_tells_it(accepted, tmp_path, title):
    hunks, runs = story()[title]
    folder = tmp_path / "project"
    shutil.copytree(accepted, folder)
    for old, new in hunks:
        change(folder / "suites/unit/kernels.py", old, new)
    assert runs
    for code, words, expected in runs:
        done = precreg(folder, *words.split(), PRECREG_DIAGNOSE="300")
        assert done.returncode == code, done.stdout + done.stderr
        for part in expected.splitlines():
            assert any(matches(part, line) for line in done.stdout.splitlines()), (part, done.stdout)


def test_every_rewrite_is_in_the_table_with_its_options():
    rows = {row["rewrite"]: row["options"] for row in table(PAGE, "rewrite", "options", "alters")}
    assert set(rows) == rewrites_of_the_program()
    inputs = {"x": normal(33, 33), "w": normal(33, 33, seed=1)}
    wrong = many_operations(**inputs)
    wrong[3] = 0
    prepared = prepare_base(base_of(many_operations, inputs), {"out": wrong})
    for each in [*hypotheses_of(prepared), *param_hypotheses({"steps": 3, "is_fast": True})]:
        # A planted fault has options of its own, which nobody chooses.
        if each.rewrite not in FAULTS | HARMLESS_CHANGES:
            assert set(each.options) <= set(names(f"`{rows[each.rewrite]}`")), each


def rewrites_of_the_program():
    """Return the names with words that the modules of rewrites use."""
    files = (PACKAGE / "diagnose").glob("*/*.py")
    trees = [ast.parse(file.read_text()) for file in files if file.parent.name in ("rewrites", "torch", "onnx")]
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    # The fault narrow_float16 makes every narrow accumulator.
    return {name for name in _REWRITES if name in texts} - {"narrow_float16"}


def test_causes_that_are_no_rewrites():
    listed = {name for row in table(PAGE, "cause", "options", "meaning") for name in names(f"`{row['cause']}`")}
    assert listed == {f"changed_{kind}" for kind in get_args(ChangeKind)} | _OF_REPEATS


def test_statuses_and_exit_codes():
    rows = {row["status"]: int(row["exit code"]) for row in table(PAGE, "status", "exit code", "meaning")}
    assert rows == _EXIT_CODES


def test_first_words_of_all_lines():
    two, evidence = (SWAPPED, CAST), {"runners_up": (CAST,), "cleared": (SWAPPED.place,), "error_kind": "rounding"}
    units = (UnitExplanation("unit/adam"),)
    found = diagnosis("several", *two, **evidence, explained_by=units, fingerprints=(GRID,))
    lines = [*describe_diagnosis(found), *describe_diagnosis(diagnosis("found", SWAPPED))]
    words = {re.sub(" [0-9]+$", "", line.partition(":")[0]) for line in lines} - {"first of 2 causes"}
    assert words == {row["first word"] for row in table(PAGE, "first word", "meaning")}


def test_every_option_of_the_command():
    listed = table(SECTIONS["Options"], "option", "default", "meaning")
    rows = {row["option"].split()[0]: row["default"] for row in listed}
    options = {each.opts[0]: each for each in diagnose_command.params if each.opts[0].startswith("-")}
    assert set(rows) == set(options)
    assert float(rows["--seconds"]) == options["--seconds"].default
    assert float(rows["--seed"]) == options["--seed"].default


def test_numbers_of_the_page_are_those_of_the_program():
    said = " ".join(PAGE.split())
    assert f"if the rest is at most {NEARLY_ALL:.0%}".replace("%", " %") in said
    assert f"the limit is {MOST:.0%}".replace("%", " %") in said
    assert f"must leave at most {FITTED_REST:.0%}".replace("%", " %") in said
    assert f"explains at least {1 - _LEAST:.0%} of the errors".replace("%", " %") in said
    assert (_ACCEPTED_SHARE, _UNDO_SHARE, _MOST_CAUSES) == (0.5, 0.3, 3)
    assert "gets half of the time, undone statements three tenths" in said
    assert f"Blocks have {min(BLOCKS)} to {max(BLOCKS)} elements" in said


def test_the_options_and_their_defaults():
    rows = {
        row["option"].split()[0].partition("=")[0]: row["default"]
        for row in table(SECTIONS["In a run"], "option", "default", "meaning")
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
