"""Logarithms of softmax, and of sums of exponentials: a row shares its maximum and its sum."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, cut, double, kept, single
from detecting.softmaxes import by_polynomial, no_top, softmax, top
from detecting.summing import (
    LANE_ORDERS,
    lanes,
    lanes_backward,
    lanes_halved,
    runs,
    serial,
    stale_tail,
    swapped,
    tree,
    unchanged,
    wide,
    without_last,
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
    # Errors are distributed alike: the terms of a row are drawn alike.
    null=LANE_ORDERS,
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
    # Errors are distributed alike: the terms of a row are drawn alike.
    null=LANE_ORDERS,
)

OPERATORS = (LOG_SOFTMAX, LOG_SUM_EXP)
