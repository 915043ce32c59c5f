"""docs/significant_digits.md: its example is run, and its tables and figures are the program's."""

import re
from math import log10

import pytest
from msgspec.structs import fields

from precreg.measure.metrics import METRICS
from precreg.measure.significant_digits import normal_allowance
from precreg.suite.files import StochasticEntry
from precreg.types.case import Stochastic
from tests.docs.test_docs import commands, matches, page, table, write_files
from tests.e2e.command import precreg

PAGE = page("significant_digits.md")
FLAT = " ".join(PAGE.split())


def test_the_example_runs_as_shown(tmp_path):
    ((command, shown),) = commands(PAGE)
    done = precreg(write_files(tmp_path, PAGE), *command.split(), "--jobs", "1")
    assert done.returncode == 1, done.stderr
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    for line in shown.splitlines():
        assert any(matches(line, each) or matches(f"{line}...", each) for each in printed), line


def test_every_key_is_in_the_table_with_its_default():
    rows = table(PAGE, "key of `stochastic`", "default", "meaning")
    assert [row["key of `stochastic`"] for row in rows] == [field.name for field in fields(StochasticEntry)]
    for row, field in zip(rows, fields(StochasticEntry), strict=True):
        assert row["default"] == ("by kind" if field.default is None else str(field.default))


def test_the_metrics_are_those_that_need_samples():
    rows = table(PAGE, "metric", "meaning")
    assert [row["metric"] for row in rows] == [m.name for m in METRICS.values() if m.needs_samples]


def test_the_figures_of_the_page():
    allowance = normal_allowance(30, 0.95, 0.95)
    assert float(re.search(r"the bracket is ([\d.]+) bits", FLAT)[1]) == pytest.approx(allowance, abs=0.005)
    digits, most = map(float, re.search(r"samples of float32 show ([\d.]+) digits, and not ([\d.]+),", FLAT).groups())
    assert (digits, most) == pytest.approx(((23 - allowance) * log10(2), 23 * log10(2)), abs=0.05)
    assert int(re.search(r"n must be at least (\d+)", FLAT)[1]) == Stochastic().min_general_samples
