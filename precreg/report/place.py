"""Where a reader of a repository finds what a report speaks of: files below its root, and lines."""

from __future__ import annotations

from pathlib import PurePosixPath

from precreg.types.records import CaseResult, RunRecord
from precreg.types.types import Finding, Location, Reason


def in_repository(record: RunRecord, file: str) -> str:
    """Return the path of a project's file from the root of its repository."""
    return str(PurePosixPath(record.folder, file))


def to_look_at(result: CaseResult) -> Location:
    """Return the line to look at first: that of a broken bound if the project wrote it, otherwise that of the suite."""
    first = next(iter(result.verdict.findings), None)
    if first is None or first.reason is not Reason.OUT_OF_TOLERANCE:
        return result.source
    return next((place for place in _setters(result, first) if place.line), result.source)


def _setters(result: CaseResult, finding: Finding) -> list[Location]:
    """Return who set a bound: only files of the project have lines. A match is as near as its rtol and atol say."""
    places = [finding.source] if finding.source else []
    tolerance = result.tolerances.get(finding.output)
    if finding.metric == "match_ratio" and tolerance is not None:
        places += [tolerance.rtol.source, tolerance.atol.source]
    return places
