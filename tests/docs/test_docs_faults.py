"""docs/faults.md says what the program does: its tables are the code's, and its commands print what it shows."""

import re

import pytest

from precreg.arithmetic.faults.inputs import MOST_STEPS
from precreg.arithmetic.faults.orders import LARGEST_EPSILON
from precreg.arithmetic.faults.table import CHANGES, FAULTS
from precreg.quality.score import WORSE, Effect
from precreg.quality.tally import SLIGHT
from precreg.report.scoring_terminal import TALLIED
from tests.docs.test_docs import page, table
from tests.e2e.command import ROOT, precreg
from tests.e2e.test_readme import pattern

PAGE = page("faults.md")


@pytest.mark.parametrize(
    ("faults", "columns"),
    [
        (FAULTS, ("fault", "kind of error", "what it does", "where it can act")),
        (CHANGES, ("harmless change", "kind", "what it does", "where it can act")),
    ],
    ids=["faults", "changes"],
)
def test_the_table_of_faults_is_that_of_the_code(faults, columns):
    rows = [tuple(row.values()) for row in table(PAGE, *columns)]
    assert rows == [(fault.name, fault.source, fault.about, fault.where) for fault in faults.values()]


def test_the_columns_are_explained():
    assert tuple(row["column"] for row in table(PAGE, "column", "what it counts")) == TALLIED


def test_the_figures_of_the_page():
    assert f"the factor is above {WORSE}" in PAGE
    assert f"grew by less than {SLIGHT} times" in PAGE
    assert f"from 2 to {MOST_STEPS}" in FAULTS["one_step_less"].about
    assert all(
        f"up to {LARGEST_EPSILON}" in fault.about + fault.where for fault in FAULTS.values() if "epsilon" in fault.name
    )
    assert all(f"**{effect}" in PAGE or f"or **{effect}**" in PAGE for effect in Effect)


def test_the_commands_print_what_the_page_shows():
    block = re.search(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
    commands = re.split(r"^\$ precreg ", block, flags=re.MULTILINE)[1:]
    assert len(commands) == 2
    for command in commands:
        line, *expected = command.splitlines()
        done = precreg(ROOT, *line.split(), "--jobs", "0")
        assert done.returncode == 0, done.stderr
        for wanted in expected:
            assert re.search(f"^{pattern(wanted)}$", done.stdout, re.MULTILINE), f"{wanted!r} in\n{done.stdout}"
