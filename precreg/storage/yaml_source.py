"""How is YAML read as plain data with the line of every key?

Values are YAML 1.2 core scalars. Tags that run code, merge keys and duplicate keys are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isinf
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from precreg.errors import UserError, example_hint
from precreg.storage.file_trail import note_path
from precreg.storage.files import CONFLICT_MARKER, read_regular_file
from precreg.types import Location

# No suite that a person writes comes near this; it limits the time and memory that a hostile file can take.
MAX_BYTES = 4 << 20
# More values than this come from aliases of aliases ("a billion laughs"), not from a person.
MAX_VALUES = 100_000
# Deeper nesting is not a suite, and `_Builder.value` recurses twice a level.
MAX_DEPTH = 32
KeyPath = tuple[str | int, ...]
# CSafeLoader is libyaml, written in C and faster than PyYAML's own scanner, but not in every build of PyYAML.
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE_TAGS = {f"tag:yaml.org,2002:{name}": name for name in ("str", "int", "float", "bool", "null", "map", "seq")}
# Only the words of YAML 1.2: YAML 1.1 also reads `off`, `no` and `y` as booleans.
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
# 400 digits cover every float64 that is written out. Python refuses to write a number of more than 4,300 in a message.
_MAX_DIGITS = 400
# YAML 1.1 requires a point and a signed exponent, so that 1e-3 would be text.
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TYPES: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}


class Source(Struct, frozen=True):
    """Hold the plain data of a YAML file, and the line of each key or list item by its path from the root."""

    file: str
    data: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def where(self, *path: str | int) -> Location:
        """Return the location of a key, or of its nearest parent that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return Location(self.file, self.lines.get(path, 1))

    def error(self, slug: str, message: str, *path: str | int, hint: str = "") -> UserError:
        """Make the error for the value at a path. Without a hint, a bad value has an example of its key."""
        hint = hint or (example_hint(path) if slug == "bad-value" else "")
        return UserError(slug, message, file=self.file, line=self.where(*path).line, hint=hint)


def read_yaml(path: Path, shown: str) -> Source:
    """Read one YAML document; messages name the file as `shown`.

    Raises:
        UserError: missing-file, yaml-syntax, yaml-tag, duplicate-key, bad-value.
    """
    note_path(path)
    text = _read_text(path, shown)
    builder = _Builder(shown, text)
    try:
        return Source(shown, builder.document(), builder.lines)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        line_text = "".join(text.splitlines()[line : line + 1])[:60]
        # Markers are searched only after a failure: a text may quote them.
        if conflict := CONFLICT_MARKER.search(text):
            message = f"expected YAML but got a conflict marker of a merge: {conflict[1]}"
            raise UserError(
                "yaml-syntax", message, file=shown, line=text.count("\n", 0, conflict.start()) + 1
            ) from None
        raise UserError(
            "yaml-syntax", f"expected YAML but {error.problem}: {line_text!r}", file=shown, line=line + 1
        ) from None
    except yaml.reader.ReaderError as error:
        message = f"expected printable text but got character={chr(error.character)!r}"
        raise UserError("yaml-syntax", message, file=shown, line=text.count("\n", 0, error.position) + 1) from None


def _read_text(path: Path, shown: str) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(
                "yaml-syntax", f"expected at most {MAX_BYTES} bytes but got {path.stat().st_size}", file=shown
            )
        content = read_regular_file(path)
    except (OSError, ValueError) as error:
        raise UserError("missing-file", f"expected a readable file but got: {_reason(error)}", file=shown) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"expected UTF-8 text but got byte=0x{content[error.start]:02x}"
        raise UserError("yaml-syntax", message, file=shown, line=line) from None


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


class _Anchor(Struct, frozen=True):
    """Hold a value that aliases repeat, and the number of values inside it."""

    value: Any
    size: int


class _Builder:
    """Make plain values from the parser's events, and note the line of each."""

    # PyYAML follows YAML 1.1, where `off` is false and the last of two equal keys wins. Its composer also recurses in
    # C without a limit: 100,000 brackets end the process. So PyYAML serves up to its events, and values are made here.

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self.events = iter(yaml.parse(text, Loader=_PARSER))
        self.anchors: dict[str, _Anchor] = {}
        self.count = 0

    def document(self) -> Any:
        """Return the value of the only document; None for an empty file."""
        next(self.events)
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self.value(next(self.events), ())
        next(self.events)
        extra = next(self.events)
        if not isinstance(extra, yaml.StreamEndEvent):
            raise self.error("yaml-syntax", "expected one document but got a second one", extra)
        return value

    def value(self, event: Any, path: KeyPath) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self.repeated(event)
        before = self.count
        self.grow(1, event)
        if len(path) > MAX_DEPTH:
            raise self.error("yaml-syntax", f"expected at most {MAX_DEPTH} levels but the nesting is deeper", event)
        kind = self.tag(event)
        if isinstance(event, yaml.ScalarEvent):
            value = self.scalar(event, kind)
        else:
            value = self.sequence(path) if isinstance(event, yaml.SequenceStartEvent) else self.mapping(path)
        if event.anchor:
            self.anchors[event.anchor] = _Anchor(value, self.count - before)
        return value

    def repeated(self, event: Any) -> Any:
        """Return the value of an alias; the anchor of an incomplete value would make a cycle."""
        if event.anchor not in self.anchors:
            raise self.error(
                "yaml-syntax", f"expected the name of a complete value above but got *{event.anchor}", event
            )
        anchor = self.anchors[event.anchor]
        # An alias shares its value, but readers traverse it again, so it counts again.
        self.grow(anchor.size, event)
        return anchor.value

    def grow(self, size: int, event: Any) -> None:
        self.count += size
        if self.count > MAX_VALUES:
            raise self.error(
                "yaml-syntax", f"expected at most {MAX_VALUES} values but aliases or lists make more", event
            )

    def until(self, end: type[yaml.Event]) -> Iterator[Any]:
        """Yield the first event of each item or key up to `end`; the caller consumes the events in between."""
        while not isinstance(event := next(self.events), end):
            yield event

    def sequence(self, path: KeyPath) -> list[Any]:
        values: list[Any] = []
        for event in self.until(yaml.SequenceEndEvent):
            here = (*path, len(values))
            self.lines[here] = _line(event)
            values.append(self.value(event, here))
        return values

    def mapping(self, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for event in self.until(yaml.MappingEndEvent):
            here = (*path, self.key(event))
            if here[-1] in values:
                message = f"expected key={event.value} once but line {self.lines[here]} has it too"
                raise self.error("duplicate-key", message, event)
            self.lines[here] = _line(event)
            values[event.value] = self.value(next(self.events), here)
        return values

    def key(self, event: Any) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise self.error("yaml-syntax", "expected text as key but got a list, a mapping or an alias", event)
        if event.value == "<<":
            raise self.error("yaml-syntax", "expected no merge key but got <<; write the keys out", event)
        self.tag(event)
        return str(event.value)

    def tag(self, event: Any) -> str | None:
        """Return the short name of an explicit core tag; None without a tag."""
        if event.tag is None:
            return None
        if event.tag not in _CORE_TAGS:
            raise self.error("yaml-tag", f"expected plain data but got tag={event.tag}", event)
        return _CORE_TAGS[event.tag]

    def scalar(self, event: Any, kind: str | None) -> Any:
        if kind == "str" or (kind is None and not event.implicit[0]):
            return event.value
        try:
            value = _scalar(event.value)
        except OverflowError:
            raise self.error(
                "bad-value",
                f"expected a number within float64 but got {event.value[:40]}",
                event,
                hint="write a number that float64 has, such as 1e300, or .inf",
            ) from None
        if kind and not isinstance(value, _TYPES[kind]):
            raise self.error(
                "bad-value",
                f"expected !!{kind} but got {event.value[:40]!r}",
                event,
                hint=f"remove !!{kind}, or write such a value",
            )
        return value

    def error(self, slug: str, message: str, event: Any, hint: str = "") -> UserError:
        return UserError(slug, message, file=self.file, line=_line(event), hint=hint)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _scalar(text: str) -> Any:
    """Return the value of a plain scalar by the core schema of YAML 1.2 (yaml.org/spec/1.2.2, 10.3.2).

    Raises OverflowError for a number outside float64, such as 1e999, and for an integer of over 400 digits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise OverflowError(text)
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if _NOT_FINITE.fullmatch(text):
        return float(text.lower().replace(".", ""))
    if not _FLOAT.fullmatch(text):
        return text
    value = float(text)
    if isinf(value):
        raise OverflowError(text)
    return value


def format_value(value: Any) -> str:
    """Write a value in YAML's flow style, at most 60 characters, for messages."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def format_typed_value(value: Any) -> str:
    """Write a value as `format_value` does, but in quotes a text that YAML would read as another type."""
    # Without its quotes, the text "3" looks like the number that was expected.
    try:
        is_text = not isinstance(value, str) or isinstance(_scalar(value), str)
    except OverflowError:
        is_text = False
    return format_value(value if is_text else json.dumps(value))


def expect_mapping(source: Source, value: Any, *path: str | int) -> None:
    """Check that the value at a path is a mapping.

    Raises:
        UserError: bad-value.
    """
    if not isinstance(value, dict):
        name = path[-1] if path else "file"
        raise source.error("bad-value", f"expected a mapping but got {name}={format_value(value)}", *path)
