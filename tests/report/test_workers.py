"""The reports of a run on a cluster list its workers, and escape their names."""

from msgspec.structs import replace

from precreg.report.html import render_run_html
from precreg.report.summaries import render_run_markdown
from precreg.report.workers import worker_rows
from precreg.types import ClusterWorker, LostWorkers, RefusedWorker
from tests.report.made import passed, regressed, run_of

LABELS = ("alpha (tcp://h:1)", "<b>|beta (tcp://h:2)", "gone (tcp://h:3)", "old (tcp://h:4)")


def on_cluster():
    results = [passed("one"), passed("two"), regressed("three")]
    results = [
        replace(each, outcome=replace(each.outcome, worker=at)) for each, at in zip(results, (0, 1, 1), strict=True)
    ]
    workers = (
        ClusterWorker("alpha", "tcp://h:1", "cpu-x86_64", "aaaa"),
        ClusterWorker("<b>|beta", "tcp://h:2", "cpu-x86_64", "bbbb", {"numpy": "2.2.6", "about_blas": ""}),
    )
    warnings = (LostWorkers((LABELS[1], LABELS[2]), 3), RefusedWorker(LABELS[3], "precreg", "0.0.1", "0.1.0"))
    return replace(run_of(*results), workers=workers, warnings=warnings)


def test_workers_with_cases_come_first_then_those_lost_or_refused():
    rows = worker_rows(on_cluster())
    assert [(row.worker, row.state, row.cases) for row in rows] == [
        (LABELS[0], "ran", 1),
        (LABELS[1], "lost", 2),
        (LABELS[2], "lost", 0),
        (LABELS[3], "refused", 0),
    ]
    assert [row.differs for row in rows[:2]] == ["", "numpy 2.2.6, blas absent"]
    assert worker_rows(run_of(passed("one"))) == []


def test_the_summary_has_the_table_with_escaped_names():
    text = render_run_markdown(on_cluster())
    assert "| alpha (tcp://h:1) | ran | 1 | cpu-x86\\_64 | aaaa | |".replace("\\_", "_") in text
    assert "\\<b\\>\\|beta (tcp://h:2) | lost | 2 |" in text
    assert "its precreg is 0.0.1, and this run has 0.1.0 |" in text
    assert "## Workers" not in render_run_markdown(run_of(passed("one")))


def test_the_page_has_the_table_with_escaped_names():
    page = render_run_html(on_cluster())
    assert "&lt;b&gt;|beta (tcp://h:2)" in page
    assert "<b>|beta" not in page
    assert "Workers of the cluster (4)" in page
    assert ">Workers of the cluster" not in render_run_html(run_of(passed("one")))
