"""How are records and their schema versions stored?

Records are JSON with the name and version of their schema. Reading gives back the same float64 values.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from precreg.errors import UserError
from precreg.storage.files import replace_file, report_write_errors

_T = TypeVar("_T")


def write_json_record(record: msgspec.Struct, path: Path) -> None:
    """Write a record as one line of JSON, in one step; its folder must exist.

    Numbers have the fewest digits that read back as the same float64.

    Raises:
        UserError: not-writable.
    """
    with report_write_errors(str(path)):
        replace_file(path, encode_record(record))


def encode_record(record: msgspec.Struct) -> bytes:
    """Return the line of JSON for a record, as bytes with a newline."""
    return msgspec.json.encode(record) + b"\n"


def read_json_record(path: Path, kind: type[_T], schema: str, what: str) -> _T:
    """Read a record of this schema or an older one; fields that this version does not know are passed over.

    `what` names the kind of record in messages, as in "a run record".

    Raises:
        UserError: missing-file, unreadable-record, future-schema; each names the file.
    """
    data = _bytes(path, what)
    found = _decoded(data, _Header, path, what).schema
    family, _, version = found.partition("/")
    own_family, _, newest = schema.partition("/")
    if family != own_family or not version.isdecimal():
        message = f"expected {what} of schema {schema} but got schema={found!r}"
        raise UserError("unreadable-record", message, file=str(path))
    if int(version) > int(newest):
        message = f"expected schema {schema} or older but got schema={found}"
        raise UserError("future-schema", message, file=str(path))
    return _decoded(data, kind, path, what)


class _Header(msgspec.Struct):
    schema: str


def _bytes(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as problem:
        raise UserError("missing-file", f"expected {what}, but there is no such file", file=str(path)) from problem
    except OSError as problem:
        message = f"expected {what} but got: {problem.strerror or problem}"
        raise UserError("unreadable-record", message, file=str(path)) from problem


def _decoded(data: bytes, kind: type[_T], path: Path, what: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as problem:
        raise UserError("unreadable-record", f"expected {what} but got: {problem}", file=str(path)) from problem
