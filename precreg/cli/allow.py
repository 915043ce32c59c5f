"""Which changes of acceptance criteria does a person permit?

`precreg allow` writes baselines/allow.yaml from the findings of a run or of a comparison with the base, so that nobody
has to edit it. `precreg baseline accept --allow` does the same for the changes of the accepted cases.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.options import project_of_option
from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    from precreg.baseline.integrity import NewAllowance
    from precreg.types import FindingKind, RunFinding

# Findings that an error or a command lists.
MAX_LISTED_FINDINGS = 10


@click.command("allow")
@click.argument("patterns", nargs=-1)
@click.option("--change", "kind", metavar="KIND", help="Permit this kind of change for each PATTERN, found yet or not.")
@click.option("--reason", default="", help="The reason why the change is right; shown beside the finding.")
@click.option(
    "--against", metavar="REVISION", help="Take the findings of a comparison with this commit, without a run."
)
@click.option("--record", type=click.Path(path_type=Path), help="Take the findings of this run; reports/record.json.")
@click.option("--prune", is_flag=True, help="Remove the entries whose change is merged into the default branch.")
@click.pass_obj
def allow_command(
    given: Path | None,
    /,
    patterns: tuple[str, ...],
    kind: str | None,
    reason: str,
    against: str | None,
    record: Path | None,
    prune: bool,
) -> None:
    """Permit the binding findings of the last run in baselines/allow.yaml, all or those about a PATTERN.

    An entry permits changes of its own merge request only. Refused in CI.
    """
    from precreg.baseline import refuse_in_ci

    project = project_of_option(given)
    refuse_in_ci(os.environ)
    if prune:
        _prune(project, patterns, kind, reason, against)
        return
    if not reason.strip():
        raise UserError("missing-reason", f"expected why the change is right but got reason={reason!r}")
    if kind is not None:
        base, entries = _base(project, against), _named_entries(patterns, kind, reason.strip())
    else:
        base, findings = _compared(project, against) if against is not None else _of_record(project, record)
        entries = _entries(project, _matching(findings, patterns), reason.strip())
    write_allowances(project, entries, base)


def write_allowances(project: Path, entries: Sequence[NewAllowance], base: str | None) -> None:
    """Add entries to baselines/allow.yaml, and print them."""
    from precreg.baseline import lock_baselines
    from precreg.baseline.integrity import add_allowances

    with lock_baselines(project):
        added = add_allowances(project, entries, base)
    for entry in added:
        click.echo(f"allowed {entry.kind} of {entry.case}: {entry.reason}")
    left = len(entries) - len(added)
    known = f", {left} {'was' if left == 1 else 'were'} there" if left else ""
    click.echo(f"{len(added)} {'entry' if len(added) == 1 else 'entries'} added to baselines/allow.yaml{known}")


def allow_accepted(project: Path, accepted: Collection[str], reason: str, base: str) -> None:
    """Permit the changes that accepted baselines make against a base commit, and count the other findings."""
    from precreg.types import FindingKind

    by_accepting = {
        FindingKind.BASELINE_CHANGED,
        FindingKind.BASELINE_REMOVED,
        FindingKind.HISTORY_REMOVED,
        FindingKind.KNOWN_BAD_ACCEPTED,
        FindingKind.CREEP,
    }
    _, findings = _compared(project, base)
    # A finding about a suite has all of its cases.
    names = {*accepted, *("/".join(id.split("/", 2)[:2]) for id in accepted)}
    made = [finding for finding in findings if finding.kind in by_accepting and finding.about in names]
    write_allowances(project, _entries(project, made, reason), base)
    others = [finding for finding in findings if finding not in made]
    if others:
        count = "1 other finding" if len(others) == 1 else f"{len(others)} other findings"
        click.echo(f"{count} against {base[:8]}, not allowed: {_listed(others)}")


def _base(project: Path, against: str | None) -> str | None:
    """Return the commit whose entries are spent; None outside a repository."""
    from precreg.vcs import git_state, review_base

    return review_base(project, against or "auto") if against or git_state(project) else None


def _compared(project: Path, against: str) -> tuple[str, list[RunFinding]]:
    """Return the base commit, and the binding findings of a comparison with it. Nothing runs."""
    from precreg.baseline import Baselines, find_cumulative_losses
    from precreg.baseline.integrity import acceptance_criteria
    from precreg.environment import detect_environment
    from precreg.suite import load_cases
    from precreg.vcs import review_base

    base, every = review_base(project, against), load_cases(project)
    criteria = acceptance_criteria(project, base, every, Baselines(project))
    losses = find_cumulative_losses(project, every, detect_environment().chain)
    return base, [finding for finding in (*criteria.findings, *losses) if finding.binding]


def _of_record(project: Path, path: Path | None) -> tuple[str | None, list[RunFinding]]:
    """Return the base commit of a run, and its binding findings."""
    from precreg.report import RECORD_FILE, find_record, read_merged_run, reports_folder

    path = path or reports_folder(project) / RECORD_FILE
    if not find_record(path).exists():
        raise UserError("nothing-to-allow", f"expected the record of a run but got file={path}, which is not there")
    record = read_merged_run([path])
    found = [finding for finding in record.findings if finding.binding]
    if not found:
        against = f"against {record.against[:8]}" if record.against else "against no base"
        raise UserError("nothing-to-allow", f"expected binding findings in {path} but that run, {against}, has none")
    return record.against or _base(project, None), found


def _matching(findings: Sequence[RunFinding], patterns: Sequence[str]) -> list[RunFinding]:
    """Return the findings about a pattern; all without patterns. Raises UserError (nothing-to-allow)."""
    from precreg.suite import match_names

    about = {finding.about for finding in findings}
    for pattern in patterns:
        if not match_names(about, [pattern]):
            listed = _listed(findings) or "none"
            message = f"expected a pattern of a binding finding but got pattern={pattern}{nearest(pattern, about)}"
            raise UserError("nothing-to-allow", f"{message}; there is: {listed}")
    chosen = match_names(about, patterns)
    return [finding for finding in findings if finding.about in chosen]


def _listed(findings: Sequence[RunFinding]) -> str:
    names = [*dict.fromkeys(f"{finding.kind} of {finding.about}" for finding in findings)]
    more = [f"{len(names) - MAX_LISTED_FINDINGS} more"] if len(names) > MAX_LISTED_FINDINGS else []
    return ", ".join(names[:MAX_LISTED_FINDINGS] + more)


def _entries(project: Path, findings: Sequence[RunFinding], reason: str) -> list[NewAllowance]:
    """Return an entry for each finding; one for a suite if all of its cases have a finding of the kind."""
    from precreg.baseline.integrity import NewAllowance
    from precreg.suite import project_cases

    suites: dict[str, set[str]] = {}
    for case in project_cases(project).listed:
        suites.setdefault(f"{case.tier}/{case.suite}", set()).add(case.id)
    found = {(finding.about, finding.kind) for finding in findings}
    entries: dict[NewAllowance, None] = {}
    for finding in findings:
        suite = "/".join(finding.about.split("/", 2)[:2])
        every = all((id, finding.kind) in found for id in suites.get(suite, {""}))
        entries[NewAllowance(suite if every else finding.about, finding.kind, reason)] = None
    return [*entries]


def _named_entries(patterns: Sequence[str], kind: str, reason: str) -> list[NewAllowance]:
    """Return an entry of one kind for each pattern. Raises UserError (bad-value)."""
    from precreg.baseline.integrity import NewAllowance

    if not patterns:
        raise UserError(
            "bad-value",
            f"expected a case, a suite or a pattern beside --change {kind} but got none",
            hint=f"name one: precreg allow unit/mean --change {kind} --reason WHY",
        )
    if "" in patterns:
        raise UserError(
            "bad-value",
            "expected a case, a suite or a pattern but got an empty text",
            hint="name one: precreg allow unit/mean --reason WHY",
        )
    known = _kind(kind)
    return [NewAllowance(pattern, known, reason) for pattern in patterns]


def _kind(name: str) -> FindingKind:
    from precreg.baseline.integrity import ALLOWABLE_KINDS

    for kind in ALLOWABLE_KINDS:
        if name == kind:
            return kind
    known = [str(kind) for kind in ALLOWABLE_KINDS]
    message = f"expected one of {', '.join(known)} but got change={name}{nearest(name, known)}"
    raise UserError("bad-value", message, hint="write one of them, such as --change bound_loosened")


def _prune(project: Path, patterns: Sequence[str], kind: str | None, reason: str, against: str | None) -> None:
    """Remove the entries that the base has, too, and print them."""
    from precreg.baseline import lock_baselines
    from precreg.baseline.integrity import prune_allowances
    from precreg.vcs import merge_target

    if patterns or kind or reason:
        raise UserError(
            "bad-value",
            "expected --prune alone, or with --against: it removes merged entries",
            hint="write precreg allow --prune, or precreg allow --prune --against main",
        )
    base = merge_target(project, against or "auto")
    if base is None:
        # HEAD in its place would count every committed entry as merged.
        message = "expected a default branch (origin/HEAD, origin/main, main or master) but this clone has none"
        raise UserError("unknown-revision", f"{message}; name it: --against REVISION")
    with lock_baselines(project):
        gone = prune_allowances(project, base)
    for entry in gone:
        click.echo(f"removed {entry.kind} of {entry.case}, merged: {entry.reason}")
    click.echo(f"{len(gone)} {'entry' if len(gone) == 1 else 'entries'} removed from baselines/allow.yaml")
