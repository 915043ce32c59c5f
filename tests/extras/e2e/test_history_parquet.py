"""`precreg history export` to a Parquet file by the real command: pyarrow reads the figures that the lines have."""

import json

import pytest
from pyarrow import parquet

from tests.e2e.command import git, precreg
from tests.e2e.test_history import night, project

__all__ = ["project"]


@pytest.fixture
def kept(project):
    """Return a project of two cases whose history has three runs; the third has other figures than the first two."""
    night(project, None, "--create")
    night(project)
    night(project, "1e-3")
    return project


def states_of_lines(text):
    """Return the state of each case at each run from an export of lines: (reason, figures by output and metric)."""
    header, *lines = map(json.loads, text.splitlines())
    numbers = [line["number"] for line in lines[: header["runs"]]]
    found = {}
    for line in lines[header["runs"] :]:
        ran = [number for first, last in line["ran"] for number in numbers if first <= number <= last]
        for number in ran:
            changed = max(change for change in map(int, line["changes"]) if change <= number)
            state = line["changes"][str(changed)]
            for output, figures in state["outputs"].items():
                for metric, pair in figures.items():
                    if pair[0] is not None:
                        found[line["environment"], line["case"], number, output, metric] = (state["reason"], *pair)
    return found


def test_the_table_has_the_figures_of_the_lines(kept):
    done = precreg(kept, "history", "export", "h.parquet")
    assert done.returncode == 0, done.stderr
    table = parquet.read_table(kept / "h.parquet").to_pylist()
    found = {}
    for row in table:
        assert row["runs"] == row["last_run"] - row["first_run"] + 1
        for number in range(row["first_run"], row["last_run"] + 1):
            key = (row["environment"], row["case"], number, row["output"], row["metric"])
            assert key not in found
            found[key] = (row["reason"], row["value"], row["accepted"])
    lines = precreg(kept, "history", "export")
    assert lines.returncode == 0, lines.stderr
    assert found == states_of_lines(lines.stdout)
    assert {key[2] for key in found} == {1, 2, 3}
    assert {row["first_run"] for row in table} == {1, 3}
    errors = {key[2]: found[key][1] for key in found if key[4] == "mean_abs_error"}
    assert errors[1] == errors[2] == 0
    assert errors[3] == pytest.approx(1e-3, rel=1e-2)


def test_a_row_names_the_commits_and_starts_of_its_runs(kept):
    precreg(kept, "history", "export", "h.parquet")
    head, before = git(kept, "rev-parse", "HEAD"), git(kept, "rev-parse", "HEAD~1")
    rows = parquet.read_table(kept / "h.parquet").to_pylist()
    commits = {(row["first_run"], row["last_run"], row["first_commit"], row["last_commit"]) for row in rows}
    assert commits == {(1, 2, before, before), (3, 3, head, head)}
    assert all(row["first_started"] <= row["last_started"] for row in rows)
    assert len({row["case"] for row in rows}) == 2
