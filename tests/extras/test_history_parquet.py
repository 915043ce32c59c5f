"""A history as a Parquet file: every point of every series is in it, and no more memory than a block of cases."""

import random

import pyarrow.compute
import pytest
from pyarrow import parquet

from precreg.history.parquet import PARQUET_COLUMNS
from precreg.history.store import open_history
from tests.history.made import SKIPPED, record

A, B, C = "unit/s/a", "unit/s/b", "model/m/c"


@pytest.fixture
def history(tmp_path):
    draw = random.Random(3)
    with open_history(tmp_path / "h.sqlite", project="demo", create=True) as opened:
        for minutes in [*range(0, 20, 2), *range(1, 20, 2)]:
            figures = {case: draw.choice([1.0, 1.0, 1 / 3, 5e-324, None, SKIPPED]) for case in (A, B, C)}
            opened.add(record(minutes, figures, label=draw.choice(["cpu", "npu"]), accepted=draw.choice([1.0, None])))
        yield opened


def test_the_rows_give_every_point_of_every_series(history, tmp_path):
    with (tmp_path / "h.parquet").open("wb") as stream:
        count = history.export_parquet(stream)
    table = parquet.read_table(tmp_path / "h.parquet")
    assert table.num_rows == count
    assert table.column_names == [name for name, _, _ in PARQUET_COLUMNS]
    found = {}
    for row in table.to_pylist():
        order = [run.number for run in history.runs(row["environment"])]
        first, last = order.index(row["first_run"]), order.index(row["last_run"])
        started = {run.number: (run.started, run.commit) for run in history.runs()}
        assert started[row["first_run"]] == (row["first_started"], row["first_commit"])
        assert started[row["last_run"]] == (row["last_started"], row["last_commit"])
        for run in order[first : last + 1]:
            key = (row["environment"], row["case"], run)
            assert key not in found
            found[key] = (row["reason"], row["output"], row["metric"], row["value"], row["accepted"], row["runs"])
    for environment in ("cpu", "npu"):
        for course in history.courses(environment, lambda _metric, _described: True):
            (series,) = course.series
            for point in series.points:
                reason, output, metric, value, accepted, _ = found[environment, course.case, point.run]
                assert reason == course.reasons[point.run]
                assert (value, accepted) == (point.value, point.accepted)
                assert (output, metric) in ((series.output, series.metric), (None, None))
                assert (value is None) == (output is None)


def test_runs_counts_the_runs_of_the_case_alone(tmp_path):
    with open_history(tmp_path / "h.sqlite", project="demo", create=True) as history:
        for minutes, figures in enumerate(({A: 1.0, B: 1.0}, {B: 1.0}, {A: 1.0, B: 2.0})):
            history.add(record(minutes, figures))
        with (tmp_path / "h.parquet").open("wb") as stream:
            assert history.export_parquet(stream) == 3
    rows = parquet.read_table(tmp_path / "h.parquet").to_pylist()
    assert [(row["case"], row["first_run"], row["last_run"], row["runs"]) for row in rows] == [
        (A, 1, 3, 2),
        (B, 1, 2, 2),
        (B, 3, 3, 1),
    ]


def test_a_history_without_a_run_is_a_table_without_rows(tmp_path):
    with (
        open_history(tmp_path / "h.sqlite", project="demo", create=True) as history,
        (tmp_path / "h").open("wb") as file,
    ):
        assert history.export_parquet(file) == 0
    assert parquet.read_table(tmp_path / "h").num_rows == 0


def test_figures_are_the_same_bits(tmp_path):
    figures = {f"unit/s/{place}": figure for place, figure in enumerate((1 / 3, 5e-324, 1.7976931348623157e308, 0.1))}
    with open_history(tmp_path / "h.sqlite", project="demo", create=True) as history:
        history.add(record(0, figures))
        with (tmp_path / "h.parquet").open("wb") as stream:
            history.export_parquet(stream)
    table = parquet.read_table(tmp_path / "h.parquet")
    assert [value.hex() for value in table["value"].to_pylist()] == [figure.hex() for figure in figures.values()]
    assert pyarrow.compute.count_distinct(table["accepted"]).as_py() == 1
