"""A suite becomes cases: one per point of its matrix, or per recorded file, each with its name, digest and layers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from precreg.errors import nearest
from precreg.storage.yaml_source import expect_mapping, shown
from precreg.suite.arguments import filler
from precreg.suite.computations import read_computation
from precreg.suite.devices import device_chooser
from precreg.suite.digest import definition_digest
from precreg.suite.files import CaseEntry
from precreg.suite.load import Suite, load
from precreg.suite.matrix import case_name, rows
from precreg.suite.recorded import Point, accepted_point, recorded_points
from precreg.suite.studies import read_study
from precreg.tolerance.asked import require_asked
from precreg.tolerance.layers import read_layers
from precreg.types.types import Budget, Case, Layer, Role


def load_cases(project: Path, environ: Mapping[str, str] = os.environ) -> list[Case]:
    """Return every case of a project, suite by suite. Raises UserError as `load` and `expand` do."""
    return [case for suite in load(project, environ) for case in expand(suite, project)]


def expand(suite: Suite, project: Path) -> list[Case]:
    """Return the suite's cases in order of the matrix.

    Raises UserError: missing-module, missing-function, unknown-dtype, unknown-distribution, unknown-reference,
    cyclic-reference, empty-matrix, duplicate-case, unknown-case, no-recorded-files, outside-project, bad-value, and
    what reading a device does.
    """
    points = recorded_points(suite, project) if suite.file.files else _computed_points(suite, project)
    parameters = list(points[0].parameters)
    fill, device = filler(suite, project, parameters), device_chooser(suite, project, parameters)
    cases = [_case(suite, point, *fill(point.parameters), device(point.parameters)) for point in points]
    _require_distinct(suite, cases)
    study = read_study(suite, [point.parameters for point in points])
    if study is not None:
        cases = [replace(case, study=study) for case in cases]
    return _with_baselines(suite, project, _with_overrides(suite, cases))


def _computed_points(suite: Suite, project: Path) -> list[Point]:
    file, source = suite.file, suite.source
    subject = read_computation(source, "subject", file.subject, suite.directory, project)
    oracle = read_computation(source, _role(suite), getattr(file, _role(suite)), suite.directory, project)
    return [Point(row, subject, oracle) for row in rows(source, file.matrix)]


def _role(suite: Suite) -> Role:
    return "golden" if suite.file.golden is not None or (suite.file.files and suite.file.files.golden) else "reference"


def _case(
    suite: Suite, point: Point, inputs: dict[str, dict[str, Any]], params: dict[str, Any], device: str | None = None
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
            both = f"{shown(other.parameters)} and {shown(case.parameters)}"
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
    require_asked(layers, suite.file.analyzers)
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
            message = f"expected a parameter of the matrix but got {name}={shown(wanted[name])}{nearest(name, known)}"
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
