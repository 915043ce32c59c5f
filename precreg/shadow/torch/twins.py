"""Which value of higher precision belongs to a tensor?

A twin belongs to the storage of a tensor and not to the tensor. So views, slices, writes in place, detached and saved
tensors, gradients and caches need no rules: each sees its part of one twin.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

# A longdouble of 53 bits is float64 by another name.
HAS_LONG = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant

# The watch on ways out of the shadow replaces this method later, and costs time.
_AS_ARRAY = torch.Tensor.numpy

# Each dtype of floating or complex numbers, with its twin's dtype.
_TWIN_DTYPES = {
    each: torch.complex128 if each.is_complex else torch.float64
    for each in vars(torch).values()
    if isinstance(each, torch.dtype) and (each.is_complex or each.is_floating_point)
}


def is_shadowed(value: Any) -> bool:
    """Return whether a value is a tensor that may have a twin: floating or complex numbers in one strided memory."""
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in _TWIN_DTYPES
        and value.layout is torch.strided
        and not value.is_nested
        and not value.is_meta
    )


def twin_dtype(dtype: Any) -> Any:
    """Return the dtype of a twin: float64 or complex128; other dtypes come back unchanged."""
    return _TWIN_DTYPES.get(dtype, dtype)


def storage_key(tensor: Any) -> int:
    """Return the number of a tensor's storage, which is its own as long as the storage lives."""
    key: int = tensor.untyped_storage()._cdata
    return key


def tensors_in(tree: Any) -> Iterator[Any]:
    """Yield the tensors of nested lists, tuples and dicts in their order."""
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            waiting += reversed(each)
        elif isinstance(each, dict):
            waiting += reversed(each.values())


def array_of(tensor: Any) -> NDArray[Any]:
    """Return the memory of a tensor on a CPU as an array."""
    array: NDArray[Any] = _AS_ARRAY(tensor.detach())
    return array


def may_be_long(tensor: Any) -> bool:
    """Return whether a tensor is in the memory of numpy, and has the dtype of a twin in longdouble."""
    return HAS_LONG and tensor.dtype is torch.float64 and tensor.is_cpu and not tensor.is_neg() and is_shadowed(tensor)


class Twins:
    """Hold the twins of storages as long as these live. A storage without a twin is exact: its twin is its own upcast.

    A twin is a tensor of float64, or an array of longdouble for work in float64 on a CPU: `long_of` has its numbers,
    and `of` has them rounded to float64, in a copy. `errors` has the last relative total error that was measured in a
    storage.
    """

    def __init__(self) -> None:
        self.errors: dict[int, float] = {}
        self.bytes = 0
        self.peak_bytes = 0
        self._twins: dict[int, Any] = {}
        self._storages: dict[int, Any] = {}
        self._makers: dict[int, tuple[int, Any]] = {}
        # Storages whose twins have the memory of an array's shadow, and those whose exact values nobody knows.
        self._shared: dict[int, Any] = {}
        self._unknown: dict[int, Any] = {}
        # Storages of float64 that an operation without a form in longdouble wrote.
        self._unmeasured: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._twins)

    def has(self, tensor: Any) -> bool:
        """Return whether a tensor's storage differs from its upcast."""
        return storage_key(tensor) in self._twins

    def differs(self, tensor: Any) -> bool:
        """Return whether a tensor's own elements differ from their twins: a view may be exact in an inexact storage."""
        if self.is_long(tensor) and may_be_long(tensor):
            return not np.array_equal(self.long_of(tensor), array_of(tensor), equal_nan=True)
        return self.has(tensor) and not torch.allclose(self.of(tensor), upcast(tensor), 0.0, 0.0, equal_nan=True)

    def has_key(self, key: int) -> bool:
        """Return whether the storage of a number differs from its upcast."""
        return key in self._twins

    def of(self, tensor: Any) -> Any:
        """Return the twin of a tensor as a view with the tensor's shape and strides, or the upcast of an exact one."""
        twin = self._fitting(tensor)
        if twin is None:
            return upcast(tensor)
        view = twin.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        # Both are flags of a tensor, and not part of its memory.
        view = view.conj() if tensor.is_conj() else view
        return torch._neg_view(view) if tensor.is_neg() else view

    def _fitting(self, tensor: Any) -> Any:
        twin = self._twins.get(storage_key(tensor))
        if twin is None:
            return None
        if isinstance(twin, np.ndarray):
            twin = torch.from_numpy(twin.astype(np.float64))
        if twin.is_complex() and not tensor.is_complex():
            twin = torch.view_as_real(twin).view(-1)
        elif tensor.is_complex() and not twin.is_complex():
            twin = torch.view_as_complex(twin.view(-1, 2)) if twin.numel() % 2 == 0 else None
        # A storage that was resized, or whose bits are read as another dtype.
        return twin if twin is not None and twin.numel() == _count(tensor) else None

    def make(self, tensor: Any) -> Any:
        """Return the twin of a tensor as `of` does, after its storage has one that can be written.

        That of a longdouble twin is a copy: `take_back` writes it to the twin.
        """
        if self.is_long(tensor) and not may_be_long(tensor):
            self._store(tensor, torch.from_numpy(self._twins[storage_key(tensor)].astype(np.float64)))
        if self._fitting(tensor) is None:
            flat = tensor.detach().as_strided((_count(tensor),), (1,), 0)
            self._store(tensor, flat.to(twin_dtype(tensor.dtype), copy=True))
        return self.of(tensor)

    def put(self, tensor: Any, exact: Any, used: set[int]) -> None:
        """Give a new tensor its twin. It takes the memory of `exact` if that is its own: not among `used` storages."""
        count = _count(tensor)
        fills = exact.numel() == count == exact.untyped_storage().nbytes() // exact.element_size()
        if fills and exact.stride() == tensor.stride() and storage_key(exact) not in used and not exact.is_conj():
            self._store(tensor, exact.as_strided((count,), (1,), 0))
            return
        twin = torch.zeros(count, dtype=twin_dtype(tensor.dtype), device=tensor.device)
        self._store(tensor, twin)
        self.of(tensor).copy_(exact)

    def is_long(self, tensor: Any) -> bool:
        """Return whether the twin of a tensor's storage is of longdouble."""
        return isinstance(self._twins.get(storage_key(tensor)), np.ndarray)

    def long_of(self, tensor: Any) -> NDArray[Any]:
        """Return the exact numbers of a tensor in longdouble: a view of its twin, or a copy of an exact one."""
        flat = self._twins.get(storage_key(tensor))
        if not isinstance(flat, np.ndarray) or flat.size != _count(tensor):
            return array_of(tensor).astype(np.longdouble)
        steps = [each * flat.itemsize for each in tensor.stride()]
        return as_strided(flat[tensor.storage_offset() :], tuple(tensor.shape), steps)

    def make_long(self, tensor: Any) -> NDArray[Any]:
        """Return the exact numbers of a tensor as `long_of` does, after its storage has a twin that can be written."""
        flat = self._twins.get(storage_key(tensor))
        if not isinstance(flat, np.ndarray) or flat.size != _count(tensor):
            self._store(tensor, array_of(tensor.detach().as_strided((_count(tensor),), (1,), 0)).astype(np.longdouble))
        return self.long_of(tensor)

    def error_of(self, tensor: Any) -> Any:
        """Return the error of a tensor in float64."""
        if self.is_long(tensor) and may_be_long(tensor):
            return torch.from_numpy(np.asarray(array_of(tensor) - self.long_of(tensor), np.float64))
        return upcast(tensor) - self.of(tensor)

    def take_back(self, tensor: Any, wide: Any) -> None:
        """Write float64 values to a twin of longdouble, where they are no longer its rounded ones."""
        exact, values = self.long_of(tensor), array_of(wide)
        rounded = exact.astype(np.float64)
        changed = (values != rounded) & ~(np.isnan(values) & np.isnan(rounded))
        exact[changed] = values[changed]

    def lose(self, tensor: Any) -> None:
        """Note that a tensor of float64 has no exact values: its last operation has no form in longdouble."""
        if self.is_long(tensor) and storage_key(tensor) in self._shared:
            # An array has the same shadow, and must not keep the one of old values.
            self.long_of(tensor)[...] = np.nan
        self.drop(storage_key(tensor))
        self._note(self._unmeasured, tensor)

    def is_unmeasured(self, tensor: Any) -> bool:
        """Return whether nobody knows the exact values of a tensor of float64."""
        return bool(self._unmeasured) and storage_key(tensor) in self._unmeasured

    def maker_of(self, key: int) -> int:
        """Return the number of the operation that last wrote the storage of a number; 0 for values from outside."""
        return self._makers.get(key, (0, None))[0]

    def note_maker(self, tensor: Any, number: int) -> None:
        """Note the operation that wrote a tensor."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        self._makers[key] = number, weakref.ref(storage, partial(self._forget_maker, key))

    def _forget_maker(self, key: int, _storage: object) -> None:
        self._makers.pop(key, None)

    def share(self, tensor: Any) -> None:
        """Give a tensor a twin whose memory stays the same as long as the tensor lives."""
        if may_be_long(tensor) and (self.is_long(tensor) or not self.has(tensor)):
            self.make_long(tensor)
        else:
            self.make(tensor)
        self._note(self._shared, tensor)

    def mark_unknown(self, tensor: Any) -> None:
        """Note that nobody knows the exact values of a tensor: code without a trace computed it."""
        self._note(self._unknown, tensor)

    def is_unknown(self, tensors: Sequence[Any]) -> bool:
        """Return whether nobody knows the exact values of one of the tensors."""
        return bool(self._unknown) and any(storage_key(each) in self._unknown for each in tensors)

    def _note(self, notes: dict[int, Any], tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        notes[key] = weakref.ref(storage, lambda _: notes.pop(key, None))

    def memory_of(self, tensor: Any) -> NDArray[Any]:
        """Return the exact numbers of a tensor that has a shared twin, in the twin's memory."""
        return self.long_of(tensor) if self.is_long(tensor) else _AS_ARRAY(self.of(tensor).resolve_conj())

    def forget(self, tensor: Any) -> None:
        """Take the values of a tensor as exact from now on."""
        key, fills = storage_key(tensor), tensor.numel() == _count(tensor)
        if fills:
            self._unknown.pop(key, None)
            self._unmeasured.pop(key, None)
        if not self.has(tensor):
            return
        if (fills and key not in self._shared) or self._fitting(tensor) is None:
            self.drop(storage_key(tensor))
        elif self.is_long(tensor) and may_be_long(tensor):
            self.long_of(tensor)[...] = array_of(tensor)
        else:
            self.make(tensor).copy_(tensor)

    def settle(self, tensor: Any) -> None:
        """Remove a twin that equals its tensor, which fills its storage."""
        if storage_key(tensor) not in self._shared:
            self.drop(storage_key(tensor))

    def drop(self, key: int) -> None:
        """Remove the twin of a storage."""
        twin = self._twins.pop(key, None)
        self.bytes -= 0 if twin is None else twin.nbytes
        self._storages.pop(key, None)
        self.errors.pop(key, None)

    def _store(self, tensor: Any, twin: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        self.drop(key)
        self._twins[key] = twin
        self.bytes += twin.nbytes
        self.peak_bytes = max(self.peak_bytes, self.bytes)
        # The storage's object in Python lives as long as the storage itself, and every view has the same.
        self._storages[key] = weakref.ref(storage, partial(self._end, key))

    def _end(self, key: int, _storage: object) -> None:
        self.drop(key)


def _count(tensor: Any) -> int:
    count: int = tensor.untyped_storage().nbytes() // tensor.element_size()
    return count


def upcast(tensor: Any, *, copy: bool = False) -> Any:
    """Return a tensor's values in the dtype of twins."""
    return tensor.detach().to(twin_dtype(tensor.dtype), copy=copy)
