"""`precreg doctor`: what works here. Looking is done in examining.py, so that nothing is imported in vain."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from precreg.cli.history_place import history_option


@click.command("doctor")
@history_option
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_obj
def command(given: Path | None, /, place: str | None, as_json: bool) -> None:
    """Say what measures here and whether it measures right, what is installed, and what of a project is found.

    Exit codes: 2 something that is needed is broken; 0 otherwise.
    """
    from precreg.cli.examining import BROKEN, findings

    found = findings(given, place)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode([finding._asdict() for finding in found]), indent=2))
    else:
        width = max(len(finding.name) for finding in found)
        for finding in found:
            state = f"{finding.state}: " if finding.state == BROKEN else ""
            click.echo(f"{finding.name:{width}}  {state}{finding.says}")
    sys.exit(2 if any(finding.state == BROKEN for finding in found) else 0)
