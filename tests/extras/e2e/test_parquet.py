"""The sweep as a Parquet file: the same cases and figures as its CSV file, in workers that it leaves unchanged."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from tests.e2e.command import precreg, repository
from tests.sweep import SUITE, sweep_rows, write_sweep

NUMBERS = {"n": int, "n_exact": int, "max_abs_ulp": float, "mean_abs_ulp": float}


def write_parquet(path, rows):
    typed = [{name: NUMBERS.get(name, str)(cell) for name, cell in row.items()} for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(typed), path)


@pytest.fixture
def project(tmp_path):
    write_sweep(tmp_path / "suites/unit/sweep.csv", sweep_rows()[:40])
    (tmp_path / "suites/unit/eltwise.yaml").write_text(SUITE)
    return repository(tmp_path)


def record(project):
    return json.loads((project / "reports/record.json").read_text())


def test_a_parquet_file_has_the_figures_of_its_csv(project):
    precreg(project, "run")
    by_csv = {result["id"]: result["outcome"]["comparisons"][0]["metrics"] for result in record(project)["results"]}
    write_parquet(project / "suites/unit/sweep.parquet", sweep_rows()[:40])
    (project / "suites/unit/eltwise.yaml").write_text(SUITE.replace("sweep.csv", "sweep.parquet"))
    done = precreg(project, "run", "--jobs", "2")
    assert done.returncode == 2, done.stdout + done.stderr
    results = record(project)["results"]
    assert {result["id"]: result["outcome"]["comparisons"][0]["metrics"] for result in results} == by_csv
    assert [result["outcome"]["execution"]["left"] for result in results] == [[]] * 40


def test_a_mistake_names_the_row(project):
    rows = [dict(row) for row in sweep_rows()[:3]]
    table = pyarrow.Table.from_pylist([{**row, "n_exact": "many" if at == 2 else "1"} for at, row in enumerate(rows)])
    parquet.write_table(table, project / "suites/unit/sweep.parquet")
    (project / "suites/unit/eltwise.yaml").write_text(SUITE.replace("sweep.csv", "sweep.parquet"))
    done = precreg(project, "run")
    assert done.returncode == 2
    assert done.stderr.startswith("suites/unit/sweep.parquet:3: error[bad-table]: expected a number in n_exact but got")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"op,n\nexp,1\n", b"PAR1" + bytes(100) + b"PAR1"])
def test_another_file_is_refused(project, content):
    (project / "suites/unit/sweep.parquet").write_bytes(content)
    (project / "suites/unit/eltwise.yaml").write_text(SUITE.replace("sweep.csv", "sweep.parquet"))
    done = precreg(project, "run")
    assert done.returncode == 2
    assert done.stderr.startswith("suites/unit/sweep.parquet: error[bad-table]: expected a Parquet file but"), (
        done.stderr
    )
