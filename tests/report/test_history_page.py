"""The page of a history: every case, in bounded size, without markup from names."""

import base64
import json
import random
import re
import zlib
from math import inf
from pathlib import Path

import pytest
from msgspec.structs import replace

from precreg.history.drift.hindsight import HindsightChange
from precreg.history.drift.record import DriftChange
from precreg.history.drift.trends import CaseTrend, SuiteTrend, TrendLine, TrendsRecord
from precreg.history.runs import HistoryRun
from precreg.history.series import HistoryPoint
from precreg.report.history_page import (
    MAX_SAMPLED_RUNS,
    _sampled,
    describe_history_page,
    render_history_html,
    trend_kind,
    write_history_page,
)

ID = "unit/sum/float32-8"


def runs(count, labels=("cpu",)):
    return tuple(
        HistoryRun(
            number + 1,
            f"2026-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}T03:00:00+00:00",
            f"{number:040x}",
            "main",
            False,
            labels[number % len(labels)],
            f"print {number // 50}",
            {"numpy": f"2.{number // 50}.0"},
            "0.1",
            0,
        )
        for number in range(count)
    )


def points(values, accepted=None):
    return tuple(HistoryPoint(number + 1, value, accepted) for number, value in enumerate(values))


def step(run, worse=True, ratio=2.0, metric="mean_abs_error"):
    change = DriftChange(run - 1, run, "aaaaaaaa..bbbbbbbb")
    return HindsightChange(metric, "step", worse, change, f"2026-01-{run:02}", None, 1.0, ratio or 1.0, ratio)


def trend(case=ID, values=(1.0, 2.0), changes=(), failures=None, latest=None, environment="cpu", growth=1.0):
    line = TrendLine("out", "mean_abs_error", environment, points(values, 1.0), tuple(changes), growth)
    return CaseTrend(case, (line,), failures or {}, latest or {environment: "identical"})


def recorded(*cases, count=2, suites=(), **fields):
    values = {
        "precreg": "0.1",
        "project": "demo",
        "made": "2026-11-28",
        "materiality": 1.02,
        "metric": None,
        "runs": runs(count),
        "environments": ("cpu",),
        "series": len(cases),
        "cases": cases,
        "suites": suites,
    }
    return TrendsRecord(**(values | fields))


def data(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def details(page):
    packed = re.search(r'id="details">(.*?)</script>', page, re.DOTALL)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_the_sentence_names_the_largest_loss():
    page = render_history_html(recorded(trend(changes=[step(2)]), trend("unit/sum/b", changes=[step(2, False, 0.5)])))
    head = re.sub(r"<.*?>", "", re.search(r"<h1>(.*?)</h1>", page)[1])
    assert head == (
        "1 regression and 1 improvement; the largest: unit/sum/float32-8 out: mean_abs_error regressed with a step at "
        "run 2: 1 -&gt; 2, 2 times"
    )


def test_without_a_change_the_page_says_so():
    page = render_history_html(recorded(trend(values=(1.0, 1.0))))
    assert "<h1>No change in 2 runs</h1>" in page
    assert "No series changed by more than the smallest relevant ratio." in page


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (trend(), "steady"),
        (trend(changes=[step(2)]), "regressed"),
        (trend(changes=[step(2), step(9, worse=False, ratio=0.5)]), "improved"),
        (trend(changes=[step(2)], latest={"cpu": "out_of_tolerance"}), "failing"),
        (trend(latest={"cpu": "new"}), "steady"),
    ],
)
def test_the_state_of_a_case_is_that_of_its_newest_run_or_change(made, kind):
    assert trend_kind(made) == kind


def test_rows_and_lines_of_the_data():
    page = render_history_html(
        recorded(
            trend(values=(1.0, 1.0, 1.0, 2.0, 2.0, None), changes=[step(4)], failures={"cpu": {6: "crashed"}}), count=6
        )
    )
    found = data(page)
    (row,) = found["rows"]
    assert found["texts"][row[0][0]] + row[0][1] == ID
    assert (found["texts"][row[1]], row[2], row[4], row[5]) == ("regressed", [0], 3, 2.0)
    (case,) = details(page)["cases"]
    # Of a stretch of equal values the ends are enough; the last run has no value.
    assert case["lines"] == [
        ["out", "mean_abs_error", 0, [0, 2, 3, 4, 5], [1.0, 1.0, 2.0, 2.0, None], [0, 5], [1.0, 1.0], [[3, True]]]
    ]
    assert case["failures"] == [[0, [[5, "crashed"]]]]
    assert case["changes"][0][5] == "aaaaaaaa..bbbbbbbb"


def test_a_loss_from_zero_and_infinite_values_are_valid_json():
    page = render_history_html(recorded(trend(values=(0.0, inf), changes=[step(2, ratio=None)], growth=inf)))
    assert data(page)["rows"][0][5] is None
    assert details(page)["cases"][0]["lines"][0][4] == [0.0, None]


def test_names_become_no_markup():
    evil = "unit/s/</script><script>alert(1)</script>&'\""
    hostile = replace(
        recorded(trend(evil, changes=[step(2)], environment="<b>&")),
        project="<img src=x>",
        environments=("<b>&",),
        suites=(SuiteTrend("unit/s", "<b>&", {1: 1.0}, {}, {1: 1}),),
        runs=tuple(replace(run, environment="<b>&", branch="<i>", facts={"<u>": str(run.number)}) for run in runs(120)),
    )
    page = render_history_html(hostile)
    assert page.count("<script") == 3
    for text in ("<img", "<b>", "<i>", "<u>", "alert(1)</script>"):
        assert text not in page


def test_the_page_needs_no_network_and_names_its_only_script():
    page = render_history_html(recorded(trend()))
    assert "default-src 'none'" in page
    assert "script-src 'sha256-" in page
    assert not re.findall(r"(?:src|href)=\"(?!#)", page)


@pytest.fixture(scope="module")
def thousands():
    noise = random.Random(20)
    cases = []
    for number in range(10_000):
        base = noise.random()
        changes = [step(100, ratio=1.1 + noise.random())] if number % 20 == 0 else ()
        values = [base * (1 + 0.05 * noise.gauss(0, 1)) for _ in range(200)]
        cases.append(trend(f"unit/suite_{number % 100:02}/float32-{number}x128", values, changes))
    cases.sort(key=lambda one: not one.lines[0].changes)
    return recorded(*cases, count=200)


def test_ten_thousand_noisy_cases_of_200_runs_stay_below_5_mb(thousands):
    page = render_history_html(thousands)
    assert len(page.encode()) < 5_000_000
    assert len(data(page)["rows"]) == 10_000
    drawn = details(page)["cases"]
    whole = [case for case in drawn if not case["sampled"]]
    assert len(whole) >= 500, "every case with a change has all of its runs"
    assert all(len(case["lines"][0][3]) == 200 for case in whole)
    sampled = len(drawn) - len(whole)
    assert f"{len(whole)} cases are drawn with all of their runs. To keep the page small, {sampled} have up to" in page


def test_a_sample_keeps_the_extremes_the_ends_and_the_runs_around_a_change():
    values = [1.0] * 500
    values[123], values[321] = 9.0, 0.1
    values[250:260] = [None] * 10
    kept = _sampled(points(values), MAX_SAMPLED_RUNS, {401})
    assert {1, 124, 322, 400, 401, 500} <= {point.run for point in kept}
    assert len(kept) <= MAX_SAMPLED_RUNS + 4
    assert _sampled(points([None] * 500), MAX_SAMPLED_RUNS, ())[0].value is None
    assert _sampled(points([1.0, 2.0]), MAX_SAMPLED_RUNS, {1}) == list(points([1.0, 2.0]))


def test_the_line_of_the_command_counts():
    assert describe_history_page(recorded(trend(changes=[step(2)]))) == (
        "1 regression and 0 improvements in 1 series, 1 case, 2 runs, 1 environment"
    )


def test_the_page_is_written_in_a_language(tmp_path: Path):
    write_history_page(recorded(trend()), tmp_path / "h.html", "zh")
    assert '<html lang="zh-Hans">' in (tmp_path / "h.html").read_text()
