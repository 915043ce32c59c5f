"""Softmax, its logarithm, and the logarithm of a sum of exponentials: a row shares its maximum and its denominator."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, bfloat16, cut, double, half, half_cut, kept, single
from detecting.summing import (
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
)


def log_softmax(x, exp=np.exp, shift=top, total=lanes, log=np.log, off=unchanged, store=single, sums=unchanged):
    """Give the logarithms of shares."""
    x = single(x)
    away = off(x - shift(x))
    return store(away - log(sums(total(exp(away))))[..., None])


def exact_log_softmax(x: Array) -> Array:
    """Give the logarithms of shares in float64."""
    away = double(x) - double(x).max(-1, keepdims=True)
    return away - np.log(np.exp(away).sum(-1, keepdims=True))


def by_one_number(x: Array, log=np.log) -> Array:
    """Take maximum and logarithm away together."""
    return x - (top(x) + log(lanes(np.exp(x - top(x))))[..., None])


def of_softmax(x: Array, floor: float = 0.0) -> Array:
    """Take the logarithm of the shares."""
    return np.log(softmax(x, store=single) + np.float32(floor))


def first_term_apart(x: Array) -> Array:
    """Give log(1 + others), as log1p does."""
    away = x - top(x)
    return away - np.log1p(lanes(np.exp(away)) - np.float32(1))[..., None]


def by_log2(x: Array) -> Array:
    """Give the natural logarithm by that of base two."""
    return np.log2(x) * np.float32(0.6931471805599453)


LOG_SOFTMAX = Operator(
    "log_softmax_float32",
    lambda random: (single(random.normal(0, 2, (120, 64))),),
    exact_log_softmax,
    log_softmax,
    {
        "the logarithm of the softmax": of_softmax,
        "the logarithm of the softmax and 1e-7": partial(of_softmax, floor=1e-7),
        "the logarithm rounded to 22 bits": partial(log_softmax, log=lambda x: kept(np.log(x), 22)),
        "the logarithm truncated to 22 bits": partial(log_softmax, log=lambda x: cut(np.log(x), 22)),
        "the logarithm stored in float16": partial(log_softmax, log=lambda x: as_half(np.log(x))),
        "the sum rounded to 21 bits": partial(log_softmax, sums=partial(kept, bits=21)),
        "the sum truncated to 20 bits": partial(log_softmax, sums=partial(cut, bits=20)),
        "the sum stored in bfloat16": partial(log_softmax, sums=as_brain),
        "differences rounded to 22 bits": partial(log_softmax, off=partial(kept, bits=22)),
        "differences rounded to 23 bits": partial(log_softmax, off=partial(kept, bits=23)),
        "differences truncated to 23 bits": partial(log_softmax, off=partial(cut, bits=23)),
        "exp by a polynomial of degree 5": partial(log_softmax, exp=partial(by_polynomial, degree=5)),
        "truncated to 23 bits": partial(log_softmax, store=partial(cut, bits=23)),
        "the last term lost": partial(log_softmax, total=without_last),
        "a stale tail": partial(log_softmax, total=stale_tail),
    },
    {
        "lanes begin at the end": partial(log_softmax, total=lanes_backward),
        "lanes joined by halves": partial(log_softmax, total=lanes_halved),
        "lanes of neighbouring terms": partial(log_softmax, total=runs),
        "the second half first": partial(log_softmax, total=swapped),
        "sums in float64": partial(log_softmax, total=wide),
        "log in float64": partial(log_softmax, log=lambda x: as_double(np.log, x)),
        "exp in float64": partial(log_softmax, exp=lambda x: as_double(np.exp, x)),
        "maximum and logarithm taken away together": by_one_number,
        "log2 times log(2)": partial(log_softmax, log=by_log2),
    },
)


def log_sum_exp(
    x, exp=np.exp, shift=top, total=lanes, log=np.log, terms=unchanged, sums=unchanged, store=single
) -> Array:
    """Give the logarithm of the sum of exponentials of each row: a small output."""
    largest = shift(x)
    return store(largest[..., 0] + log(sums(total(terms(exp(x - largest))))))


LOG_SUM_EXP = Operator(
    "log_sum_exp_float32",
    lambda random: (single(random.normal(0, 1, (640, 32)) + random.normal(-3.5, 1, (640, 1))),),
    lambda x: np.log(np.exp(double(x)).sum(-1)),
    log_sum_exp,
    {
        "sums of exponentials alone, in float16": lambda x: log_sum_exp(x, shift=no_top, sums=as_half),
        "the sum rounded to 22 bits": partial(log_sum_exp, sums=partial(kept, bits=22)),
        "the sum rounded to 21 bits": partial(log_sum_exp, sums=partial(kept, bits=21)),
        "the sum truncated to 22 bits": partial(log_sum_exp, sums=partial(cut, bits=22)),
        "the sum truncated to 18 bits": partial(log_sum_exp, sums=partial(cut, bits=18)),
        "the logarithm truncated to 22 bits": partial(log_sum_exp, log=lambda x: cut(np.log(x), 22)),
        "the logarithm rounded to 21 bits": partial(log_sum_exp, log=lambda x: kept(np.log(x), 21)),
        "exponentials stored in bfloat16": partial(log_sum_exp, terms=as_brain),
        "exponentials truncated to 22 bits": partial(log_sum_exp, terms=partial(cut, bits=22)),
        "exp by a polynomial of degree 5": partial(log_sum_exp, exp=partial(by_polynomial, degree=5)),
        "exp by a polynomial of degree 4": partial(log_sum_exp, exp=partial(by_polynomial, degree=4)),
        "truncated to 23 bits": partial(log_sum_exp, store=partial(cut, bits=23)),
        "the last term lost": partial(log_sum_exp, total=without_last),
        "one accumulator": partial(log_sum_exp, total=serial),
    },
    {
        "lanes begin at the end": partial(log_sum_exp, total=lanes_backward),
        "lanes joined by halves": partial(log_sum_exp, total=lanes_halved),
        "lanes of neighbouring terms": partial(log_sum_exp, total=runs),
        "the second half first": partial(log_sum_exp, total=swapped),
        "sums in float64": partial(log_sum_exp, total=wide),
        "log in float64": partial(log_sum_exp, log=lambda x: as_double(np.log, x)),
        "exp in float64": partial(log_sum_exp, exp=lambda x: as_double(np.exp, x)),
        "a tree of sums": partial(log_sum_exp, total=tree),
        "log2 times log(2)": partial(log_sum_exp, log=by_log2),
    },
)

OPERATORS = (SOFTMAX_HALF, SOFTMAX_SINGLE, LOG_SOFTMAX, LOG_SUM_EXP)
