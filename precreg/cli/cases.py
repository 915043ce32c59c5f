"""Which cases are there, and where does each of their settings come from?

`precreg list` shows the selected cases, `precreg explain` one case with its settings, and `precreg schema` the JSON
Schema that lets an editor complete and check suites.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from precreg.cli.console import show_report
from precreg.cli.options import CaseOptions, config_option, project_of_option, select_by_options, selection_options

if TYPE_CHECKING:
    from precreg.tolerance import Setting
    from precreg.types import Baseline, Case, Computation, Environment, ReferenceDtype

# The name and dtype of an output.
Output = tuple[str, str]


@click.command("list")
@selection_options
@click.option("--verbose", "-v", is_flag=True, help="Show subject, oracle, seeds and tags, too.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_obj
def list_command(given: Path | None, /, case_options: CaseOptions, verbose: bool, as_json: bool) -> None:
    """Show the cases. A PATTERN is a case's id, a part of it, or has the wildcards * ? []."""
    from precreg.suite import Selection, no_case_error, project_cases, select_cases

    project = project_of_option(given)
    known = project_cases(project)
    if case_options.changed_since is None:
        selection = Selection(case_options.tiers, case_options.suites, case_options.patterns, case_options.tags)
        ids = [case.id for case in select_cases(known.listed, selection)]
        if known.listed and not ids:
            raise no_case_error(known.listed)
    else:
        ids = [case.id for case in select_by_options(project, known.every(), case_options)]
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(known.cases(ids)), indent=2))
        return
    # The definitions of cases cost much more than their names, which the index has.
    if verbose:
        show_report("".join(f"{_describe(case)}\n" for case in known.cases(ids)))
    else:
        click.echo("".join(f"{id}\n" for id in ids), nl=False)
    # The count goes to stderr, so that stdout has ids only, for a pipe.
    click.echo(f"{len(ids)} cases" if len(ids) != 1 else "1 case", err=True)
    if not known.listed:
        click.echo("no suite below suites/ defines a case: docs/suites.md begins with a suite", err=True)


def _describe(case: Case) -> str:
    """Describe a case on one line: id, place, subject, role and oracle, seeds, tags."""
    parts = [f"{_computation(case.subject)} against {case.role} {_computation(case.oracle)}", f"seeds {case.seeds}"]
    parts += [f"tags {', '.join(case.tags)}"] if case.tags else []
    parts += [f"expected to fail: {case.expect_failure}"] if case.expect_failure is not None else []
    return f"{case.id}  ({case.source}): {'; '.join(parts)}"


@click.command("explain")
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@click.option("--environment", metavar="LABEL", help="Explain for this environment (PRECREG_ENVIRONMENT).")
@config_option
@click.pass_obj
def explain_command(given: Path | None, /, patterns: tuple[str, ...], environment: str | None) -> None:
    """Show a case's subject and oracle, every layer of its tolerance with file and line, and its baseline.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Several cases follow one another.
    """
    from precreg.environment import detect_environment
    from precreg.suite import Selection, find_cases

    project = project_of_option(given)
    cases = find_cases(project, Selection(patterns=patterns))
    here = detect_environment(environment)
    explained = (list(_explain(project, case, here)) for case in cases)
    for number, lines in enumerate(explained):
        show_report("\n".join(["", *lines, ""] if number else [*lines, ""]))


def _explain(project: Path, case: Case, here: Environment) -> Iterator[str]:
    from precreg.baseline import Baselines, expected_environment, explain_baseline, read_environment_facts

    found, known = Baselines(project).lookup(case.baseline_id, here.chain), read_environment_facts(project)
    baseline = explain_baseline(found, known, expected_environment(case, found, known, here))
    outputs = _outputs_of(case, baseline, project)
    # Tolerances depend on the dtype of an output, which only a run or a baseline knows.
    guessed = "" if outputs else " (guessed: no run yet)"
    yield from (*_definition(case), "", *_baseline(case, baseline, here))
    for output in outputs or _guess_outputs(case):
        yield from _tolerance(case, output, here, guessed)


def _computation(computation: Computation) -> str:
    """Write a function as a suite names it, and any other computation with its kind."""
    from precreg.storage import format_value

    spec = computation.spec
    if isinstance(spec, dict) and isinstance(spec.get(computation.kind), str):
        # As the suite has it: the value of the kind's key, and then the options, each of them whole.
        options = {name: value for name, value in spec.items() if name != computation.kind}
        shown = f"{computation.kind} {spec[computation.kind]}"
        return f"{shown}, {_format_mapping(options)}" if options else shown
    # A Python function is the only kind that a suite names without its key.
    shown = spec if isinstance(spec, str) else format_value(spec)
    return shown if computation.kind == "python" else f"{computation.kind} {shown}"


def _definition(case: Case) -> Iterator[str]:
    yield f"{case.id}  ({case.source})"
    yield f"definition  {case.definition}"
    yield f"subject     {_computation(case.subject)}"
    yield f"{case.role:11} {_computation(case.oracle)}"
    if case.reference_dtype is not None:
        yield f"            on inputs of {_format_reference_dtype(case.reference_dtype)}"
    if case.benchmark is not None:
        yield f"benchmark   {_computation(case.benchmark)}"
    if case.device is not None:
        yield f"device      {case.device}"
    yield from (f"input       {name}: {_format_mapping(spec)}" for name, spec in case.inputs.items())
    if case.params:
        yield f"params      {_format_mapping(case.params)}"
    yield f"seeds       {case.seeds}, repeats {case.repeats}, timeout {case.timeout_s:g} s"
    if not case.deterministic:
        yield "determinism declared nondeterministic: bits may differ, the statistics of all runs apply"
    for word in ("analyzers", "depends", "requires", "tags"):
        if values := getattr(case, word):
            yield f"{word:11} {', '.join(values)}"
    if case.expect_failure is not None:
        yield f"expected to fail: {case.expect_failure}"


def _format_reference_dtype(dtype: ReferenceDtype) -> str:
    return f"{dtype.name}, {dtype.digits} digits" if dtype.digits else dtype.name


def _format_mapping(mapping: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in mapping.items())


def _baseline(case: Case, baseline: Baseline | None, environment: Environment) -> Iterator[str]:
    borrowed = f" (of {case.baseline_id})" if case.baseline_id != case.id else ""
    if baseline is None:
        yield f"baseline    none in {', '.join(environment.chain)}{borrowed}"
        return
    from precreg.report import describe_environment_difference

    entry = baseline.entry
    yield f"baseline    {baseline.file}{borrowed}, accepted {entry.date} by {entry.author}: {entry.reason}"
    if entry.definition != case.baseline_definition:
        yield f"            stale: it was accepted for definition {entry.definition}"
    if baseline.difference is not None:
        change = describe_environment_difference(baseline.difference)
        yield f"            accepted in another environment, so statistics apply and digests do not: {change}"


def _tolerance(case: Case, output: Output, environment: Environment, guessed: str) -> Iterator[str]:
    """Yield a table of every layer's settings for one output, and the warnings about the tolerance."""
    from precreg.report import describe_tolerance_fact
    from precreg.tolerance import NO_BOUNDS, explain_tolerance, resolve_tolerance, tolerance_warnings

    name, dtype = output
    rows = _by_metric(explain_tolerance(case.layers, name, dtype, environment.chain))
    cells = [(" *"[row.holds], row.metric, _limit(row.value), row.layer, str(row.source)) for row in rows]
    # The last column, file and line, is not padded.
    widths = [max(len(cell[column]) for cell in cells) for column in range(4)]
    yield from ("", f"tolerance of output {name!r} in {dtype}{guessed}, later layers win (* holds)")
    yield from (" ".join([*map(str.ljust, cell[:4], widths), cell[4]]) for cell in cells)
    tolerance = resolve_tolerance(case.layers, name, dtype, environment.chain)
    if tolerance.standard == NO_BOUNDS.name and not (tolerance.bounds or tolerance.alternatives):
        yield "no bounds (tolerance: none): the baseline alone judges"
    yield from (f"warning: {describe_tolerance_fact(fact)}" for fact in tolerance_warnings(tolerance, dtype))


def _by_metric(rows: Sequence[Setting]) -> list[Setting]:
    """Group the layers by metric, in their order; leave out metrics that no layer sets."""
    # Layers in their order below each metric, so that a reader sees who overrides whom.
    metrics = list(dict.fromkeys(row.metric for row in rows if row.value is not None))
    return [row for metric in metrics for row in rows if row.metric == metric]


def _outputs_of(case: Case, baseline: Baseline | None, project: Path) -> list[Output]:
    """Return outputs and dtypes of the baseline, or of the proposal; an empty list without either."""
    from precreg.baseline import pending_proposals

    proposal = pending_proposals(project).get(case.id)
    # The baseline first: a proposal may have outputs that nobody accepted yet.
    entry = baseline.entry if baseline is not None else proposal.entry if proposal is not None else None
    return [] if entry is None else [(name, output.dtype) for name, output in entry.outputs.items()]


def _guess_outputs(case: Case) -> list[Output]:
    """Return one output in the case's dtype, which most cases have."""
    return [("out", str(case.parameters.get("dtype", "float32")))]


def _limit(value: float | None) -> str:
    return "off" if value is None else f"{value:.6g}"


@click.command("schema")
@click.option("--tolerances", is_flag=True, help="Print the schema of suites/tolerances.yaml instead.")
def schema_command(tolerances: bool) -> None:
    """Print the JSON Schema of a suite file.

    Save it in the project's root, and name it in the first line of a suite, relative to the suite:

    `# yaml-language-server: $schema=../../suite.schema.json`
    """
    from precreg.suite import json_schema, tolerances_schema

    click.echo(json.dumps(tolerances_schema() if tolerances else json_schema(), indent=2))
