"""How are records and their schema versions stored?

Records are JSON with the name and version of their schema. Reading gives back the same float64 values. A large record
may be compressed by gzip, with another suffix.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from errno import EFBIG
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET

from precreg.errors import UserError
from precreg.storage.files import (
    MAX_READ_BYTES,
    open_regular_file,
    open_replacement,
    read_regular_file,
    replace_file,
    report_write_errors,
)
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


def write_packed_record(parts: Iterable[bytes], path: Path) -> None:
    """Write the parts of a record's JSON one after the other, compressed by gzip. Equal records give equal bytes.

    Raises:
        UserError: not-writable.
    """
    with (
        report_write_errors(str(path)),
        open_replacement(path) as stream,
        gzip.GzipFile("", "wb", _GZIP_LEVEL, stream, mtime=0) as packer,
    ):
        for part in parts:
            packer.write(part)


def encode_record(record: msgspec.Struct) -> bytes:
    """Return the line of JSON for a record, as bytes with a newline."""
    return encode_json(record) + b"\n"


def encode_by_items(record: msgspec.Struct, field: str, items: Iterable[Any]) -> Iterator[bytes]:
    """Yield the JSON of a record in parts, with `items` in the place of one of its fields, one a line.

    A reader may split such a record into lines, because JSON has no newline inside of texts.
    """
    separator = b"{"
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if value is UNSET:
            continue
        yield separator + encode_json(name) + b":"
        separator = b","
        yield from _item_lines(items) if name == field else (encode_json(value),)
    yield b"}\n"


def _item_lines(items: Iterable[Any]) -> Iterator[bytes]:
    begin = b"[\n"
    for item in items:
        yield begin + encode_json(item)
        begin = b",\n"
    yield b"[]" if begin == b"[\n" else b"\n]"


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
    return decode_record(_read_bytes(path, noun, max_bytes), path, kind, schema, noun, strict=strict)


def decode_record(data: bytes, path: Path, kind: type[_T], schema: str, noun: str, *, strict: bool = True) -> _T:
    """Return the record of JSON that was read from a path. Raises UserError as `read_json_record`."""
    found = _decode(data, _Header, path, noun, strict).schema
    age = schema_age(found, schema)
    if age == "other":
        message = f"expected {noun} of schema {schema} but got schema={found!r}"
        raise UserError("unreadable-record", message, file=str(path))
    if age == "newer":
        raise future_schema(found, schema, str(path))
    return _decode(data, kind, path, noun, strict)


def read_by_items(path: Path, field: str, take: Callable[[bytes], None], *, max_bytes: int = MAX_READ_BYTES) -> bytes:
    """Give each item of a record of `encode_by_items` to `take`, and return the JSON of the record without items.

    Raises ValueError or OSError for any other content; `read_json_record` then reads or explains it.
    """
    try:
        with open_regular_file(path) as file, gzip.open(file) as stream:
            rest = max_bytes
            begin = stream.readline(MAX_ITEM_BYTES)
            if not begin.endswith(b'"%s":[\n' % field.encode()):
                raise ValueError("another form")
            for line in iter(lambda: stream.readline(MAX_ITEM_BYTES), b""):
                rest -= len(line)
                if rest < 0:
                    raise ValueError("too long")
                if line.startswith(b"]"):
                    # Reading the end checks the sum of a compressed file.
                    if stream.read(1):
                        raise ValueError("another form")
                    return begin + line
                take(line.removesuffix(b"\n").removesuffix(b","))
    except (EOFError, zlib.error) as problem:
        raise ValueError(str(problem)) from problem
    raise ValueError("another form")


# An item is a case of a run; one of 1,000 seeds of a matrix has 10 MB.
MAX_ITEM_BYTES = 1 << 28


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
