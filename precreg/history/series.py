"""What a history holds, as values: its runs, and for each case, output and metric the figures of those runs."""

from __future__ import annotations

from msgspec import Struct


class Run(Struct, frozen=True):
    """One run that was kept. `number` is its name: 1, 2, ... in the order in which runs were added, never used again.

    Runs stand in the order in which they started, which is another one where a run was added late. `started` is ISO
    8601 in UTC, `commit` is empty where there was no repository. `facts` are those of the environment, whose digest
    is the `fingerprint`.
    """

    number: int
    started: str
    commit: str
    branch: str
    dirty: bool
    environment: str
    fingerprint: str
    facts: dict[str, str]
    precreg: str
    exit_code: int


def changed_facts(before: Run, after: Run) -> list[tuple[str, str, str]]:
    """List the facts of the environment that differ between two runs: name, before, after; `none` for one without."""
    names = dict.fromkeys([*before.facts, *after.facts])
    facts = [(name, before.facts.get(name, "none"), after.facts.get(name, "none")) for name in names]
    return [fact for fact in facts if fact[1] != fact[2]]


class Point(Struct, frozen=True):
    """A metric at one run, as mean over the seeds; None where the case gave none: it failed, or it is undefined.

    `accepted` is the mean of the baseline that the run was judged by, over the same seeds; None without a baseline,
    and where the baseline is of another definition or of other inputs.
    """

    run: int
    value: float | None
    accepted: float | None


class Series(Struct, frozen=True):
    """One metric of one output of one case in one environment, at every run that ran the case, oldest first.

    Runs that defined the case otherwise than its latest run did are left out: their figures are of something else.
    """

    case: str
    output: str
    metric: str
    points: tuple[Point, ...]
