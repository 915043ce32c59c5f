"""`precreg list`: which cases there are, or would be run.

`precreg explain`: one case, and where each of its settings comes from.

`precreg schema`: the JSON Schema that lets an editor complete and check suites.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from precreg.baseline import Baselines, explain_baseline, pending_proposals, read_environment_facts
from precreg.cli.options import CaseOptions, project_of_option, select_by_options, selection_options
from precreg.environment import detect_environment
from precreg.errors import UserError, nearest
from precreg.report import describe_tolerance_fact
from precreg.suite import json_schema, load_cases, tolerances_schema
from precreg.tolerance import Setting, explain_tolerance, resolve_tolerance, tolerance_warnings
from precreg.types import Baseline, Case, Environment


@click.command("list")
@selection_options
@click.option("--verbose", "-v", is_flag=True, help="Show seeds, tags, what is run and what it is held against.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_obj
def list_command(given: Path | None, /, asked: CaseOptions, verbose: bool, as_json: bool) -> None:
    """Show the cases. A PATTERN is a case's id, a part of it, or has the wildcards * ? []."""
    project = project_of_option(given)
    cases = select_by_options(project, load_cases(project), asked)
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


Output = tuple[str, str]
"""An output's name and dtype."""


@click.command("explain")
@click.argument("case_id", metavar="CASE")
@click.option("--environment", metavar="LABEL", help="Explain for this environment (PRECREG_ENVIRONMENT).")
@click.pass_obj
def explain_command(given: Path | None, /, case_id: str, environment: str | None) -> None:
    """Show what a case computes, every layer of its tolerance with file and line, and its baseline."""
    project = project_of_option(given)
    case = _found(load_cases(project), case_id)
    here = detect_environment(environment)
    baseline = explain_baseline(
        Baselines(project).lookup(case.baseline_id, here.chain), read_environment_facts(project), here
    )
    outputs = _measured(case, baseline, project)
    guessed = "" if outputs else " (guessed: no run yet)"
    tolerances = (line for output in outputs or _guessed(case) for line in _tolerance(case, output, here, guessed))
    click.echo("\n".join([*_definition(case), "", *_baseline(case, baseline, here), *tolerances]))


def _found(cases: list[Case], case_id: str) -> Case:
    by_id = {case.id: case for case in cases}
    if case_id not in by_id:
        message = f"expected the id of a case but got case={case_id}{nearest(case_id, by_id)}"
        raise UserError("unknown-case", message)
    return by_id[case_id]


def _definition(case: Case) -> Iterator[str]:
    yield f"{case.id}  ({case.source})"
    yield f"definition  {case.definition}"
    yield f"subject     {case.subject.spec}"
    yield f"{case.role:11} {case.oracle.spec}"
    if case.device is not None:
        yield f"device      {case.device}"
    yield from (f"input       {name}: {_shown(spec)}" for name, spec in case.inputs.items())
    if case.params:
        yield f"params      {_shown(case.params)}"
    yield f"seeds       {case.seeds}, repeats {case.repeats}, timeout {case.timeout_s:g} s"
    if not case.deterministic:
        yield "determinism declared nondeterministic: bits may differ, statistics of all runs decide"
    if case.analyzers:
        yield f"analyzers   {', '.join(case.analyzers)}"
    if case.requires:
        yield f"requires    {', '.join(case.requires)}"
    if case.tags:
        yield f"tags        {', '.join(case.tags)}"
    if case.expect_failure is not None:
        yield f"expected to fail: {case.expect_failure}"


def _shown(mapping: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in mapping.items())


def _baseline(case: Case, baseline: Baseline | None, environment: Environment) -> Iterator[str]:
    borrowed = f" (of {case.baseline_id})" if case.baseline_id != case.id else ""
    if baseline is None:
        yield f"baseline    none in {', '.join(environment.chain)}{borrowed}"
        return
    entry = baseline.entry
    yield f"baseline    {baseline.file}{borrowed}, accepted {entry.date} by {entry.author}: {entry.reason}"
    if entry.definition != case.baseline_definition:
        yield f"            stale: it was accepted for definition {entry.definition}"
    if baseline.change:
        yield f"            accepted elsewhere, so statistics decide and no digest: {baseline.change}"


def _tolerance(case: Case, output: Output, environment: Environment, guessed: str) -> Iterator[str]:
    name, dtype = output
    rows = _by_metric(explain_tolerance(case.layers, name, dtype, environment.chain))
    cells = [(" *"[row.holds], row.metric, _limit(row.value), row.layer, str(row.source)) for row in rows]
    widths = [max(len(cell[column]) for cell in cells) for column in range(4)]
    yield from ("", f"tolerance of output {name!r} in {dtype}{guessed}, later layers win (* holds)")
    yield from (" ".join([*map(str.ljust, cell[:4], widths), cell[4]]) for cell in cells)
    tolerance = resolve_tolerance(case.layers, name, dtype, environment.chain)
    yield from (f"warning: {describe_tolerance_fact(fact)}" for fact in tolerance_warnings(tolerance, dtype))


def _by_metric(rows: Sequence[Setting]) -> list[Setting]:
    """Put the layers of each metric together, in their order; leave out what is off that no layer had set."""
    metrics = list(dict.fromkeys(row.metric for row in rows if row.value is not None))
    return [row for metric in metrics for row in rows if row.metric == metric]


def _measured(case: Case, baseline: Baseline | None, project: Path) -> list[Output]:
    """Take outputs and dtypes from the baseline or from what waits to be one; none where neither is there."""
    proposal = pending_proposals(project).get(case.id)
    entry = baseline.entry if baseline is not None else proposal.entry if proposal is not None else None
    return [] if entry is None else [(name, output.dtype) for name, output in entry.outputs.items()]


def _guessed(case: Case) -> list[Output]:
    """Take one array in the case's dtype for the output."""
    return [("out", str(case.parameters.get("dtype", "float32")))]


def _limit(value: float | None) -> str:
    return "off" if value is None else f"{value:.6g}"


@click.command("schema")
@click.option("--tolerances", is_flag=True, help="The schema of suites/tolerances.yaml instead.")
def schema_command(tolerances: bool) -> None:
    """Print the JSON Schema of a suite file.

    Save it in the project's root, and name it in the first line of a suite, relative to the suite:

    `# yaml-language-server: $schema=../../suite.schema.json`
    """
    click.echo(json.dumps(tolerances_schema() if tolerances else json_schema(), indent=2))
