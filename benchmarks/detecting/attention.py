"""Attention: two products of matrices with a softmax between them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from detecting.operator import Array, Compute, Operator
from detecting.products import backward_chunks, by_sixteens, chunks, in_float64, rank_one, rotated
from detecting.rounding import as_brain, as_double, as_half, bfloat16, cut, double, half, half_cut, kept, single
from detecting.summing import unchanged


class Choices(NamedTuple):
    """How parts of attention are computed; `late` divides after the product with the values."""

    scores: Compute = unchanged
    weights: Compute = unchanged
    sums: Compute = unchanged
    exp: Compute = np.exp
    dots: Compute = by_sixteens
    values: Compute = by_sixteens
    scale: float = 32**-0.5
    late: bool = False
    masked: bool = True
    shift: bool = True


def attention(q, k, v, store=half, **choices) -> Array:
    """Attend causally, in float32: two heads of 48 queries and 32 channels."""
    heads = zip(*(single(part) for part in (q, k, v)), strict=True)
    return store(np.stack([one_head(*head, Choices(**choices)) for head in heads]))


def one_head(q, k, v, how: Choices) -> Array:
    """Attend with one head."""
    found = how.scores(how.dots(q, np.ascontiguousarray(k.T)) * np.float32(how.scale))
    if how.masked:
        found = np.where(np.tri(len(q), len(k), dtype=bool), found, np.float32(-np.inf))
    powers = how.exp(found - found.max(-1, keepdims=True) if how.shift else found)
    total = how.sums(np.add.accumulate(powers, axis=-1)[..., -1:])
    if how.late:
        return how.values(how.weights(powers), v) / total
    return how.values(how.weights(powers / total), v)


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
    # Errors are distributed alike: channels are drawn alike; queries and keys are not, because of the mask.
    null=frozenset({"dot products from the end"}),
)


def attention_single(change=None, **choices):
    """Attend with float32 in and out."""
    return partial(change or attention, store=single, **choices)


def halved_rows(a: Array, b: Array) -> Array:
    """Multiply the upper and the lower half of the rows apart, the lower one from the end."""
    return np.concatenate([chunks(a[:24], b, 16), backward_chunks(a[24:], b)])


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
        "the lower half of the queries from the end": attention_single(dots=halved_rows),
    },
    # Errors are distributed alike: channels are drawn alike; queries and keys are not, because of the mask.
    null=frozenset({"dot products from the end"}),
)

OPERATORS = (ATTENTION, ATTENTION_SINGLE)
