"""The exit code of a run, as a pure function of its verdicts and of what was found about the run as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from precreg.types import RunFinding, Status, Verdict

NOTHING_TO_JUDGE = 0
"""Of a run in which no case depends on what changed, or other shards have them all."""


def run_exit_code(verdicts: Iterable[Verdict], *, findings: Iterable[RunFinding] = (), empty: int = 2) -> int:
    """Return 1 if anything is proven worse, otherwise 2 if anything went unjudged, otherwise 0.

    A finding on the run that nothing allows is as bad as a case that failed. Without a verdict and without such a
    finding return `empty`, which is 2 unless it is known why there is none.
    """
    statuses = {verdict.status for verdict in verdicts}
    if Status.FAILED in statuses or any(finding.binding for finding in findings):
        return 1
    if not statuses:
        return empty
    if statuses & {Status.ERROR, Status.PROPOSED}:
        return 2
    return 0
