"""Iterations and recurrences: an error is carried along, and shared by all that follows."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, as_single, cut, double, extended, fused, kept, single
from detecting.summing import unchanged

HALF, ONE, THREE_HALVES = np.float32(0.5), np.float32(1), np.float32(1.5)


def estimate(x: Array, magic: int = 0x5F375A86) -> Array:
    """Give 1 / sqrt(x) with 4 bits, by the exponent."""
    return (np.uint32(magic) - (x.view(np.uint32) >> np.uint32(1))).view(np.float32)


def rsqrt(x, steps=4, start=estimate, halved=unchanged, last=unchanged, step=None) -> Array:
    """Give 1 / sqrt(x) by Newton's steps, in float32; the last one adds a correction."""
    y, less = start(x), halved(HALF * x)
    step = step or (lambda y, less: y * (THREE_HALVES - less * y * y))
    for _ in range(steps - 1):
        y = step(y, less)
    return last(y + y * (HALF - less * y * y))


def plain_last(x: Array) -> Array:
    """Let the last step be one like the others."""
    y, less = estimate(x), HALF * x
    for _ in range(4):
        y = y * (THREE_HALVES - less * y * y)
    return y


def residual_in_one(x: Array) -> Array:
    """Compute what is left over in one rounding."""
    y = rsqrt(x, steps=3)
    return fused(y * HALF, fused(-x * y, y, ONE), y)


RSQRT = Operator(
    "newton_rsqrt_float32",
    lambda random: (single(np.exp(random.uniform(-6, 6, (64, 80)))),),
    lambda x: 1 / np.sqrt(double(x)),
    rsqrt,
    {
        "a step fewer": partial(rsqrt, steps=3),
        "two steps fewer": partial(rsqrt, steps=2),
        "three steps fewer": partial(rsqrt, steps=1),
        "the last step like the others": plain_last,
        "half of x with 20 bits": partial(rsqrt, halved=partial(kept, bits=20)),
        "half of x with 22 bits": partial(rsqrt, halved=partial(kept, bits=22)),
        "half of x with 23 bits": partial(rsqrt, halved=partial(kept, bits=23)),
        "half of x in bfloat16": partial(rsqrt, halved=as_brain),
        "truncated to 23 bits": partial(rsqrt, last=partial(cut, bits=23)),
        "rounded to 22 bits": partial(rsqrt, last=partial(kept, bits=22)),
        "truncated to 20 bits": partial(rsqrt, last=partial(cut, bits=20)),
        "1 / sqrt with a root of 23 bits": lambda x: ONE / kept(np.sqrt(x), 23),
        "stored in float16": partial(rsqrt, last=as_half),
        "another first estimate and a step fewer": partial(rsqrt, steps=3, start=partial(estimate, magic=0x5F3759DF)),
    },
    {
        "1 / sqrt": lambda x: ONE / np.sqrt(x),
        "sqrt(1 / x)": lambda x: np.sqrt(ONE / x),
        "what is left over in one rounding": residual_in_one,
        "another first estimate": partial(rsqrt, start=partial(estimate, magic=0x5F3759DF)),
        "a step more": partial(rsqrt, steps=5),
        "in float64": lambda x: as_double(lambda y: 1 / np.sqrt(y), x),
        "a start of 12 bits and a step fewer": partial(rsqrt, steps=3, start=lambda x: kept(ONE / np.sqrt(x), 12)),
    },
)


def tridiagonal(
    low, middle, high, right, pivot=unchanged, factor=unchanged, carried=unchanged, back=unchanged, inverse=False
):
    """Solve 40 systems of 48 unknowns by Thomas's algorithm, in the dtype of what is given."""
    n = middle.shape[1]
    upper, value = np.empty_like(middle), np.empty_like(middle)
    upper[:, 0], value[:, 0] = high[:, 0] / middle[:, 0], right[:, 0] / middle[:, 0]
    for at in range(1, n):
        below = pivot(middle[:, at] - low[:, at] * upper[:, at - 1])
        rest = carried(right[:, at] - low[:, at] * value[:, at - 1])
        upper[:, at] = factor(high[:, at] * (1 / below) if inverse else high[:, at] / below)
        value[:, at] = rest * (1 / below) if inverse else rest / below
    for at in range(n - 2, -1, -1):
        value[:, at] = back(value[:, at] - upper[:, at] * value[:, at + 1])
    return value


def from_the_end(low: Array, middle: Array, high: Array, right: Array) -> Array:
    """Eliminate from the last unknown."""
    turned = (np.ascontiguousarray(part[:, ::-1]) for part in (high, middle, low, right))
    return tridiagonal(*turned)[:, ::-1].copy()


def by_factors(low: Array, middle: Array, high: Array, right: Array) -> Array:
    """Eliminate with multipliers, and divide at the end."""
    below, value = middle.copy(), right.copy()
    for at in range(1, middle.shape[1]):
        multiplier = low[:, at] / below[:, at - 1]
        below[:, at] -= multiplier * high[:, at - 1]
        value[:, at] -= multiplier * value[:, at - 1]
    value[:, -1] /= below[:, -1]
    for at in range(middle.shape[1] - 2, -1, -1):
        value[:, at] = (value[:, at] - high[:, at] * value[:, at + 1]) / below[:, at]
    return value


def systems(random: np.random.Generator) -> tuple[Array, ...]:
    """Draw systems whose middle is larger than its neighbours together."""
    low, high = random.uniform(-1, 1, (2, 40, 48))
    return low, random.uniform(1.6, 2.4, (40, 48)), high, random.normal(0, 1, (40, 48))


def refined(low: Array, middle: Array, high: Array, right: Array) -> Array:
    """Solve again for what is left over."""
    found = tridiagonal(low, middle, high, right)
    left = right - middle * found
    left[:, 1:] -= low[:, 1:] * found[:, :-1]
    left[:, :-1] -= high[:, :-1] * found[:, 1:]
    return found + tridiagonal(low, middle, high, left)


TRIDIAGONAL = Operator(
    "tridiagonal_float64",
    systems,
    lambda *parts: tridiagonal(*(extended(part) for part in parts)),
    tridiagonal,
    {
        "pivots of 51 bits": partial(tridiagonal, pivot=partial(kept, bits=51)),
        "pivots of 52 bits": partial(tridiagonal, pivot=partial(kept, bits=52)),
        "pivots truncated to 52 bits": partial(tridiagonal, pivot=partial(cut, bits=52)),
        "factors of 51 bits": partial(tridiagonal, factor=partial(kept, bits=51)),
        "factors truncated to 51 bits": partial(tridiagonal, factor=partial(cut, bits=51)),
        "factors in float32": partial(tridiagonal, factor=as_single),
        "right sides of 52 bits": partial(tridiagonal, carried=partial(kept, bits=52)),
        "right sides truncated to 51 bits": partial(tridiagonal, carried=partial(cut, bits=51)),
        "substitution truncated to 52 bits": partial(tridiagonal, back=partial(cut, bits=52)),
        "substitution of 48 bits": partial(tridiagonal, back=partial(kept, bits=48)),
        "everything in float32": lambda *parts: double(tridiagonal(*(single(part) for part in parts))),
        "the first upper neighbour taken twice": lambda low, middle, high, right: tridiagonal(
            low, middle, np.concatenate([high[:, :1], high[:, :1], high[:, 2:]], axis=1), right
        ),
        "by reciprocals of 52 bits": partial(tridiagonal, pivot=lambda x: 1 / kept(1 / x, 52)),
    },
    {
        "from the last unknown": from_the_end,
        "multipliers": by_factors,
        "the pivots in long double": partial(tridiagonal, pivot=lambda x: double(extended(x))),
        "everything in long double": lambda *parts: double(tridiagonal(*(extended(part) for part in parts))),
        "negated twice": lambda low, middle, high, right: tridiagonal(-low, -middle, -high, -right),
        "scaled by four": lambda low, middle, high, right: tridiagonal(4 * low, 4 * middle, 4 * high, 4 * right),
        "solved again for what is left over": refined,
    },
    # Errors are distributed alike: lower and upper neighbours are drawn alike: the system backward is one like it.
    null=frozenset({"from the last unknown"}),
)


SHARE = np.float32(0.05)
REST = np.float32(1) - SHARE


def smoothing(x, share=SHARE, keep=unchanged, form=None, start=None) -> Array:
    """Give exponential means of 40 rows of 120, one after the other, in float32: s + share * (x - s)."""
    form = form or (lambda s, value: s + share * (value - s))
    s = x[:, 0] if start is None else np.full_like(x[:, 0], start)
    found = [s]
    for at in range(1, x.shape[1]):
        s = keep(form(s, x[:, at]))
        found.append(s)
    return np.stack(found, axis=1)


def exact_smoothing(x: Array) -> Array:
    """Give them in float64, with the share as it is in float32."""
    return smoothing(double(x), share=double(np.float32(0.05)))


def two_products(s: Array, value: Array, rest: np.float32 = REST) -> Array:
    """Add two products."""
    return rest * s + np.float32(0.05) * value


def carried_twice(x: Array) -> Array:
    """Carry the state in float64."""
    return single(exact_smoothing(x))


SMOOTHING = Operator(
    "exponential_mean_float32",
    lambda random: (single(random.normal(2, 1, (40, 120))),),
    exact_smoothing,
    smoothing,
    {
        "two products": partial(smoothing, form=two_products),
        "the state of 22 bits": partial(smoothing, keep=partial(kept, bits=22)),
        "the state of 23 bits": partial(smoothing, keep=partial(kept, bits=23)),
        "the state truncated to 23 bits": partial(smoothing, keep=partial(cut, bits=23)),
        "the state in bfloat16": partial(smoothing, keep=as_brain),
        "the state in float16": partial(smoothing, keep=as_half),
        "the share in bfloat16": partial(smoothing, share=single(as_brain(single(0.05)))),
        "the share of seven digits": partial(smoothing, share=np.float32(0.05000001)),
        "the share of 16 bits": partial(smoothing, share=kept(single(0.05), 16)),
        "begun at zero": partial(smoothing, start=0.0),
        "differences of 16 bits": partial(smoothing, form=lambda s, x: s + np.float32(0.05) * kept(x - s, 16)),
        "differences truncated to 20 bits": partial(smoothing, form=lambda s, x: s + np.float32(0.05) * cut(x - s, 20)),
        "differences in float16": partial(smoothing, form=lambda s, x: s + np.float32(0.05) * as_half(x - s)),
    },
    {
        "the state in float64": carried_twice,
        "multiplied and added in one": partial(smoothing, form=lambda s, x: fused(np.float32(0.05), x - s, s)),
        "the difference the other way": partial(smoothing, form=lambda s, x: s - np.float32(0.05) * (s - x)),
        "products taken apart": partial(smoothing, form=lambda s, x: s + (np.float32(0.05) * x - np.float32(0.05) * s)),
        "differences in float64": partial(
            smoothing, form=lambda s, x: s + single(double(np.float32(0.05)) * (double(x) - double(s)))
        ),
        "a factor of 0.025 twice": partial(smoothing, form=lambda s, x: s + np.float32(0.025) * (x + x - s - s)),
        "in two halves of the rows": lambda x: np.concatenate([smoothing(x[:20]), smoothing(x[20:])]),
        "divided by 20": partial(smoothing, form=lambda s, x: s + (x - s) / np.float32(20)),
    },
)

OPERATORS = (RSQRT, TRIDIAGONAL, SMOOTHING)
