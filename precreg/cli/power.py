"""`precreg power`: the smallest loss that would be caught, case by case, from what baselines keep."""

from __future__ import annotations

from pathlib import Path

import click

from precreg.baseline.store import Baselines
from precreg.cli.options import Asked
from precreg.cli.selecting import find_project, selected, selection_options
from precreg.environment.environment import detect
from precreg.report.power import document, render
from precreg.suite.expand import load_cases
from precreg.suite.select import none_selected
from precreg.tolerance.pyramid import resolve
from precreg.types.records import Environment
from precreg.types.types import Case
from precreg.verdict.power import Power, losses
from precreg.verdict.regression import error_level


@click.command("power")
@selection_options
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Whose baselines: a device's label.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_obj
def command(given: Path | None, /, asked: Asked, environment: str | None, as_json: bool) -> None:
    """Tell the smallest loss of each case that would be caught, from what its baseline keeps. Nothing is run.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? [].
    """
    project = find_project(given)
    every = load_cases(project)
    cases = selected(project, every, asked)
    if not cases and asked.changed_since is None:
        raise none_selected(every, asked.patterns)
    here, baselines = detect(environment), Baselines(project)
    number = baselines.number(here.chain)
    level = error_level(number)
    powers = [_power(case, baselines, here, level) for case in cases]
    click.echo(document(powers, level, number, here.label) if as_json else render(powers, level, number), nl=as_json)


def _power(case: Case, baselines: Baselines, environment: Environment, level: float) -> Power:
    baseline = baselines.lookup(case.baseline_id, environment.chain)
    if baseline is None:
        return Power(case.id, why=_without_baseline(case, environment))
    entry = baseline.entry
    if entry.definition != case.baseline_definition:
        return Power(case.id, why=f"defined otherwise than it was accepted in {baseline.file}")
    tolerances = {
        name: resolve(case.layers, name, output.dtype, environment.chain) for name, output in entry.outputs.items()
    }
    alike = entry.fingerprint == environment.fingerprint
    return Power(case.id, losses(case, entry, tolerances, level=level, alike=alike), alike=alike)


def _without_baseline(case: Case, environment: Environment) -> str:
    if case.expect_failure is not None:
        return "expected to fail, which needs no baseline"
    return f"no baseline in {', '.join(environment.chain)}"
