"""Which arrays does a path contain, and which two arrays are compared?

A path is one array, an archive of arrays, or a folder of both, and every array has a name. In a folder the name is
the path below it without suffix, so y.npy is matched by y.bin. An array of an archive there is layers/0:weight. An
archive that is compared itself uses its own names. Pairs are made by name, by the mapping file, or because each side
has one array. The mapping file is YAML from the name of an actual array to the name of its reference. An array on one
side alone is a pair without the other: absence is judged, and never passes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from posixpath import basename, dirname, isdir, join
from typing import Literal, NamedTuple, TypeVar

from precreg.arithmetic import numpy_dtype
from precreg.errors import UserError, nearest
from precreg.storage import (
    ARRAY_SUFFIXES,
    MSPROBE_FILE,
    MSPROBE_FOLDER,
    RAW,
    Array,
    ArrayStream,
    FilePath,
    NpzMember,
    RemoteFile,
    StoredArray,
    expect_mapping,
    find_array,
    find_arrays,
    find_objects,
    find_raw,
    format_value,
    is_archive,
    is_array_file,
    is_url,
    natural_order,
    read_yaml,
    strip_dtype_suffix,
    suffix_of,
)
from precreg.subject import escape_surrogates
from precreg.types import Location


class RawFormat(NamedTuple):
    """Hold dtype, shape and byte order of raw files, as far as the user gave them."""

    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    byte_order: Literal["little", "big"] = "little"


_Loaded = TypeVar("_Loaded", Array, Array | ArrayStream)


class ArrayPlace(NamedTuple):
    """Locate an array in a file; `found` is None for a file of one array that was not opened yet."""

    # A folder has thousands of them, and a text is made, sent and opened faster than a Path.
    path: FilePath
    shown: str
    raw: RawFormat
    found: StoredArray | NpzMember | None = None

    @property
    def takes_any_shape(self) -> bool:
        """Return whether it is raw bytes without a given shape."""
        return self.raw.shape is None and self._is_raw

    @property
    def _is_raw(self) -> bool:
        # The end of the text: pathlib would take its name apart for each of thousands of files.
        text = str(self.path)
        return text.endswith(RAW) and suffix_of(text) == RAW

    def find(self) -> StoredArray | NpzMember:
        """Return the header of the array; raw bytes without a shape have one axis.

        Raises UserError as the reader of the format does.
        """
        if self.found is not None:
            return self.found
        # Most files of a folder, which has thousands.
        if str(self.path).endswith(".npy"):
            return find_array(self.path, self.shown)
        if self._is_raw:
            return self._raw(self.raw.shape)
        # Only an unreadable archive has no array here. Its reader fails again, with the message for the verdict.
        if is_archive(str(self.path)):
            find_arrays(self.path, self.shown)
        return find_array(self.path, self.shown)

    def load(self, other: tuple[int, ...] | None = None) -> Array:
        """Return the array; raw bytes without a shape take the shape of the `other` side if their number fits.

        Raises UserError as the reader of the format does.
        """
        array = self.find().load()
        return self._shaped(array, other)

    def stream(self, other: tuple[int, ...] | None = None) -> Array | ArrayStream:
        """Return the array as `load` does, but a large object of a store as a stream.

        Raises UserError as the reader of the format does.
        """
        found = self.find()
        array = found.stream() if isinstance(found, StoredArray) else found.load()
        return self._shaped(array, other)

    def _shaped(self, array: _Loaded, other: tuple[int, ...] | None) -> _Loaded:
        # The byte count alone cannot distinguish 4x64 from 8x32. The other side's shape is the only evidence.
        if other is None or not self.takes_any_shape or array.shape == other:
            return array
        try:
            return array.reshape(other)
        except ValueError:
            return array

    def _raw(self, shape: tuple[int, ...] | None) -> StoredArray:
        if self.raw.dtype is None:
            # No default: float32 and int32 have the same size, and wrong numbers would look like errors of the kernel.
            raise UserError("bad-raw-file", "expected --dtype beside a raw file but there is none", file=self.shown)
        order: Literal["<", ">"] = "<" if self.raw.byte_order == "little" else ">"
        return find_raw(self.path, self.shown, numpy_dtype(self.raw.dtype).newbyteorder(order), shape)


class ArraySide(NamedTuple):
    """Hold all arrays of one path by name.

    `archives` are the archives of a folder, by the name of their file, with the names of their arrays. `broken` are
    archives that cannot be read, so their content is unknown. `passed_over` are files in no known format.
    """

    shown: str
    kind: Literal["array", "archive", "folder"]
    arrays: dict[str, ArrayPlace]
    archives: dict[str, list[str]] = {}  # noqa: RUF012  (never changed)
    broken: dict[str, ArrayPlace] = {}  # noqa: RUF012
    passed_over: tuple[str, ...] = ()


def read_side(path: Path | str, raw: RawFormat) -> ArraySide:
    """Find the arrays of a path: a file, FILE:NAME for one array of an archive, or a folder with its subfolders.

    A URL of an object store is an object, or the objects below a prefix, which are its folder. Links to files are
    followed, links to folders are not. Raises UserError: missing-file, unknown-file-format, unknown-array,
    not-comparable for two arrays of one name, and the errors of the reader of a single file; for a URL bad-url,
    missing-extra and store-failed, too.
    """
    if isinstance(path, str) and is_url(path):
        return _read_store(path, raw)
    path = Path(path)
    shown = escape_surrogates(path.as_posix())
    if path.is_dir():
        root = str(path)
        return _folder(shown, raw, {file: join(root, file) for file in _files(path)})
    # A file name may contain a colon, so an existing path wins over FILE:NAME.
    if not path.exists() and (named := _array_of_archive(path, shown, raw)):
        return named
    if is_archive(path.name):
        return ArraySide(shown, "archive", dict(_opened(path, shown, raw)))
    if path.is_file() and not is_array_file(path.name):
        raise _unknown_format(path.name, shown)
    return _single(path, path.name, shown, raw)


def _unknown_format(name: str, shown: str) -> UserError:
    message = f"expected a file of {', '.join(ARRAY_SUFFIXES)}, or a folder of them, but got {name}"
    return UserError("unknown-file-format", message, file=shown)


def _single(path: FilePath, file: str, shown: str, raw: RawFormat) -> ArraySide:
    place = ArrayPlace(path, shown, raw)
    return ArraySide(
        shown, "array", {escape_surrogates(strip_dtype_suffix(file)): place._replace(found=_checked(place))}
    )


def _read_store(url: str, raw: RawFormat) -> ArraySide:
    archive, _, name = url.rpartition(":")
    # The colon of FILE:NAME, as locally: an object of the whole name would have the suffix of an array.
    inner = name if is_archive(archive) and not is_array_file(url) else None
    found = find_objects(url if inner is None else archive)
    shown = escape_surrogates((url if inner is None else archive).rstrip("/"))
    if not isinstance(found, RemoteFile):
        below = {escape_surrogates(file.url[len(shown) + 1 :]): file for file in found}
        # As in a local folder: hidden files and folders are left out, and the order has numbers by value.
        seen = [file for file in below if not any(part.startswith(".") for part in file.split("/"))]
        return _folder(shown, raw, {file: below[file] for file in sorted(seen, key=natural_order)})
    file = shown.rpartition("/")[2]
    if not is_array_file(file) or file == MSPROBE_FILE:
        raise _unknown_format(file, shown)
    if not is_archive(file):
        return _single(found, file, shown, raw)
    arrays = dict(_opened(found, shown, raw))
    if inner is None:
        return ArraySide(shown, "archive", arrays)
    if inner not in arrays:
        raise unknown_array(inner, shown, arrays)
    return ArraySide(shown, "array", {inner: arrays[inner]})


def _checked(place: ArrayPlace) -> StoredArray | NpzMember | None:
    """Open a file that is compared by itself, so that an unreadable one stops the command before it begins."""
    found = place.find()
    return None if place.takes_any_shape else found


def _array_of_archive(path: Path, shown: str, raw: RawFormat) -> ArraySide | None:
    archive, _, name = str(path).rpartition(":")
    if not archive or not is_archive(archive) or not Path(archive).is_file():
        return None
    arrays = dict(_opened(Path(archive), escape_surrogates(archive), raw))
    if name not in arrays:
        raise unknown_array(name, archive, arrays)
    return ArraySide(shown, "array", {name: arrays[name]})


def unknown_array(name: str, where: str, known: Iterable[str]) -> UserError:
    """Make the error for an array that a side does not have."""
    there = sorted(known, key=natural_order)
    some = ", ".join(there[:3]) + (f" and {len(there) - 3} more" if len(there) > 3 else "")
    message = f"expected the name of an array of {where} ({some or 'none'}) but got {name}{nearest(name, there)}"
    return UserError("unknown-array", message)


def _opened(path: FilePath, shown: str, raw: RawFormat) -> Iterator[tuple[str, ArrayPlace]]:
    for name, found in find_arrays(path, shown).items():
        yield escape_surrogates(name), ArrayPlace(path, escape_surrogates(f"{shown}:{name}"), raw, found)


def _folder(shown: str, raw: RawFormat, files: Mapping[str, FilePath]) -> ArraySide:
    """Name the arrays of files by their paths below the folder, in order."""
    side = ArraySide(shown, "folder", {}, {}, {})
    passed_over = []
    # Texts and not paths: taking the paths of 10,000 files apart takes as long as reading the files.
    dumps = [dirname(file) for file, path in files.items() if isinstance(path, str) and basename(file) == MSPROBE_FILE]
    # The tensors of a dump have their names from its JSON, and come once.
    of_dumps = {join(parent, MSPROBE_FOLDER) for parent in dumps}
    for file, path in files.items():
        if of_dumps and dirname(file) in of_dumps:
            continue
        suffix = suffix_of(file)
        name = escape_surrogates(strip_dtype_suffix(file))
        place = ArrayPlace(path, escape_surrogates(f"{shown}/{file}"), raw)
        # The JSON of a dump leads to files beside it, which a store does not have.
        is_dump = bool(dumps) and basename(file) == MSPROBE_FILE and _has_tensors(str(path))
        if suffix not in ARRAY_SUFFIXES and not is_dump:
            passed_over.append(place.shown)
        elif suffix != ".npy" and is_archive(file):
            _expand(name, place, side)
        else:
            _add(name, place, side)
    return side._replace(passed_over=tuple(passed_over))


def _has_tensors(dump: str) -> bool:
    return isdir(join(dirname(dump), MSPROBE_FOLDER))


def _files(folder: Path) -> list[str]:
    """Return every file below a folder as a POSIX path from there, sorted; hidden ones are left out."""
    found: list[str] = []
    for root, folders, files in os.walk(folder):
        # Assigning in place makes os.walk skip these folders.
        folders[:] = [name for name in folders if not name.startswith(".")]
        below = PurePosixPath(os.path.relpath(root, folder)).as_posix()
        beginning = "" if below == "." else f"{below}/"
        found += [f"{beginning}{name}" for name in files if not name.startswith(".")]
    # os.walk returns the order of the file system, which differs between machines.
    return sorted(found, key=natural_order)


def _expand(name: str, place: ArrayPlace, side: ArraySide) -> None:
    try:
        opened = dict(_opened(place.path, place.shown, place.raw))
    except UserError:  # reported for each array that the other side has under that name
        side.broken[name] = place
        return
    if name in side.archives:
        # Either choice would silently compare one of the two, for example of y.npz and y.safetensors.
        raise _twice(name, next(iter(opened.values()), place), place)
    side.archives[name] = list(opened)
    for inner, found in opened.items():
        _add(f"{name}:{inner}", found, side)


def _add(name: str, place: ArrayPlace, side: ArraySide) -> None:
    if name in side.arrays:
        raise _twice(name, place, side.arrays[name])
    side.arrays[name] = place


def _twice(name: str, *places: ArrayPlace) -> UserError:
    both = " and ".join(sorted(place.shown for place in places))
    return UserError("not-comparable", f"expected one array called {name} but got {both}")


class RenamedArray(NamedTuple):
    """Hold the reference of one actual array, and the line of the mapping file."""

    reference: str
    where: Location


def read_mapping(path: Path) -> dict[str, RenamedArray]:
    """Return the renamed arrays by the name of the actual one.

    Raises UserError as reading YAML does, and bad-value for anything but text mapped to text.
    """
    source = read_yaml(path, path.as_posix())
    expect_mapping(source, source.data)
    for name, reference in source.data.items():
        if not isinstance(reference, str) or not reference:
            message = f"expected the name of a reference array, as text, but got {name}={format_value(reference)}"
            raise source.error(
                "bad-value", message, name, hint=f"write the name of the reference in quotes: {name}: 'golden.out'"
            )
    return {name: RenamedArray(reference, source.where(name)) for name, reference in source.data.items()}


NamedPlaces = dict[str, ArrayPlace]


class StoredPair(NamedTuple):
    """Hold one array and its counterparts; None for a side that lacks it."""

    name: str
    actual: ArrayPlace | None
    reference: ArrayPlace | None
    benchmark: ArrayPlace | None = None


def pair_arrays(
    actual: ArraySide, reference: ArraySide, mapping: Mapping[str, RenamedArray], benchmark: ArraySide | None = None
) -> list[StoredPair]:
    """Pair the arrays of two sides, in order of their names, and find the benchmark of each.

    A file of one array is compared with the only array of the other side, whatever its name. Raises UserError:
    not-comparable if the other side has several; unknown-array for a name of the mapping that the reference lacks.
    """
    if "array" in (actual.kind, reference.kind):
        if mapping:
            raise UserError("not-comparable", "expected folders or archives beside --mapping but got a single array")
        third = None if benchmark is None else _only(benchmark, other=actual)
        name = next(iter((actual if actual.kind == "array" else reference).arrays))
        return [StoredPair(name, _only(actual, other=reference), _only(reference, other=actual), third)]
    # Each side first, because the name of an archive's only array depends on the other side.
    ours, theirs = _names(actual, reference), _names(reference, actual)
    ours, theirs = _with_broken(ours, actual.broken, theirs), _with_broken(theirs, reference.broken, ours)
    target = {name: name for name in ours if name in theirs} | _renamed(mapping, ours, theirs, reference.shown)
    both = [StoredPair(name, ours.get(name), theirs[of]) for name, of in target.items()]
    # An array without a counterpart is a pair too: a kernel that writes no output must not pass.
    extra = [StoredPair(name, place, None) for name, place in ours.items() if name not in target]
    missing = [StoredPair(name, None, theirs[name]) for name in theirs.keys() - set(target.values())]
    found = sorted(both + extra + missing, key=lambda pair: natural_order(pair.name))
    return found if benchmark is None else _benchmark_of(found, target, _names(benchmark, reference))


def _only(side: ArraySide, other: ArraySide) -> ArrayPlace:
    if len(side.arrays) == 1:
        return next(iter(side.arrays.values()))
    names = ", ".join(list(side.arrays)[:3]) or "none"
    message = f"expected one array beside {other.shown} but {side.shown} has {len(side.arrays)} ({names})"
    raise UserError("not-comparable", message)


def _names(side: ArraySide, other: ArraySide) -> NamedPlaces:
    """Name the arrays of a side.

    The only array of an archive in a folder has the name of its file, so y.npz is matched by y.npy. It keeps its own
    name if the archive of that name on the other side has several.
    """
    short = {
        f"{file}:{inner[0]}": file
        for file, inner in side.archives.items()
        if len(inner) == 1 and len(other.archives.get(file, ())) < 2
    }
    for long, file in short.items():
        if file in side.arrays:
            message = (
                f"expected one array called {file} but got {side.arrays[file].shown} and {side.arrays[long].shown}"
            )
            raise UserError("not-comparable", message)
    return {short.get(name, name): place for name, place in side.arrays.items()}


def _with_broken(names: NamedPlaces, broken: Mapping[str, ArrayPlace], others: Iterable[str]) -> NamedPlaces:
    """Add the names of an unreadable archive: all that the other side has under its name."""
    # One verdict for each array that cannot be compared, and not one for the file: the counts then agree with the other
    # side.
    assumed = {
        name: place
        for file, place in broken.items()
        for name in [other for other in others if other == file or other.startswith(f"{file}:")] or [file]
    }
    return names | assumed


def _renamed(mapping: Mapping[str, RenamedArray], ours: NamedPlaces, theirs: NamedPlaces, where: str) -> dict[str, str]:
    renamed = {}
    for name, (reference, place) in mapping.items():
        known = _as_named(reference, theirs)
        if known not in theirs:
            problem = unknown_array(reference, where, theirs)
            raise UserError(problem.slug, problem.message, file=place.file, line=place.line)
        # A name that the actual side lacks stays in: the pair then reports the missing output.
        renamed[_as_named(name, ours)] = known
    return renamed


def _as_named(name: str, known: NamedPlaces) -> str:
    """Return a name from the user as arrays are named: without the suffix of a file."""
    return name if name in known else strip_array_suffix(name)


def strip_array_suffix(name: str) -> str:
    """Return the name of a file of arrays without its suffix; any other name as it is."""
    path = PurePosixPath(name)
    return path.with_suffix("").as_posix() if path.suffix in ARRAY_SUFFIXES else name


def _benchmark_of(pairs: list[StoredPair], target: Mapping[str, str], benchmarks: NamedPlaces) -> list[StoredPair]:
    return [
        pair._replace(benchmark=benchmarks.get(pair.name) or benchmarks.get(target.get(pair.name, "")))
        for pair in pairs
    ]
