"""Normalisations: statistics of a row are shared by all of its elements, and so are their errors."""

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
    x: Array, gain: Array, bias: Array, total=lanes, middle=unchanged, spread=unchanged, root=square_root, scale=unchanged,
    store=half, gained=np.multiply, epsilon=EPSILON,
) -> Array:  # fmt: skip
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
        "one step of Newton's from 8 bits, in float16": partial(layer_norm, root=lambda x: as_half(newton(x, 1))),
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
)


def rms_norm(
    x: Array, gain: Array, total=lanes, term=unchanged, root=square_root, scale=unchanged, store=brain
) -> Array:
    """Divide rows by their root mean square, in float32."""
    x = single(x)
    return store(scale(x * root(mean_of(term(np.square(x)), total) + EPSILON)) * single(gain))


def exact_rms_norm(x: Array, gain: Array) -> Array:
    """Divide rows by their root mean square, in float64."""
    x = double(x)
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + double(EPSILON)) * double(gain)


RMS_NORM = Operator(
    "rms_norm_bfloat16",
    lambda random: rows(48, 256, brain, 0)(random)[:2],
    exact_rms_norm,
    rms_norm,
    {
        "the normalised row stored in bfloat16": partial(rms_norm, scale=as_brain),
        "the normalised row rounded to 9 bits": partial(rms_norm, scale=partial(kept, bits=9)),
        "the normalised row truncated to 11 bits": partial(rms_norm, scale=partial(cut, bits=11)),
        "the root stored in bfloat16": partial(rms_norm, root=lambda x: as_brain(square_root(x))),
        "the root rounded to 9 bits": partial(rms_norm, root=lambda x: kept(square_root(x), 9)),
        "the root's estimate of 8 bits": partial(rms_norm, root=partial(newton, steps=0)),
        "the mean square stored in bfloat16": partial(rms_norm, root=lambda x: square_root(as_brain(x))),
        "accumulated in bfloat16": partial(rms_norm, total=partial(narrow, dtype=bfloat16)),
        "accumulated in bfloat16 by a tree": partial(rms_norm, total=partial(narrow, dtype=bfloat16, order=tree)),
        "squares truncated to 8 bits": partial(rms_norm, term=partial(cut, bits=8)),
        "truncated to bfloat16": partial(rms_norm, store=brain_cut),
        "a stale tail": partial(rms_norm, total=stale_tail),
        "the last term lost": partial(rms_norm, total=without_last),
        "the normalised row in float16, truncated": partial(rms_norm, scale=lambda x: single(half_cut(x))),
    },
    {
        "one accumulator": partial(rms_norm, total=serial),
        "from the last term": partial(rms_norm, total=backward),
        "a tree of sums": partial(rms_norm, total=tree),
        "sums by halves": partial(rms_norm, total=halves),
        "sums in float64": partial(rms_norm, total=wide),
        "two steps of Newton's from 8 bits": partial(rms_norm, root=partial(newton, steps=2)),
        "divided by the root": lambda x, gain: brain(
            single(x) / np.sqrt(mean_of(np.square(single(x))) + EPSILON) * single(gain)
        ),
        "the gain first": lambda x, gain: brain(
            single(x) * (square_root(mean_of(np.square(single(x))) + EPSILON) * single(gain))
        ),
    },
)


def batch_norm(
    x, mean, variance, gain, bias, factor=unchanged, shift=unchanged, root=square_root, narrower=unchanged
) -> Array:
    """Apply statistics of each channel that are known, folded into a factor and a shift, in float32."""
    scale = factor(root(variance + EPSILON) * gain)
    return narrower(x * scale[:, None]) + shift(bias - mean * scale)[:, None]


def unfolded(x, mean, variance, gain, bias, narrower=unchanged) -> Array:
    """Take the mean away first."""
    return narrower((x - mean[:, None]) * (square_root(variance + EPSILON))[:, None]) * gain[:, None] + bias[:, None]


def folded_in_float64(x, mean, variance, gain, bias) -> Array:
    """Prepare factor and shift in float64, and round them."""
    scale = double(gain) / np.sqrt(double(variance) + double(EPSILON))
    return x * single(scale)[:, None] + single(double(bias) - double(mean) * scale)[:, None]


def exact_batch_norm(x, mean, variance, gain, bias) -> Array:
    """Apply statistics in float64."""
    x, mean, variance, gain, bias = (
        double(part) for part in (x, mean[:, None], variance[:, None], gain[:, None], bias[:, None])
    )
    return (x - mean) / np.sqrt(variance + double(EPSILON)) * gain + bias


def channels(random: np.random.Generator) -> tuple[Array, ...]:
    """Draw activations of 96 channels and what is known of them."""
    mean, deviation = random.normal(0, 1, 96), random.uniform(0.5, 2, 96)
    x = random.normal(mean[:, None], deviation[:, None], (96, 80))
    return tuple(map(single, (x, mean, deviation**2, random.normal(1, 0.1, 96), random.normal(0, 0.3, 96))))


def contracted(x, mean, variance, gain, bias) -> Array:
    """Multiply and add in one rounding."""
    scale = square_root(variance + EPSILON) * gain
    return single(double(x) * double(scale)[:, None] + double(bias - mean * scale)[:, None])


BATCH_NORM = Operator(
    "batch_norm_float32",
    channels,
    exact_batch_norm,
    batch_norm,
    {
        "the factor rounded to 22 bits": partial(batch_norm, factor=partial(kept, bits=22)),
        "the factor rounded to 23 bits": partial(batch_norm, factor=partial(kept, bits=23)),
        "the factor truncated to 23 bits": partial(batch_norm, factor=partial(cut, bits=23)),
        "the factor stored in float16": partial(batch_norm, factor=as_half),
        "the shift rounded to 22 bits": partial(batch_norm, shift=partial(kept, bits=22)),
        "the shift truncated to 22 bits": partial(batch_norm, shift=partial(cut, bits=22)),
        "the shift stored in bfloat16": partial(batch_norm, shift=as_brain),
        "the product rounded to 23 bits": partial(batch_norm, narrower=partial(kept, bits=23)),
        "the product truncated to 23 bits": partial(batch_norm, narrower=partial(cut, bits=23)),
        "the product truncated to 20 bits": partial(batch_norm, narrower=partial(cut, bits=20)),
        "one step of Newton's from 8 bits": partial(batch_norm, root=partial(newton, steps=1)),
        "the root of 8 bits": partial(batch_norm, root=partial(newton, steps=0)),
        "epsilon lost": partial(batch_norm, root=lambda x: square_root(x - EPSILON)),
        "the bias lost": lambda x, mean, variance, gain, bias: batch_norm(x, mean, variance, gain, 0 * bias),
    },
    {
        "multiplied and added in one": contracted,
        "factor and shift prepared in float64": folded_in_float64,
        "the mean taken away first": unfolded,
        "the root in float64": partial(batch_norm, root=lambda x: as_double(lambda y: 1 / np.sqrt(y), x)),
        "divided by the root": lambda x, mean, variance, gain, bias: batch_norm(
            x, mean, variance, gain, bias, factor=lambda scale: gain / np.sqrt(variance + EPSILON)
        ),
        "the shift added from the other side": lambda x, mean, variance, gain, bias: (
            (bias - mean * (square_root(variance + EPSILON) * gain))[:, None]
            + (square_root(variance + EPSILON) * gain)[:, None] * x
        ),
        "the shift negated": lambda x, mean, variance, gain, bias: (
            x * (square_root(variance + EPSILON) * gain)[:, None]
            - (mean * (square_root(variance + EPSILON) * gain) - bias)[:, None]
        ),
    },
)

OPERATORS = (LAYER_NORM_HALF, LAYER_NORM_SINGLE, RMS_NORM, BATCH_NORM)
