"""Softmax, its logarithm, and the logarithm of a sum of exponentials: a row shares its maximum and its denominator."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, bfloat16, cut, double, half, half_cut, kept, single
from detecting.summing import (
    LANE_ORDERS,
    Sum,
    backward,
    halves,
    lanes,
    lanes_backward,
    lanes_halved,
    narrow,
    runs,
    serial,
    stale_tail,
    swapped,
    tree,
    unchanged,
    wide,
    without_last,
)

LOG2_E = np.float32(1.4426950408889634)


def top(x: Array) -> Array:
    """Give the maximum of each row."""
    return x.max(-1, keepdims=True)


def no_top(x: Array) -> Array:
    """Give zeros: large values overflow."""
    return np.zeros_like(x[..., :1])


def by_powers_of_two(x: Array) -> Array:
    """Give exp(x) as a power of two."""
    return np.exp2(x * LOG2_E)


def by_polynomial(x: Array, degree: int) -> Array:
    """Give exp(x) by the powers of two and a polynomial (Taylor's) of what remains."""
    powers = np.rint(x * LOG2_E)
    rest = (x - powers * np.float32(0.693359375)) + powers * np.float32(2.12194440e-4)
    value = np.ones_like(x)
    for term in range(degree, 0, -1):
        value = np.float32(1) + value * rest / np.float32(term)
    return np.ldexp(value, powers.astype(np.int32))


def softmax(
    x,
    exp=np.exp,
    shift=top,
    total=lanes,
    terms=unchanged,
    sums=unchanged,
    shares=np.divide,
    store=half,
    scaled=unchanged,
):
    """Give the shares of exponentials in each row, in float32."""
    x = scaled(single(x))
    powers = terms(exp(x - shift(x)))
    return store(shares(powers, sums(total(powers))[..., None]))


def exact_softmax(x: Array) -> Array:
    """Give the shares in float64."""
    powers = np.exp(double(x) - double(x).max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def reciprocal(terms: Array, total: Array, narrower: Sum = unchanged) -> Array:
    """Multiply by the reciprocal."""
    return terms * narrower(np.float32(1) / total)


def online(x: Array, size: int = 24, store=half, kept_maximum: bool = True) -> Array:
    """Correct sum and maximum block by block, as fused kernels do."""
    x = single(x)
    largest, total = np.full_like(x[..., 0], -np.inf), np.zeros_like(x[..., 0])
    for start in range(0, x.shape[-1], size):
        block = x[..., start : start + size]
        higher = np.maximum(largest, block.max(-1))
        correction = np.exp(largest - higher) if kept_maximum else np.float32(1)
        total = total * correction + lanes(np.exp(block - higher[..., None]))
        largest = higher
    return store(np.exp(x - largest[..., None]) / total[..., None])


def by_logarithm(x: Array, store=half, narrower: Sum = unchanged) -> Array:
    """Take the logarithm of the sum away in the exponent."""
    x = single(x)
    off = x - top(x)
    return store(np.exp(off - narrower(np.log(lanes(np.exp(off))))[..., None]))


SOFTMAX_HALF = Operator(
    "softmax_float16",
    lambda random: (half(np.concatenate([random.normal(0, 2, (95, 96)), random.normal(92, 2, (1, 96))])),),
    exact_softmax,
    softmax,
    {
        "the maximum is not taken away": partial(softmax, shift=no_top),
        "exponentials stored in float16": partial(softmax, terms=as_half),
        "exponentials rounded to 12 bits": partial(softmax, terms=partial(kept, bits=12)),
        "exponentials stored in bfloat16": partial(softmax, terms=as_brain),
        "exponentials truncated to 13 bits": partial(softmax, terms=partial(cut, bits=13)),
        "exp by a polynomial of degree 3": partial(softmax, exp=partial(by_polynomial, degree=3)),
        "exp by a polynomial of degree 4": partial(softmax, exp=partial(by_polynomial, degree=4)),
        "the sum stored in float16": partial(softmax, sums=as_half),
        "the sum rounded to 12 bits": partial(softmax, sums=partial(kept, bits=12)),
        "accumulated in float16": partial(softmax, total=narrow),
        "accumulated in bfloat16": partial(softmax, total=partial(narrow, dtype=bfloat16)),
        "the reciprocal stored in float16": partial(softmax, shares=partial(reciprocal, narrower=as_half)),
        "the reciprocal rounded to 12 bits": partial(
            softmax, shares=partial(reciprocal, narrower=partial(kept, bits=12))
        ),
        "truncated to float16": partial(softmax, store=half_cut),
        "the logarithm of the sum stored in float16": partial(by_logarithm, narrower=as_half),
        "blocks that are not corrected": partial(online, kept_maximum=False),
        "the last term lost": partial(softmax, total=without_last),
        "a stale tail": partial(softmax, total=stale_tail),
    },
    {
        "one accumulator": partial(softmax, total=serial),
        "from the last term": partial(softmax, total=backward),
        "a tree of sums": partial(softmax, total=tree),
        "sums by halves": partial(softmax, total=halves),
        "sums in float64": partial(softmax, total=wide),
        "block by block, corrected": online,
        "times the reciprocal": partial(softmax, shares=reciprocal),
        "exp by powers of two": partial(softmax, exp=by_powers_of_two),
        "exp by a polynomial of degree 7": partial(softmax, exp=partial(by_polynomial, degree=7)),
        "the logarithm of the sum in the exponent": by_logarithm,
    },
)

SOFTMAX_SINGLE = Operator(
    "softmax_float32",
    lambda random: (single(random.normal(0, 1.5, (128, 64))),),
    exact_softmax,
    partial(softmax, store=single),
    {
        name: partial(change, store=single)
        for name, change in {
            "exponentials rounded to 22 bits": partial(softmax, terms=partial(kept, bits=22)),
            "exponentials truncated to 23 bits": partial(softmax, terms=partial(cut, bits=23)),
            "the sum rounded to 22 bits": partial(softmax, sums=partial(kept, bits=22)),
            "the sum truncated to 22 bits": partial(softmax, sums=partial(cut, bits=22)),
            "the reciprocal rounded to 22 bits": partial(
                softmax, shares=partial(reciprocal, narrower=partial(kept, bits=22))
            ),
            "the reciprocal truncated to 23 bits": partial(
                softmax, shares=partial(reciprocal, narrower=partial(cut, bits=23))
            ),
            "exp by powers of two": partial(softmax, exp=by_powers_of_two),
            "exp by a polynomial of degree 6": partial(softmax, exp=partial(by_polynomial, degree=6)),
            "exp by a polynomial of degree 5": partial(softmax, exp=partial(by_polynomial, degree=5)),
            "one accumulator": partial(softmax, total=serial),
            "the logarithm of the sum in the exponent": by_logarithm,
            "scores stored in bfloat16": partial(softmax, scaled=as_brain),
            "the maximum is not taken away": partial(softmax, shift=no_top),
            "truncated to 23 bits": partial(softmax, sums=unchanged, shares=lambda x, y: cut(x / y, 23)),
            "the last term lost": partial(softmax, total=without_last),
        }.items()
    },
    {
        name: partial(change, store=single)
        for name, change in {
            "lanes begin at the end": partial(softmax, total=lanes_backward),
            "lanes joined by halves": partial(softmax, total=lanes_halved),
            "lanes of neighbouring terms": partial(softmax, total=runs),
            "the second half first": partial(softmax, total=swapped),
            "a tree of sums": partial(softmax, total=tree),
            "sums in float64": partial(softmax, total=wide),
            "exp in float64": partial(softmax, exp=lambda x: as_double(np.exp, x)),
            "quotients in float64": partial(softmax, shares=lambda x, y: single(double(x) / double(y))),
        }.items()
    },
    # Errors are distributed alike: the terms of a row are drawn alike.
    null=LANE_ORDERS,
)

SOFTMAX_FEW = SOFTMAX_SINGLE._replace(
    name="softmax_eight_rows_float32", draw=lambda random: (single(random.normal(0, 1.5, (8, 256))),)
)

OPERATORS = (SOFTMAX_HALF, SOFTMAX_SINGLE, SOFTMAX_FEW)
