"""Ways to make a number shorter, as kernels do by choice or by accident."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt

from detecting.operator import Array

bfloat16 = ml_dtypes.bfloat16


def single(x: Array) -> Array:
    """Convert to float32."""
    return np.asarray(x).astype(np.float32)


def double(x: Array) -> Array:
    """Convert to float64."""
    return np.asarray(x).astype(np.float64)


def extended(x: Array) -> Array:
    """Convert to long double, which holds float64 under test to account."""
    return np.asarray(x).astype(np.longdouble)


def half(x: Array) -> Array:
    """Round to float16."""
    return np.asarray(x).astype(np.float16)


def brain(x: Array) -> Array:
    """Round to bfloat16."""
    return np.asarray(x).astype(bfloat16)


def through(x: Array, dtype: npt.DTypeLike) -> Array:
    """Store in a dtype for a moment, and read it again."""
    return x.astype(dtype).astype(x.dtype)


def as_half(x: Array) -> Array:
    """Store in float16 for a moment."""
    return through(x, np.float16)


def as_brain(x: Array) -> Array:
    """Store in bfloat16 for a moment."""
    return through(x, bfloat16)


def as_single(x: Array) -> Array:
    """Store in float32 for a moment."""
    return through(x, np.float32)


def as_double(function, *operands: Array) -> Array:
    """Compute in float64 and round to the dtype of the first operand."""
    return function(*(double(operand) for operand in operands)).astype(operands[0].dtype)


def kept(x: Array, bits: int) -> Array:
    """Round float32 or float64 to so many significant bits (Veltkamp's splitting)."""
    precision = np.finfo(x.dtype).nmant + 1
    scaled = x * x.dtype.type(2.0 ** (precision - bits) + 1)
    return scaled - (scaled - x)


def cut(x: Array, bits: int) -> Array:
    """Truncate float32 or float64 to so many significant bits."""
    word, stored = (np.uint32, 23) if x.dtype == np.float32 else (np.uint64, 52)
    mask = word(~((1 << (stored + 1 - bits)) - 1) & (2 ** (8 * x.dtype.itemsize) - 1))
    return (np.ascontiguousarray(x).view(word) & mask).view(x.dtype)


def half_cut(x: Array) -> Array:
    """Truncate float32 to float16."""
    nearest = half(x)
    return np.where(np.abs(single(nearest)) > np.abs(x), np.nextafter(nearest, np.float16(0)), nearest)


def brain_cut(x: Array) -> Array:
    """Truncate float32 to bfloat16, which is its upper half."""
    return brain(cut(single(x), 8))


def fused(a: Array, b: Array, c: Array) -> Array:
    """Compute a * b + c of float32, rounded once, but for what float64 loses."""
    return single(double(a) * double(b) + double(c))
