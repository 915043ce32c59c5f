"""The definition digest: what a case computes, so that a baseline of something else is never compared with it.

The inputs and params of each row: `$name` replaced, inputs checked, and equal ones shared between cases.

A suite becomes cases: one per point of its matrix, or per recorded file, each with its name, digest and layers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from precreg.errors import nearest
from precreg.storage import expect_mapping, format_value
from precreg.suite.computations import device_chooser, existing_file, read_computation
from precreg.suite.files import CaseEntry
from precreg.suite.inputs import File, parse_input, resolve_pick
from precreg.suite.load import Suite, load_suites
from precreg.suite.matrix import (
    Parameters,
    case_name,
    matrix_rows,
    read_study,
    reference_names,
    require_known,
    resolve_params,
    substitute,
)
from precreg.suite.recorded import RecordedPoint, accepted_point, recorded_points
from precreg.tolerance import read_layers, require_analyzers
from precreg.types import Budget, Case, Computation, Layer, Role

DEFINITION_VERSION = "1"
"""Part of the digest: raised when the rules below change, so that no old baseline matches by accident."""


def definition_digest(
    subject: Computation,
    oracle: Computation,
    role: Role,
    inputs: dict[str, dict[str, Any]],
    params: dict[str, Any],
    device: str | None = None,
) -> str:
    """Return VERSION, a colon and 32 hex digits over everything that decides what is computed.

    Not in it: tolerance, budget, tags, seeds, repeats, names of the suite and the case, and the code itself. The order
    of keys does not matter. In inputs 1 and 1.0 are one number, because a distribution reads both as float; in
    params they are two, because Python code can tell them apart. A device counts by its name, and only where one is
    named.
    """
    content: dict[str, Any] = {
        "subject": [subject.kind, subject.spec],
        role: [oracle.kind, oracle.spec],
        "inputs": {name: _one_spelling(options) for name, options in inputs.items()},
        "params": params,
    }
    if device is not None:
        content["device"] = device
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"{DEFINITION_VERSION}:{sha256(text.encode()).hexdigest()[:32]}"


def _one_spelling(value: Any) -> Any:
    """Turn whole floats into integers, everywhere: 1.0 and 1 then have one spelling. -0.0 is no integer."""
    if isinstance(value, float) and value.is_integer() and str(value) != "-0.0":
        return int(value)
    if isinstance(value, dict):
        return {key: _one_spelling(item) for key, item in value.items()}
    return [_one_spelling(item) for item in value] if isinstance(value, list | tuple) else value


Arguments = dict[str, Any]


def argument_filler(
    suite: Suite, project: Path, parameters: list[str]
) -> Callable[[Parameters], tuple[Arguments, Arguments]]:
    """Return the function from a row of the matrix to (inputs, params).

    Rows that agree on what inputs or params name share them, so 1,000 rows are not checked 1,000 times. Raises
    UserError: bad-value, unknown-reference, cyclic-reference; the function raises what `inputs.spec.parse`
    does, and outside-project or missing-file for an input that is read from a file.
    """
    source, file = suite.source, suite.file
    _check_names(suite)
    known = {*parameters, *file.params}
    require_known(source, file.inputs, known, "inputs")
    require_known(source, file.params, known, "params")
    params = resolve_params(source, file.params, parameters)
    inputs = substitute(file.inputs, {name: value for name, value in params.items() if name not in parameters})
    inputs_at = _once_per_names(inputs, lambda filled: _checked(suite, project, filled))
    params_at = _once_per_names(params, dict)
    return lambda row: (inputs_at(row), params_at(row))


def _check_names(suite: Suite) -> None:
    source, file = suite.source, suite.file
    expect_mapping(source, file.inputs, "inputs")
    expect_mapping(source, file.params, "params")
    for name in file.inputs:
        expect_mapping(source, file.inputs[name], "inputs", name)
        if name in file.params:
            message = f"expected different names in inputs and params but got {name} in both"
            raise source.error("bad-value", message, "params", name)


def _once_per_names(template: Arguments, finish: Callable[[Arguments], Arguments]) -> Callable[[Parameters], Arguments]:
    """Return the function that fills a template, once for all rows that agree on the names in it."""
    names = sorted({name for name, _ in reference_names(template)})
    known: dict[str, Arguments] = {}

    def fill(row: Parameters) -> Arguments:
        key = repr([row[name] for name in names])
        if key not in known:
            known[key] = finish(substitute(template, row))
        return known[key]

    return fill


def _checked(suite: Suite, project: Path, inputs: Arguments) -> Arguments:
    where = {name: suite.source.where("inputs", name) for name in inputs}
    inputs = {name: resolve_pick(name, mapping, where[name]) for name, mapping in inputs.items()}
    for name, mapping in inputs.items():
        distribution = parse_input(name, mapping, where[name]).distribution
        if isinstance(distribution, File):
            existing_file(suite.source, ("inputs", name, "file"), distribution.path, suite.directory, project)
    return inputs


def load_cases(project: Path, environ: Mapping[str, str] = os.environ) -> list[Case]:
    """Return every case of a project, suite by suite. Raises UserError as `load` and `expand` do."""
    return [case for suite in load_suites(project, environ) for case in expand_suite(suite, project)]


def expand_suite(suite: Suite, project: Path) -> list[Case]:
    """Return the suite's cases in order of the matrix.

    Raises UserError: missing-module, missing-function, unknown-dtype, unknown-distribution, unknown-reference,
    cyclic-reference, empty-matrix, duplicate-case, unknown-case, no-recorded-files, outside-project, bad-value, and
    what reading a device does.
    """
    points = recorded_points(suite, project) if suite.file.files else _computed_points(suite, project)
    parameters = list(points[0].parameters)
    fill, device = argument_filler(suite, project, parameters), device_chooser(suite, project, parameters)
    cases = [_case(suite, point, *fill(point.parameters), device(point.parameters)) for point in points]
    _require_distinct(suite, cases)
    study = read_study(suite, [point.parameters for point in points])
    if study is not None:
        cases = [replace(case, study=study) for case in cases]
    return _with_baselines(suite, project, _with_overrides(suite, cases))


def _computed_points(suite: Suite, project: Path) -> list[RecordedPoint]:
    file, source = suite.file, suite.source
    subject = read_computation(source, "subject", file.subject, suite.directory, project)
    oracle = read_computation(source, _role(suite), getattr(file, _role(suite)), suite.directory, project)
    return [RecordedPoint(row, subject, oracle) for row in matrix_rows(source, file.matrix)]


def _role(suite: Suite) -> Role:
    return "golden" if suite.file.golden is not None or (suite.file.files and suite.file.files.golden) else "reference"


def _case(
    suite: Suite,
    point: RecordedPoint,
    inputs: dict[str, dict[str, Any]],
    params: dict[str, Any],
    device: str | None = None,
) -> Case:
    file, role, name = suite.file, _role(suite), case_name(point.parameters)
    definition = definition_digest(point.subject, point.oracle, role, inputs, params, device)
    return Case(
        id=f"{suite.id}/{name}",
        tier=suite.tier,
        suite=file.suite,
        name=name,
        source=suite.source.where("suite"),
        definition=definition,
        baseline_id=f"{suite.id}/{name}",
        baseline_definition=definition,
        directory=suite.directory,
        subject=point.subject,
        oracle=point.oracle,
        role=role,
        inputs=inputs,
        params=params,
        parameters=point.parameters,
        layers=suite.layers,
        seeds=file.seeds,
        repeats=file.repeats,
        timeout_s=file.timeout,
        exact=file.exact,
        deterministic=file.deterministic,
        category=file.category,
        requires=file.requires,
        tags=file.tags,
        analyzers=file.analyzers,
        budget=Budget(file.budget.time_ratio),
        expect_failure=file.reason,
        device=device,
    )


def _require_distinct(suite: Suite, cases: list[Case]) -> None:
    """Require that cases differ in name, and in what they compute: a parameter that nothing names changes nothing."""
    named: dict[str, Case] = {}
    computed: dict[str, Case] = {}
    for case in cases:
        other = named.setdefault(case.id, case)
        if other is not case:
            both = f"{format_value(other.parameters)} and {format_value(case.parameters)}"
            message = f"expected cases with names of their own but got case={case.id} from {both}"
            raise suite.source.error("duplicate-case", message, "matrix")
        other = computed.setdefault(case.definition, case)
        if other is not case:
            idle = next((name for name, value in case.parameters.items() if other.parameters[name] != value), None)
            why = "their parameters are equal" if idle is None else f"nothing names ${idle}"
            message = f"expected {other.name} and {case.name} to compute different things but {why}"
            raise suite.source.error("duplicate-case", message, "matrix", *([] if idle is None else [idle]))


def _with_overrides(suite: Suite, cases: list[Case]) -> list[Case]:
    """Apply `cases:` in order: later entries win, tags and layers add up."""
    entries = suite.file.cases
    matching = [_matching(suite, cases, index, entry) for index, entry in enumerate(entries)]

    @cache
    def layers(indices: tuple[int, ...]) -> tuple[Layer, ...]:
        return (*suite.layers, *(layer for index in indices for layer in _case_layers(suite, index)))

    def changed(case: Case) -> Case:
        indices = tuple(index for index, names in enumerate(matching) if case.name in names)
        for index in indices:
            case = _overridden(case, entries[index])
        return replace(case, layers=layers(indices)) if indices else case

    return [changed(case) for case in cases]


def _matching(suite: Suite, cases: list[Case], index: int, entry: CaseEntry) -> set[str]:
    names = {case.name for case in cases if fnmatchcase(case.name, entry.match)}
    if not names:
        near = nearest(entry.match, (case.name for case in cases))
        message = f"expected a pattern on the names of cases but got match={entry.match}, which matches none"
        raise suite.source.error("unknown-case", message + near, "cases", index, "match")
    return names


def _case_layers(suite: Suite, index: int) -> list[Layer]:
    path = ("cases", index, "tolerance")
    layers = list(read_layers("case", suite.source, path, suite.file.cases[index].tolerance))
    require_analyzers(layers, suite.file.analyzers)
    return layers


def _overridden(case: Case, entry: CaseEntry) -> Case:
    return replace(
        case,
        tags=(*case.tags, *(tag for tag in entry.tags if tag not in case.tags)),
        seeds=entry.seeds or case.seeds,
        timeout_s=entry.timeout or case.timeout_s,
        deterministic=case.deterministic if entry.deterministic is None else entry.deterministic,
        expect_failure=None if entry.expect == "pass" else entry.reason or case.expect_failure,
    )


def _with_baselines(suite: Suite, project: Path, cases: list[Case]) -> list[Case]:
    """Give each case the baseline of the case that `baseline_of` names by parameters; its own without that key."""
    wanted = suite.file.baseline_of
    expect_mapping(suite.source, wanted, "baseline_of")
    for name in wanted:
        if name not in cases[0].parameters:
            known = list(cases[0].parameters)
            message = (
                f"expected a parameter of the matrix but got {name}={format_value(wanted[name])}{nearest(name, known)}"
            )
            raise suite.source.error("unknown-key", message, "baseline_of", name)
    if not wanted:
        return cases
    by_name = {case.name: case for case in cases}
    return [_judged_by(suite, project, case, by_name) for case in cases]


def _judged_by(suite: Suite, project: Path, case: Case, by_name: dict[str, Case]) -> Case:
    parameters = {**case.parameters, **suite.file.baseline_of}
    name = case_name(parameters)
    if name in by_name:
        other = by_name[name]
    elif suite.file.files:
        other = _case(suite, accepted_point(suite, project, parameters), {}, {})
    else:
        message = f"expected a case of this suite but got baseline_of={name} for {case.name}{nearest(name, by_name)}"
        raise suite.source.error("unknown-case", message, "baseline_of")
    return replace(case, baseline_id=other.id, baseline_definition=other.definition)
