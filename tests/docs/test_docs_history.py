"""docs/history.md and docs/history-page.md: commands run in a real project, and tables agree with the program."""

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from precreg.cli.history import DEFAULT, HISTORY_PAGE, history_page_command
from precreg.history.drift import TrendOptions
from precreg.history.drift.monitor import MAX_STEADY_DRAWN, MAX_WITH_POINTS
from precreg.history.exchange import EXPORT_SCHEMA, CaseLine, ExportHeader, RunLine
from precreg.history.packing import KeptCase
from precreg.history.parquet import PARQUET_COLUMNS
from precreg.history.store import WAIT_S
from precreg.report import history_page
from tests.docs.test_docs import commands, matches, sections, table
from tests.e2e.command import change, git, precreg, repository, with_suite

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text()

SUITE = """\
suite: s
subject: k:same
reference: k:same
inputs: {x: {shape: [32], dtype: float32, normal: {mean: 0, std: 1}}}
"""


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE))


def test_commands_print_what_the_page_shows(project):
    """The project is one whose baselines are accepted, at a commit that is tagged."""
    precreg(project, "run", "--jobs", "0")
    precreg(project, "baseline", "accept", "--all", "--reason", "first version")
    git(project, "tag", "v1.0")
    shown = commands(PAGE)
    assert len(shown) == 9
    for command, expected in shown:
        done = precreg(project, *command.split())
        assert done.returncode == 0, done.stderr
        assert expected == "...\n" or matches(expected, done.stdout), (command, done.stdout)


def test_the_keys_of_an_export_are_in_the_table():
    rows = table(PAGE, "line", "key", "meaning")
    for kind, line in (("header", ExportHeader), ("run", RunLine), ("case", CaseLine)):
        assert [row["key"] for row in rows if row["line"] == kind] == [field.name for field in fields(line)]
    assert rows[0]["meaning"] == EXPORT_SCHEMA
    kept = [row["key"].strip("`") for row in table(PAGE, "key", "content")]
    assert kept == [field.name for field in fields(KeptCase)]


def test_the_place_and_the_patience_are_those_of_the_program():
    assert table(PAGE, "place", "named by")[0]["place"] == f"`.precreg/{DEFAULT}` in the project"
    assert "for up to a minute" in sections(PAGE)["The place of the history"]
    assert WAIT_S == 60


TRENDS = (Path(__file__).parents[2] / "docs" / "history-page.md").read_text()
SCALED = "import numpy as np\n\nSCALE = 1\n\n\ndef same(x):\n    return x if x.dtype == np.float64 else x * SCALE\n"


def test_the_page_of_a_history_is_written_as_its_page_shows(tmp_path):
    folder = tmp_path / "demo"
    folder.mkdir()
    project = repository(with_suite(folder, SUITE, SCALED.replace("SCALE = 1", "SCALE = np.float32(1.001)")))
    for night in range(6):
        if night == 3:
            change(project / "suites/unit/k.py", "1.001", "1.004")
            git(project, "commit", "-qam", "coarser")
        precreg(project, "run", "--jobs", "0")
        assert precreg(project, "history", "add", "--create", "reports").returncode == 0
    shown = commands(TRENDS)
    assert len(shown) == 2
    for command, expected in shown:
        done = precreg(project, *(word.replace("cpu", label(project)) for word in command.split()))
        assert done.returncode == 0, done.stderr
        assert matches(expected, done.stdout), (command, done.stdout)
    assert '<html lang="zh-Hans">' in (project / "trends.html").read_text()


def label(project):
    return precreg(project, "history", "list").stdout.split()[2].rstrip(",")


def test_every_option_of_the_page_is_in_its_table():
    rows = {row["option"].strip("`"): row["default"] for row in table(TRENDS, "option", "default", "meaning")}
    options = {option.opts[0]: option for option in history_page_command.params}
    assert sorted(rows) == sorted(["PATTERN", *(name for name in options if name.startswith("--"))])
    assert float(rows["--materiality"]) == options["--materiality"].default == TrendOptions().materiality
    assert rows["--lang"] == options["--lang"].default
    assert HISTORY_PAGE in rows["--output"]


def test_the_limits_of_the_page_are_those_of_the_program():
    assert f"The {history_page.MAX_TOP_CHANGES} worst changes" in TRENDS
    assert re.search(rf"up to\s{history_page.MAX_SAMPLED_RUNS} points each", TRENDS)
    assert history_page.MAX_PAGE_BYTES < 5_000_000
    states = [row["state"] for row in table(TRENDS, "state", "when")]
    assert states == list(history_page._TONES)


def test_the_columns_of_a_parquet_file_are_in_the_table():
    named = [name.strip("` ") for row in table(PAGE, "column", "content") for name in row["column"].split(",")]
    assert named == [name for name, _, _ in PARQUET_COLUMNS]


def test_the_page_names_the_outputs_whose_points_a_record_has():
    page = " ".join((Path(__file__).parents[2] / "docs" / "drift.md").read_text().split())
    assert f"the first {MAX_WITH_POINTS:,} outputs with a finding and the first {MAX_STEADY_DRAWN} steady ones" in page
