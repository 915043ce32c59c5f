"""The exit code of a run, as a pure function of its verdicts."""

from __future__ import annotations

from collections.abc import Iterable

from precreg.types import Status, Verdict

NOTHING_TO_JUDGE = 0
"""Of a run in which no case depends on what changed, or other shards have them all."""


def exit_code(verdicts: Iterable[Verdict], *, empty: int = 2) -> int:
    """Return 1 if anything is proven worse, otherwise 2 if anything went unjudged, otherwise 0.

    Without a verdict return `empty`, which is 2 unless it is known why there is none.
    """
    statuses = {verdict.status for verdict in verdicts}
    if not statuses:
        return empty
    if Status.FAILED in statuses:
        return 1
    if statuses & {Status.ERROR, Status.PROPOSED}:
        return 2
    return 0
