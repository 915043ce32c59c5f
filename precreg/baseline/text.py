"""How are baselines and proposals written as text?

The JSON can be reviewed by a person and merged by git, line by line. A header comes first, then the cases by name: one
field a line, lists on one line, accepted values and findings one a line, and a sketch as one compact line. Floats have
the fewest digits that read back as the same bits. Rendering a parsed file gives the same bytes.

Accepted entries are rendered in two parts, as sums.py splits them. Each has a checksum of its whole content: hunks
picked from both sides of a merge conflict then have none that fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple, TypeVar

import msgspec

from precreg.baseline.sums import MIXED, UNPAIRED, Plain, split_entry
from precreg.errors import UserError
from precreg.storage import CONFLICT_MARKER, DataError, schema_age
from precreg.types import AxisSums, Histogram

_T = TypeVar("_T")
# Fields that are left out if empty, so that files from before these fields keep their bytes.
_RARE_OF_KNOWN_BAD = {"known", "bounds", "nans", "infinities"}
_RARE_OF_ENVIRONMENTS = {"processor", "seen"}
_RARE = {"described", "groups", "reach", "confirmation", "accepted", "findings"}
_RARE |= _RARE_OF_KNOWN_BAD | _RARE_OF_ENVIRONMENTS | {"oracle", "oracle_files"}
# Fields above the figures. At the end, a change would also touch the comma of a line that nobody reads.
_EARLY, _FIGURES = ("processor", "seen", "oracle", "oracle_files"), "duration_s"
# Stands above the figures, too: every change of an entry then has this line in its first hunk.
CHECKSUM = "checksum"
_CHECKSUM_DIGITS = 16


# Without the search for circles: parsed JSON and plain values of structs have none, and it takes a fifth of the time of
# encoding (2,000 entries of benchmarks/many_cases.py).
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)
_SORTED_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False)


def render_baseline(header: Mapping[str, str], cases: Mapping[str, Any], *, members: str = "cases") -> str:
    """Return the text of one file. Raises ValueError for a NaN or an infinity: undefined figures are None."""
    return _text({**header, members: dict(sorted(cases.items()))}, "\n") + "\n"


def baseline_pieces(header: Mapping[str, str], cases: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield the text that `render_baseline` gives, case by case. There is at least one, and they are sorted by name."""
    separator = _text({**header, "cases": ""}, "\n").removesuffix('""\n}') + "{"
    for name, case in cases:
        yield f"{separator}\n    {_ENCODE_TEXT(name)}: {_text(case, _CASE_INDENT)}"
        separator = ","
    yield "\n  }\n}\n"


_CASE_INDENT = "\n    "


class SplitEntry(NamedTuple):
    """Hold the two parts of an entry in plain JSON values, and the checksum that ties them."""

    checksum: str
    shown: Plain
    sums: Plain


def split_with_checksum(case: msgspec.Struct) -> SplitEntry:
    """Split an entry; the part that people review has the checksum before its figures. Raises as `render_baseline`."""
    plain = _plain(case)
    checksum = entry_checksum(plain)
    shown, sums = split_entry(plain)
    members: Plain = {}
    for name, member in shown.items():
        if name == _FIGURES:
            members[CHECKSUM] = checksum
        members[name] = member
    return SplitEntry(checksum, members, sums)


def _plain(case: msgspec.Struct) -> Plain:
    """Return the plain JSON values of the text of an entry."""
    return _plain_members(case, msgspec.to_builtins(case))


def _plain_members(case: msgspec.Struct, plain: Plain) -> Plain:
    """Return the members of a struct in the order of its text, as one call of msgspec made plain values of them all."""
    members: Plain = {}
    for name in _ordered(case.__struct_fields__):
        value = getattr(case, name)
        # msgspec leaves out the defaults of some structs.
        member = plain[name] if name in plain else msgspec.to_builtins(value)
        if member or name not in _RARE:
            members[name] = _plain_members(value, member) if isinstance(value, msgspec.Struct) else member
    return members


def entry_checksum(plain: Mapping[str, Any]) -> str:
    """Return the checksum of an entry in plain JSON values, with or without the checksum that it has.

    Empty members do not count, so that a field that a later version adds with an empty default changes no checksum.
    Raises ValueError for a NaN or an infinity.
    """
    text = _SORTED_ENCODER.encode(_without_empty({name: plain[name] for name in plain if name != CHECKSUM}))
    return sha256(text.encode()).hexdigest()[:_CHECKSUM_DIGITS]


def _without_empty(value: Mapping[str, Any]) -> Plain:
    found: Plain = {}
    for name, member in value.items():
        kind = type(member)
        if kind is dict:
            member = _without_empty(member)
        # Most lists are of numbers, and a file has thousands of them; the items of a list have one type.
        elif kind is list and member and type(member[0]) is dict:
            member = [_without_empty(item) for item in member]
        # A number is never empty.
        if member or member == 0:
            found[name] = member
    return found


class FormerSchema(NamedTuple):
    """Hold an older schema that is read as well, and the function that decodes its members."""

    schema: str
    decode: Callable[[Any], Any]


def parse_baseline(
    data: bytes,
    shown: str,
    header: Mapping[str, str],
    decode: Callable[[Any], _T],
    *,
    members: str = "cases",
    former: FormerSchema | None = None,
) -> dict[str, _T]:
    """Return the `members` of one file by name, in its order.

    Errors name the file as `shown`. The file must have exactly this `header`, schema first. `decode` makes one member
    of plain JSON values, or raises DataError. A file of the schema of `former` has another way to decode them.

    Raises:
        UserError: conflicted-baseline, mixed-baseline, unpaired-baseline, old-schema, future-schema or
            unreadable-baseline, with the line if known.
    """
    try:
        return {name: decode(member) for name, member in _rendered_members(data, header, members)}
    except (ValueError, RecursionError, DataError):
        # A file that another program wrote, or one with a mistake. The whole document shows its line.
        pass
    text = _decode_text(data, shown)
    document = _parse_document(text, shown)
    if former is not None and isinstance(document, dict) and document.get("schema") == former.schema:
        header, decode = {**header, "schema": former.schema}, former.decode
    _check_header(document, shown, header, members)
    return dict(_decode_members(document[members], text, shown, decode))


def _rendered_members(data: bytes, header: Mapping[str, str], members: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of a file in the form of `render_baseline`, one parsed at a time.

    Plain objects take ten times the memory of their text. Raises ValueError for a file in any other form.
    """
    found = _raw_members(data, header, members)
    yield from ((name, parse_finite(bytes(raw).decode())) for name, raw in found.items())


def _raw_members(data: bytes, header: Mapping[str, str], members: str) -> dict[str, msgspec.Raw]:
    begin = _text({**header, members: ""}, "\n").encode().removesuffix(b'""\n}')
    if not data.startswith(begin) or not data.endswith(_END):
        raise ValueError("another header")
    body = data[len(begin) : -len(_END)]
    found = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    # Equal bytes show that no name is there twice.
    again = (b"\n    " + _ENCODE_TEXT(name).encode() + b": " + bytes(raw) for name, raw in found.items())
    if b"{" + b",".join(again) + b"\n  }" != body:
        raise ValueError("another form")
    return found


# The end of a rendered file.
_END = b"\n}\n"


def member_names(data: bytes, shown: str, header: Mapping[str, str]) -> set[str]:
    """Return the names of the cases of one file. Raises UserError as `parse_baseline`."""
    try:
        return {*_raw_members(data, header, "cases")}
    except ValueError:
        return {*parse_baseline(data, shown, header, lambda value: value)}


def parse_lines(data: bytes, shown: str, header: Mapping[str, str], decode: Callable[[Any], _T]) -> Iterator[_T]:
    """Yield the lines of a file of JSON lines after its header, each as `decode` makes it of plain JSON values.

    Raises UserError as `parse_baseline`, with the line.
    """
    lines = _lines(_decode_text(data, shown))
    _check_header({**_object(_parse_line(next(lines), shown, 1)), "": {}}, shown, header, "")
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        try:
            yield decode(_parse_line(line, shown, number))
        except DataError as mistake:
            raise UserError("unreadable-baseline", mistake.message, file=shown, line=number) from None


def _lines(text: str) -> Iterator[str]:
    """Yield the parts between newlines one by one, because a list of them takes as much memory as the text."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parse_line(text: str, shown: str, number: int) -> Any:
    try:
        return _parse_document(text, shown)
    except UserError as problem:
        raise UserError(problem.slug, problem.message, file=shown, line=number) from problem


def _text(value: Any, newline: str) -> str:
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        value = _struct_members(value)
    elif kind is not dict:
        if kind is list and value and isinstance(value[0], _MAPPINGS):
            return _struct_a_line(value, newline)
        return _leaf(value)
    if _is_compact(value):
        return msgspec.json.encode(value).decode()
    inner = newline + "  "
    lines = []
    for key, member in value.items():
        kind = type(member)
        # Half of all members are the figures of one seed, and most others are texts.
        if kind is list and len(member) == 1 and type(member[0]) is float and isfinite(member[0]):
            lines.append(f"{inner}{_quoted(key)}: [{member[0]!r}]")
        elif kind in _ENCODE_LEAF and (kind is not float or isfinite(member)):
            lines.append(f"{inner}{_quoted(key)}: {_ENCODE_LEAF[kind](member)}")
        else:
            lines.append(f"{inner}{_quoted(key)}: {_text(member, inner)}")
    return "{" + ",".join(lines) + newline + "}"


_MAPPINGS = (msgspec.Struct, dict)


def _leaf(value: Any) -> str:
    """Return the JSON of a value without members, as `_ENCODER` does: it takes most of its time to begin a list."""
    kind = type(value)
    # A shape is a tuple.
    if (kind is list or kind is tuple) and value:
        (kind, *others) = {*map(type, value)}
        if not others and (kind is not float or all(map(isfinite, value))):
            encode = _ENCODE_LEAF.get(kind, _ENCODER.encode)
            return f"[{', '.join(map(encode, value))}]"
    elif kind is not float or isfinite(value):
        return _ENCODE_LEAF.get(kind, _ENCODER.encode)(value)
    return _ENCODER.encode(value)


# These are the functions that `_ENCODER` uses.
_ENCODE_TEXT: Callable[[str], str] = json.encoder.encode_basestring
_ENCODE_LEAF: dict[type, Callable[[Any], str]] = {
    str: _ENCODE_TEXT,
    float: float.__repr__,
    int: int.__repr__,
    type(None): lambda _: "null",
}


def _struct_members(value: msgspec.Struct) -> dict[str, Any]:
    names = _ordered(value.__struct_fields__)
    return {name: member for name in names if (member := getattr(value, name)) or name not in _RARE}


@lru_cache(maxsize=64)
def _ordered(fields: tuple[str, ...]) -> tuple[str, ...]:
    early = tuple(name for name in fields if name in _EARLY)
    if not early or _FIGURES not in fields:
        return fields
    others = tuple(name for name in fields if name not in _EARLY)
    place = others.index(_FIGURES)
    return (*others[:place], *early, *others[place:])


def _is_compact(value: dict[str, Any]) -> bool:
    """Return whether nobody reads a value: sketches, group sums, and figures by output and metric go on one line."""
    for member in value.values():
        first = member[0] if type(member) is list and member else member
        # The first members of most values are texts.
        if type(first) is str or (not isinstance(first, _COMPACT) and not _has_figures(first)):
            return False
    return True


_COMPACT = (Histogram, AxisSums)


def _has_figures(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(member, float) for member in value.values())


def _struct_a_line(values: list[Any], newline: str) -> str:
    # json and not msgspec: msgspec has no space after a colon, and these lines are for reading.
    lines = (_ENCODER.encode(msgspec.to_builtins(value)) for value in values)
    return "[" + ",".join(f"{newline}  {line}" for line in lines) + newline + "]"


# Entries have the same names of members, outputs and metrics.
@lru_cache(maxsize=4096)
def _quoted(key: str) -> str:
    return _ENCODER.encode(key)


class _RefusedError(ValueError):
    """Refuse JSON that Python accepts and precreg does not; `pattern` finds the place in the text."""

    def __init__(self, message: str, pattern: str) -> None:
        super().__init__(message)
        self.pattern = pattern


def _decode_text(data: bytes, shown: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise UserError("unreadable-baseline", "expected UTF-8 text", file=shown, line=line) from problem


# Only such numbers may be infinite in float64: 199 digits with an exponent of two digits stay below 1e298. A quote
# follows the last digits of a text, and half of all digests have an e before three digits.
_MAY_BE_INFINITE = re.compile(r"[eE]\+?[0-9]{3,}(?:[\s,\]}]|$)|[0-9]{200}")


def parse_finite(text: str) -> Any:
    """Return the value of JSON text. Raises ValueError for names that are there twice, NaN and infinities."""
    # msgspec reads a line of figures three times as fast as json, and refuses whatever json does.
    with suppress(ValueError):
        value = msgspec.json.decode(text)
        # It takes the last of two equal names. Then its own text of the value has fewer names, and fewer quotes.
        if "\\" not in text and text.count('"') == msgspec.json.encode(value).count(b'"'):
            return value
    # The parser in C reads floats much faster by itself.
    parse_float = _finite if _MAY_BE_INFINITE.search(text) else None
    return json.loads(text, object_pairs_hook=_unique_members, parse_float=parse_float, parse_constant=_finite)


def _parse_document(text: str, shown: str) -> Any:
    try:
        return parse_finite(text)
    except (ValueError, RecursionError) as problem:
        # Conflict markers are searched only after a failure: a reason may quote them.
        conflict = CONFLICT_MARKER.search(text)
        if conflict is None:
            message, line = _explain_syntax(problem, text)
            raise UserError("unreadable-baseline", f"expected JSON but {message}", file=shown, line=line) from problem
        line = _line(text, conflict.start())
        message = f"expected JSON but got a conflict marker of a merge: {conflict[1]}"
        raise UserError("conflicted-baseline", message, file=shown, line=line) from problem


def _explain_syntax(problem: Exception, text: str) -> tuple[str, int | None]:
    if isinstance(problem, json.JSONDecodeError):
        return f"reading stops here: {problem.msg}", problem.lineno
    if isinstance(problem, _RefusedError):
        return f"got {problem}", _last_line(text, problem.pattern)
    return f"got {problem}", None


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A merge by git may leave a case in the file twice. Python would silently take the second.
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in members if keys.count(key) > 1)
        raise _RefusedError(f"{twice!r} twice, perhaps from a merge", _key_pattern(twice))
    return members


def _finite(literal: str) -> float:
    number = float(literal)
    # 1e999 is infinite in float64, and Python also accepts NaN and Infinity, which JSON does not have.
    if number - number != 0:
        raise _RefusedError(f"a number that is not finite: {literal}", re.escape(literal))
    return number


def _check_header(document: Any, shown: str, header: Mapping[str, str], members: str) -> None:
    if not isinstance(document, dict) or not isinstance(document.get(members), dict):
        raise UserError("unreadable-baseline", f'expected an object with "{members}" in it', file=shown)
    age = schema_age(document.get("schema"), header["schema"])
    if age in ("older", "newer"):
        # An older one is refused, too: its figures were computed by other rules, and could not be compared.
        message = f"expected schema {header['schema']} but got schema={document['schema']}"
        raise UserError("old-schema" if age == "older" else "future-schema", message, file=shown)
    for key in {**header, **document}:
        if key != members and document.get(key) != header.get(key):
            message = f"expected {key} to be {header.get(key)!r}, as its place says, but got {document.get(key)!r}"
            raise UserError("unreadable-baseline", message, file=shown)


def _decode_members(
    members: dict[str, Any], text: str, shown: str, decode: Callable[[Any], _T]
) -> Iterator[tuple[str, _T]]:
    for name, value in members.items():
        try:
            yield name, decode(value)
        except DataError as mistake:
            line = _last_line(text, _key_pattern(name))
            slug = mistake.slug if mistake.slug in (MIXED, UNPAIRED) else "unreadable-baseline"
            raise UserError(slug, f"{name!r}: {mistake.message}", file=shown, line=line) from None


def _key_pattern(key: str) -> str:
    return rf"^\s*{re.escape(_quoted(key))}\s*:"


def _last_line(text: str, pattern: str) -> int | None:
    # The last one, because a key may also be part of an earlier text; of two equal keys, the second is the extra one.
    found = [match.end() for match in re.finditer(pattern, text, re.MULTILINE)]
    return _line(text, found[-1]) if found else None


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
