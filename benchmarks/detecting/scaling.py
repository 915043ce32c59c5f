"""Scaling: by the root mean square of a row, and by known statistics of a channel."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.norms import EPSILON, mean_of, newton, rows, square_root
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
    kept,
    single,
)
from detecting.summing import backward, halves, lanes, narrow, serial, stale_tail, tree, unchanged, wide, without_last


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
        "the mean square stored in bfloat16": partial(rms_norm, root=lambda x: square_root(as_brain(x))),
        "accumulated in bfloat16": partial(rms_norm, total=partial(narrow, dtype=bfloat16)),
        "accumulated in bfloat16 by a tree": partial(rms_norm, total=partial(narrow, dtype=bfloat16, order=tree)),
        "squares truncated to 8 bits": partial(rms_norm, term=partial(cut, bits=8)),
        "truncated to bfloat16": partial(rms_norm, store=brain_cut),
        "a stale tail": partial(rms_norm, total=stale_tail),
        "the last term lost": partial(rms_norm, total=without_last),
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

OPERATORS = (RMS_NORM, BATCH_NORM)
