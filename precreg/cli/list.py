"""`precreg list`: which cases there are, or would be run."""

from __future__ import annotations

from pathlib import Path

import click

from precreg.cli.options import Asked
from precreg.cli.selecting import find_project, selected, selection_options
from precreg.suite.expand import load_cases
from precreg.types.types import Case


@click.command("list")
@selection_options
@click.option("--verbose", "-v", is_flag=True, help="Show seeds, tags, what is run and what it is held against.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_obj
def command(given: Path | None, /, asked: Asked, verbose: bool, as_json: bool) -> None:
    """Show the cases. A PATTERN is a case's id, a part of it, or has the wildcards * ? []."""
    project = find_project(given)
    cases = selected(project, load_cases(project), asked)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(cases), indent=2))
        return
    for case in cases:
        click.echo(_described(case) if verbose else case.id)
    click.echo(f"{len(cases)} cases" if len(cases) != 1 else "1 case", err=True)


def _described(case: Case) -> str:
    """Say on one line what a case is: id, place, subject, role and oracle, seeds, tags."""
    parts = [f"{case.subject.spec} against {case.role} {case.oracle.spec}", f"seeds {case.seeds}"]
    parts += [f"tags {', '.join(case.tags)}"] if case.tags else []
    parts += [f"expected to fail: {case.expect_failure}"] if case.expect_failure is not None else []
    return f"{case.id}  ({case.source}): {'; '.join(parts)}"
