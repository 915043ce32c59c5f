"""Studies by the real command: in every report, from shards put together, and nothing of them without the key."""

import json

import pytest

from tests.e2e.command import change, precreg, repository, with_suite

KERNEL = """\
import numpy as np


def chain(x, factors, rounding):
    for factor in factors:
        x = x * factor
        if rounding == "truncate" and x.dtype == np.float32:
            x = (x.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)
    return x
"""
SUITE = """\
suite: growth
subject: k:chain
reference: k:chain
matrix:
  rounding: [nearest, truncate]
  depth: [1, 4, 16, 64, 256]
inputs:
  x: {shape: [64], dtype: float32, uniform: {low: 1, high: 2}}
  factors: {shape: [$depth, 64], dtype: float32, uniform: {low: 0.75, high: 1.25}}
params: {rounding: $rounding}
tolerance: {rtol: 0.1}
study:
  growth: {over: depth}
  trade_off: {over: rounding, plain: nearest, notes: {truncate: {use: nowhere, risk: bias}}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return repository(with_suite(tmp_path_factory.mktemp("studies"), SUITE, KERNEL))


@pytest.fixture(scope="module")
def whole(project):
    done = precreg(project, "run", "--jobs", "0")
    assert done.returncode == 2, done.stdout + done.stderr
    return done


def table(text):
    """Return the rows of the study of growth by their first cell."""
    part = text.partition("error growth over depth\n")[2].partition("\n\n")[0]
    return {cells[0]: cells for cells in map(str.split, part.splitlines())}


def test_the_terminal_says_which_law_holds(whole):
    rows = table(whole.stdout)
    assert rows["truncate"][2] == "-1.00"
    assert rows["truncate"][7:9] == ["exp(n", "e)"]
    assert rows["nearest"][7] == "sqrt(n)"
    measured, grown = map(float, rows["truncate"][4:6])
    assert abs(grown / measured - 1) < 0.1


def test_every_report_has_the_studies(project, whole):
    page = (project / "reports/report.html").read_text()
    summary = (project / "reports/summary.md").read_text()
    assert page.count('<figure class="panel">') == 2
    assert "mean_rel_error of truncate: " in page
    assert "## Precision against speed, by rounding: `unit/growth`" in summary
    assert summary.count("| nowhere | bias |") == 5
    (study,) = json.loads((project / "reports/record.json").read_text())["studies"]
    assert (study["suite"], study["growth"]["over"], study["trade_off"]["plain"]) == ("unit/growth", "depth", "nearest")


def test_shards_put_together_say_what_the_whole_run_says(project, whole):
    for shard in (1, 2):
        precreg(project, "run", "--jobs", "0", "--shard", f"{shard}/2", "--output", f"reports/{shard}")
    merged = precreg(project, "report", "reports/1", "reports/2", "--output", "reports/all")
    assert table(merged.stdout) == table(whole.stdout)
    records = [json.loads((project / f"reports/{name}record.json").read_text()) for name in ("all/", "")]
    assert records[0]["studies"] == records[1]["studies"]


def test_a_record_of_before_studies_is_read(project, whole):
    record = json.loads((project / "reports/record.json").read_text())
    del record["studies"]
    (project / "old.json").write_text(json.dumps(record))
    done = precreg(project, "report", "old.json", "--output", "reports/old")
    assert "study" not in done.stdout
    assert "growth over" not in (project / "reports/old/report.html").read_text()


def test_without_the_key_there_is_no_study_and_every_verdict_is_the_same(project, whole):
    suite = project / "suites/unit/s.yaml"
    before = suite.read_text()
    change(suite, before[before.index("study:") :], "")
    try:
        done = precreg(project, "run", "--jobs", "0", "--output", "reports/without")
    finally:
        suite.write_text(before)
    assert "error growth" not in done.stdout
    records = [json.loads((project / f"reports/{name}record.json").read_text()) for name in ("without/", "")]
    told = [[(one["id"], one["definition"], one["verdict"]) for one in record["results"]] for record in records]
    assert told[0] == told[1]
