"""Write codequality.json, GitLab's subset of Code Climate.

An entry has description, check_name, fingerprint, severity, location.path and location.lines.begin. GitLab compares
the fingerprints of a merge request with those of the target branch. So a fingerprint contains no time, commit, shard
or line: a case that still fails for the same reason is not new.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET

from precreg.report.causes import brief_diagnosis, cause_location, diagnoses_of
from precreg.report.describe import location_to_show, repository_path, sort_results, strip_controls
from precreg.report.junit import MAX_FILE_BYTES
from precreg.report.sections import (
    Standing,
    describe_orphan,
    describe_warning,
    finding_location,
    finding_standing,
    group_run_findings,
)
from precreg.types import (
    CaseResult,
    Diagnosis,
    Location,
    Orphan,
    Reason,
    RunFinding,
    RunRecord,
    Status,
    ToleranceWarning,
)

Severity = Literal["info", "minor", "major", "critical", "blocker"]
_SEVERITY_RANKS = {severity: rank for rank, severity in enumerate(reversed(get_args(Severity)))}
# Severities of failures. Blocker: no figure could be measured. Critical: a figure regressed. Major: all others.
SEVERITIES: dict[Reason, Severity] = {
    **dict.fromkeys((Reason.MISSING_OUTPUT, Reason.SHAPE_MISMATCH, Reason.DTYPE_MISMATCH, Reason.EMPTY), "blocker"),
    **dict.fromkeys((Reason.NON_FINITE_MISMATCH, Reason.CRASHED), "blocker"),
    **dict.fromkeys((Reason.OUT_OF_TOLERANCE, Reason.REGRESSED, Reason.NONDETERMINISTIC), "critical"),
    **dict.fromkeys((Reason.TIMED_OUT, Reason.SUBJECT_ERROR, Reason.REFERENCE_ERROR, Reason.ANALYZER_ERROR), "major"),
    **dict.fromkeys((Reason.BENCHMARK_ERROR, Reason.UNAVAILABLE), "major"),
    **dict.fromkeys((Reason.OVER_BUDGET, Reason.UNEXPECTED_PASS), "major"),
    **dict.fromkeys((Reason.NEW, Reason.STALE, Reason.INPUTS_CHANGED), "major"),
}
# Severities of findings on the run; an allowed or informational finding is "info".
_OF_FINDINGS: dict[Standing, Severity] = {Standing.BINDING: "critical"}
# Passed and skipped cases are no problem to show beside the changed lines.
_LISTED = frozenset({Status.FAILED, Status.ERROR, Status.PROPOSED})


def render_codequality(record: RunRecord) -> str:
    """Write the entries as JSON; beyond `MAX_FILE_BYTES` the last entry counts the least severe, which are left out."""
    entries = codequality_entries(record)
    text = _entries_text(entries)
    return text if len(text.encode()) <= MAX_FILE_BYTES else _entries_text(_shortened(entries, record))


def _entries_text(entries: Sequence[Mapping[str, Any]]) -> str:
    return msgspec.json.format(msgspec.json.encode(entries), indent=1).decode() + "\n"


def _shortened(entries: Sequence[dict[str, Any]], record: RunRecord) -> list[dict[str, Any]]:
    """Return the most severe entries that have room, in their order, and one that counts the rest by severity."""
    room, kept = MAX_FILE_BYTES, set[int]()
    for number in sorted(range(len(entries)), key=lambda number: _SEVERITY_RANKS[entries[number]["severity"]]):
        room -= len(_entries_text([entries[number]]).encode())
        if room < 0:
            break
        kept.add(number)
    rest = [entry for number, entry in enumerate(entries) if number not in kept]
    counts = ", ".join(
        f"{number:,} {severity}" for severity, number in Counter(entry["severity"] for entry in rest).items()
    )
    text = f"left out: {counts} of {len(entries):,} entries. The file has at most 29 MB; record.json has all."
    place = Location(rest[0]["location"]["path"])
    return [
        *(entries[number] for number in sorted(kept)),
        # No count in the identity: one more failure must not make a new entry.
        {**_entry(record, text, "left_out", "entries", "info", place), "location": rest[0]["location"]},
    ]


def codequality_entries(record: RunRecord) -> list[dict[str, Any]]:
    """List every case that needs a person, worst first, then findings on the run, warnings, and orphans."""
    known = diagnoses_of(record)
    listed = (result for result in sort_results(record.results) if result.verdict.status in _LISTED)
    found = [_case(record, result, known) for result in listed]
    # A reader of a long list begins at its top, so cases that fail come before warnings.
    return [*found, *_on_run(record), *_warnings(record), *_orphans(record)]


def _case(record: RunRecord, result: CaseResult, known: Mapping[str, Diagnosis]) -> dict[str, Any]:
    verdict = result.verdict
    causes = [] if result.diagnosis is None else brief_diagnosis(result, known)
    description = f"{result.id}: {verdict.reason}: {'; '.join([verdict.message, *causes])}"
    # A proposal waits for a person and breaks nothing yet. A reason of a newer record has no entry, and counts as
    # major.
    severity = "minor" if verdict.status is Status.PROPOSED else SEVERITIES.get(verdict.reason, "major")
    return _entry(record, description, verdict.reason, result.id, severity, _place(result))


def _place(result: CaseResult) -> Location:
    """Return the line of the change that the failure is shown at, otherwise the line of the bound or of the case."""
    if isinstance(result.in_change, Location):
        return result.in_change
    # GitLab and GitHub draw marks beside changed lines alone. Without a change, the cause's line is the one to open.
    cause = cause_location(result.diagnosis) if result.in_change is UNSET else None
    return cause or location_to_show(result)


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
