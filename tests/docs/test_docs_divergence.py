"""docs/divergence.md: its commands print what the page shows, and its figures are those of the program."""

import re

import pytest

from precreg.training.divergence.evidence import DIVERGENCE_ALPHA, TEST_ALPHA
from precreg.training.divergence.perturbation import TWIN_SHARE
from precreg.training.divergence.session import DEFAULT_TWINS
from precreg.training.divergence.verdict import MIN_DIRECTION, MIN_TWINS, NOISE_FACTOR
from tests.docs.test_docs import commands, matches, page, write_files
from tests.e2e.command import precreg

PAGE = page("divergence.md")


def test_commands_print_what_the_page_shows(tmp_path):
    write_files(tmp_path, PAGE)
    shown = commands(PAGE)
    assert len(shown) == 9
    for line, expected in shown:
        done = precreg(tmp_path, *line.split())
        code = re.search(r"^exit (\d)", expected, re.MULTILINE)
        assert done.returncode == int(code[1] if code else 0), done.stdout + done.stderr
        for part in expected.splitlines():
            if not part.startswith("exit "):
                assert any(matches(part, found) for found in done.stdout.splitlines()), (part, done.stdout)


def test_the_program_of_the_page_records_a_run(tmp_path, monkeypatch):
    write_files(tmp_path, PAGE)
    monkeypatch.chdir(tmp_path)
    exec(compile((tmp_path / "record.py").read_text(), "record.py", "exec"), {})
    done = precreg(tmp_path, "divergence", "run-own", "run-own")
    assert done.stdout.startswith("identical: all 21 compared steps have the same bits")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"{DEFAULT_TWINS} times by default", 8),
        ("one in sixteen weights", 1 / TWIN_SHARE / 2),
        (f"once in {round(1 / TEST_ALPHA)} times", 600),
        (f"{NOISE_FACTOR:g} times as far", 4),
        (f"at\nleast {MIN_DIRECTION} of one", 0.25),
        (f"{DIVERGENCE_ALPHA * 100:g} % for all six tests", 1),
        ("at least three runs", MIN_TWINS),
    ],
)
def test_figures_of_the_page_are_those_of_the_program(text, value):
    assert text in PAGE
    assert value in (MIN_TWINS, 8, 600, 4, 0.25, 1)
