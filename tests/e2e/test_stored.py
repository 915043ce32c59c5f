"""Files that version 0.1.0 wrote, of records, baselines, journals and histories, are read as before.

tests/golden/stored was written by 0.1.0: a run with warnings and orphans, after a kernel changed and a suite moved.
"""

import json
import shutil

import msgspec
import pytest

from precreg.baseline.proposal_file import pending_proposals
from precreg.baseline.store import Baselines
from precreg.comparison.html import read_comparison_record, write_comparison_record
from precreg.comparison.terminal import render_comparison_terminal
from precreg.history.store import open_history
from precreg.report.codequality import render_codequality
from precreg.report.html import render_run_html
from precreg.report.junit import render_run_junit
from precreg.report.record import read_run_record
from precreg.report.summaries import render_run_markdown
from precreg.report.terminal import render_run_terminal
from precreg.run.journal import JournalHeader, resume_journal
from precreg.storage import write_json_record
from precreg.types.comparison import COMPARISON_SCHEMA
from precreg.types.record import RECORD_SCHEMA
from precreg.types.verdict import Reason
from precreg.types.warning import StoredText
from tests.e2e.command import ROOT

STORED = ROOT / "tests" / "golden" / "stored"
FINGERPRINT = "4e8b6fb7"
CASES = ["unit/s/float16-32", "unit/s/float32-32", "unit/t/float16-8x16"]
ORPHAN = "unit/s/float16-8x16 in baselines/cpu-x86_64/unit/s.json (now unit/t/float16-8x16)"
WARNINGS = (
    "PRECISION_THRESHOLDS: max_ulp=64 (thresholds) is looser than some bounds, and does not hold there",
    "unit/t/float16-8x16: no output is called gone (suite, output gone: suites/unit/t.yaml:6)",
    "unit/s/float32-32: rtol=1e-09 (suites/unit/s.yaml:6) is below 1 ULP of float32 (1.19209e-07): "
    "rounding alone can break it",
    "unit/s/float16-32: no output is called gone (suite, output gone: suites/unit/s.yaml:6)",
)


@pytest.fixture
def copied(tmp_path):
    """Return a function that copies a stored file to a place in an empty project."""

    def copied(name, place):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        return shutil.copy(STORED / name, tmp_path / place)

    return copied


def test_the_sentences_of_a_record_are_kept_as_they_are():
    record = read_run_record(STORED / "record.json")
    assert [result.id for result in record.results] == CASES
    assert [result.verdict.reason for result in record.results] == [Reason.REGRESSED, Reason.REGRESSED, Reason.NEW]
    assert record.warnings == tuple(map(StoredText, WARNINGS))
    assert record.orphans[0] == StoredText(ORPHAN)
    assert record.schema == RECORD_SCHEMA


def test_a_record_is_written_again_in_the_present_schema(tmp_path):
    record = read_run_record(STORED / "record.json")
    write_json_record(record, tmp_path / "record.json")
    assert read_run_record(tmp_path / "record.json") == record
    assert json.loads((tmp_path / "record.json").read_text())["warnings"][0] == {"kind": "text", "text": WARNINGS[0]}


def test_every_report_of_a_record_has_its_sentences():
    record = read_run_record(STORED / "record.json")
    shown = render_run_terminal(record, colour=False)
    assert all(f"warning   {text}\n" in shown for text in WARNINGS)
    assert f"warning   baselines without a case: {ORPHAN}, " in shown
    page, summary = render_run_html(record), render_run_markdown(record)
    assert all(f"<li>{text}</li>" in page for text in (*WARNINGS, ORPHAN))
    assert "- Warning: PRECISION_THRESHOLDS: max_ulp=64" in summary
    assert 'failures="2"' in render_run_junit(record, "gitlab")
    assert [entry["check_name"] for entry in json.loads(render_codequality(record))] == [
        "precreg.regressed",
        "precreg.regressed",
        "precreg.new",
    ]


def test_the_record_of_a_comparison_is_read(tmp_path):
    record = read_comparison_record(STORED / "comparison.json")
    assert record.schema == COMPARISON_SCHEMA
    assert record.warnings[0] == StoredText("files in no format of arrays were passed over: out/log.txt")
    assert "warning   a: rtol=1e-09 (command line) is below 1 ULP" in render_comparison_terminal(record, colour=False)
    write_comparison_record(record, tmp_path / "record.json")
    assert read_comparison_record(tmp_path / "record.json") == record


def test_a_baseline_and_a_proposal_are_read(copied, tmp_path):
    copied("baseline.json", "baselines/cpu-x86_64/unit/s.json")
    copied("proposal.json", ".precreg/proposals/unit/s.json")
    accepted = Baselines(tmp_path).lookup(CASES[0], ("cpu-x86_64", "cpu", "generic")).entry
    assert (accepted.reason, accepted.fingerprint) == ("first version", FINGERPRINT)
    assert accepted.outputs["out"].metrics["mean_abs_error"] == [pytest.approx(8.901e-05, rel=1e-3)]
    proposals = pending_proposals(tmp_path)
    assert {id: proposal.verdict for id, proposal in proposals.items()} == dict.fromkeys(CASES[:2], Reason.REGRESSED)


def test_a_run_is_resumed_from_a_journal(copied):
    path = copied("journal.jsonl", ".precreg/journal.jsonl")
    header = msgspec.json.decode(path.read_bytes().splitlines()[0], type=JournalHeader)
    journal, outcomes = resume_journal(path, header)
    journal.close()
    record = read_run_record(STORED / "record.json")
    assert sorted(outcomes) == CASES
    assert {result.outcome.definition for result in record.results} == {one.definition for one in outcomes.values()}


def test_a_history_is_read_and_exported_as_it_was(copied):
    with open_history(copied("history.sqlite", "history.sqlite"), project="quotients") as history:
        assert [(run.number, run.exit_code, run.fingerprint) for run in history.runs()] == [
            (1, 0, FINGERPRINT),
            (2, 1, FINGERPRINT),
        ]
        assert list(history.export()) == (STORED / "history.jsonl").read_bytes().splitlines(keepends=True)
        assert history.add(read_run_record(STORED / "record.json")) is None, "the run is there"


def test_an_export_is_imported(tmp_path):
    lines = (STORED / "history.jsonl").read_bytes().splitlines(keepends=True)
    with open_history(str(tmp_path / "new.sqlite"), project="quotients", create=True) as history:
        history.import_lines(lines, "history.jsonl")
        assert list(history.export()) == lines
