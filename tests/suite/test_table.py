"""`table:` of a suite: a case for each row, and every mistake with its place."""

import sys

import jsonschema
import pytest

from precreg.errors import UserError
from precreg.storage.yaml_source import read_yaml
from precreg.suite.expand import load_cases
from precreg.suite.schema import json_schema

TABLE = "op,dtype,k,n,n_exact,max_ulp,mean_ulp\nexp,bfloat16,8,256,250,1,0.25\nlog,bf8,16,256,256,0.5,0.2\n"
SUITE = """\
suite: sweep
table:
  file: sweep.csv
  name: [op, dtype, k]
  count: n
  dtypes: {bf8: float8_e5m2}
  metrics:
    max_ulp: max_ulp
    mean_ulp: mean_ulp
    equal_share: {column: n_exact, of: n}
    n_exact: {better: higher}
"""


@pytest.fixture
def cases(write):
    def cases(suite=SUITE, table=TABLE, **files):
        return load_cases(write({"suites/unit/sweep.csv": table, **files}, sweep=suite))

    return cases


@pytest.fixture
def refused(cases):
    def refused(suite=SUITE, table=TABLE):
        with pytest.raises(UserError) as caught:
            cases(suite, table)
        return caught.value

    return refused


def test_every_row_is_a_case(cases):
    first, second = cases()
    assert (first.id, second.id) == ("unit/sweep/bfloat16-exp-k=8", "unit/sweep/bf8-log-k=16")
    assert first.parameters == {"op": "exp", "dtype": "bfloat16", "k": 8}
    assert (first.subject.kind, first.subject.spec["dtype"], second.subject.spec["dtype"]) == (
        "table",
        "bfloat16",
        "float8_e5m2",
    )
    assert [*first.subject.spec["metrics"]] == ["max_ulp", "mean_ulp", "equal_share", "higher.n_exact"]
    assert (first.seeds, first.role, first.requires) == (1, "reference", ())


def test_figures_are_no_part_of_the_definition(cases):
    before = [case.definition for case in cases()]
    assert [case.definition for case in cases(table=TABLE.replace("0.25", "0.5"))] == before
    assert [case.definition for case in cases(SUITE.replace("    mean_ulp: mean_ulp\n", ""))] != before


@pytest.mark.parametrize(
    ("before", "after", "slug", "line", "says"),
    [
        ("name: [op, dtype, k]", "name: [op, dtype, kk]", "unknown-column", 4, 'did you mean "k"?'),
        ("count: n", "count: m", "unknown-column", 5, "(op, dtype, k, n, n_exact, max_ulp, mean_ulp) but got m"),
        ("max_ulp: max_ulp", "max_ulp: max_ulps", "unknown-column", 8, 'did you mean "max_ulp"?'),
        ("max_ulp: max_ulp", "max_upl: max_ulp", "unknown-metric", 8, 'did you mean "max_ulp"?'),
        ("of: n}", "off: n}", "unknown-key", 10, 'did you mean "of"?'),
        ("better: higher", "better: bigger", "unknown-metric", 11, "got better=bigger"),
        ("mean_ulp: mean_ulp", "mean_ulp: {column: mean_ulp, better: lower}", "bad-value", 9, "which precreg defines"),
        ("{bf8: float8_e5m2}", "{bf8: fp8}", "unknown-dtype", 6, "bf8=fp8"),
        ("name: [op, dtype, k]", "name: [op, op]", "bad-value", 4, "each column once"),
        ("name: [op, dtype, k]", "name: []", "bad-value", 4, "expected a list of length >= 1 but got table.name=[]"),
        ("suite: sweep", "suite: sweep\nsubject: kernels:naive", "bad-value", 2, "subject or table"),
        ("suite: sweep", "suite: sweep\nseeds: 3", "bad-value", 2, "seeds or table"),
        ("suite: sweep", "suite: sweep\ntolerance: {max_abs_error: 1}", "unknown-metric", 2, "max_ulp, mean_ulp"),
        ("suite: sweep", "suite: sweep\ntolerance: {rtol: 1}", "unknown-metric", 2, "got rtol"),
        ("suite: sweep", "suite: sweep\ntolerance: {higher.n_exakt: 1}", "unknown-metric", 2, 'mean "higher.n_exact"?'),
        ("file: sweep.csv", "file: ../../../sweep.csv", "outside-project", 3, ""),
        ("file: sweep.csv", "file: sweeps.csv", "missing-file", None, "the job that measures must write it"),
    ],
)
def test_mistakes_in_a_suite(refused, before, after, slug, line, says):
    error = refused(SUITE.replace(before, after, 1))
    assert (error.slug, says in error.message) == (slug, True), error.message
    assert line is None or (error.file, error.line) == ("suites/unit/sweep.yaml", line)


@pytest.mark.parametrize(
    ("before", "after", "slug", "line", "says"),
    [
        ("log,bf8,16", "exp,bfloat16,8", "duplicate-case", 3, "op=exp, dtype=bfloat16, k=8 but line 2 has it, too"),
        ("log,bf8", "log,bfp8", "unknown-dtype", 3, "add it to table: dtypes: {bfp8: DTYPE}"),
        ("0.25", "1_0", "bad-table", 2, "expected a number in mean_ulp but got '1_0'"),
        ("0.25", "١", "bad-table", 2, "expected a number in mean_ulp"),
        ("0.25", '"0,25"', "bad-table", 2, "with a decimal point, 0.25, in mean_ulp but got '0,25'"),
        ("256,250", "0,250", "bad-table", 2, "a positive number in n but got 0"),
        ("256,250", ",250", "bad-table", 2, "a number of elements in n"),
        ("256,250", "256,260", "bad-table", 2, "a share from 0 to 1 in n_exact (equal_share) but got 1.01562"),
        ("0.25", "-0.25", "bad-table", 2, "that is not negative in mean_ulp (mean_ulp) but got -0.25"),
        ("exp,bf", ",bf", "bad-table", 2, "a name of printable characters without / in op"),
        ("exp,bf", "a/b,bf", "bad-table", 2, "got 'a/b'"),
        ("exp,bf", "a\x1bb,bf", "bad-table", 2, "printable"),
        ("n_exact,max_ulp", "n_exact,op", "bad-table", 1, "op is column 1 and column 6"),
    ],
)
def test_mistakes_in_a_table(refused, before, after, slug, line, says):
    error = refused(table=TABLE.replace(before, after, 1))
    assert (error.slug, error.file, error.line) == (slug, "suites/unit/sweep.csv", line)
    assert says in error.message


def test_a_dtype_is_required(refused):
    error = refused(SUITE.replace(", dtype, k]", ", k]"), TABLE.replace("dtype", "format"))
    assert (error.slug, error.line) == ("missing-key", 2)


def test_a_dtype_for_all_rows(cases):
    suite = SUITE.replace("  count: n\n", "  count: n\n  dtype: float16\n")
    assert {case.subject.spec["dtype"] for case in cases(suite)} == {"float16"}


def test_a_kind_of_subject_is_no_table(write):
    with pytest.raises(UserError, match="as a key of the suite"):
        load_cases(write(s="suite: s\nsubject: {table: sweep.csv}\nreference: kernels:exact\n"))


def test_tolerances_name_figures_of_the_tables_own(cases):
    settings = "tolerance: {higher.n_exact: 200, regression: {higher.n_exact: 0.5}}\n"
    for suite in (SUITE + settings, SUITE + "cases: [{match: '*', " + settings.strip() + "}]\n"):
        layer = cases(suite)[0].layers[-1]
        assert (layer.bounds, layer.regression) == ({"higher.n_exact": 200}, {"higher.n_exact": 0.5})


def test_growth_that_is_off_is_off_for_figures_of_the_tables_own(cases):
    off = {"tolerance": "{regression: off}", "cases": "[{match: '*', tolerance: {regression: off}}]"}
    for key, text in off.items():
        assert cases(f"{SUITE}{key}: {text}\n")[0].layers[-1].regression["higher.n_exact"] is None
    shared = cases(**{"suites/tolerances.yaml": "tiers: {unit: {regression: off}}\n"})
    assert shared[0].layers[-1].regression["higher.n_exact"] is None


def test_shared_tolerances_may_bound_what_a_table_lacks(cases):
    shared = "default: {max_abs_error: 1, max_ulp: 3}\n"
    first, _ = cases(**{"suites/tolerances.yaml": shared})
    assert first.layers[-1].bounds == {"max_abs_error": 1, "max_ulp": 3}


def test_a_parquet_file_without_its_reader_is_one_case_that_requires_it(write, monkeypatch):
    # None in sys.modules is how Python says that a module cannot be imported.
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    project = write({"suites/unit/sweep.parquet": "PAR1"}, sweep=SUITE.replace("sweep.csv", "sweep.parquet"))
    (only,) = load_cases(project)
    assert (only.id, only.requires) == ("unit/sweep/default", ("pyarrow",))


def test_an_editor_takes_the_suite(write):
    jsonschema.validate(read_yaml(write(sweep=SUITE) / "suites/unit/sweep.yaml", "sweep.yaml").data, json_schema())
