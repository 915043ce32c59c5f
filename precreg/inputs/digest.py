"""The digest of an array: equal for equal dtype, shape and bits, on every machine."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray


def array_digest(array: NDArray[Any]) -> str:
    """Return 32 hexadecimal digits: the start of the SHA-256 of dtype name, shape and bytes.

    What is hashed is `float16 4x64`, a newline, and the elements in C order, little-endian; the shape of a scalar
    is empty. -0.0 and 0.0 differ, and so do NaN of different bits. The padding of a longdouble is hashed as zeros.
    """
    digest = sha256(_header(array.dtype, array.shape))
    digest.update(_bytes(array).data)
    return digest.hexdigest()[:32]


@lru_cache
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return f"{dtype.name} {'x'.join(map(str, shape))}\n".encode()


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """View the elements as little-endian bytes; the array is copied only where it is not laid out so."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.str.startswith(">"):
        flat = flat.astype(flat.dtype.newbyteorder("<"))
    octets = flat.view(np.uint8)
    return _without_padding(octets, flat.dtype) if flat.dtype.char in "gG" else octets


def _without_padding(octets: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    """Clear what the x87 format leaves unused: six bytes of sixteen, or two of twelve."""
    if np.finfo(dtype).nmant != 63:
        return octets
    each = np.dtype(np.longdouble).itemsize
    numbers = octets.reshape(-1, each).copy()
    numbers[:, 10:] = 0
    return numbers.reshape(-1)
