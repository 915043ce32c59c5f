"""Which cases does a suite define?

A suite expands into one case per row of its matrix, or per recorded file. Each case has a name, its inputs and params
without references, its layers of tolerances, and a definition digest. The digest covers the computation of the case, so
that precreg never compares a case with the baseline of another computation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from precreg.errors import UserError, key_hint, nearest
from precreg.storage import expect_mapping, format_value, pause_gc
from precreg.subject import requirements_of
from precreg.suite.computations import (
    computation_reader,
    default_reference,
    device_chooser,
    existing_file,
    locate_target,
)
from precreg.suite.figure_layers import require_recorded, with_own_figures_off
from precreg.suite.files import CaseEntry, StochasticEntry
from precreg.suite.inputs import PYTHON_KEY, File, PythonInput, gather_arguments, is_drawn, parse_input, resolve_pick
from precreg.suite.load import Suite, depends_patterns, load_suites
from precreg.suite.matrix import (
    Parameters,
    case_name,
    matrix_rows,
    read_ranges,
    read_study,
    reference_names,
    require_known,
    resolve_params,
    substitute,
)
from precreg.suite.node_tests import node_test_points
from precreg.suite.recorded import RecordedPoint, accepted_point, recorded_points
from precreg.suite.reference_dtype import read_reference_dtype
from precreg.suite.roles import read_stochastic
from precreg.suite.select import WILDCARDS_OF_PATTERN, fits_pattern, list_names
from precreg.suite.signature import require_arguments
from precreg.suite.table import table_points
from precreg.tolerance import (
    QUANTIZED_OUTPUTS,
    TRAINING_OUTPUTS,
    free_monitored_layers,
    read_layers,
    require_analyzers,
)
from precreg.types import DEFAULT_SEEDS, Budget, Case, Computation, Layer, ReferenceDtype, Role, Stochastic

# The digest begins with this version. Raise it if the rules of the digest change: then every baseline counts as stale,
# and none matches by accident.
DEFINITION_VERSION = "1"

Arguments = dict[str, Any]
# `json.dumps` with these options would make an encoder for each case.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def definition_digest(
    subject: Computation,
    oracle: Computation,
    role: Role,
    inputs: dict[str, dict[str, Any]],
    params: dict[str, Any],
    device: str | None = None,
    reference_dtype: ReferenceDtype | None = None,
) -> str:
    """Return the digest of a computation: VERSION, a colon and 32 hex digits (128 bits of SHA-256).

    The digest covers subject, oracle, inputs, params, the name of the device, and a given dtype of the reference. It
    leaves out tolerances, budget, tags, seeds, repeats, the names of suite and case, and the code. The order of keys
    does not matter.
    """
    content: dict[str, Any] = {
        "subject": [subject.kind, subject.spec],
        role: [oracle.kind, oracle.spec],
        # 1 and 1.0 are equal in inputs, because a distribution reads both as float. In params they differ, because
        # Python code can distinguish them.
        "inputs": {name: _normalize_numbers(options) for name, options in inputs.items()},
        "params": params,
    }
    if device is not None:  # without a device the key is left out, so that digests from before devices still match
        content["device"] = device
    if reference_dtype is not None:
        content["reference_dtype"] = [reference_dtype.name, reference_dtype.digits]
    return f"{DEFINITION_VERSION}:{sha256(_CANONICAL.encode(content).encode()).hexdigest()[:32]}"


# A tuple, because a union of types is made anew for each value.
_LISTS = (list, tuple)


def _normalize_numbers(value: Any) -> Any:
    """Replace whole floats by integers at every depth, so that 1.0 and 1 have one spelling.

    -0.0 stays, because an integer has no negative zero.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and str(value) != "-0.0":
        return int(value)
    if isinstance(value, dict):
        return {key: _normalize_numbers(item) for key, item in value.items()}
    return [_normalize_numbers(item) for item in value] if isinstance(value, _LISTS) else value


def argument_filler(
    suite: Suite, project: Path, parameters: list[str]
) -> Callable[[Parameters], tuple[Arguments, Arguments]]:
    """Return a function from a row of the matrix to the pair (inputs, params).

    Rows share a result if they agree on every parameter that inputs or params reference. Raises UserError: bad-value,
    unknown-reference, cyclic-reference. The function raises the errors of `parse_input`, and outside-project or
    missing-file for an input from a file.
    """
    source, file = suite.source, suite.file
    _check_names(suite)
    known = {*parameters, *file.params}
    require_known(source, file.inputs, known, "inputs")
    require_known(source, file.params, known, "params")
    params = resolve_params(source, file.params, parameters)
    inputs = substitute(file.inputs, {name: value for name, value in params.items() if name not in parameters})
    # Checking an input takes longer than looking up a row, and a matrix may have 100,000 rows.
    inputs_at = _cache_by_names(inputs, lambda filled: _check_inputs(suite, project, filled))
    params_at = _cache_by_names(params, dict)
    return lambda row: (inputs_at(row), params_at(row))


def _check_names(suite: Suite) -> None:
    source, file = suite.source, suite.file
    expect_mapping(source, file.inputs, "inputs")
    expect_mapping(source, file.params, "params")
    for name in file.inputs:
        expect_mapping(source, file.inputs[name], "inputs", name)
        if name in file.params:
            message = f"expected different names in inputs and params but got {name} in both"
            raise source.error(
                "bad-value", message, "params", name, hint=f"rename one of them, or remove {name}: from params:"
            )


def _cache_by_names(template: Arguments, finish: Callable[[Arguments], Arguments]) -> Callable[[Parameters], Arguments]:
    """Return a function that fills a template, and calls `finish` once for all rows that agree on its names."""
    names = sorted({name for name, _ in reference_names(template)})
    known: dict[str, Arguments] = {}

    def fill(row: Parameters) -> Arguments:
        # repr() distinguishes 1, 1.0 and True, which are equal as keys of a dict. Lists cannot be keys at all.
        key = repr([row[name] for name in names])
        if key not in known:
            known[key] = finish(substitute(template, row))
        return known[key]

    return fill


def _check_inputs(suite: Suite, project: Path, inputs: Arguments) -> Arguments:
    where = {name: suite.source.where("inputs", name) for name in inputs}
    inputs = {name: resolve_pick(name, mapping, where[name]) for name, mapping in inputs.items()}
    inputs = {name: gather_arguments(name, mapping, where[name]) for name, mapping in inputs.items()}
    for name, mapping in inputs.items():
        distribution = parse_input(name, mapping, where[name]).distribution
        if isinstance(distribution, PythonInput):
            place = suite.source.where("inputs", name, PYTHON_KEY)
            locate_target(distribution.function, suite.directory, project, place)
        if isinstance(distribution, File):
            existing_file(suite.source, ("inputs", name, "file"), distribution.path, suite.directory, project)
    return inputs


@pause_gc()
def load_cases(project: Path, environ: Mapping[str, str] = os.environ) -> list[Case]:
    """Return every case of a project, suite by suite.

    Raises UserError: the errors of `load_suites` and `expand_suite`.
    """
    return [case for suite in load_suites(project, environ) for case in expand_suite(suite, project)]


def expand_suite(suite: Suite, project: Path) -> list[Case]:
    """Return the suite's cases in the order of the matrix.

    Raises UserError: missing-module, missing-function, unknown-dtype, unknown-distribution, unknown-reference,
    cyclic-reference, empty-matrix, duplicate-case, unknown-case, no-recorded-files, outside-project, bad-value,
    bad-arguments, and the errors of reading a device.
    """
    return _expand(suite, project, _points(suite, project), is_part=False)


def expand_rows(suite: Suite, project: Path, places: Sequence[int]) -> list[Case]:
    """Return the cases at some places of the suite's cases, or all where the others matter.

    The whole suite must have been expanded before, because its rows are not compared with each other.
    """
    file = suite.file
    if file.files or file.table or file.onnx_tests is not None or file.baseline_of != {} or file.study is not None:
        return expand_suite(suite, project)
    rows = matrix_rows(suite.source, file.matrix)
    chosen = [rows[place] for place in places if place < len(rows)]
    return _expand(suite, project, _computed_points(suite, project, chosen), is_part=True) if chosen else []


def _expand(suite: Suite, project: Path, points: list[RecordedPoint], *, is_part: bool) -> list[Case]:
    # Every case of the suite shares the layers.
    suite = replace(suite, layers=_free_layers(suite, suite.layers))
    parameters = list(points[0].parameters)
    fill, device = argument_filler(suite, project, parameters), device_chooser(suite, project, parameters)
    cases = [_make_case(suite, point, *fill(point.parameters), device(point.parameters)) for point in points]
    if suite.file.depends:
        patterns = tuple(path for _, path in depends_patterns(suite, project))
        cases = [replace(case, depends=patterns) for case in cases]
    _require_distinct(suite, cases)
    if suite.file.ranges != {}:
        cases = [replace(case, ranges=_case_ranges(suite, case)) for case in cases]
    study = read_study(suite, [point.parameters for point in points])
    if study is not None:
        cases = [replace(case, study=study) for case in cases]
    cases = _assign_baselines(suite, project, _apply_overrides(suite, cases, is_part=is_part))
    require_arguments(suite, project, points)
    return cases


def _case_ranges(suite: Suite, case: Case) -> dict[str, tuple[float, ...]]:
    return read_ranges(suite.source, suite.file.ranges, {**case.params, **case.parameters}, case.inputs)


def _points(suite: Suite, project: Path) -> list[RecordedPoint]:
    if suite.file.onnx_tests is not None:
        return node_test_points(suite, project)
    if suite.file.table:
        return table_points(suite, project)
    if suite.file.files:
        return recorded_points(suite, project)
    return _computed_points(suite, project, matrix_rows(suite.source, suite.file.matrix))


def _computed_points(suite: Suite, project: Path, rows: list[Parameters]) -> list[RecordedPoint]:
    parameters, role = list(rows[0]), _oracle_role(suite)
    subject = computation_reader(suite, "subject", project, parameters)
    oracle = computation_reader(suite, role, project, parameters)
    benchmark = computation_reader(suite, "benchmark", project, parameters)

    def point(row: Parameters) -> RecordedPoint:
        computed = subject(row)
        judged_by = default_reference(suite, computed) if getattr(suite.file, role) is None else oracle(row)
        return RecordedPoint(row, computed, judged_by, None if suite.file.benchmark is None else benchmark(row))

    return [point(row) for row in rows]


def _oracle_role(suite: Suite) -> Role:
    file = suite.file
    has_golden = file.golden is not None or file.onnx_tests is not None or (file.files and file.files.golden)
    return "golden" if has_golden else "reference"


def _make_case(
    suite: Suite,
    point: RecordedPoint,
    inputs: dict[str, dict[str, Any]],
    params: dict[str, Any],
    device: str | None = None,
) -> Case:
    file, role, name = suite.file, _oracle_role(suite), case_name(point.parameters)
    dtype = read_reference_dtype(suite, point.oracle)
    definition = definition_digest(point.subject, point.oracle, role, inputs, params, device, dtype)
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
        seeds=file.seeds or _default_seeds(inputs),
        repeats=file.repeats,
        timeout_s=file.timeout,
        exact=file.exact,
        deterministic=file.deterministic,
        category=file.category,
        requires=_requirements(file.requires, point, dtype),
        tags=file.tags,
        analyzers=file.analyzers,
        budget=Budget(file.budget.time_ratio),
        expect_failure=file.reason,
        device=device,
        benchmark=point.benchmark,
        reference_dtype=dtype,
        empty_passes=file.onnx_tests is not None,
        stochastic=_stochastic(suite, file.stochastic, point.subject, "stochastic"),
    )


def _stochastic(
    suite: Suite, entry: StochasticEntry | None, subject: Computation, *path: str | int
) -> Stochastic | None:
    return None if entry is None else read_stochastic(suite.source, entry, subject.kind, *path)


def _requirements(given: tuple[str, ...], point: RecordedPoint, dtype: ReferenceDtype | None) -> tuple[str, ...]:
    """Return the requirements of a case: from its suite, and from the kinds of its computations."""
    computations = [each for each in (point.subject, point.oracle, point.benchmark) if each is not None]
    needed = (requirement for each in computations for requirement in requirements_of(each))
    numbers = ("mpmath",) if dtype is not None and dtype.name == "mpmath" else ()
    return tuple(dict.fromkeys((*given, *needed, *numbers)))


def _default_seeds(inputs: Arguments) -> int:
    # Without a random input every seed would repeat the first one, and count as a sample that it is not.
    return DEFAULT_SEEDS if any(map(is_drawn, inputs.values())) else 1


def _require_distinct(suite: Suite, cases: list[Case]) -> None:
    """Require that cases differ in their names and their computations."""
    # A parameter of the matrix that no input, param or path references multiplies the cases and changes none.
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


def _free_layers(suite: Suite, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return layers of tolerances in which only bounds that name the outputs of a model's layers apply to these."""
    subject = suite.file.subject
    if not isinstance(subject, dict):
        return layers
    if "monitor" in subject:
        return free_monitored_layers(layers, suite.source.where("subject", "monitor"))
    if "quantization" in subject:
        return free_monitored_layers(layers, suite.source.where("subject", "quantization"), QUANTIZED_OUTPUTS)
    if "training" in subject:
        return free_monitored_layers(layers, suite.source.where("subject", "training"), TRAINING_OUTPUTS)
    return layers


def _apply_overrides(suite: Suite, cases: list[Case], *, is_part: bool) -> list[Case]:
    """Apply the entries of `cases:` in order. Later entries win; tags and layers accumulate.

    An entry must match a case, unless these are a part of the suite's cases.
    """
    entries = suite.file.cases
    matching = [_matching_names(cases, entry) for entry in entries]
    for index, names in enumerate(matching):
        if not names and not is_part:
            raise _no_case_matches(suite, cases, index, entries[index])

    # Cases with the same matching entries share one tuple of layers. Many cases have few combinations of entries, and
    # later steps cache by the identity of layers.
    @cache
    def layers(indices: tuple[int, ...]) -> tuple[Layer, ...]:
        found = (*suite.layers, *(layer for index in indices for layer in _read_case_layers(suite, index)))
        return _free_layers(suite, found)

    def override(case: Case) -> Case:
        indices = tuple(index for index, names in enumerate(matching) if case.name in names)
        for index in indices:
            case = _apply_entry(case, entries[index])
            samples = _stochastic(suite, entries[index].stochastic, case.subject, "cases", index, "stochastic")
            case = case if samples is None else replace(case, stochastic=samples)
        return replace(case, layers=layers(indices)) if indices else case

    return [override(case) for case in cases]


def _matching_names(cases: list[Case], entry: CaseEntry) -> set[str]:
    # Most entries name one case.
    if WILDCARDS_OF_PATTERN.isdisjoint(entry.match):
        return {case.name for case in cases if case.name == entry.match}
    return {case.name for case in cases if fits_pattern(case.name, entry.match)}


def _no_case_matches(suite: Suite, cases: list[Case], index: int, entry: CaseEntry) -> UserError:
    known = [case.name for case in cases]
    message = f"expected a pattern on the names of cases but got match={entry.match}, which matches none"
    listed = list_names(known, nearest(entry.match, known))
    return suite.source.error("unknown-case", message + listed, "cases", index, "match")


def _read_case_layers(suite: Suite, index: int) -> list[Layer]:
    path = ("cases", index, "tolerance")
    layers = list(read_layers("case", suite.source, path, suite.file.cases[index].tolerance))
    if suite.file.table is None:
        require_analyzers(layers, suite.file.analyzers)
    else:
        require_recorded(suite.source, suite.file.table, layers)
        return [*with_own_figures_off(suite.file.table, layers)]
    return layers


def _apply_entry(case: Case, entry: CaseEntry) -> Case:
    return replace(
        case,
        tags=(*case.tags, *(tag for tag in entry.tags if tag not in case.tags)),
        seeds=entry.seeds or case.seeds,
        timeout_s=entry.timeout or case.timeout_s,
        deterministic=case.deterministic if entry.deterministic is None else entry.deterministic,
        expect_failure=None if entry.expect == "pass" else entry.reason or case.expect_failure,
    )


def _assign_baselines(suite: Suite, project: Path, cases: list[Case]) -> list[Case]:
    """Give each case the baseline of the case that `baseline_of` selects by parameters; without that key, its own."""
    wanted = suite.file.baseline_of
    expect_mapping(suite.source, wanted, "baseline_of")
    for name in wanted:
        if name not in cases[0].parameters:
            known = list(cases[0].parameters)
            message = (
                f"expected a parameter of the matrix but got {name}={format_value(wanted[name])}{nearest(name, known)}"
            )
            raise suite.source.error("unknown-key", message, "baseline_of", name, hint=key_hint(name, known))
    if not wanted:
        return cases
    by_name = {case.name: case for case in cases}
    return [_assign_baseline(suite, project, case, by_name) for case in cases]


def _assign_baseline(suite: Suite, project: Path, case: Case, by_name: dict[str, Case]) -> Case:
    parameters = {**case.parameters, **suite.file.baseline_of}
    name = case_name(parameters)
    if name in by_name:
        other = by_name[name]
    elif suite.file.files:  # the recorded files of an old version may be deleted; its baseline remains
        other = _make_case(suite, accepted_point(suite, project, parameters), {}, {})
    else:
        message = f"expected a case of this suite but got baseline_of={name} for {case.name}"
        listed = list_names(by_name, nearest(name, by_name))
        raise suite.source.error("unknown-case", message + listed, "baseline_of")
    return replace(case, baseline_id=other.id, baseline_definition=other.definition)
