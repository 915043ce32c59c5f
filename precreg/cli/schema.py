"""`precreg schema`: the JSON Schema that lets an editor complete and check suites."""

from __future__ import annotations

import json

import click

from precreg.suite.schema import json_schema, tolerances_schema


@click.command("schema")
@click.option("--tolerances", is_flag=True, help="The schema of suites/tolerances.yaml instead.")
def command(tolerances: bool) -> None:
    """Print the JSON Schema of a suite file.

    Save it in the project's root, and name it in the first line of a suite, relative to the suite:

    `# yaml-language-server: $schema=../../suite.schema.json`
    """
    click.echo(json.dumps(tolerances_schema() if tolerances else json_schema(), indent=2))
