"""docs/studies.md: its suite is run, its tables are those of the keys, the columns, and what shipped suites find."""

import re

import pytest
from msgspec.structs import fields

from precreg.measure.metrics import relative_errors
from precreg.report.studies import describe_studies
from precreg.run.pipeline import CaseJudge
from precreg.run.record import begin_record, finish_record
from precreg.suite.expand import load_cases
from precreg.suite.files import GrowthEntry, NoteEntry, TradeOffEntry
from tests.docs.test_docs import ROOT, names, page, sections, table, write_files
from tests.e2e.command import precreg
from tests.report.studies.made import both

PAGE = page("studies.md")


@pytest.fixture
def folder(tmp_path):
    return write_files(tmp_path, PAGE)


def found(suite):
    """Run a shipped suite in this process, and return what its first study says."""
    cases = [case for case in load_cases(ROOT) if case.suite == suite]
    judge = CaseJudge(ROOT, environment=None, ci=False)
    begun = begin_record(ROOT, {}, environment=None, ci=False)
    return describe_studies(
        finish_record(begun, cases, [judge.run(case) for case in cases], project=ROOT, duration_s=0)
    )[0]


def test_the_suite_of_the_page_prints_what_it_shows(folder):
    (shown,) = re.findall(r"^\$ precreg ([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    printed = precreg(folder, *shown[0].split(), "--jobs", "0").stdout
    assert shown[1] in printed
    assert "study    unit/products   precision against speed, by form\n" in printed


@pytest.mark.parametrize(("kind", "key"), [(GrowthEntry, "key of `growth`"), (TradeOffEntry, "key of `trade_off`")])
def test_every_key_is_in_its_table_with_its_default(kind, key):
    rows = {row[key]: row["default"] for row in table(PAGE, key, "default", "meaning")}
    expected = {}
    for field in fields(kind):
        without = "none" if field.default_factory is dict else str(field.default)
        expected[field.name] = "required" if field.required else without
    assert rows == expected


def test_the_metrics_and_the_keys_of_notes_are_named():
    rows = {row["key of `growth`"]: row["meaning"] for row in table(PAGE, "key of `growth`", "default", "meaning")}
    assert names(rows["metric"]) == list(relative_errors())
    rows = {
        row["key of `trade_off`"]: row["meaning"] for row in table(PAGE, "key of `trade_off`", "default", "meaning")
    }
    assert names(rows["notes"]) == [field.name for field in fields(NoteEntry)]


@pytest.mark.parametrize(
    ("number", "section", "parameter"), [(0, "Growth", "depth"), (1, "Precision against speed", "form")]
)
def test_every_column_is_explained(number, section, parameter):
    rows = table(sections(PAGE)[section], "column", "meaning")
    explained = [name for row in rows for name in row["column"].replace("`", "").split(", ")]
    columns = [parameter if name == "the parameter" else name for name in explained]
    assert [name for name in columns if name != "of"] == list(describe_studies(both())[number].columns)


def test_shipped_growth_is_what_the_page_says():
    study = found("error_growth")
    columns = ("series", "e of one", "direction", "measured at 1024", "exp(n e)", "sqrt(n)", "nearer", "grows like")
    of_page = [tuple(row.values()) for row in table(PAGE, *columns)]
    here = [(*row[:3], *row[4:]) for row in study.rows if row[0] != "cpu-matmul"]
    assert of_page == here


def test_shipped_optimisations_have_the_errors_that_the_page_says():
    study = found("optimisations")
    of_page = [
        tuple(row.values()) for row in table(PAGE, "optimisation", "speed-up", "error ratio", "mean ULP", "matches")
    ]
    assert [(row[0], *row[2:]) for row in of_page] == [(row[0], *row[4:7]) for row in study.rows]
