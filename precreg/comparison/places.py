"""What a path holds: one array, an archive of arrays, or a folder of both; every array has a name.

In a folder the name is the path below it without suffix, so that y.npy is matched by y.bin; an array of an archive
there is called layers/0:weight. The arrays of an archive that is compared itself go by their own names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from precreg.arithmetic.formats import numpy_dtype
from precreg.errors import UserError, nearest
from precreg.storage.arrayfile_stored import Array, Stored
from precreg.storage.npy import bare_name, find_array
from precreg.storage.npz import Member, find_arrays
from precreg.storage.raw import find_raw
from precreg.storage.safetensors import find_tensors
from precreg.subject.failure import encodable

ARCHIVES: dict[str, Callable[[Path, str], Mapping[str, Stored | Member]]] = {
    ".npz": find_arrays,
    ".safetensors": find_tensors,
}

SUFFIXES = (".npy", ".bin", *ARCHIVES)


class RawFormat(NamedTuple):
    """What raw files hold, as far as the user said: they do not say it themselves."""

    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    byte_order: Literal["little", "big"] = "little"


class Place(NamedTuple):
    """An array somewhere in a file. `found` is None for a file of one array that nobody has opened yet."""

    path: Path
    shown: str
    raw: RawFormat
    found: Stored | Member | None = None

    @property
    def takes_any_shape(self) -> bool:
        """Tell whether it is raw bytes of which nobody said the shape."""
        return self.path.suffix == ".bin" and self.raw.shape is None

    def find(self) -> Stored | Member:
        """Return what lies there; raw bytes without a shape have one axis.

        Raises UserError as the reader of the format does.
        """
        if self.found is not None:
            return self.found
        if self.path.suffix == ".bin":
            return self._raw(self.raw.shape)
        if self.path.suffix in ARCHIVES:  # that could not be read when its arrays were looked for
            ARCHIVES[self.path.suffix](self.path, self.shown)
        return find_array(self.path, self.shown)

    def load(self, other: tuple[int, ...] | None = None) -> Array:
        """Return the array; raw bytes without a shape take that of the `other` side where their number fits.

        Raises UserError as the reader of the format does.
        """
        array = self.find().load()
        if other is None or not self.takes_any_shape or array.shape == other:
            return array
        try:
            return array.reshape(other)
        except ValueError:
            return array

    def _raw(self, shape: tuple[int, ...] | None) -> Stored:
        if self.raw.dtype is None:
            raise UserError("bad-raw-file", "expected --dtype beside a raw file but there is none", file=self.shown)
        order: Literal["<", ">"] = "<" if self.raw.byte_order == "little" else ">"
        return find_raw(self.path, self.shown, numpy_dtype(self.raw.dtype).newbyteorder(order), shape)


class Side(NamedTuple):
    """All arrays of one path by name.

    `archives` are those in a folder, by the name of their file, with the names of their arrays; `broken` are archives
    that cannot be read, so that nobody knows what they hold. `passed_over` are files that are in no format of ours.
    """

    shown: str
    kind: Literal["array", "archive", "folder"]
    arrays: dict[str, Place]
    archives: dict[str, list[str]] = {}  # noqa: RUF012  (never changed)
    broken: dict[str, Place] = {}  # noqa: RUF012
    passed_over: tuple[str, ...] = ()


def read_side(path: Path, raw: RawFormat) -> Side:
    """Find what a path holds: a file, FILE:NAME for one array of an archive, or a folder, searched to its bottom.

    Links to files are followed, links to folders are not. Raises UserError: missing-file, unknown-file-format,
    unknown-array, not-comparable for two arrays of one name, and what the reader of a single file raises.
    """
    shown = encodable(path.as_posix())
    if path.is_dir():
        return _folder(path, shown, raw)
    if not path.exists() and (named := _array_of_archive(path, shown, raw)):
        return named
    if path.suffix in ARCHIVES:
        return Side(shown, "archive", dict(_opened(path, shown, raw)))
    place = Place(path, shown, raw)
    if path.is_file() and path.suffix not in SUFFIXES:
        message = f"expected a file of {', '.join(SUFFIXES)}, or a folder of them, but got {path.name}"
        raise UserError("unknown-file-format", message, file=shown)
    return Side(shown, "array", {encodable(bare_name(path.name)): place._replace(found=_checked(place))})


def _checked(place: Place) -> Stored | Member | None:
    """Look at a file that is compared by itself: what cannot be read stops the command before it begins."""
    found = place.find()
    return None if place.takes_any_shape else found


def _array_of_archive(path: Path, shown: str, raw: RawFormat) -> Side | None:
    archive, _, name = str(path).rpartition(":")
    if not archive or Path(archive).suffix not in ARCHIVES or not Path(archive).is_file():
        return None
    arrays = dict(_opened(Path(archive), encodable(archive), raw))
    if name not in arrays:
        raise unknown_array(name, archive, arrays)
    return Side(shown, "array", {name: arrays[name]})


def unknown_array(name: str, where: str, known: Iterable[str]) -> UserError:
    """Make the error for an array that a side does not have."""
    there = sorted(known)
    some = ", ".join(there[:3]) + (f" and {len(there) - 3} more" if len(there) > 3 else "")
    message = f"expected the name of an array of {where} ({some or 'none'}) but got {name}{nearest(name, there)}"
    return UserError("unknown-array", message)


def _opened(path: Path, shown: str, raw: RawFormat) -> Iterator[tuple[str, Place]]:
    for name, found in ARCHIVES[path.suffix](path, shown).items():
        yield encodable(name), Place(path, encodable(f"{shown}:{name}"), raw, found)


def _folder(folder: Path, shown: str, raw: RawFormat) -> Side:
    side = Side(shown, "folder", {}, {}, {})
    passed_over = []
    for file in _files(folder):
        name = encodable(bare_name(file))
        place = Place(folder / file, encodable(f"{shown}/{file}"), raw)
        if place.path.suffix not in SUFFIXES:
            passed_over.append(place.shown)
        elif place.path.suffix in ARCHIVES:
            _expand(name, place, side)
        else:
            _add(name, place, side)
    return side._replace(passed_over=tuple(passed_over))


def _files(folder: Path) -> list[str]:
    """Return every file below a folder as a POSIX path from there, sorted; hidden ones are left out."""
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        below = os.path.relpath(root, folder)
        found += [PurePosixPath(below, name).as_posix() for name in files if not name.startswith(".")]
    return sorted(found)


def _expand(name: str, place: Place, side: Side) -> None:
    try:
        opened = dict(_opened(place.path, place.shown, place.raw))
    except UserError:  # told of each array that the other side has of that name
        side.broken[name] = place
        return
    if name in side.archives:
        raise _twice(name, next(iter(opened.values()), place), place)
    side.archives[name] = list(opened)
    for inner, found in opened.items():
        _add(f"{name}:{inner}", found, side)


def _add(name: str, place: Place, side: Side) -> None:
    if name in side.arrays:
        raise _twice(name, place, side.arrays[name])
    side.arrays[name] = place


def _twice(name: str, *places: Place) -> UserError:
    both = " and ".join(sorted(place.shown for place in places))
    return UserError("not-comparable", f"expected one array called {name} but got {both}")
