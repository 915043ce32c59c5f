"""The reports of a run on a cluster list its workers, and escape their names."""

from msgspec.structs import replace

from precreg.report.html import render_run_html
from precreg.report.summaries import render_run_markdown
from precreg.report.terminal import MAX_STUDY_LINES, render_run_terminal
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


def test_the_terminal_has_the_table_without_control_characters():
    record = on_cluster()
    named = replace(record.workers[0], name="al\x1b[31mpha")
    text = render_run_terminal(replace(record, workers=(named, *record.workers[1:])), colour=False)
    assert "\x1b" not in text
    table = text.partition("workers  4 of the cluster\n")[2].splitlines()[:5]
    assert [line.split()[:1] for line in table[2:]] == [["<b>|beta"], ["gone"], ["old"]]
    assert table[0].split() == ["worker", "state", "cases", "environment", "differs"]
    assert "numpy 2.2.6, blas absent" in table[2]
    assert "of the cluster" not in render_run_terminal(run_of(passed("one")), colour=False)


def test_the_terminal_counts_the_workers_that_it_does_not_list():
    record = on_cluster()
    lost = LostWorkers(tuple(f"w{number} (tcp://h:{number})" for number in range(100)), 0)
    text = render_run_terminal(replace(record, warnings=(lost,)), colour=False)
    listed = text.partition("of the cluster\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) <= MAX_STUDY_LINES + 2
    assert "more" in listed[-1]
