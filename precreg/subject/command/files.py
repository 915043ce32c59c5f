"""Which files does a program read and write, and which arrays are in those that it wrote?

Inputs and outputs are in the fresh folder of a call. A program may write anything there, so sizes are checked before
bytes are read, and links and special files are refused.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from math import prod
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import numpy_dtype
from precreg.errors import UserError, nearest
from precreg.storage import (
    StoredArray,
    dtype_suffix,
    find_npy,
    find_safetensors,
    fits_in_memory,
    little_endian_bytes,
    open_regular_file,
    to_native_byte_order,
    write_npy,
    write_safetensors,
)
from precreg.subject.call import require_numeric
from precreg.subject.command.kind import DEFAULT_FORMAT, file_format, is_file_name

Arrays = dict[str, NDArray[Any]]


def write_inputs(spec: Mapping[str, Any], inputs: Arrays, folder: Path) -> dict[str, Path]:
    """Write the inputs of a call into its folder, and return their files by name.

    Raises:
        UserError: bad-value, for a name or dtype that no file can have, and for one file of two inputs.
    """
    declared = spec.get("inputs", {})
    for name in declared:
        if name not in inputs:
            message = f"expected an input of the suite but got {name} in inputs{nearest(name, inputs)}"
            raise UserError("bad-value", message, hint=f"name inputs of the suite alone: {', '.join(inputs)}")
    default = spec.get("format", DEFAULT_FORMAT)
    files: dict[str, Path] = {}
    together: defaultdict[Path, Arrays] = defaultdict(dict)
    for name, array in inputs.items():
        options = declared.get(name, {})
        kind = file_format(options, default)
        path = folder / (options.get("file") or f"input/{_file_name(name, array, kind)}")
        if path in files.values() and path not in together:
            raise UserError(
                "bad-value",
                f"expected a file for each input but got {path.name} for two",
                hint="give each input a file of its own: inputs: {x: {file: x.bin}, y: {file: y.bin}}",
            )
        files[name] = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "safetensors":
            together[path][name] = array
        else:
            _write(path, array, kind, name)
    for path, arrays in together.items():
        with path.open("wb") as stream:
            write_safetensors(stream, arrays)
    return files


def _file_name(name: str, array: NDArray[Any], kind: str) -> str:
    if not is_file_name(name):
        message = f"expected file: in inputs for an input whose name is no file name but got {name!r}"
        raise UserError("bad-value", message, hint="name its file: inputs: {NAME: {file: x.bin}}")
    suffix = dtype_suffix(array) if kind == "npy" else None
    return f"{name}.{kind}" if suffix is None else f"{name}.{suffix}.{kind}"


def _write(path: Path, array: NDArray[Any], kind: str, name: str) -> None:
    if array.dtype.char in "gG":
        message = f"expected a dtype that files have on every machine but got {name} of dtype={array.dtype.name}"
        raise UserError(
            "bad-value", message, hint=f"write another dtype in inputs: of the suite: {name}: {{dtype: float64}}"
        )
    with path.open("wb") as stream:
        if kind == "bin":
            stream.write(little_endian_bytes(array))
        else:
            # Programs that read .npy files seldom know Fortran order.
            write_npy(stream, np.asarray(array, order="C"))


class _Declared(NamedTuple):
    """The declaration of an output: its file, format, and dtype and shape if the suite gives them."""

    name: str
    file: str
    format: str
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...] | None


def output_files(spec: Mapping[str, Any], inputs: Arrays, folder: Path) -> dict[str, Path]:
    """Make the folders of the outputs, and return the files that the program is to write by output."""
    files = {each.name: folder / each.file for each in _declarations(spec, inputs)}
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    return files


def _declarations(spec: Mapping[str, Any], inputs: Arrays) -> list[_Declared]:
    default = spec.get("format", DEFAULT_FORMAT)
    found = []
    for name, options in spec["outputs"].items():
        kind = file_format(options, default)
        like = options.get("like")
        if like is not None and like not in inputs:
            raise UserError(
                "bad-value",
                f"expected the name of an input but got like={like}{nearest(like, inputs)}",
                hint=f"write an input of the suite: like: {next(iter(inputs), 'x')}",
            )
        dtype = None if like is None else inputs[like].dtype
        shape = None if like is None else inputs[like].shape
        dtype = numpy_dtype(options["dtype"]) if "dtype" in options else dtype
        shape = tuple(options["shape"]) if "shape" in options else shape
        # numpy has no name for the dtypes of ml_dtypes, so such a .npy file has it in its name.
        raw = dtype_suffix(np.empty(0, dtype)) if kind == "npy" and dtype is not None else None
        file = options.get("file") or f"output/{name}.{kind if raw is None else f'{raw}.{kind}'}"
        found.append(_Declared(name, file, kind, dtype, shape))
    return found


def read_outputs(spec: Mapping[str, Any], inputs: Arrays, folder: Path) -> Arrays:
    """Return the arrays that a program wrote, by output. A missing file gives none, which the verdict reports.

    Raises:
        UserError: bad-program-output, bad-array-file, bad-safetensors-file.
    """
    arrays: Arrays = {}
    for each in _declarations(spec, inputs):
        path = folder / each.file
        if not os.path.lexists(path):
            continue
        # The folder itself has no link in its path.
        if realpath(path) != str(path) or not path.is_file():
            raise _bad(f"output {each.name} to be a regular file, and no link,", f"{each.file}, which is none")
        array = _read_raw(path, each) if each.format == "bin" else _read_described(path, each)
        arrays[each.name] = require_numeric(each.name, array)
    return arrays


def _bad(expected: str, got: str) -> UserError:
    return UserError("bad-program-output", f"expected {expected} but got {got}")


def _read_raw(path: Path, declared: _Declared) -> NDArray[Any]:
    dtype, shape = declared.dtype, declared.shape
    assert dtype is not None
    assert shape is not None
    if not fits_in_memory(shape, dtype):
        raise _bad(f"output {declared.name} of a shape that memory can hold", f"shape={list(shape)}")
    size = prod(shape) * dtype.itemsize
    # A process that the program left may make the file longer while it is read: one byte more is enough to notice.
    content = _read(path, 0, size + 1)
    if len(content) != size:
        stored = os.lstat(path).st_size
        needed = f"{size} bytes in {declared.file} (output {declared.name}: {dtype.name} of shape {list(shape)})"
        more = "a longer file that another process still writes" if stored == size else f"{stored} bytes"
        raise _bad(needed, more)
    if dtype == np.bool_:
        # C programs write any byte but 0 for true.
        flags: NDArray[Any] = np.frombuffer(content, np.uint8) != 0
        return flags.reshape(shape)
    stored_dtype = dtype if dtype_suffix(np.empty(0, dtype)) else dtype.newbyteorder("<")
    return np.array(to_native_byte_order(np.frombuffer(content, stored_dtype).reshape(shape)))


def _read(path: Path, start: int, size: int) -> bytes:
    try:
        with open_regular_file(path, os.O_RDONLY | os.O_NOFOLLOW) as stream:
            stream.seek(start)
            # A wrong declaration must not reserve memory for more bytes than there are.
            return stream.read(min(size, max(0, os.fstat(stream.fileno()).st_size - start) + 1))
    except OSError as problem:
        raise _bad(f"{path.name} to be readable", problem.strerror or str(problem)) from problem


def _read_described(path: Path, declared: _Declared) -> NDArray[Any]:
    """Return the array of a file that has dtype and shape itself; they agree with the declared ones, if any."""
    stored = _stored_npy(path, declared) if declared.format == "npy" else _stored_safetensors(path, declared)
    for word, own, wanted in (
        ("dtype", stored.dtype.name, None if declared.dtype is None else declared.dtype.name),
        ("shape", list(stored.shape), None if declared.shape is None else list(declared.shape)),
    ):
        if wanted is not None and own != wanted:
            raise _bad(f"{word}={wanted} in {declared.file} (output {declared.name})", f"{word}={own}")
    if stored.content is not None:
        return np.array(to_native_byte_order(stored.load()))
    size = prod(stored.shape) * stored.dtype.itemsize
    # Read and not mapped: the folder is removed, and another process may cut the file off.
    content = _read(path, stored.start, size)
    if len(content) != size:
        raise _bad(f"{size} bytes of data in {declared.file}", f"{len(content)}")
    array = np.frombuffer(content, stored.dtype).reshape(stored.shape, order=stored.order)
    return np.array(to_native_byte_order(array))


def _stored_npy(path: Path, declared: _Declared) -> StoredArray:
    shown = declared.file
    suffix = None if declared.dtype is None else dtype_suffix(np.empty(0, declared.dtype))
    if suffix is not None and not shown.endswith(f".{suffix}.npy"):
        # A name that the suite chose has no dtype, but the declaration has.
        shown = f"{shown.removesuffix('.npy')}.{suffix}.npy"
    return find_npy(path, shown)


def _stored_safetensors(path: Path, declared: _Declared) -> StoredArray:
    stored = find_safetensors(path, declared.file)
    if declared.name in stored:
        return stored[declared.name]
    if len(stored) == 1:
        return next(iter(stored.values()))
    raise _bad(f"an array {declared.name} in {declared.file}", ", ".join(stored) or "none")
