"""What a drift monitor prints, and its summary.md and drift.json."""

import msgspec
import pytest
from click import unstyle

from precreg.history.drift import monitor
from precreg.history.drift.record import DriftRecord
from precreg.report.drift import terminal
from precreg.report.drift import terminal as markdown
from precreg.report.drift.files import write_drift_reports
from tests.report.drift.made import everything, improved, recorded, steady, stepped, unmeasured


def printed(record, **options):
    return terminal.render_drift_terminal(record, colour=False, **options)


def test_a_finding_says_what_by_how_much_where_and_why():
    text = printed(everything())
    for part in (
        "precreg 0.1.0: environment cpu-x86_64, 40 runs, 1 to 40, commits 00000001 to 00000028, anchor 3, commit",
        "DRIFT      unit/mean/step   out",
        "mean_abs_error rose by 10 % with a step at run 31: 0.011 against 0.01",
        "commits 0000001e..0000001f",
        "environment: numpy 2.4.5 -> 2.4.6",
        "mean_abs_error  0.01    0.011  1.1    step  run 31  exactly, 40 runs  baseline, anchor, recent runs",
        "UNMEASURED integration/mean/lost   out",
        "outputs   2 drift, 1 unmeasured, 1 absent, 1 improved, 1 steady",
        "improved  model/mean/better: mean_abs_error improved against the baseline since run 31: 0.005 against 0.01",
        "absent    unit/mean/gone: not run since run 20",
        "warning   runs of other environments were not judged: npu",
    ):
        assert part in text
    assert text.endswith("\nexit 1: 1 case drifts\n")


@pytest.mark.parametrize(
    ("record", "last"),
    [
        (recorded(steady()), "exit 0: nothing drifts; metrics judged: 1 exactly"),
        (recorded(unmeasured(), steady()), "exit 2: 1 case could not be judged: no longer measured"),
        (recorded(), "exit 2: nothing could be judged: nothing in 40 runs, 1 to 40, commits 00000001 to 00000028"),
        (recorded(stepped("a"), stepped("b")), "exit 1: 2 cases drift"),
    ],
)
def test_the_last_line_says_why_the_exit_code_is_what_it_is(record, last):
    assert printed(record).splitlines()[-1] == last


def test_many_findings_are_counted():
    text = printed(recorded(*(stepped(f"{number:03}") for number in range(50))))
    assert text.count("DRIFT ") == terminal.MAX_OUTPUTS
    assert "... and 30 more in the report" in text


def test_findings_without_points_are_counted_in_every_report(monkeypatch, tmp_path):
    monkeypatch.setattr(monitor, "MAX_WITH_POINTS", 2)
    record = recorded(*(stepped(f"a b{number}") for number in range(3)), improved(), *(steady(name) for name in "cd"))
    text = "drift.json has no values at each run for 2 outputs (1 drift, 1 improved)"
    command = "precreg drift 'unit/mean/a b2'"
    assert f"warning   {text}; for one case: {command}\n" in printed(record)
    assert text in markdown.render_drift_markdown(record)
    written = write_drift_reports(record, tmp_path)
    stored = msgspec.json.decode(written[0].read_bytes())
    assert stored["without_points"] == {"drift": 1, "improved": 1}
    assert stored["warnings"] == [f"{text}; for one case: {command}"]
    without = [one["case"] for one in stored["results"] if not any(metric["points"] for metric in one["metrics"])]
    assert without == ["unit/mean/a b2", "model/mean/better"]


def test_steady_outputs_without_points_are_counted_in_the_file_and_are_no_warning(monkeypatch, tmp_path):
    monkeypatch.setattr(monitor, "MAX_STEADY_DRAWN", 1)
    record = recorded(*(steady(name) for name in "abc"))
    assert "no values at each run" not in printed(record)
    written = write_drift_reports(record, tmp_path)
    assert msgspec.json.decode(written[0].read_bytes())["without_points"] == {"steady": 2}
    assert "<strong>3</strong> steady; 1 of them are drawn here" in written[2].read_text()


def test_colours_change_nothing_but_colours():
    import click

    assert click.unstyle(terminal.render_drift_terminal(everything(), colour=True)) == printed(everything())


def test_the_summary_is_a_table_and_text_of_a_record_is_no_markup():
    text = markdown.render_drift_markdown(everything())
    assert text.startswith("# precreg drift: 1 case drifts\n\nEnvironment cpu-x86_64")
    assert "| drift | `unit/mean/step` | out | mean_abs_error rose by 10 % with a step at run 31" in text
    assert "Improved: `model/mean/better` since run 31." in text
    hostile = markdown.render_drift_markdown(recorded(stepped("<b>|`x`")))
    assert "``` unit/mean/<b>\\|`x` ```" in hostile or "`` unit/mean/<b>\\|`x` ``" in hostile


def test_the_files_and_the_record_reads_back(tmp_path):
    record = everything()
    written = write_drift_reports(record, tmp_path / "drift")
    assert [path.name for path in written] == ["drift.json", "junit.xml", "report.html", "summary.md"]
    assert msgspec.json.decode(written[0].read_bytes(), type=DriftRecord) == record
    assert (tmp_path / "drift" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_the_width_of_the_terminal(width):
    text = printed(everything(), width=width)
    assert not [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1]
    assert {word for word in text.split() if word.startswith("unit/")} == {"unit/mean/step", "unit/mean/gone:"}
    coloured = terminal.render_drift_terminal(everything(), colour=True, width=width)
    assert unstyle(coloured) == text
    assert unstyle(coloured.splitlines()[-1]) == "exit 1: 1 case drifts"
    assert "\x1b[31m" in coloured.splitlines()[-1]
