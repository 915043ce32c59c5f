"""Products of matrices, convolution and attention."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import (
    as_brain,
    as_half,
    brain,
    brain_cut,
    cut,
    double,
    half,
    half_cut,
    kept,
    single,
)
from detecting.summing import unchanged


def rank_one(a, b, order=None, keep=unchanged, product=unchanged, total=None) -> Array:
    """Multiply matrices, adding the outer products of columns and rows in an order; `keep` is the accumulator."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype) if total is None else total
    for k in range(a.shape[1]) if order is None else order:
        total = keep(total + product(a[:, k, None] * b[k]))
    return total


def chunks(a, b, size, join=unchanged, inside=unchanged, keep=unchanged) -> Array:
    """Multiply chunks of the inner dimension apart, and add the results."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(0, a.shape[1], size):
        total = keep(total + join(rank_one(a[:, k : k + size], b[k : k + size], keep=inside)))
    return total


by_sixteens = partial(chunks, size=16)


def matmul(a, b, product=by_sixteens, read=unchanged, store=half) -> Array:
    """Multiply in float32, the inner dimension in chunks of 16."""
    return store(product(read(single(a)), read(single(b))))


def tail_zero(a: Array, b: Array, lost: int = 1) -> Array:
    """Lose the end of the inner dimension."""
    return chunks(a[:, :-lost], b[:-lost], 16)


def tail_again(a: Array, b: Array) -> Array:
    """Read the columns before the last ones of one factor again."""
    return chunks(np.concatenate([a[:, :-4], a[:, -8:-4]], axis=1), b, 16)


def tail_rows(a: Array, b: Array) -> Array:
    """Lose the rest of the inner dimension in the last two rows alone."""
    total = chunks(a, b, 16)
    total[-2:] = chunks(a[-2:, :-16], b[:-16], 16)
    return total


def strassen(a: Array, b: Array) -> Array:
    """Multiply quarters seven times instead of eight."""
    m, k, n = a.shape[0] // 2, a.shape[1] // 2, b.shape[1] // 2
    a11, a12, a21, a22 = a[:m, :k], a[:m, k:], a[m:, :k], a[m:, k:]
    b11, b12, b21, b22 = b[:k, :n], b[:k, n:], b[k:, :n], b[k:, n:]
    product = partial(chunks, size=16)
    m1, m2, m3 = product(a11 + a22, b11 + b22), product(a21 + a22, b11), product(a11, b12 - b22)
    m4, m5 = product(a22, b21 - b11), product(a11 + a12, b22)
    m6, m7 = product(a21 - a11, b11 + b12), product(a12 - a22, b21 + b22)
    return np.block([[m1 + m4 - m5 + m7, m3 + m5], [m2 + m4, m1 - m2 + m3 + m6]])


def backward_chunks(a: Array, b: Array) -> Array:
    """Begin at the end of the inner dimension."""
    return chunks(a[:, ::-1], b[::-1], 16)


def strided_chunks(a: Array, b: Array) -> Array:
    """Put every fourth of the inner dimension into one chunk."""
    order = np.arange(a.shape[1]).reshape(-1, a.shape[1] // 16).T.ravel()
    return chunks(a[:, order], b[order], 16)


def rotated(a: Array, b: Array) -> Array:
    """Begin in the middle of the inner dimension."""
    middle = a.shape[1] // 2
    return chunks(np.roll(a, middle, 1), np.roll(b, middle, 0), 16)


def transposed(a: Array, b: Array) -> Array:
    """Multiply the transposed factors."""
    return chunks(b.T, a.T, 16).T


def in_float64(a: Array, b: Array) -> Array:
    """Multiply in float64."""
    return single(double(a) @ double(b))


def fused_products(a: Array, b: Array) -> Array:
    """Multiply and add in one rounding, one term after the other in each chunk."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for start in range(0, a.shape[1], 16):
        inner = np.zeros_like(total)
        for k in range(start, start + 16):
            inner = single(double(a[:, k, None]) * double(b[k]) + double(inner))
        total = total + inner
    return total


def exact_matmul(a: Array, b: Array) -> Array:
    """Multiply in float64."""
    return double(a) @ double(b)


def factors(rows: int, inner: int, columns: int, store):
    """Draw two matrices."""
    return lambda random: (store(random.normal(0, 1, (rows, inner))), store(random.normal(0, 1, (inner, columns))))


HARMLESS = {
    "from the end": backward_chunks,
    "chunks of every fourth": strided_chunks,
    "from the middle": rotated,
    "transposed factors": transposed,
    "in float64": in_float64,
}

MATMUL_HALF = Operator(
    "matmul_float16",
    factors(64, 64, 64, half),
    exact_matmul,
    matmul,
    {
        "chunks stored in float16": partial(matmul, product=partial(chunks, size=16, join=as_half)),
        "the accumulator in float16": partial(matmul, product=partial(rank_one, keep=as_half)),
        "the sum over chunks in float16": partial(matmul, product=partial(chunks, size=16, keep=as_half)),
        "the sum over chunks of 32 in float16": partial(matmul, product=partial(chunks, size=32, keep=as_half)),
        "chunks rounded to 12 bits": partial(matmul, product=partial(chunks, size=16, join=partial(kept, bits=12))),
        "chunks truncated to 13 bits": partial(matmul, product=partial(chunks, size=16, join=partial(cut, bits=13))),
        "the accumulator truncated to 14 bits": partial(matmul, product=partial(rank_one, keep=partial(cut, bits=14))),
        "the accumulator rounded to 13 bits": partial(matmul, product=partial(rank_one, keep=partial(kept, bits=13))),
        "products stored in float16": partial(matmul, product=partial(rank_one, product=as_half)),
        "products rounded to 12 bits": partial(matmul, product=partial(rank_one, product=partial(kept, bits=12))),
        "factors read as bfloat16": partial(matmul, read=as_brain),
        "truncated to float16": partial(matmul, store=half_cut),
        "the last of the inner dimension lost": partial(matmul, product=tail_zero),
        "a stale tail": partial(matmul, product=tail_again),
        "the tail lost in the last two rows": partial(matmul, product=tail_rows),
    },
    {
        **{name: partial(matmul, product=change) for name, change in HARMLESS.items()},
        "one accumulator": partial(matmul, product=rank_one),
        "chunks of 8": partial(matmul, product=partial(chunks, size=8)),
        "Strassen's": partial(matmul, product=strassen),
    },
    # Errors are distributed alike: the inner dimension is drawn alike.
    null=frozenset({"from the end", "chunks of every fourth", "from the middle"}),
)

MATMUL_SINGLE = Operator(
    "matmul_float32",
    factors(64, 64, 64, single),
    exact_matmul,
    partial(matmul, store=single),
    {
        name: partial(matmul, product=change, store=single)
        for name, change in {
            "one accumulator": rank_one,
            "chunks of 4": partial(chunks, size=4),
            "chunks of 32": partial(chunks, size=32),
            "Strassen's": strassen,
            "chunks rounded to 23 bits": partial(chunks, size=16, join=partial(kept, bits=23)),
            "chunks rounded to 22 bits": partial(chunks, size=16, join=partial(kept, bits=22)),
            "chunks truncated to 23 bits": partial(chunks, size=16, join=partial(cut, bits=23)),
            "the sum over chunks truncated to 23 bits": partial(chunks, size=16, keep=partial(cut, bits=23)),
            "the accumulator truncated to 23 bits": partial(chunks, size=16, inside=partial(cut, bits=23)),
            "products rounded to 22 bits": partial(rank_one, product=partial(kept, bits=22)),
            "factors of 20 bits": lambda a, b: chunks(kept(a, 20), kept(b, 20), 16),
            "factors of 11 bits (TF32)": lambda a, b: chunks(kept(a, 11), kept(b, 11), 16),
            "chunks stored in bfloat16": partial(chunks, size=16, join=as_brain),
            "the last of the inner dimension lost": tail_zero,
            "the tail lost in the last two rows": tail_rows,
        }.items()
    },
    {
        **{name: partial(matmul, product=change, store=single) for name, change in HARMLESS.items()},
        "chunks of 8": partial(matmul, product=partial(chunks, size=8), store=single),
        "multiplied and added in one": partial(matmul, product=fused_products, store=single),
    },
    # Errors are distributed alike: the inner dimension is drawn alike.
    null=frozenset({"from the end", "chunks of every fourth", "from the middle"}),
)


def convolve(x, weights, bias, order=None, keep=unchanged, start=None, read=unchanged, store=brain) -> Array:
    """Convolve 8 channels to 12 by 3 x 3 weights, shifted images added in float32."""
    x, weights = read(single(x)), read(single(weights))
    high, wide = x.shape[1] - 2, x.shape[2] - 2
    total = np.zeros((12, high, wide), np.float32) if start is None else start(bias)
    for channel, row, column in order or list(np.ndindex(8, 3, 3)):
        image = x[channel, row : row + high, column : column + wide]
        total = keep(total + weights[:, channel, row, column, None, None] * image)
    return store(total if start is not None else total + single(bias)[:, None, None])


def with_bias(bias: Array) -> Array:
    """Begin with the bias."""
    return np.broadcast_to(single(bias)[:, None, None], (12, 20, 24)).copy()


def exact_convolve(x: Array, weights: Array, bias: Array) -> Array:
    """Convolve in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(double(x), (3, 3), axis=(1, 2))
    return np.einsum("chwrk,ocrk->ohw", windows, double(weights), optimize=True) + double(bias)[:, None, None]


def images(random: np.random.Generator) -> tuple[Array, ...]:
    """Draw an image, weights and a bias."""
    return (
        brain(random.normal(0.2, 1, (8, 22, 26))),
        brain(random.normal(0, 0.12, (12, 8, 3, 3))),
        brain(random.normal(0, 0.2, 12)),
    )


def by_matrix(x: Array, weights: Array, bias: Array) -> Array:
    """Multiply a matrix of windows."""
    windows = np.lib.stride_tricks.sliding_window_view(single(x), (3, 3), axis=(1, 2))
    flat = windows.transpose(0, 3, 4, 1, 2).reshape(72, -1)
    total = chunks(single(weights).reshape(12, 72), flat, 24).reshape(12, 20, 24)
    return brain(total + single(bias)[:, None, None])


POSITIONS = list(np.ndindex(8, 3, 3))

CONVOLUTION = Operator(
    "convolution_bfloat16",
    images,
    exact_convolve,
    convolve,
    {
        "the accumulator in bfloat16": partial(convolve, keep=as_brain),
        "the accumulator in float16": partial(convolve, keep=as_half),
        "the accumulator rounded to 10 bits": partial(convolve, keep=partial(kept, bits=10)),
        "the accumulator truncated to 11 bits": partial(convolve, keep=partial(cut, bits=11)),
        "the accumulator truncated to 13 bits": partial(convolve, keep=partial(cut, bits=13)),
        "rounded to bfloat16 before the bias": lambda x, weights, bias: brain(
            single(convolve(x, weights, 0 * bias)) + single(bias)[:, None, None]
        ),
        "rounded to 9 bits before the bias": lambda x, weights, bias: brain(
            kept(convolve(x, weights, 0 * bias, store=single), 9) + single(bias)[:, None, None]
        ),
        "weights of 7 bits": lambda x, weights, bias: convolve(x, kept(single(weights), 7), bias),
        "truncated to bfloat16": partial(convolve, store=brain_cut),
        "the bias lost": lambda x, weights, bias: convolve(x, weights, 0 * bias),
        "the last position lost": partial(convolve, order=POSITIONS[:-1]),
        "the last channel's image from the one before": lambda x, weights, bias: convolve(
            np.concatenate([x[:-1], x[-2:-1]]), weights, bias
        ),
        "factors in 5 bits": partial(convolve, read=partial(kept, bits=5)),
    },
    {
        "positions backward": partial(convolve, order=POSITIONS[::-1]),
        "positions first, then channels": partial(
            convolve, order=[(c, r, k) for r in range(3) for k in range(3) for c in range(8)]
        ),
        "begun with the bias": partial(convolve, start=with_bias),
        "as a product of matrices": by_matrix,
        "in float64": lambda x, weights, bias: brain(single(exact_convolve(x, weights, bias))),
        "channels 4 and 5 before 2 and 3": partial(
            convolve, order=POSITIONS[0:18] + POSITIONS[36:54] + POSITIONS[18:36] + POSITIONS[54:]
        ),
        "the accumulator of 20 bits": partial(convolve, keep=partial(kept, bits=20)),
    },
    # Errors are distributed alike: pixels are drawn alike, and so are weights.
    null=frozenset({"positions backward", "positions first, then channels", "channels 4 and 5 before 2 and 3"}),
)

OPERATORS = (MATMUL_HALF, MATMUL_SINGLE, CONVOLUTION)
