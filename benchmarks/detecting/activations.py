"""Activations and elementary functions, element by element."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import (
    as_brain,
    as_double,
    as_half,
    brain,
    brain_cut,
    cut,
    double,
    fused,
    half,
    half_cut,
    kept,
    single,
)
from detecting.summing import unchanged

CUBE, ROOT = np.float32(0.044715), np.float32(0.7978845608028654)


def gelu(x, tanh=np.tanh, cubic=unchanged, inner=unchanged, outer=unchanged, cube=CUBE, root=ROOT, store=half) -> Array:
    """Give the tanh form of GELU, in float32."""
    x = single(x)
    argument = inner(root * (x + cubic(cube * x * x * x)))
    return store(np.float32(0.5) * x * outer(np.float32(1) + tanh(argument)))


def gelu_by_sigmoid(x, store=half) -> Array:
    """Write 1 + tanh as a sigmoid."""
    x = single(x)
    return store(x / (np.float32(1) + np.exp(np.float32(-2) * ROOT * (x + CUBE * x * x * x))))


def gelu_factored(x, store=half) -> Array:
    """Take x out of the cubic."""
    x = single(x)
    return store(np.float32(0.5) * x * (np.float32(1) + np.tanh(x * (ROOT + ROOT * CUBE * (x * x)))))


def gelu_by_wide_sum(x: Array) -> Array:
    """Add 1 to tanh, and multiply, in float64."""
    x = single(x)
    return half(single(double(x) * (0.5 + 0.5 * double(np.tanh(ROOT * (x + CUBE * x * x * x))))))


def exact_gelu(x: Array) -> Array:
    """Compute in float64."""
    x = double(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rational_tanh(x: Array, terms: int) -> Array:
    """Give tanh by a continued fraction of so many terms, cut off at 1."""
    square, fraction = x * x, np.zeros_like(x)
    for odd in range(2 * terms - 1, 0, -2):
        fraction = square / (np.float32(odd) + fraction) if odd > 1 else x / (np.float32(1) + fraction)
    return np.clip(fraction, -1, 1)


GELU = Operator(
    "gelu_float16",
    lambda random: (half(random.normal(0, 1.5, (64, 128))),),
    exact_gelu,
    gelu,
    {
        "the argument stored in float16": partial(gelu, inner=as_half),
        "the argument rounded to 12 bits": partial(gelu, inner=partial(kept, bits=12)),
        "the cubic stored in float16": partial(gelu, cubic=as_half),
        "1 + tanh stored in float16": partial(gelu, outer=as_half),
        "1 + tanh rounded to 13 bits": partial(gelu, outer=partial(kept, bits=13)),
        "tanh stored in float16": partial(gelu, tanh=lambda x: as_half(np.tanh(x))),
        "tanh truncated to 12 bits": partial(gelu, tanh=lambda x: cut(np.tanh(x), 12)),
        "tanh by five terms of a fraction": partial(gelu, tanh=partial(rational_tanh, terms=5)),
        "tanh by four terms of a fraction": partial(gelu, tanh=partial(rational_tanh, terms=4)),
        "tanh by three terms of a fraction": partial(gelu, tanh=partial(rational_tanh, terms=3)),
        "0.0447 instead of 0.044715": partial(gelu, cube=np.float32(0.0447)),
        "0.045 instead of 0.044715": partial(gelu, cube=np.float32(0.045)),
        "0.798 instead of sqrt(2 / pi)": partial(gelu, root=np.float32(0.798)),
        "0.8 instead of sqrt(2 / pi)": partial(gelu, root=np.float32(0.8)),
        "truncated to float16": partial(gelu, store=half_cut),
    },
    {
        "as a sigmoid": gelu_by_sigmoid,
        "x taken out of the cubic": gelu_factored,
        "tanh in float64": partial(gelu, tanh=lambda x: as_double(np.tanh, x)),
        "tanh by ten terms of a fraction": partial(gelu, tanh=partial(rational_tanh, terms=10)),
        "the cube as a power": lambda x: half(
            np.float32(0.5) * single(x) * (np.float32(1) + np.tanh(ROOT * (single(x) + CUBE * single(x) ** 3)))
        ),
        "both products in float64": lambda x: half(
            single(
                double(x) * (0.5 + 0.5 * double(np.tanh(ROOT * (single(x) + CUBE * single(x) * single(x) * single(x)))))
            )
        ),
        "everything in float64": lambda x: half(exact_gelu(x)),
    },
)


def silu(x, exp=np.exp, below=unchanged, quotient=np.divide) -> Array:
    """Give x * sigmoid(x) in float32."""
    return quotient(x, below(np.float32(1) + exp(-x)))


def silu_two_sided(x: Array) -> Array:
    """Never take the exponential of a positive number."""
    power = np.exp(-np.abs(x))
    return x * np.where(x >= 0, np.float32(1), power) / (np.float32(1) + power)


SILU = Operator(
    "silu_float32",
    lambda random: (single(random.normal(0, 2, (72, 96))),),
    lambda x: double(x) / (1 + np.exp(-double(x))),
    silu,
    {
        "by the reciprocal": partial(silu, quotient=lambda x, y: x * (np.float32(1) / y)),
        "by the reciprocal, rounded to 22 bits": partial(silu, quotient=lambda x, y: x * kept(np.float32(1) / y, 22)),
        "by the reciprocal, truncated to 23 bits": partial(silu, quotient=lambda x, y: x * cut(np.float32(1) / y, 23)),
        "the denominator rounded to 22 bits": partial(silu, below=partial(kept, bits=22)),
        "the denominator truncated to 23 bits": partial(silu, below=partial(cut, bits=23)),
        "the denominator stored in bfloat16": partial(silu, below=as_brain),
        "exp by 2 ** (x / log 2)": partial(silu, exp=lambda x: np.exp2(x * np.float32(1.4426950408889634))),
        "exp truncated to 22 bits": partial(silu, exp=lambda x: cut(np.exp(x), 22)),
        "exp stored in float16": partial(silu, exp=lambda x: as_half(np.exp(x))),
        "by tanh": lambda x: x * (np.float32(0.5) + np.float32(0.5) * np.tanh(np.float32(0.5) * x)),
        "truncated to 23 bits": lambda x: cut(silu(x), 23),
        "rounded to 23 bits": lambda x: kept(silu(x), 23),
        "1 minus the sigmoid of -x": lambda x: x * (np.float32(1) - np.float32(1) / (np.float32(1) + np.exp(x))),
    },
    {
        "exp in float64": partial(silu, exp=lambda x: as_double(np.exp, x)),
        "quotients in float64": partial(silu, quotient=lambda x, y: single(double(x) / double(y))),
        "everything in float64": lambda x: single(double(x) / (1 + np.exp(-double(x)))),
        "1 + exp(-x) as 2 + expm1(-x)": lambda x: x / (np.float32(2) + np.expm1(-x)),
        "the exponential's reciprocal": partial(silu, exp=lambda x: single(1 / np.exp(-double(x)))),
        "both signs turned": lambda x: -x / -(np.float32(1) + np.exp(-x)),
        "the denominator in float64": partial(silu, exp=lambda x: np.exp(double(x)), below=single),
        "half of both": lambda x: (np.float32(0.5) * x) / (np.float32(0.5) + np.float32(0.5) * np.exp(-x)),
    },
)


def tanh(x, value=np.tanh, inner=unchanged, store=brain) -> Array:
    """Give tanh of twice a bfloat16, in float32."""
    return store(value(inner(single(x) * np.float32(0.7) + np.float32(0.1))))


def exact_tanh(x: Array) -> Array:
    """Compute in float64, with the constants as they are in float32."""
    return np.tanh(double(x) * double(np.float32(0.7)) + double(np.float32(0.1)))


def tanh_by_exp(x: Array) -> Array:
    """Give tanh by one exponential."""
    return np.float32(1) - np.float32(2) / (np.float32(1) + np.exp(np.float32(2) * x))


TANH = Operator(
    "scaled_tanh_bfloat16",
    lambda random: (brain(random.normal(0, 1.5, (60, 128))),),
    exact_tanh,
    tanh,
    {
        "the argument stored in bfloat16": partial(tanh, inner=as_brain),
        "the argument rounded to 9 bits": partial(tanh, inner=partial(kept, bits=9)),
        "the argument truncated to 10 bits": partial(tanh, inner=partial(cut, bits=10)),
        "the product stored in bfloat16": lambda x: brain(
            np.tanh(as_brain(single(x) * np.float32(0.7)) + np.float32(0.1))
        ),
        "the factor in bfloat16": lambda x: brain(np.tanh(single(x) * single(brain(0.7)) + np.float32(0.1))),
        "the shift in bfloat16": lambda x: brain(np.tanh(single(x) * np.float32(0.7) + single(brain(0.1)))),
        "by five terms of a fraction": partial(tanh, value=partial(rational_tanh, terms=5)),
        "by four terms of a fraction": partial(tanh, value=partial(rational_tanh, terms=4)),
        "by three terms of a fraction": partial(tanh, value=partial(rational_tanh, terms=3)),
        "by two terms of a fraction": partial(tanh, value=partial(rational_tanh, terms=2)),
        "truncated to bfloat16": partial(tanh, store=brain_cut),
        "rounded to 10 bits first": partial(tanh, store=lambda x: brain(kept(x, 10))),
        "truncated to 11 bits first": partial(tanh, store=lambda x: brain(cut(x, 11))),
        "the shift lost": lambda x: brain(np.tanh(single(x) * np.float32(0.7))),
    },
    {
        "by one exponential": partial(tanh, value=tanh_by_exp),
        "in float64": partial(tanh, value=lambda x: as_double(np.tanh, x)),
        "by ten terms of a fraction": partial(tanh, value=partial(rational_tanh, terms=10)),
        "the argument in one rounding": lambda x: brain(np.tanh(fused(single(x), np.float32(0.7), np.float32(0.1)))),
        "everything in float64": lambda x: brain(single(exact_tanh(x))),
        "rounded to float32 by way of 20 bits": partial(tanh, inner=partial(kept, bits=20)),
        "the argument of 20 bits, truncated": partial(tanh, inner=partial(cut, bits=20)),
    },
)

OPERATORS = (GELU, SILU, TANH)
