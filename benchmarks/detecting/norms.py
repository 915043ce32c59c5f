"""Normalisations: statistics of a row are shared by all of its elements, and so are their errors."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import (
    as_brain,
    as_half,
    bfloat16,
    cut,
    double,
    half,
    half_cut,
    kept,
    single,
)
from detecting.summing import (
    LANE_ORDERS,
    Sum,
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

EPSILON = np.float32(1e-5)


def mean_of(x: Array, total: Sum = lanes) -> Array:
    """Give the mean of each row, in the dtype of the row."""
    return (total(x) / x.dtype.type(x.shape[-1]))[..., None]


def square_root(x: Array) -> Array:
    """Give 1 / sqrt(x)."""
    return np.float32(1) / np.sqrt(x)


def newton(x: Array, steps: int) -> Array:
    """Give 1 / sqrt(x) by steps from an estimate of 8 bits."""
    estimate = kept(square_root(x), 8)
    for _ in range(steps):
        estimate = estimate * (np.float32(1.5) - np.float32(0.5) * x * estimate * estimate)
    return estimate


def layer_norm(
    x: Array,
    gain: Array,
    bias: Array,
    total=lanes,
    middle=unchanged,
    spread=unchanged,
    root=square_root,
    scale=unchanged,
    store=half,
    gained=np.multiply,
    epsilon=EPSILON,
) -> Array:
    """Normalise rows in float32."""
    x = single(x)
    off = x - middle(mean_of(x, total))
    variance = spread(mean_of(np.square(off), total))
    return store(gained(scale(off * root(variance + epsilon)), single(gain)) + single(bias))


def by_squares(x: Array, gain: Array, bias: Array, store=half, narrower=unchanged) -> Array:
    """Take the variance as the mean of squares, less the square of the mean."""
    x = single(x)
    middle = mean_of(x)
    variance = narrower(mean_of(np.square(x))) - np.square(narrower(middle))
    return store((x - middle) * square_root(variance + EPSILON) * single(gain) + single(bias))


def gain_first(x: Array, gain: Array, bias: Array, store=half, narrower=unchanged) -> Array:
    """Multiply the root by the gain before the row."""
    x = single(x)
    off = x - mean_of(x)
    factor = narrower(square_root(mean_of(np.square(off)) + EPSILON) * single(gain))
    return store(off * factor + single(bias))


def one_formula(x: Array, gain: Array, bias: Array, store=half) -> Array:
    """Compute a * x + b, with a row's mean in b."""
    x = single(x)
    middle = mean_of(x)
    factor = square_root(mean_of(np.square(x - middle)) + EPSILON) * single(gain)
    return store(x * factor + (single(bias) - middle * factor))


def in_float64(x: Array, gain: Array, bias: Array, store=half) -> Array:
    """Compute everything in float64."""
    return store(single(exact_layer_norm(x, gain, bias)))


def divided(x: Array, gain: Array, bias: Array, store=half) -> Array:
    """Divide by the square root."""
    x = single(x)
    off = x - mean_of(x)
    return store(off / np.sqrt(mean_of(np.square(off)) + EPSILON) * single(gain) + single(bias))


def exact_layer_norm(x: Array, gain: Array, bias: Array) -> Array:
    """Normalise rows in float64."""
    x = double(x)
    off = x - x.mean(-1, keepdims=True)
    return off / np.sqrt(np.square(off).mean(-1, keepdims=True) + double(EPSILON)) * double(gain) + double(bias)


def rows(rows_: int, columns: int, store, middle: float = 0.5):
    """Draw rows, a gain and a bias."""

    def draw(random: np.random.Generator) -> tuple[Array, Array, Array]:
        x = random.normal(middle, 1, (rows_, columns)) * random.uniform(0.5, 2, (rows_, 1))
        return store(x), store(random.normal(1, 0.1, columns)), store(random.normal(0, 0.1, columns))

    return draw


HARMLESS_TO_BOTH = {
    "lanes begin at the end": partial(layer_norm, total=lanes_backward),
    "lanes joined by halves": partial(layer_norm, total=lanes_halved),
    "lanes of neighbouring terms": partial(layer_norm, total=runs),
    "the second half first": partial(layer_norm, total=swapped),
    "sums in float64": partial(layer_norm, total=wide),
    "a tree of sums": partial(layer_norm, total=tree),
    "divided by the root": divided,
    "everything in float64": in_float64,
    "the gain first": gain_first,
}


def stored(changes: dict, store) -> dict:
    """Let changes store another dtype."""
    return {name: partial(change, store=store) for name, change in changes.items()}


LAYER_NORM_HALF = Operator(
    "layer_norm_float16",
    rows(64, 192, half),
    exact_layer_norm,
    layer_norm,
    {
        "the mean stored in float16": partial(layer_norm, middle=as_half),
        "the mean truncated to 13 bits": partial(layer_norm, middle=partial(cut, bits=13)),
        "the variance stored in float16": partial(layer_norm, spread=as_half),
        "the variance rounded to 12 bits": partial(layer_norm, spread=partial(kept, bits=12)),
        "the root stored in float16": partial(layer_norm, root=lambda x: as_half(square_root(x))),
        "the normalised row stored in float16": partial(layer_norm, scale=as_half),
        "the normalised row rounded to 12 bits": partial(layer_norm, scale=partial(kept, bits=12)),
        "the product with the gain in float16": partial(layer_norm, gained=lambda x, y: as_half(x * y)),
        "sums in float16": partial(layer_norm, total=narrow),
        "sums in bfloat16 by a tree": partial(layer_norm, total=partial(narrow, dtype=bfloat16, order=tree)),
        "the estimate of the root of 8 bits": partial(layer_norm, root=partial(newton, steps=0)),
        "truncated to float16": partial(layer_norm, store=half_cut),
        "epsilon of 1e-3": partial(layer_norm, epsilon=np.float32(1e-3)),
        "epsilon outside of the root": partial(layer_norm, root=lambda x: 1 / (np.sqrt(x - EPSILON) + EPSILON)),
        "squares less the square, both in float16": partial(by_squares, narrower=as_half),
        "the last term lost": partial(layer_norm, total=without_last),
        "root times gain stored in float16": partial(gain_first, narrower=as_half),
    },
    {
        **HARMLESS_TO_BOTH,
        "squares less the square": by_squares,
        "two steps of Newton's from 8 bits": partial(layer_norm, root=partial(newton, steps=2)),
        "a * x + b": one_formula,
    },
    # Errors are distributed alike: the columns of a row are drawn alike, with their gains and biases.
    null=LANE_ORDERS,
)

LAYER_NORM_SINGLE = Operator(
    "layer_norm_float32",
    rows(96, 128, single),
    exact_layer_norm,
    partial(layer_norm, store=single),
    stored(
        {
            "the mean rounded to 22 bits": partial(layer_norm, middle=partial(kept, bits=22)),
            "the mean truncated to 22 bits": partial(layer_norm, middle=partial(cut, bits=22)),
            "the mean stored in bfloat16": partial(layer_norm, middle=as_brain),
            "the variance rounded to 21 bits": partial(layer_norm, spread=partial(kept, bits=21)),
            "the variance stored in float16": partial(layer_norm, spread=as_half),
            "the root rounded to 22 bits": partial(layer_norm, root=lambda x: kept(square_root(x), 22)),
            "the root truncated to 23 bits": partial(layer_norm, root=lambda x: cut(square_root(x), 23)),
            "one step of Newton's from 8 bits": partial(layer_norm, root=partial(newton, steps=1)),
            "the normalised row rounded to 22 bits": partial(layer_norm, scale=partial(kept, bits=22)),
            "the normalised row truncated to 23 bits": partial(layer_norm, scale=partial(cut, bits=23)),
            "one accumulator": partial(layer_norm, total=serial),
            "two lanes": partial(layer_norm, total=partial(lanes, count=2)),
            "squares less the square": by_squares,
            "epsilon outside of the root": partial(layer_norm, root=lambda x: 1 / (np.sqrt(x - EPSILON) + EPSILON)),
            "a stale tail": partial(layer_norm, total=stale_tail),
            "a * x + b": one_formula,
        },
        single,
    ),
    stored(
        {**HARMLESS_TO_BOTH, "two steps of Newton's from 8 bits": partial(layer_norm, root=partial(newton, steps=2))},
        single,
    ),
    # Errors are distributed alike: the columns of a row are drawn alike, with their gains and biases.
    null=LANE_ORDERS,
)

OPERATORS = (LAYER_NORM_HALF, LAYER_NORM_SINGLE)
