"""The exit code of a run, as a pure function of its verdicts."""

from __future__ import annotations

from collections.abc import Iterable

from precreg.types import Status, Verdict


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Return 1 if anything is proven worse, otherwise 2 if anything (or everything) went unjudged, otherwise 0."""
    statuses = {verdict.status for verdict in verdicts}
    if Status.FAILED in statuses:
        return 1
    if not statuses or statuses & {Status.ERROR, Status.PROPOSED}:
        return 2
    return 0
