"""How are records and their schema versions stored?

Records are JSON with the name and version of their schema. Reading gives back the same float64 values. A large record
may be compressed by gzip, with another suffix.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from errno import EFBIG
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from precreg.errors import UserError
from precreg.storage.files import MAX_READ_BYTES, read_regular_file, replace_file, report_write_errors
from precreg.storage.packed import encode_json

_T = TypeVar("_T")


def write_json_record(record: msgspec.Struct, path: Path) -> None:
    """Write a record as one line of JSON, in one step; its folder must exist.

    Numbers have the fewest digits that read back as the same float64.

    Raises:
        UserError: not-writable.
    """
    with report_write_errors(str(path)):
        replace_file(path, encode_record(record))


# The suffix of a compressed record beside the name of a plain one.
PACKED_SUFFIX = ".gz"
# Level 6 of gzip takes 2 s for 160 MB; level 9 takes twice as long and saves 1 %.
_GZIP_LEVEL = 6
_GZIP_MAGIC = b"\x1f\x8b"


def write_packed_record(record: msgspec.Struct, path: Path) -> None:
    """Write a record as `write_json_record` does, compressed by gzip. Equal records give equal bytes.

    Raises:
        UserError: not-writable.
    """
    with report_write_errors(str(path)):
        replace_file(path, gzip.compress(encode_record(record), _GZIP_LEVEL, mtime=0))


def encode_record(record: msgspec.Struct) -> bytes:
    """Return the line of JSON for a record, as bytes with a newline."""
    return encode_json(record) + b"\n"


def schema_age(found: object, own: str) -> Literal["older", "same", "newer", "other"]:
    """Compare the schema that a document states, such as "precreg-record/1", with the one of this version.

    A newer document is refused, because its fields may have another meaning. Each reader decides whether it reads an
    older one. "other" is a document of another kind, or without a version.
    """
    family, _, newest = own.rpartition("/")
    # At most 18 digits: Python refuses to convert thousands of them, and no version has as many.
    stated = re.fullmatch(rf"{re.escape(family)}/([0-9]{{1,18}})", str(found))
    if stated is None:
        return "other"
    difference = int(stated[1]) - int(newest)
    return "newer" if difference > 0 else "older" if difference < 0 else "same"


def future_schema(found: object, own: str, file: str, line: int | None = None) -> UserError:
    """Make the error for a document that a newer version wrote."""
    return UserError("future-schema", f"expected schema {own} or older but got schema={found}", file=file, line=line)


def read_json_record(
    path: Path, kind: type[_T], schema: str, noun: str, *, max_bytes: int = MAX_READ_BYTES, strict: bool = True
) -> _T:
    """Read a record of this schema or an older one, compressed or not; unknown fields are ignored.

    `noun` names the kind of record in messages, as in "a run record". Without `strict`, a number may be its text, such
    as "inf", which JSON has no number for.

    Raises:
        UserError: missing-file, unreadable-record, future-schema; each names the file.
    """
    data = _read_bytes(path, noun, max_bytes)
    found = _decode(data, _Header, path, noun, strict).schema
    age = schema_age(found, schema)
    if age == "other":
        message = f"expected {noun} of schema {schema} but got schema={found!r}"
        raise UserError("unreadable-record", message, file=str(path))
    if age == "newer":
        raise future_schema(found, schema, str(path))
    return _decode(data, kind, path, noun, strict)


class _Header(msgspec.Struct):
    schema: str


def _read_bytes(path: Path, noun: str, max_bytes: int) -> bytes:
    try:
        data = read_regular_file(path, max_bytes)
        return _unpack(data, path, max_bytes) if data.startswith(_GZIP_MAGIC) else data
    except zlib.error as problem:
        raise UserError("unreadable-record", f"expected {noun} but got: {problem}", file=str(path)) from problem
    except FileNotFoundError as problem:
        hint = "name the file that a command wrote: precreg run writes reports/record.json"
        raise UserError(
            "missing-file", f"expected {noun}, but there is no such file", file=str(path), hint=hint
        ) from problem
    except OSError as problem:
        message = f"expected {noun} but got: {problem.strerror or problem}"
        raise UserError("unreadable-record", message, file=str(path)) from problem


def _unpack(data: bytes, path: Path, max_bytes: int) -> bytes:
    # A few kilobytes may unpack to gigabytes, so the limit counts for the content.
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    content = unpacker.decompress(data, max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(EFBIG, os.strerror(EFBIG), str(path))
    if not unpacker.eof:
        raise zlib.error("the compressed data end too early")
    return content


def _decode(data: bytes, kind: type[_T], path: Path, noun: str, strict: bool) -> _T:
    try:
        return msgspec.json.decode(data, type=kind, strict=strict)
    except (ValueError, RecursionError) as problem:
        raise UserError("unreadable-record", f"expected {noun} but got: {problem}", file=str(path)) from problem
