"""With which code does a run exit?"""

from __future__ import annotations

from collections.abc import Iterable

from precreg.types import RunFinding, Status, Verdict

# The exit code of a run in which no case depends on the change, or in which other shards have all cases.
NOTHING_TO_JUDGE = 0


def run_exit_code(verdicts: Iterable[Verdict], *, findings: Iterable[RunFinding] = (), empty: int = 2) -> int:
    """Return 1 if anything is proven worse, otherwise 2 if anything could not be judged, otherwise 0.

    A finding on the run that nothing allows counts as a failed case. Without a verdict and without such a finding,
    return `empty`.
    """
    # A run that judged nothing by mistake must not pass, so `empty` is 2 unless the caller knows the reason.
    statuses = {verdict.status for verdict in verdicts}
    if Status.FAILED in statuses or any(finding.binding for finding in findings):
        return 1
    if not statuses:
        return empty
    if statuses & {Status.ERROR, Status.PROPOSED}:
        return 2
    return 0
