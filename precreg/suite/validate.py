"""From plain data to structs, with every mistake a UserError: file, line, what was expected, and what came."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields

from precreg.errors import UserError, nearest
from precreg.storage.yaml_source import KeyPath, Source, shown
from precreg.suite.files import BudgetEntry, CaseEntry, FilesEntry, GrowthEntry, StudyEntry, TradeOffEntry

T = TypeVar("T")


_NESTED: dict[tuple[str, ...], type] = {
    ("files",): FilesEntry,
    ("budget",): BudgetEntry,
    ("cases",): CaseEntry,
    ("study",): StudyEntry,
    ("study", "growth"): GrowthEntry,
    ("study", "trade_off"): TradeOffEntry,
}
"""What stands below keys of a suite, by their path without the places in lists."""

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}

_UNKNOWN = "Object contains unknown field `"

_MISSING = "Object missing required field `"

_AT = " - at `$"

_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")


def convert(source: Source, kind: type[T]) -> T:
    """Return the file's data as a struct. Raises UserError: unknown-key, missing-key, bad-value."""
    if source.data is None:
        raise source.error("bad-value", "expected a mapping but the file is empty")
    try:
        return msgspec.convert(source.data, kind)
    except msgspec.ValidationError as error:
        raise _translated(source, kind, str(error)) from None


def _translated(source: Source, kind: type, message: str) -> UserError:
    """Make a UserError of a message of msgspec's, such as "Expected `int`, got `str` - at `$.cases[0].seeds`"."""
    complaint, place = message.rsplit(_AT, 1) if _AT in message else (message, "")
    path = _path(place)
    if complaint.startswith(_UNKNOWN):
        key = complaint.removeprefix(_UNKNOWN).removesuffix("`")
        return _unknown_key(source, path, key, _NESTED.get(_keys(path), kind))
    if complaint.startswith(_MISSING):
        key = complaint.removeprefix(_MISSING).removesuffix("`")
        return source.error("missing-key", f"expected {key}: but the key is not there", *path)
    name = ".".join(str(step) for step in path) or "file"
    came = shown(_at(source.data, path))
    return source.error("bad-value", f"expected {_expected(complaint, path)} but got {name}={came}", *path)


def _unknown_key(source: Source, path: KeyPath, key: str, kind: type) -> UserError:
    known = [field.encode_name for field in fields(kind)]
    value = shown(_at(source.data, (*path, key)))
    message = f"expected one of {', '.join(known)} but got {key}={value}{nearest(key, known)}"
    return source.error("unknown-key", message, *path, key)


def _expected(complaint: str, path: KeyPath) -> str:
    if complaint.startswith("Invalid enum value"):
        return "fail" if len(path) == 1 else "fail or pass"
    wanted = complaint.removeprefix("Expected ").partition(", got ")[0]
    words = re.sub(
        r"`([^`]+)`", lambda match: " or ".join(_WORDS.get(part, part) for part in match[1].split(" | ")), wanted
    )
    return words.replace(" or nothing", "")


def _path(text: str) -> KeyPath:
    return tuple(match["key"] or int(match["index"]) for match in _STEP.finditer(text))


def _keys(path: KeyPath) -> tuple[str, ...]:
    return tuple(step for step in path if isinstance(step, str))


def _at(value: Any, path: KeyPath) -> Any:
    for step in path:
        value = value[step]
    return value
