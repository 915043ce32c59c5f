"""The digest of an array: equal for equal dtype, shape and bits, on every machine.

It is there to see changes, at the speed of memory: XXH3 with 128 bits, in which no accident makes two arrays the same.
It does not withstand forgery: who aims at a digest can make other bits that have it, but could as well write another
digest into the baseline. Review in git guards both. Digests of what is no array (definitions, sources, environments)
are SHA-256 or BLAKE2.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128

_BLOCK = 2**16
"""Elements that are hashed at a time: all that is ever copied, of an array that is not laid out as it is hashed."""


def array_digest(array: NDArray[Any]) -> str:
    """Return 32 hexadecimal digits: XXH3-128 of dtype name, shape and bytes.

    What is hashed is `float16 4x64`, a newline, and the elements in C order, little-endian; the shape of a scalar
    is empty. -0.0 and 0.0 differ, and so do NaN of different bits. The padding of a longdouble is hashed as zeros.
    """
    digest = xxh3_128(_header(array.dtype, array.shape))
    for block in _blocks(array):
        digest.update(block.data)
    return digest.hexdigest()


def octets(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of each element, (elements, bytes), with zeros where a longdouble leaves them unused."""
    taken = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return (_without_padding(taken) if _is_padded(array.dtype) else taken).reshape(array.size, array.dtype.itemsize)


@lru_cache
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return f"{dtype.name} {'x'.join(map(str, shape))}\n".encode()


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[np.uint8]]:
    """Yield the elements in C order as little-endian bytes: all at once where they are laid out so."""
    is_swapped = array.dtype.str.startswith(">")
    dtype = array.dtype.newbyteorder("<") if is_swapped else array.dtype
    laid_out = array.flags.c_contiguous and not is_swapped
    padded = _is_padded(dtype)
    for block in (np.asarray(array).reshape(-1),) if laid_out else _in_c_order(array, dtype):
        taken = block.view(np.uint8)
        yield _without_padding(taken) if padded else taken


def _is_padded(dtype: np.dtype[Any]) -> bool:
    return dtype.char in "gG" and np.finfo(dtype).nmant == 63


def _in_c_order(array: NDArray[Any], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    flags: Final = ("external_loop", "buffered", "zerosize_ok")
    blocks = np.nditer(array, flags, op_dtypes=dtype, order="C", casting="equiv", buffersize=_BLOCK)
    return (np.ascontiguousarray(block) for block in blocks)


def _without_padding(taken: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Clear what the x87 format leaves unused: six bytes of sixteen, or two of twelve."""
    numbers = taken.reshape(-1, np.dtype(np.longdouble).itemsize).copy()
    numbers[:, 10:] = 0
    return numbers.reshape(-1)
