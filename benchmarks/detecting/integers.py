"""Integers and their scales: products that are exact, and conversions between narrow formats."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_half, cut, double, half, half_cut, kept, single
from detecting.summing import unchanged


def product(a, b, chunk=32, wide=np.int32, inside=None, total=None) -> Array:
    """Multiply matrices of int8, accumulated in int32, as float32: exact."""
    inside = inside or (lambda x, y: x.astype(wide) @ y.astype(wide))
    found = np.zeros((len(a), b.shape[1]), np.int32 if total is None else total)
    for at in range(0, a.shape[1], chunk):
        found = found + inside(a[:, at : at + chunk], b[at : at + chunk]).astype(found.dtype)
    return single(found)


def in_half(x: Array, y: Array) -> Array:
    """Accumulate a chunk in float16."""
    found = np.zeros((len(x), y.shape[1]), np.float16)
    for at in range(x.shape[1]):
        found = half(single(found) + single(x[:, at, None]) * single(y[at]))
    return single(found)


def saturating(x: Array, y: Array) -> Array:
    """Let sums of four products end at the limits of int16."""
    fours = (slice(at, at + 4) for at in range(0, x.shape[1], 4))
    return sum(np.clip(x[:, four].astype(np.int32) @ y[four].astype(np.int32), -32768, 32767) for four in fours)


def wrapping(x: Array, y: Array) -> Array:
    """Let a chunk overflow int16."""
    return (x.astype(np.int32) @ y.astype(np.int32)).astype(np.int16)


def shifted(a: Array, b: Array) -> Array:
    """Make one factor unsigned, and take the shift away again."""
    raised = product(a.astype(np.int16) + 128, b)
    return raised - np.float32(128) * single(b.astype(np.int32).sum(0))


def shifted_without(a: Array, b: Array) -> Array:
    """Lose the last column's sum when the shift is taken away."""
    sums = b.astype(np.int32).sum(0)
    sums[-1] = 0
    return product(a.astype(np.int16) + 128, b) - np.float32(128) * single(sums)


def bytes_of(random: np.random.Generator) -> tuple[Array, Array]:
    """Draw two matrices of int8."""
    return (
        random.integers(-128, 128, (64, 128)).astype(np.int8),
        random.integers(-128, 128, (128, 48)).astype(np.int8),
    )


INTEGER_PRODUCT = Operator(
    "int8_product_exact",
    bytes_of,
    lambda a, b: double(a) @ double(b),
    product,
    {
        "accumulated in float16": partial(product, inside=in_half, total=np.float32),
        "chunks stored in float16": partial(product, inside=lambda x, y: as_half(single(x) @ single(y))),
        "chunks stored in bfloat16": partial(product, inside=lambda x, y: as_brain(single(x) @ single(y))),
        "chunks overflow int16": partial(product, inside=wrapping),
        "sums of four end at int16's limits": partial(product, inside=saturating),
        "the sum in bfloat16": lambda a, b: as_brain(product(a, b)),
        "the sum truncated to 16 bits": lambda a, b: cut(product(a, b), 16),
        "the sum of 15 bits": lambda a, b: kept(product(a, b), 15),
        "the last of the inner dimension lost": lambda a, b: product(a[:, :-1], b[:-1]),
        "the shift taken away except in the last column": shifted_without,
        "a factor not below -127": lambda a, b: product(np.maximum(a, -127), b),
    },
    {
        "in float32": lambda a, b: product(a, b, wide=np.float32, total=np.float32),
        "in float64": lambda a, b: single(double(a) @ double(b)),
        "chunks of 8": partial(product, chunk=8),
        "one chunk": partial(product, chunk=128),
        "backward": lambda a, b: product(a[:, ::-1], b[::-1]),
        "shifted and back": shifted,
        "in int64": partial(product, wide=np.int64, total=np.int64),
    },
)


def dequantize(q, zero, scale, off=unchanged, factor=unchanged, store=half, shift=None) -> Array:
    """Give (q - zero) * scale of each column in float32, stored in float16."""
    if shift is not None:
        return store(single(q) * factor(scale) - shift(zero * factor(scale)))
    return store(off(single(q) - zero) * factor(scale))


def quanta(random: np.random.Generator) -> tuple[Array, ...]:
    """Draw int8 numbers, and zeros and scales of columns."""
    q = random.integers(-128, 128, (96, 80)).astype(np.int8)
    return q, single(random.integers(-20, 20, 80)), single(np.exp(random.uniform(-6, -3, 80)))


def by_table(q: Array, zero: Array, scale: Array) -> Array:
    """Look every number up in the table of its column."""
    table = (np.arange(-128, 128, dtype=np.float32)[:, None] - zero) * scale
    return half(table[q.astype(np.int64) + 128, np.arange(80)])


DEQUANTIZE = Operator(
    "dequantize_float16",
    quanta,
    lambda q, zero, scale: (double(q) - double(zero)) * double(scale),
    dequantize,
    {
        "scales in float16": partial(dequantize, factor=as_half),
        "scales in bfloat16": partial(dequantize, factor=as_brain),
        "scales of 12 bits": partial(dequantize, factor=partial(kept, bits=12)),
        "scales of 13 bits": partial(dequantize, factor=partial(kept, bits=13)),
        "scales truncated to 13 bits": partial(dequantize, factor=partial(cut, bits=13)),
        "the shift in float16": partial(dequantize, shift=as_half),
        "the shift of 13 bits": partial(dequantize, shift=partial(kept, bits=13)),
        "differences of 7 bits": partial(dequantize, off=partial(kept, bits=7)),
        "truncated to float16": partial(dequantize, store=half_cut),
        "rounded to 12 bits first": partial(dequantize, store=lambda x: half(kept(x, 12))),
        "truncated to 13 bits first": partial(dequantize, store=lambda x: half(cut(x, 13))),
        "the zero lost": lambda q, zero, scale: dequantize(q, 0 * zero, scale),
        "differences end at int8's limits": partial(dequantize, off=lambda x: np.clip(x, -128, 127)),
        "the scale of the column before in the last one": lambda q, zero, scale: dequantize(
            q, zero, np.concatenate([scale[:-1], scale[-2:-1]])
        ),
    },
    {
        "a shift": partial(dequantize, shift=unchanged),
        "multiplied and added in one": lambda q, zero, scale: half(
            single(double(q) * double(scale) - double(zero) * double(scale))
        ),
        "in float64": lambda q, zero, scale: half(single((double(q) - double(zero)) * double(scale))),
        "by the reciprocal": lambda q, zero, scale: half((single(q) - zero) / (np.float32(1) / scale)),
        "by a table": by_table,
        "scales of 22 bits": partial(dequantize, factor=partial(kept, bits=22)),
        "two halves of the scale": lambda q, zero, scale: half(
            (single(q) - zero) * (scale * np.float32(0.5)) + (single(q) - zero) * (scale * np.float32(0.5))
        ),
    },
)

OPERATORS = (INTEGER_PRODUCT, DEQUANTIZE)
