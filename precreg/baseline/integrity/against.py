"""Holding a run against a base: what judges then, and what is found about the bar itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from precreg.baseline.store import Baselines, Lookup
from precreg.environment.ci import on_default_branch
from precreg.types.records import RunFinding
from precreg.types.types import Case


class Bar(Struct, frozen=True):
    """What a run is judged by: its cases, their baselines, and what is found about both; `commit` is the base."""

    commit: str
    cases: list[Case]
    baselines: Lookup
    findings: tuple[RunFinding, ...] = ()


def bar(
    project: Path,
    commit: str | None,
    every: list[Case],
    baselines: Baselines,
    environ: Mapping[str, str] = os.environ,
) -> Bar:
    """Return what judges a run of a project: of every case of HEAD what the base has of it, where there is a base.

    It is the same for every selection and shard. Raises UserError as `read_sides` does.
    """
    from precreg.baseline.integrity.allowances import merged, read_allowances

    if commit is None:
        left = merged(read_allowances(project)) if on_default_branch(environ) else ()
        return Bar("", every, baselines, tuple(left))
    from precreg.baseline.integrity.findings import changes, findings
    from precreg.baseline.integrity.judged import AcceptedThen, at_head, judged_as
    from precreg.baseline.integrity.read import read_sides

    sides = read_sides(project, commit, every, environ)
    found = changes(sides.base, sides.head, sides.pairs, sides.references)
    return Bar(
        commit,
        judged_as(every, sides.pairs, found, sides.allowances),
        AcceptedThen(sides.base, baselines, at_head(sides.pairs, found, sides.allowances)),
        findings(found, sides.pairs, sides.allowances),
    )
