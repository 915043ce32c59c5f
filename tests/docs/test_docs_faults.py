"""docs/faults.md says what the program does: its tables are the code's, and its commands print what it shows."""

import re

import pytest

from precreg.arithmetic.faults.orders import MAX_EPSILON
from precreg.arithmetic.faults.planting import MAX_STEPS
from precreg.arithmetic.faults.table import FAULTS, HARMLESS_CHANGES
from precreg.quality.scoring import MAX_SLIGHT_FACTOR, MIN_WORSE_FACTOR, Effect
from precreg.report.detection import TALLY_COLUMNS
from tests.docs.test_docs import page, table
from tests.e2e.command import ROOT, precreg
from tests.e2e.test_readme import pattern

PAGE = page("faults.md")


@pytest.mark.parametrize(
    ("faults", "columns"),
    [
        (FAULTS, ("fault", "kind of error", "what it does", "where it can act")),
        (HARMLESS_CHANGES, ("harmless change", "kind", "what it does", "where it can act")),
    ],
    ids=["faults", "changes"],
)
def test_the_table_of_faults_is_that_of_the_code(faults, columns):
    rows = [tuple(row.values()) for row in table(PAGE, *columns)]
    assert rows == [(fault.name, fault.source, fault.about, fault.where) for fault in faults.values()]


def test_the_columns_are_explained():
    assert tuple(row["column"] for row in table(PAGE, "column", "counts")) == TALLY_COLUMNS


def test_the_figures_of_the_page():
    assert f"the factor is above {MIN_WORSE_FACTOR}" in PAGE
    assert f"grew by less than {MAX_SLIGHT_FACTOR} times" in PAGE
    assert f"from 2 to {MAX_STEPS}" in FAULTS["one_step_less"].about
    assert all(
        f"up to {MAX_EPSILON}" in fault.about + fault.where for fault in FAULTS.values() if "epsilon" in fault.name
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
