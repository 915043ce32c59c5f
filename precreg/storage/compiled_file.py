"""Which libraries does a compiled file load, and in which folders does the loader search them?

The dynamic section of an ELF file (System V ABI, chapter 5) has the names and the folders. Other formats have none
here. Nothing is loaded, and damaged files have no libraries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import IO, NamedTuple

# Numbers of the ABI: types of segments, and tags of the dynamic section.
_LOAD, _DYNAMIC = 1, 2
_END, _NEEDED, _STRING_TABLE, _STRING_SIZE, _RPATH, _RUNPATH = 0, 1, 5, 10, 15, 29
# Sections of real libraries are far smaller. The sizes in a damaged file may be anything.
_MAX_SECTION = 1 << 24


class LinkedLibraries(NamedTuple):
    """Hold the names of the libraries that a file needs, and the folders of its own in which they are searched."""

    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class _Layout(NamedTuple):
    """Hold the parts of the header: byte order, word size, and the place, size and number of program headers."""

    order: str
    wide: bool
    place: int
    size: int
    number: int


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


@lru_cache(maxsize=1024)
def libraries_linked(path: Path) -> LinkedLibraries:
    """Return the libraries that a compiled file needs; none for a file of another format, or a damaged one.

    `$ORIGIN` in a folder is the folder of the file. The folders of the system are left out.
    """
    try:
        with path.open("rb") as file:
            layout = _read_layout(file)
            return LinkedLibraries() if layout is None else _read_libraries(file, layout, path)
    except (OSError, struct.error, ValueError, OverflowError):
        return LinkedLibraries()


def _read_layout(file: IO[bytes]) -> _Layout | None:
    start = file.read(16)
    if len(start) < 16 or start[:4] != b"\x7fELF" or start[4] not in (1, 2) or start[5] not in (1, 2):
        return None
    order, wide = "<" if start[5] == 1 else ">", start[4] == 2
    form = struct.Struct(f"{order}HHI{'QQQ' if wide else 'III'}IHHHHHH")
    fields = form.unpack(file.read(form.size))
    return _Layout(order, wide, place=fields[4], size=fields[8], number=fields[9])


def _read_segments(file: IO[bytes], layout: _Layout) -> Iterator[_Segment]:
    form = struct.Struct(f"{layout.order}{'IIQQQQQQ' if layout.wide else 'IIIIIIII'}")
    for index in range(layout.number):
        file.seek(layout.place + index * layout.size)
        fields = form.unpack(file.read(form.size))
        # The flags come second in files of 64 bits, and after the sizes in files of 32 bits.
        offset, address = (fields[2], fields[3]) if layout.wide else (fields[1], fields[2])
        yield _Segment(fields[0], offset, address, fields[5] if layout.wide else fields[4])


def _read_libraries(file: IO[bytes], layout: _Layout, path: Path) -> LinkedLibraries:
    segments = list(_read_segments(file, layout))
    dynamic = next((each for each in segments if each.kind == _DYNAMIC), None)
    if dynamic is None:
        return LinkedLibraries()
    entries = list(_read_entries(_read_at(file, dynamic.offset, dynamic.size), layout))
    table = _string_table(file, segments, dict(entries))
    folders = ":".join(_text(table, value) for tag, value in entries if tag in (_RPATH, _RUNPATH))
    origin = str(path.parent)
    found = (each.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for each in folders.split(":") if each)
    return LinkedLibraries(tuple(_text(table, value) for tag, value in entries if tag == _NEEDED), tuple(found))


def _read_entries(section: bytes, layout: _Layout) -> Iterator[tuple[int, int]]:
    form = struct.Struct(f"{layout.order}{'qQ' if layout.wide else 'iI'}")
    pairs = form.iter_unpack(section[: len(section) // form.size * form.size])
    return takewhile(lambda pair: pair[0] != _END, pairs)


def _string_table(file: IO[bytes], segments: list[_Segment], entries: dict[int, int]) -> bytes:
    """Return the names of the section; it gives their address in memory, which lies in one of the loaded segments."""
    address = entries.get(_STRING_TABLE, 0)
    for each in segments:
        if each.kind == _LOAD and each.address <= address < each.address + each.size:
            return _read_at(file, each.offset + address - each.address, entries.get(_STRING_SIZE, 0))
    return b""


def _read_at(file: IO[bytes], place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(min(size, _MAX_SECTION))


def _text(table: bytes, place: int) -> str:
    return table[place : table.index(b"\0", place)].decode()
