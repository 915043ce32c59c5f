"""The inputs and params of each row: `$name` replaced, inputs checked, and equal ones shared between cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from precreg.storage.yaml_source import expect_mapping
from precreg.suite.computations import existing_file
from precreg.suite.inputs.options import File
from precreg.suite.inputs.spec import parse, picked
from precreg.suite.load import Suite
from precreg.suite.matrix import Parameters
from precreg.suite.references import flattened, names_in, require_known, substitute

Arguments = dict[str, Any]


def filler(suite: Suite, project: Path, parameters: list[str]) -> Callable[[Parameters], tuple[Arguments, Arguments]]:
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
    params = flattened(source, file.params, parameters)
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
    names = sorted({name for name, _ in names_in(template)})
    known: dict[str, Arguments] = {}

    def fill(row: Parameters) -> Arguments:
        key = repr([row[name] for name in names])
        if key not in known:
            known[key] = finish(substitute(template, row))
        return known[key]

    return fill


def _checked(suite: Suite, project: Path, inputs: Arguments) -> Arguments:
    where = {name: suite.source.where("inputs", name) for name in inputs}
    inputs = {name: picked(name, mapping, where[name]) for name, mapping in inputs.items()}
    for name, mapping in inputs.items():
        distribution = parse(name, mapping, where[name]).distribution
        if isinstance(distribution, File):
            existing_file(suite.source, ("inputs", name, "file"), distribution.path, suite.directory, project)
    return inputs
