"""docs/integrity.md: its commands are run, its kinds are all there are, and its example can be read."""

import re

import pytest

from precreg.baseline.integrity.sides import COMPUTED_KINDS
from precreg.cli.main import precreg
from precreg.types.warning import FindingKind
from tests.baseline.integrity import demo
from tests.baseline.integrity.test_tricks import TRICKS
from tests.docs.test_docs import commands, matches, page, sections, write_files
from tests.e2e.command import OUTSIDE, git

PAGE = page("integrity.md", "integrity-tricks.md")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The project of a merge request that raises a bound, on its branch."""
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    demo.make(tmp_path)
    git(tmp_path, "switch", "-q", "-c", "faster")
    made = demo.Demo(tmp_path)
    made.change("suites/unit/mean.yaml", "mean_rel_error: 1", "mean_rel_error: 2")
    monkeypatch.chdir(tmp_path)
    return made


def shown(line, text):
    """Tell whether a text has a line that is the expected one, in which `...` stands for anything."""
    return any(matches(line.strip(), found.strip()) for found in text.splitlines())


def test_the_commands_print_what_the_page_shows(project, capsys):
    (first, before), (second, after) = commands(PAGE)
    for arguments, expected in ((first, before), (second, after)):
        with pytest.raises(SystemExit) as ended:
            precreg([*arguments.split(), "--jobs", "0"], prog_name="precreg")
        text = capsys.readouterr().out
        assert [line for line in expected.splitlines() if not shown(line, text)] == [], text
        assert f"exit {ended.value.code or 0}: " in expected
        write_files(project.root, PAGE)


def test_every_kind_has_a_row_and_every_trick_is_of_one():
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", sections(PAGE)["Findings"], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(set(FindingKind) - COMPUTED_KINDS)
    untried = {FindingKind.CASE_INTRODUCED, FindingKind.ALLOWANCE_UNUSED, FindingKind.BASE_UNREADABLE}
    assert {trick.kind for trick in TRICKS.values()} == set(FindingKind) - COMPUTED_KINDS - untried, (
        "those are no tricks"
    )


def test_the_options_are_those_of_the_command(project, capsys):
    with pytest.raises(SystemExit):
        precreg(["run", "--help"], prog_name="precreg")
    text = capsys.readouterr().out
    assert all(word in text for word in ("--against", "auto", "off", "REVISION..."))
    assert all(f"`{word}`" in sections(PAGE)["Which commit"] for word in ("auto", "off", "REVISION", "REVISION..."))
