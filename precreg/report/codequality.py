"""Write codequality.json, which GitLab shows beside the changed lines, and all other reports of a run.

codequality.json is GitLab's subset of Code Climate: description, check_name, fingerprint, severity, location.path and
location.lines.begin. GitLab compares the fingerprints of a merge request with those of the target branch. So a
fingerprint contains no time, commit, shard or line: a case that still fails for the same reason is not new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from precreg.report.describe import location_to_show, repository_path, sort_results, strip_controls
from precreg.report.html import render_run_html
from precreg.report.junit import JunitDialect, render_run_junit
from precreg.report.markdown import render_run_markdown
from precreg.report.record import write_run_record
from precreg.report.sections import Standing, finding_location, finding_standing, group_run_findings
from precreg.report.warnings import describe_orphan, describe_warning
from precreg.storage import make_scratch_folder, replace_file, report_write_errors
from precreg.types import CaseResult, Location, Orphan, Reason, RunFinding, RunRecord, Status, ToleranceWarning

Severity = Literal["info", "minor", "major", "critical", "blocker"]
# Severities of failures. Blocker: no figure could be measured. Critical: a figure regressed. Major: all others.
SEVERITIES: dict[Reason, Severity] = {
    **dict.fromkeys((Reason.MISSING_OUTPUT, Reason.SHAPE_MISMATCH, Reason.DTYPE_MISMATCH, Reason.EMPTY), "blocker"),
    **dict.fromkeys((Reason.NON_FINITE_MISMATCH, Reason.CRASHED), "blocker"),
    **dict.fromkeys((Reason.OUT_OF_TOLERANCE, Reason.REGRESSED, Reason.NONDETERMINISTIC), "critical"),
    **dict.fromkeys(
        (Reason.TIMED_OUT, Reason.SUBJECT_ERROR, Reason.REFERENCE_ERROR, Reason.ANALYZER_ERROR, Reason.UNAVAILABLE),
        "major",
    ),
    **dict.fromkeys((Reason.OVER_BUDGET, Reason.UNEXPECTED_PASS), "major"),
    **dict.fromkeys((Reason.NEW, Reason.STALE, Reason.INPUTS_CHANGED), "major"),
}
# Severities of findings on the run; an allowed or informational finding is "info".
_OF_FINDINGS: dict[Standing, Severity] = {Standing.BINDING: "critical"}
# Passed and skipped cases are no problem to show beside the changed lines.
_LISTED = frozenset({Status.FAILED, Status.ERROR, Status.PROPOSED})


def render_codequality(record: RunRecord) -> str:
    """List every case that needs a person, worst first, then findings on the run, warnings, and orphans."""
    found = [_case(record, result) for result in sort_results(record.results) if result.verdict.status in _LISTED]
    # A reader of a long list begins at its top, so cases that fail come before warnings.
    entries = [*found, *_on_run(record), *_warnings(record), *_orphans(record)]
    return msgspec.json.format(msgspec.json.encode(entries), indent=1).decode() + "\n"


def _case(record: RunRecord, result: CaseResult) -> dict[str, Any]:
    verdict = result.verdict
    description = f"{result.id}: {verdict.reason}: {verdict.message}"
    # A proposal waits for a person and breaks nothing yet. A reason of a newer record has no entry, and counts as
    # major.
    severity = "minor" if verdict.status is Status.PROPOSED else SEVERITIES.get(verdict.reason, "major")
    return _entry(record, description, verdict.reason, result.id, severity, location_to_show(result))


def _on_run(record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield one entry per kind of finding and case or file, at the place of the worst."""
    for found in group_run_findings(record.findings):
        first = found[0]
        description = f"{first.about}: {first.kind}: {'; '.join(map(_description, found))}"
        severity = _OF_FINDINGS.get(finding_standing(first), "info")
        yield _entry(record, description, first.kind, first.about, severity, finding_location(record, first))


def _description(finding: RunFinding) -> str:
    return finding.message + (f" (allowed: {finding.allowed})" if finding.allowed is not None else "")


def _warnings(record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield the warnings about a tolerance, at the line of their case."""
    # An entry needs a path, so warnings about the whole run, and sentences of older records, stay out.
    sources = {result.id: result.source for result in record.results}
    for warning in dict.fromkeys(record.warnings):
        if isinstance(warning, ToleranceWarning) and warning.case in sources:
            text = describe_warning(warning)
            # The sentence is the subject: a case may have several warnings, and one fingerprint would make them one
            # entry.
            yield _entry(record, text, "tolerance", text, "minor", sources[warning.case])


def _orphans(record: RunRecord) -> Iterator[dict[str, Any]]:
    for orphan in record.orphans:
        # Sentences of older records name no file, and an entry without a path is invalid.
        if isinstance(orphan, Orphan):
            text = describe_orphan(orphan)
            yield _entry(record, f"baseline without a case: {text}", "orphan", text, "info", Location(orphan.file))


def _entry(
    record: RunRecord, description: str, check: str, subject: str, severity: Severity, place: Location
) -> dict[str, Any]:
    """Make one entry; `check` and `subject` identify it from one run to the next."""
    return {
        # Messages may have several lines, an entry of a list has one.
        "description": " ".join(strip_controls(description).split()),
        "check_name": f"precreg.{check}",
        # A surrogate from a file name has no UTF-8 encoding, so it is escaped.
        "fingerprint": hashlib.sha256(f"{check}\0{subject}".encode(errors="backslashreplace")).hexdigest(),
        "severity": severity,
        "location": {
            "path": repository_path(record, strip_controls(place.file)),
            # A place without a line, such as a shipped default, has line 0, but lines begin at 1.
            "lines": {"begin": max(place.line, 1)},
        },
    }


def make_reports_folder(folder: Path) -> None:
    """Make a folder of reports, unless it exists, with a .gitignore for its content.

    Raises:
        UserError: not-writable.
    """
    with report_write_errors(str(folder)):
        # Reports of every run would otherwise show up in git status and in commits.
        make_scratch_folder(folder)


def write_reports(run: RunRecord, folder: Path, junit_dialect: JunitDialect) -> list[Path]:
    """Write record.json, junit.xml, codequality.json, report.html and summary.md, each in one step; return their paths.

    Raises:
        UserError: not-writable.
    """
    # All reports are rendered before the first is written: an error leaves the former reports complete.
    texts = {
        "junit.xml": render_run_junit(run, junit_dialect),
        "codequality.json": render_codequality(run),
        "report.html": render_run_html(run),
        "summary.md": render_run_markdown(run),
    }
    make_reports_folder(folder)
    # The record first: `precreg report` can make every other file from it again.
    write_run_record(run, folder / "record.json")
    for name, text in texts.items():
        with report_write_errors(str(folder / name)):
            replace_file(folder / name, text.encode())
    return [folder / name for name in ("record.json", *texts)]
