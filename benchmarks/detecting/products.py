"""Products of matrices, convolution and attention."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import (
    as_brain,
    as_double,
    as_half,
    bfloat16,
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


def matmul(a, b, product=partial(chunks, size=16), read=unchanged, store=half) -> Array:
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
        "even channels first": partial(
            convolve, order=POSITIONS[0:18] + POSITIONS[36:54] + POSITIONS[18:36] + POSITIONS[54:]
        ),
        "the accumulator of 20 bits": partial(convolve, keep=partial(kept, bits=20)),
    },
)


def attention(
    q, k, v, scores=unchanged, weights=unchanged, sums=unchanged, late=False, exp=np.exp, scale=None, masked=True,
    values=partial(chunks, size=16), dots=partial(chunks, size=16), store=half, shift=True,
) -> Array:  # fmt: skip
    """Attend causally, in float32: two heads of 48 queries and 32 channels."""
    return store(np.stack([one_head(*(single(part[head]) for part in (q, k, v)), scores, weights, sums, late, exp, scale, masked, values, dots, shift) for head in range(len(q))]))  # fmt: skip


def one_head(q, k, v, scores, weights, sums, late, exp, scale, masked, values, dots, shift) -> Array:
    """Attend with one head; `late` divides after the product with the values."""
    found = scores(dots(q, np.ascontiguousarray(k.T)) * np.float32(1 / np.sqrt(32) if scale is None else scale))
    if masked:
        found = np.where(np.tri(len(q), len(k), dtype=bool), found, np.float32(-np.inf))
    powers = exp(found - found.max(-1, keepdims=True) if shift else found)
    total = sums(np.add.accumulate(powers, axis=-1)[..., -1:])
    if late:
        return values(weights(powers), v) / total
    return values(weights(powers / total), v)


def exact_attention(q: Array, k: Array, v: Array) -> Array:
    """Attend in float64."""
    found = double(q) @ double(k).swapaxes(-1, -2) / np.sqrt(32)
    found = np.where(np.tri(q.shape[1], k.shape[1], dtype=bool), found, -np.inf)
    powers = np.exp(found - found.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ double(v)


ATTENTION = Operator(
    "attention_float16",
    lambda random: tuple(half(random.normal(0, 1, (2, 48, 32))) for _ in range(3)),
    exact_attention,
    attention,
    {
        "scores stored in float16": partial(attention, scores=as_half),
        "scores stored in bfloat16": partial(attention, scores=as_brain),
        "scores rounded to 12 bits": partial(attention, scores=partial(kept, bits=12)),
        "weights stored in float16": partial(attention, weights=as_half),
        "weights rounded to 12 bits": partial(attention, weights=partial(kept, bits=12)),
        "weights stored in bfloat16": partial(attention, weights=as_brain),
        "weights stored in bfloat16 before the division": partial(attention, weights=as_brain, late=True),
        "weights stored in float16 before the division": partial(attention, weights=as_half, late=True),
        "the sum stored in float16": partial(attention, sums=as_half),
        "the sum stored in bfloat16": partial(attention, sums=as_brain),
        "values accumulated in float16": partial(attention, values=partial(rank_one, keep=as_half)),
        "dot products accumulated in float16": partial(attention, dots=partial(rank_one, keep=as_half)),
        "the scale with two digits": partial(attention, scale=0.18),
        "the scale in bfloat16": partial(attention, scale=float(bfloat16(1 / np.sqrt(32)))),
        "the scale in float16": partial(attention, scale=float(np.float16(1 / np.sqrt(32)))),
        "truncated to float16": partial(attention, store=half_cut),
        "the mask lost": partial(attention, masked=False),
        "exp with 12 bits": partial(attention, exp=lambda x: kept(np.exp(x), 12)),
    },
    {
        "divided after the product": partial(attention, late=True),
        "values from the end": partial(attention, values=backward_chunks),
        "dot products from the end": partial(attention, dots=backward_chunks),
        "values in one accumulator": partial(attention, values=rank_one),
        "dot products in float64": partial(attention, dots=in_float64),
        "exp by powers of two": partial(attention, exp=lambda x: np.exp2(x * np.float32(1.4426950408889634))),
        "the maximum is not needed": partial(attention, shift=False),
        "everything in float64": lambda q, k, v: half(exact_attention(q, k, v)),
    },
)


def attention_single(change=None, **choices):
    """Attend with float32 in and out."""
    return partial(change or attention, store=single, **choices)


ATTENTION_SINGLE = Operator(
    "attention_float32",
    lambda random: tuple(single(random.normal(0, 1, (2, 48, 32))) for _ in range(3)),
    exact_attention,
    attention_single(),
    {
        "scores rounded to 22 bits": attention_single(scores=partial(kept, bits=22)),
        "scores truncated to 22 bits": attention_single(scores=partial(cut, bits=22)),
        "scores stored in float16": attention_single(scores=as_half),
        "weights rounded to 22 bits": attention_single(weights=partial(kept, bits=22)),
        "weights rounded to 21 bits": attention_single(weights=partial(kept, bits=21)),
        "weights truncated to 22 bits": attention_single(weights=partial(cut, bits=22)),
        "weights stored in bfloat16": attention_single(weights=as_brain),
        "the sum rounded to 21 bits": attention_single(sums=partial(kept, bits=21)),
        "the sum truncated to 21 bits": attention_single(sums=partial(cut, bits=21)),
        "the scale with six digits": attention_single(scale=0.176777),
        "the scale with four digits": attention_single(scale=0.1768),
        "dot products of 20 bits": attention_single(dots=lambda a, b: chunks(kept(a, 20), kept(b, 20), 16)),
        "values truncated to 23 bits": attention_single(values=partial(chunks, size=16, inside=partial(cut, bits=23))),
        "the mask lost": attention_single(masked=False),
        "dot products in one accumulator": attention_single(dots=rank_one),
    },
    {
        "values from the end": attention_single(values=backward_chunks),
        "dot products from the end": attention_single(dots=backward_chunks),
        "dot products from the middle": attention_single(dots=rotated),
        "values from the middle": attention_single(values=rotated),
        "dot products in float64": attention_single(dots=in_float64),
        "values in float64": attention_single(values=in_float64),
        "exp in float64": attention_single(exp=lambda x: as_double(np.exp, x)),
        "divided after the product": attention_single(late=True),
        "sums in float64": attention_single(sums=unchanged, exp=lambda x: single(np.exp(double(x)))),
    },
)

OPERATORS = (MATMUL_HALF, MATMUL_SINGLE, CONVOLUTION, ATTENTION, ATTENTION_SINGLE)
