"""Which tensors does a .pt file hold, without running any of it?

torch.save writes a zip archive: data.pkl, a pickle of the saved object, and one member for each storage. A pickle may
call any function. This reader resolves a few names of torch to functions of its own, refuses every other name, and
needs no torch. Storages are not compressed, so tensors are mapped. The format: torch/serialization.py, `_save`.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np

from precreg.errors import UserError
from precreg.storage.array_file import (
    FilePath,
    StoredArray,
    fits_in_memory,
    open_array_file,
    stored_dtype,
    stream_size,
)
from precreg.storage.npy import member_start

# A checkpoint of a thousand tensors has a pickle of some 100 KB.
MAX_PICKLE_BYTES = 1 << 26
# Dicts and lists inside each other; a deeper file is an attack.
_MAX_DEPTH = 100

# The name of the tensor of a file that holds nothing else.
ONLY_TENSOR = "out"

_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
# Dtypes without a storage class of their own.
_DTYPES = (
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "uint16", "uint32", "uint64"),
    *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"),
)


class _Dtype(NamedTuple):
    name: str


class _Storage(NamedTuple):
    dtype: str
    key: str
    elements: int


class _Tensor(NamedTuple):
    """A view of a storage: first element, shape and strides in elements."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Refused(Exception):  # noqa: N818  (an event: it becomes the error of the file)
    pass


def find_torch_tensors(path: FilePath, shown: str) -> dict[str, StoredArray]:
    """Locate the tensors of a .pt file by name, in its order: keys of dicts and places in lists, joined by dots.

    A file of one tensor names it ONLY_TENSOR.

    Raises:
        UserError: missing-file; bad-tensor-file, for anything but tensors in dicts and lists.
    """
    with open_array_file(path, shown) as stream:
        size = stream_size(stream)
        try:
            with zipfile.ZipFile(stream) as archive:
                members, top = _members(archive, size)
                is_big = _read(archive, members.get("byteorder"), 16) == b"big"
                saved = _Unpickler(BytesIO(_read(archive, members["data.pkl"], MAX_PICKLE_BYTES))).load()
                tensors = dict(_named(saved, "", _MAX_DEPTH))
                place = _StoragePlace(path, shown, stream, members, is_big)
                found = {name or ONLY_TENSOR: place.array(name, tensor) for name, tensor in tensors.items()}
        except UserError:
            raise
        except zipfile.BadZipFile:
            advice = "save it again with torch 1.6 or later, or write .safetensors"
            raise _bad(shown, f"a .pt file that is a zip archive but it is not; {advice}") from None
        except _Refused as refused:
            raise _bad(shown, str(refused)) from None
        # A damaged pickle raises almost any exception.
        except Exception as error:
            raise _bad(shown, f"a whole .pt file but got: {type(error).__name__}: {error}"[:200]) from error
    if not found:
        raise _bad(shown, f"at least one tensor in dicts and lists but {top} has none")
    return found


def _bad(shown: str, expectation: str) -> UserError:
    return UserError("bad-tensor-file", f"expected {expectation}", file=shown)


def _members(archive: zipfile.ZipFile, size: int) -> tuple[dict[str, zipfile.ZipInfo], str]:
    """Return the members by their names below the one folder of the archive, and the name of that folder."""
    members: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for info in archive.infolist():
        folder, _, name = info.filename.partition("/")
        folders.add(folder)
        if name in members:
            raise _Refused(f"members with names of their own but got {info.filename} twice")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.file_size > size:
            raise _Refused(f"members that are stored, in the open, but {info.filename} is not")
        members[name] = info
    if len(folders) != 1 or "data.pkl" not in members:
        raise _Refused("the archive of torch.save, FOLDER/data.pkl and FOLDER/data/, but it is another one")
    return members, folders.pop()


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo | None, most: int) -> bytes:
    if info is None:
        return b""
    if info.file_size > most:
        raise _Refused(f"at most {most} bytes in {info.filename} but it has {info.file_size}")
    return archive.read(info)


class _StoragePlace(NamedTuple):
    """The open archive, and what its storages share."""

    path: FilePath
    shown: str
    stream: IO[bytes]
    members: Mapping[str, zipfile.ZipInfo]
    is_big: bool

    def array(self, name: str, tensor: _Tensor) -> StoredArray:
        """Return the array of a tensor; a copy unless it is a whole block of its storage."""
        shown = f"{self.shown}:{name}" if name else self.shown
        info = self.members.get(f"data/{tensor.storage.key}")
        dtype = stored_dtype(tensor.dtype)
        if self.is_big:
            dtype = dtype.newbyteorder(">")
        if info is None:
            raise _Refused(f"a member data/{tensor.storage.key} for {name or 'the tensor'} but it is not there")
        available = info.file_size // dtype.itemsize
        _check_view(name, tensor, dtype, available)
        start = member_start(self.stream, info, self.shown) + tensor.offset * dtype.itemsize
        if tensor.strides == _contiguous(tensor.shape) or prod(tensor.shape) < 2:
            return StoredArray(self.path, shown, dtype, tensor.shape, "C", start)
        self.stream.seek(start)
        last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.strides, strict=True))
        # As bytes, because numpy makes no strided view of some dtypes of ml_dtypes.
        flat = np.frombuffer(self.stream.read((last + 1) * dtype.itemsize), f"V{dtype.itemsize}")
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
        view = np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False)
        return StoredArray(self.path, shown, dtype, tensor.shape, "C", 0, np.ascontiguousarray(view).tobytes())


def _check_view(name: str, tensor: _Tensor, dtype: np.dtype[Any], available: int) -> None:
    """Require that a tensor lies inside its storage."""
    what = name or "the tensor"
    numbers = (tensor.offset, *tensor.shape, *tensor.strides)
    if not all(type(number) is int and number >= 0 for number in numbers) or len(tensor.shape) != len(tensor.strides):
        raise _Refused(f"a shape and strides of whole numbers for {what} but got {tensor.shape}, {tensor.strides}")
    if not fits_in_memory(tensor.shape, dtype) or prod(tensor.shape) > available:
        size = f"{prod(tensor.shape)} elements of shape {tensor.shape}"
        raise _Refused(f"{size} for {what} but its storage has {available}; save tensor.contiguous()")
    pairs = zip(tensor.shape, tensor.strides, strict=True)
    end = tensor.offset + sum((length - 1) * stride for length, stride in pairs) if prod(tensor.shape) else 0
    if end >= max(available, 1):
        raise _Refused(f"{what} inside its storage of {available} elements but it ends at {end}")


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(strides)


def _named(value: Any, name: str, depth: int) -> Iterator[tuple[str, _Tensor]]:
    """Yield the tensors inside dicts and lists with their names; numbers and texts beside them are left out."""
    if isinstance(value, _Tensor):
        yield name, value
        return
    if depth == 0:
        raise _Refused(f"dicts and lists at most {_MAX_DEPTH} deep but got more")
    items: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, Mapping):
        items = iter(value.items())
    elif isinstance(value, list | tuple):
        items = iter(enumerate(value))
    for key, item in items:
        yield from _named(item, f"{name}.{key}" if name else str(key), depth - 1)


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *others: Any) -> _Tensor:
    # The last of `others` has bits of views that are computed when they are read, such as conjugates.
    if not isinstance(storage, _Storage) or (len(others) > 2 and others[2]):
        raise _Refused("tensors without lazy conjugates but got one; save tensor.resolve_conj()")
    return _Tensor(storage, storage.dtype, offset, tuple(size), tuple(stride))


def _rebuild_untyped(storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, dtype: Any) -> _Tensor:
    if not isinstance(dtype, _Dtype):
        raise _Refused("a dtype of torch but got something else")
    return _rebuild_tensor(storage, offset, size, stride, grad, hooks)._replace(dtype=dtype.name)


def _rebuild_from_type(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Any:
    # pickle lets a file pass any object that it may name, so only our own functions are called.
    if rebuild not in (_Callable(_rebuild_tensor), _Callable(_rebuild_untyped)):
        raise _Refused("a tensor of a plain class but got a subclass of its own")
    return rebuild(*arguments)


def _first_argument(tensor: Any, *others: Any) -> Any:
    return tensor


class _Callable(NamedTuple):
    """A function that a pickle may call. It may set attributes of its objects, and a tuple has none to set."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_untyped,
    ("torch._utils", "_rebuild_parameter"): _first_argument,
    ("torch._utils", "_rebuild_parameter_with_state"): _first_argument,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
    ("torch.nn.parameter", "Parameter"): _first_argument,
    ("torch", "Tensor"): _first_argument,
    ("torch", "Size"): tuple,
    ("collections", "OrderedDict"): OrderedDict,
}


class _Unpickler(pickle.Unpickler):
    """Reads the pickle of torch.save with the names of _FUNCTIONS, storages and dtypes alone."""

    def find_class(self, module: str, name: str) -> Any:
        """Return our own function for a name of torch. Any other name is refused, and nothing is imported."""
        if (module, name) in _FUNCTIONS:
            function = _FUNCTIONS[module, name]
            # Types of Python have no attributes that a pickle could set, and it needs them as types.
            return function if isinstance(function, type) else _Callable(function)
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _Dtype(_STORAGES[name])
        if module == "torch" and name in _DTYPES:
            return _Dtype(name)
        advice = "save a state_dict or tensors alone, or write .safetensors"
        raise _Refused(f"tensors in dicts and lists but the file names {module}.{name}, which may run code; {advice}")

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage of an id: the word "storage", its class, key, device and number of elements."""
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or not isinstance(pid[1], _Dtype):
            raise _Refused("storages of torch but got something else")
        _, dtype, key, _, elements = pid
        if not isinstance(key, str) or not key.isascii() or not key.isalnum() or type(elements) is not int:
            raise _Refused(f"the number of a storage but got {str(key)[:40]!a}")
        return _Storage(dtype.name, key, elements)
