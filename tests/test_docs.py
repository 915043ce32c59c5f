"""The pages in docs/ say what the program does: examples are loaded and run, tables and numbers compared with it."""

import re
from pathlib import Path

import pytest

from precreg.cli.main import precreg
from precreg.errors import ADVICE
from tests.error_scenarios import SCENARIOS, Project

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PACKAGE = ROOT / "precreg"


def page(name):
    return (DOCS / name).read_text()


def sections(text):
    """Return the text of each `## HEADING` of a page."""
    return {head.strip(): body for head, _, body in (part.partition("\n") for part in text.split("\n## ")[1:])}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs `precreg ARGUMENTS` in this process, and returns all it prints."""
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "CI_NODE_INDEX", "CI_NODE_TOTAL", "PRECREG_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", "C")

    def run(*arguments):
        with pytest.raises(SystemExit):
            precreg(arguments, prog_name="precreg")
        captured = capsys.readouterr()
        return captured.out + captured.err

    return run


def message(printed, slug):
    """Return the two lines of an error, without the indentation they have beside a case."""
    found = re.search(rf"^ *(\S.*)?error\[{slug}\]: .*\n *what to do: .*$", printed, re.MULTILINE)
    assert found, printed
    first, second = found[0].splitlines()
    return f"{first.strip()}\n  {second.strip()}\n"


def matches(expected, printed):
    """Tell whether a text is the expected one, in which `...` stands for anything on its line."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), printed) is not None


def test_every_slug_has_a_section_in_order():
    assert list(sections(page("errors.md"))) == list(ADVICE)
    assert list(SCENARIOS) == list(ADVICE)


@pytest.mark.parametrize("slug", ADVICE)
def test_an_error_is_printed_as_its_section_shows_it(slug, tmp_path, run, monkeypatch):
    example = re.search(r"^```text\n(.*?)^```$", sections(page("errors.md"))[slug], re.MULTILINE | re.DOTALL)[1]
    assert example.endswith(f"\n  what to do: {ADVICE[slug]}\n")
    printed = SCENARIOS[slug](Project(tmp_path, run, monkeypatch))
    shown = message(printed, slug).replace(str(tmp_path), "/home/ada/demo")
    assert matches(example, shown), shown


@pytest.mark.parametrize("slug", ADVICE)
def test_every_slug_is_raised_somewhere(slug):
    sources = (path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "errors.py")
    assert any(f'"{slug}"' in source for source in sources)
