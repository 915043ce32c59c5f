"""Which rows does the matrix of a suite have, and do `$name` and `study:` refer to its parameters?

The rows are the product of the matrix, without the rows of `exclude`, plus the rows of `include`. `$name` in inputs and
params stands for a parameter of the matrix or a key of params.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import EXAMPLES, key_hint, name_hint, nearest
from precreg.measure import relative_errors
from precreg.storage import KeyPath, Source, expect_mapping, format_value
from precreg.suite.files import GrowthEntry, NoteEntry, TradeOffEntry
from precreg.suite.load import Suite
from precreg.types import Growth, Note, Study, TradeOff

Parameters = dict[str, Any]

# A larger matrix is a mistake, such as a range in place of a list. It would fill the memory before any selection.
MAX_ROWS = 100_000

# The parameter of a study counts operations of a case that runs. A larger number is a mistake, such as a shape or seed.
MAX_OPERATIONS = 10**9


def reference_names(value: Any, path: KeyPath = ()) -> Iterator[tuple[str, KeyPath]]:
    """Yield every name after a $ inside a value, with its path."""
    if isinstance(value, str) and value.startswith("$"):
        yield value[1:], path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from reference_names(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from reference_names(item, (*path, index))


def substitute(value: Any, known: dict[str, Any]) -> Any:
    """Return the value with every known `$name` replaced. Unknown names stay as they are."""
    if isinstance(value, str):
        return known.get(value[1:], value) if value.startswith("$") else value
    if isinstance(value, dict):
        return {key: substitute(item, known) for key, item in value.items()}
    return [substitute(item, known) for item in value] if isinstance(value, list) else value


def require_known(source: Source, value: Any, known: Collection[str], *path: str | int) -> None:
    """Raise UserError (unknown-reference) if the value at a path references an unknown name."""
    for name, place in reference_names(value, path):
        if name not in known:
            message = f"expected a matrix parameter or a key of params but got {place[-1]}=${name}"
            hint = name_hint(name, known, f"{place[-1]}: $")
            raise source.error("unknown-reference", message + nearest(name, known), *place, hint=hint)


def resolve_params(source: Source, params: dict[str, Any], parameters: Collection[str]) -> dict[str, Any]:
    """Return params with every reference to another key of params replaced. Raises UserError (cyclic-reference).

    References to parameters of the matrix stay. A matrix parameter hides a key of params with the same name.
    """
    graph = {
        key: {name for name, _ in reference_names(value) if name in params and name not in parameters}
        for key, value in params.items()
    }
    # The params of most suites name no others.
    if not any(graph.values()):
        return {key: substitute(value, {}) for key, value in params.items()}
    from graphlib import CycleError, TopologicalSorter

    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = list(reversed(error.args[1]))  # graphlib lists the users after the used; authors read the other way
        message = f"expected params without a circle but got {' -> '.join(f'{key}' for key in circle)}"
        raise source.error("cyclic-reference", message, "params", circle[0]) from None
    flat: dict[str, Any] = {}
    for key in order:
        flat[key] = substitute(params[key], {name: flat[name] for name in graph[key]})
    return {key: flat[key] for key in params}  # in the order of the file and not of the sort


def read_ranges(
    source: Source, ranges: Any, known: Parameters, inputs: Collection[str]
) -> dict[str, tuple[float, ...]]:
    """Return `ranges:` of a suite for one row, whose parameters and params are `known`.

    Raises UserError: bad-value, unknown-key for a name that is not an input, unknown-reference.
    """
    expect_mapping(source, ranges, "ranges")
    require_known(source, ranges, known, "ranges")
    found = {}
    for name, ends in substitute(ranges, known).items():
        if name not in inputs:
            message = f"expected the range of an input but got ranges={name}{nearest(str(name), inputs)}"
            raise source.error("unknown-key", message, "ranges", name, hint=key_hint(str(name), inputs))
        numbers = ends if isinstance(ends, list) else []
        has_nan = len(numbers) == 3 and numbers[2] != numbers[2]
        is_range = (len(numbers) == 2 or has_nan) and all(type(end) in (int, float) for end in numbers)
        if not (is_range and numbers[0] <= numbers[1]):
            message = f"expected [LOW, HIGH], or [LOW, HIGH, .nan] if NaN is valid, but got {name}={format_value(ends)}"
            raise source.error(
                "bad-value", message, "ranges", name, hint=f"write the smallest and the largest value: {name}: [-1, 1]"
            )
        found[name] = tuple(map(float, numbers))
    return found


def matrix_rows(source: Source, matrix: Any) -> list[Parameters]:
    """Return the rows in the order of the matrix, with the rows of `include` last. No matrix gives one empty row.

    Raises UserError: bad-value, missing-key, unknown-key, unknown-dtype, empty-matrix.
    """
    expect_mapping(source, matrix, "matrix")
    values = {name: value for name, value in matrix.items() if name not in ("include", "exclude")}
    for name, choices in values.items():
        _check_choices(source, name, choices)
    included = _read_entries(source, matrix, "include")
    # A matrix may consist of `include` alone. Then its first row defines the parameters.
    parameters = list(values or (included[0] if included else {}))
    for index, row in enumerate(included):
        _check_row(source, row, parameters, index)
    excluded = _read_entries(source, matrix, "exclude")
    made = _expand_product(source, values) if values or not included else []
    kept = [row for row in made if not any(_matches(row, entry) for entry in excluded)]
    # An exclusion without effect is a slip of the keyboard, and the author believes that the rows are gone.
    _check_exclusions(source, excluded, parameters, made)
    if not kept and not included:
        raise source.error(
            "empty-matrix", f"expected at least one combination but exclude removes all {len(made)}", "matrix"
        )
    return kept + [{name: row[name] for name in parameters} for row in included]


def case_name(row: Parameters) -> str:
    """Return the name of a case: its dtype, shape and other parameters in order, or "default" without parameters."""
    # Texts, bools and shapes explain themselves. Numbers need the name of their parameter: `n=8`.
    first = [name for name in ("dtype", "shape") if name in row]
    others = [name for name in row if name not in first]
    return "-".join(_format_parameter(name, row[name]) for name in first + others) or "default"


def _format_parameter(name: str, value: Any) -> str:
    if isinstance(value, list):
        sizes = "x".join(_format_scalar(item) for item in value) or "scalar"
        return sizes if name == "shape" else f"{name}={sizes}"
    return _format_scalar(value) if isinstance(value, str | bool) else f"{name}={_format_scalar(value)}"


def _format_scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value if isinstance(value, str) else repr(value)


def _expand_product(source: Source, values: dict[str, list[Any]]) -> list[Parameters]:
    # The count is known before the product is made.
    count = prod(len(choices) for choices in values.values())
    if count > MAX_ROWS:
        message = f"expected at most {MAX_ROWS} combinations but got {count}"
        raise source.error(
            "bad-value",
            message,
            "matrix",
            hint="split the suite, or name the combinations: matrix: {include: [{dtype: float16, size: 8}]}",
        )
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def _matches(row: Parameters, entry: Parameters) -> bool:
    return all(name in row and row[name] == value for name, value in entry.items())


def _check_choices(source: Source, name: str, choices: Any) -> None:
    if not isinstance(choices, list):
        raise source.error(
            "bad-value",
            f"expected a list of values but got {name}={format_value(choices)}",
            "matrix",
            name,
            hint=f"write a list: {name}: [{format_value(choices)}]",
        )
    if not choices:
        raise source.error("empty-matrix", f"expected at least one value but got {name}=[]", "matrix", name)
    for index, value in enumerate(choices):
        _check_value(source, name, value, "matrix", name, index)


def _check_value(source: Source, name: str, value: Any, *path: str | int) -> None:
    if name == "dtype" and value not in DTYPE_NAMES:
        message = f"expected the name of a dtype but got dtype={format_value(value)}{nearest(str(value), DTYPE_NAMES)}"
        raise source.error("unknown-dtype", message, *path, hint=name_hint(str(value), DTYPE_NAMES))
    items: Iterable[Any] = value if isinstance(value, list) else [value]
    if not all(_is_scalar(item) for item in items):
        expected = "text without $, a number, true, false, null, or a list of these"
        message = f"expected {expected} but got {name}={format_value(value)}"
        raise source.error("bad-value", message, *path, hint=f"write plain values: {EXAMPLES['matrix']}")


def _is_scalar(value: Any) -> bool:
    """Return True for a value that a case's name can contain."""
    # A $reference to another parameter could make a cycle. Control characters would reach the terminal.
    if isinstance(value, str):
        return bool(value.strip()) and value.isprintable() and not value.startswith("$")
    return value is None or isinstance(value, bool | int | float)


def _read_entries(source: Source, matrix: dict[str, Any], key: str) -> list[Parameters]:
    entries = matrix.get(key, [])
    if not isinstance(entries, list):
        raise source.error(
            "bad-value",
            f"expected a list of mappings but got {key}={format_value(entries)}",
            "matrix",
            key,
            hint=f"write a list of combinations: {EXAMPLES[key]}",
        )
    for index, entry in enumerate(entries):
        expect_mapping(source, entry, "matrix", key, index)
        if not entry:
            raise source.error(
                "bad-value",
                f"expected a mapping of parameters but got {key}={{}}",
                "matrix",
                key,
                index,
                hint=f"name the parameters of the combination: {EXAMPLES[key]}",
            )
    return entries


def _check_row(source: Source, row: Parameters, parameters: list[str], index: int) -> None:
    _check_names(source, row, parameters, "include", index)
    for name in parameters:
        if name not in row:
            message = f"expected a value of every parameter but {name} is missing in include={format_value(row)}"
            raise source.error(
                "missing-key", message, "matrix", "include", index, hint=f"add a value of {name}: to the entry"
            )
        _check_value(source, name, row[name], "matrix", "include", index, name)


def _check_names(source: Source, row: Parameters, parameters: list[str], key: str, index: int) -> None:
    for name, value in row.items():
        if name not in parameters:
            came = f"{name}={format_value(value)}{nearest(name, parameters)}"
            message = f"expected one of {', '.join(parameters)} but got {came}"
            raise source.error("unknown-key", message, "matrix", key, index, name, hint=key_hint(name, parameters))


def _check_exclusions(
    source: Source, excluded: list[Parameters], parameters: list[str], made: list[Parameters]
) -> None:
    for index, entry in enumerate(excluded):
        _check_names(source, entry, parameters, "exclude", index)
        if not any(_matches(row, entry) for row in made):
            message = (
                f"expected to remove at least one combination but got exclude={format_value(entry)}, which matches none"
            )
            raise source.error(
                "bad-value",
                message,
                "matrix",
                "exclude",
                index,
                hint="remove the entry, or correct its values: each must be a value of the matrix",
            )


def read_study(suite: Suite, points: Sequence[Parameters]) -> Study | None:
    """Return the study of a suite, checked with the rows of its matrix; None without `study:`.

    Raises UserError: bad-study, bad-value, missing-key, unknown-key.
    """
    entry, source = suite.file.study, suite.source
    if entry is None:
        return None
    if entry.growth is None and entry.trade_off is None:
        raise source.error("bad-study", "expected growth: or trade_off: but neither is there", "study")
    growth = None if entry.growth is None else _read_growth(source, entry.growth, points)
    return Study(
        suite.id, growth, None if entry.trade_off is None else _read_trade_off(source, entry.trade_off, points)
    )


def _read_growth(source: Source, entry: GrowthEntry, points: Sequence[Parameters]) -> Growth:
    numbers = _distinct_values(source, entry.over, points, "growth")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_OPERATIONS:
            counts = f"counts operations, from 1 to {MAX_OPERATIONS},"
            message = f"expected a parameter that {counts} but got {entry.over}={format_value(number)}"
            raise source.error("bad-study", message, "study", "growth", "over")
    if len(numbers) < 2:
        message = f"expected two numbers of operations or more but got {entry.over}={format_value(numbers)}"
        raise source.error("bad-study", message, "study", "growth", "over")
    if min(numbers) > entry.fit_to:
        message = f"expected a case of at most fit_to={entry.fit_to} operations but the least is {min(numbers)}"
        raise source.error("bad-study", message, "study", "growth", "fit_to")
    names = relative_errors()
    if entry.metric not in names:
        known = ", ".join(names)
        message = f"expected a relative error, one of {known} but got metric={entry.metric}"
        raise source.error("bad-study", message + nearest(entry.metric, names), "study", "growth", "metric")
    return Growth(entry.over, entry.metric, entry.fit_to)


def _read_trade_off(source: Source, entry: TradeOffEntry, points: Sequence[Parameters]) -> TradeOff:
    values = _distinct_values(source, entry.over, points, "trade_off")
    for value in values:
        if not isinstance(value, str):
            message = f"expected a parameter whose values are text but got {entry.over}={format_value(value)}"
            raise source.error("bad-study", message, "study", "trade_off", "over")
    _require_value(source, entry.over, entry.plain, values, "plain")
    return TradeOff(entry.over, entry.plain, _read_notes(source, entry, values))


def _read_notes(source: Source, entry: TradeOffEntry, values: Sequence[str]) -> dict[str, Note]:
    expect_mapping(source, entry.notes, "study", "trade_off", "notes")
    known = NoteEntry.__struct_fields__
    for value, note in entry.notes.items():
        path = ("study", "trade_off", "notes", value)
        _require_value(source, entry.over, value, values, "notes", value)
        expect_mapping(source, note, *path)
        for key, text in note.items():
            if key not in known:
                message = f"expected one of {', '.join(known)} but got {key}={format_value(text)}{nearest(key, known)}"
                raise source.error("unknown-key", message, *path, key, hint=key_hint(key, known))
            if not isinstance(text, str):
                raise source.error(
                    "bad-value",
                    f"expected text but got {key}={format_value(text)}",
                    *path,
                    key,
                    hint=f"write text, in quotes if it looks like a number: {key}: '{text}'",
                )
    return {value: Note(**note) for value, note in entry.notes.items()}


def _distinct_values(source: Source, over: str, points: Sequence[Parameters], kind: str) -> list[Any]:
    """Return the different values of a parameter of the matrix in their order."""
    known = list(points[0])
    if over not in known:
        message = f"expected a parameter of the matrix but got over={over}{nearest(over, known)}"
        raise source.error("bad-study", message, "study", kind, "over")
    values: list[Any] = []  # no set: lists cannot be in one, and 1, 1.0 and True would be one value
    for point in points:
        if not any(value == point[over] and type(value) is type(point[over]) for value in values):
            values.append(point[over])
    return values


def _require_value(source: Source, over: str, value: str, values: Sequence[str], *path: str) -> None:
    if value not in values:
        message = f"expected a value of {over}, one of {', '.join(values)}, but got {path[0]}={format_value(value)}"
        raise source.error("bad-study", message + nearest(value, values), "study", "trade_off", *path)
