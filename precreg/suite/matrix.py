"""The points at which a suite runs: the product of the matrix, less `exclude`, plus `include`; and their names."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod
from typing import Any

from precreg.arithmetic.formats import DTYPE_NAMES
from precreg.errors import nearest
from precreg.storage.yaml_source import Source, expect_mapping, shown

Parameters = dict[str, Any]


MAX_ROWS = 100_000
"""A matrix beyond this is a mistake, and would fill the memory before anything is selected."""


def rows(source: Source, matrix: Any) -> list[Parameters]:
    """Return the rows in order of the matrix, included ones last; one empty row where there is no matrix.

    Raises UserError: bad-value, missing-key, unknown-key, unknown-dtype, empty-matrix.
    """
    expect_mapping(source, matrix, "matrix")
    values = {name: value for name, value in matrix.items() if name not in ("include", "exclude")}
    for name, choices in values.items():
        _check_choices(source, name, choices)
    included = _entries(source, matrix, "include")
    parameters = list(values or (included[0] if included else {}))
    for index, row in enumerate(included):
        _check_row(source, row, parameters, index)
    excluded = _entries(source, matrix, "exclude")
    made = _product(source, values) if values or not included else []
    kept = [row for row in made if not any(_matches(row, entry) for entry in excluded)]
    _check_exclusions(source, excluded, parameters, made)
    if not kept and not included:
        raise source.error(
            "empty-matrix", f"expected at least one combination but exclude removes all {len(made)}", "matrix"
        )
    return kept + [{name: row[name] for name in parameters} for row in included]


def case_name(row: Parameters) -> str:
    """Name a case by its parameters: dtype, shape, then the others in order; "default" without any."""
    first = [name for name in ("dtype", "shape") if name in row]
    others = [name for name in row if name not in first]
    return "-".join(_written(name, row[name]) for name in first + others) or "default"


def _written(name: str, value: Any) -> str:
    if isinstance(value, list):
        sizes = "x".join(_bare(item) for item in value) or "scalar"
        return sizes if name == "shape" else f"{name}={sizes}"
    return _bare(value) if isinstance(value, str | bool) else f"{name}={_bare(value)}"


def _bare(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value if isinstance(value, str) else repr(value)


def _product(source: Source, values: dict[str, list[Any]]) -> list[Parameters]:
    count = prod(len(choices) for choices in values.values())
    if count > MAX_ROWS:
        message = f"expected at most {MAX_ROWS} combinations but got {count}; split the suite"
        raise source.error("bad-value", message, "matrix")
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def _matches(row: Parameters, entry: Parameters) -> bool:
    return all(name in row and row[name] == value for name, value in entry.items())


def _check_choices(source: Source, name: str, choices: Any) -> None:
    if not isinstance(choices, list):
        raise source.error("bad-value", f"expected a list of values but got {name}={shown(choices)}", "matrix", name)
    if not choices:
        raise source.error("empty-matrix", f"expected at least one value but got {name}=[]", "matrix", name)
    for index, value in enumerate(choices):
        _check_value(source, name, value, "matrix", name, index)


def _check_value(source: Source, name: str, value: Any, *path: str | int) -> None:
    if name == "dtype" and value not in DTYPE_NAMES:
        message = f"expected the name of a dtype but got dtype={shown(value)}{nearest(str(value), DTYPE_NAMES)}"
        raise source.error("unknown-dtype", message, *path)
    items: Iterable[Any] = value if isinstance(value, list) else [value]
    if not all(_is_scalar(item) for item in items):
        message = (
            f"expected text without $, a number, true, false, null, or a list of these but got {name}={shown(value)}"
        )
        raise source.error("bad-value", message, *path)


def _is_scalar(value: Any) -> bool:
    """Admit what can stand in a case's name; a $reference to another parameter would make circles."""
    if isinstance(value, str):
        return bool(value.strip()) and value.isprintable() and not value.startswith("$")
    return value is None or isinstance(value, bool | int | float)


def _entries(source: Source, matrix: dict[str, Any], key: str) -> list[Parameters]:
    entries = matrix.get(key, [])
    if not isinstance(entries, list):
        raise source.error("bad-value", f"expected a list of mappings but got {key}={shown(entries)}", "matrix", key)
    for index, entry in enumerate(entries):
        expect_mapping(source, entry, "matrix", key, index)
        if not entry:
            raise source.error(
                "bad-value", f"expected a mapping of parameters but got {key}={{}}", "matrix", key, index
            )
    return entries


def _check_row(source: Source, row: Parameters, parameters: list[str], index: int) -> None:
    _check_names(source, row, parameters, "include", index)
    for name in parameters:
        if name not in row:
            message = f"expected a value of every parameter but {name} is missing in include={shown(row)}"
            raise source.error("missing-key", message, "matrix", "include", index)
        _check_value(source, name, row[name], "matrix", "include", index, name)


def _check_names(source: Source, row: Parameters, parameters: list[str], key: str, index: int) -> None:
    for name, value in row.items():
        if name not in parameters:
            message = (
                f"expected one of {', '.join(parameters)} but got {name}={shown(value)}{nearest(name, parameters)}"
            )
            raise source.error("unknown-key", message, "matrix", key, index, name)


def _check_exclusions(
    source: Source, excluded: list[Parameters], parameters: list[str], made: list[Parameters]
) -> None:
    for index, entry in enumerate(excluded):
        _check_names(source, entry, parameters, "exclude", index)
        if not any(_matches(row, entry) for row in made):
            message = f"expected to remove at least one combination but got exclude={shown(entry)}, which matches none"
            raise source.error("bad-value", message, "matrix", "exclude", index)
