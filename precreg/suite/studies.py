"""`study:` of a suite, checked against the points at which the suite runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from precreg.errors import nearest
from precreg.storage.yaml_source import Source, expect_mapping, shown
from precreg.suite.files import GrowthEntry, NoteEntry, TradeOffEntry
from precreg.suite.load import Suite
from precreg.suite.matrix import Parameters
from precreg.types.study import RELATIVE_ERRORS, Growth, Note, Study, TradeOff

MOST_OPERATIONS = 10**9


def read_study(suite: Suite, points: Sequence[Parameters]) -> Study | None:
    """Return what a suite's results are to be read for together; None where it does not say.

    Raises UserError: bad-study; bad-value, missing-key and unknown-key as every key of a suite does.
    """
    entry, source = suite.file.study, suite.source
    if entry is None:
        return None
    if entry.growth is None and entry.trade_off is None:
        raise source.error("bad-study", "expected growth: or trade_off: but neither is there", "study")
    growth = None if entry.growth is None else _growth(source, entry.growth, points)
    return Study(suite.id, growth, None if entry.trade_off is None else _trade_off(source, entry.trade_off, points))


def _growth(source: Source, entry: GrowthEntry, points: Sequence[Parameters]) -> Growth:
    numbers = _values(source, entry.over, points, "growth")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_OPERATIONS:
            counts = f"counts operations, from 1 to {MOST_OPERATIONS},"
            message = f"expected a parameter that {counts} but got {entry.over}={shown(number)}"
            raise source.error("bad-study", message, "study", "growth", "over")
    if len(numbers) < 2:
        message = f"expected two numbers of operations or more but got {entry.over}={shown(numbers)}"
        raise source.error("bad-study", message, "study", "growth", "over")
    if min(numbers) > entry.fit_to:
        message = f"expected a case of at most fit_to={entry.fit_to} operations but the least is {min(numbers)}"
        raise source.error("bad-study", message, "study", "growth", "fit_to")
    if entry.metric not in RELATIVE_ERRORS:
        known = ", ".join(RELATIVE_ERRORS)
        message = f"expected a relative error, one of {known} but got metric={entry.metric}"
        raise source.error("bad-study", message + nearest(entry.metric, RELATIVE_ERRORS), "study", "growth", "metric")
    return Growth(entry.over, entry.metric, entry.fit_to)


def _trade_off(source: Source, entry: TradeOffEntry, points: Sequence[Parameters]) -> TradeOff:
    values = _values(source, entry.over, points, "trade_off")
    for value in values:
        if not isinstance(value, str):
            message = f"expected a parameter whose values are text but got {entry.over}={shown(value)}"
            raise source.error("bad-study", message, "study", "trade_off", "over")
    _require_value(source, entry.over, entry.plain, values, "plain")
    return TradeOff(entry.over, entry.plain, _notes(source, entry, values))


def _notes(source: Source, entry: TradeOffEntry, values: Sequence[str]) -> dict[str, Note]:
    expect_mapping(source, entry.notes, "study", "trade_off", "notes")
    known = NoteEntry.__struct_fields__
    for value, note in entry.notes.items():
        path = ("study", "trade_off", "notes", value)
        _require_value(source, entry.over, value, values, "notes", value)
        expect_mapping(source, note, *path)
        for key, text in note.items():
            if key not in known:
                message = f"expected one of {', '.join(known)} but got {key}={shown(text)}{nearest(key, known)}"
                raise source.error("unknown-key", message, *path, key)
            if not isinstance(text, str):
                raise source.error("bad-value", f"expected text but got {key}={shown(text)}", *path, key)
    return {value: Note(**note) for value, note in entry.notes.items()}


def _values(source: Source, over: str, points: Sequence[Parameters], kind: str) -> list[Any]:
    """Return the values of a parameter of the matrix in their order."""
    known = list(points[0])
    if over not in known:
        message = f"expected a parameter of the matrix but got over={over}{nearest(over, known)}"
        raise source.error("bad-study", message, "study", kind, "over")
    values: list[Any] = []
    for point in points:
        if not any(value == point[over] and type(value) is type(point[over]) for value in values):
            values.append(point[over])
    return values


def _require_value(source: Source, over: str, value: str, values: Sequence[str], *path: str) -> None:
    if value not in values:
        message = f"expected a value of {over}, one of {', '.join(values)}, but got {path[0]}={shown(value)}"
        raise source.error("bad-study", message + nearest(value, values), "study", "trade_off", *path)
