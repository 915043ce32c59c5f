"""docs/calibrate.md says what the program does: its tables are the code's, and its commands print what it shows."""

import re

import click
import pytest

from precreg.cli.quality import calibrate_command
from precreg.quality.bounds import (
    DEFAULT_REPLICATES,
    DEFAULT_SLACK,
    DEFAULT_VACUOUS,
    ESTIMATE_PROBABILITY,
    MIN_FLAKY_PROBABILITY,
    REPLICATE_KINDS,
    BoundQuality,
)
from precreg.quality.calibration import ORDERS
from precreg.report.calibration import CALIBRATION_COLUMNS
from precreg.verdict.statistics.uncertainty import MIN_REPLICATES, max_unseen_probability
from tests.docs.test_docs import page, table
from tests.e2e.command import ROOT, precreg

PAGE = page("calibrate.md")
BLOCKS = re.findall(r"^```console\n\$ precreg (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def words(text):
    """Return the words of a text, with one mark for all numbers that stand by themselves: noise is the machine's."""
    return [re.sub(r"(?<![\w-])<?[0-9.]+(e-[0-9]+)?(?![\w-])", "N", word) for word in text.split()]


@pytest.mark.parametrize(("line", "expected"), BLOCKS, ids=[line for line, _ in BLOCKS])
def test_the_commands_print_what_the_page_shows(line, expected):
    done = precreg(ROOT, *line.split(), "--jobs", "0")
    assert done.returncode == 0, done.stderr
    assert words(done.stdout) == words(expected)
    assert re.findall("was.*|[0-9]+ terms.*bound [0-9.e-]+|runs of.*", done.stdout) == re.findall(
        "was.*|[0-9]+ terms.*bound [0-9.e-]+|runs of.*", expected
    )


def test_the_tables_are_those_of_the_code():
    assert (
        tuple(row["kind"] for row in table(PAGE, "kind", "how it differs from the case's own run")) == REPLICATE_KINDS
    )
    assert [row["quality"] for row in table(PAGE, "quality", "when")] == list(BoundQuality)
    assert all(f"`{order}`" in PAGE for order in ORDERS)
    header = next(line for line in PAGE.splitlines() if line.startswith("  output  bound"))
    assert tuple(re.split(" {2,}", header.strip())) == CALIBRATION_COLUMNS


def test_every_option_is_in_the_table_with_its_default():
    rows = table(PAGE, "option", "what it does")
    named = " ".join(row["option"] for row in rows)
    options = [each for each in calibrate_command.params if isinstance(each, click.Option)]
    assert all(each.opts[0] in named for each in options)
    defaults = {each.opts[0]: each.default for each in options}
    assert (defaults["--replicates"], defaults["--slack"], defaults["--vacuous"]) == (
        DEFAULT_REPLICATES,
        DEFAULT_SLACK,
        DEFAULT_VACUOUS,
    )
    assert all(f"(default {number:g})" in PAGE for number in (DEFAULT_REPLICATES, DEFAULT_SLACK, DEFAULT_VACUOUS))


def test_the_figures_of_the_page():
    assert f"its estimated probability to break exceeds {MIN_FLAKY_PROBABILITY:g}" in PAGE
    assert f"exceeds with an estimated probability of {ESTIMATE_PROBABILITY:.0%}".replace("%", " %") in PAGE
    assert f"Below {MIN_REPLICATES} runs there is no estimate" in PAGE
    assert f"{max_unseen_probability(20):.0%} for 20 runs".replace("%", " %") in PAGE
