"""Operators by channel: group normalisation, and a filter of its own for each channel."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.norms import EPSILON, mean_of, newton, square_root
from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_half, bfloat16, brain, brain_cut, cut, double, fused, kept, single
from detecting.summing import backward, halves, lanes, narrow, serial, stale_tail, tree, unchanged, wide, without_last

SHAPE = (12, 16, 32)
"""Samples, channels, positions; four channels are a group."""


def group_norm(
    x,
    gain,
    bias,
    total=lanes,
    middle=unchanged,
    spread=unchanged,
    root=square_root,
    scale=unchanged,
    gained=np.multiply,
    epsilon=EPSILON,
    store=brain,
) -> Array:
    """Normalise groups of four channels in float32, and store bfloat16."""
    groups = single(x).reshape(12, 4, -1)
    off = groups - middle(mean_of(groups, total))
    normal = scale(off * root(spread(mean_of(np.square(off), total)) + epsilon)).reshape(SHAPE)
    return store(gained(normal, single(gain)[:, None]) + single(bias)[:, None])


def exact_group_norm(x: Array, gain: Array, bias: Array) -> Array:
    """Normalise in float64."""
    groups = double(x).reshape(12, 4, -1)
    off = groups - groups.mean(-1, keepdims=True)
    normal = off / np.sqrt(np.square(off).mean(-1, keepdims=True) + double(EPSILON))
    return normal.reshape(SHAPE) * double(gain)[:, None] + double(bias)[:, None]


def by_squares(x: Array, gain: Array, bias: Array, narrower=unchanged) -> Array:
    """Take the variance as the mean of squares, less the square of the mean."""
    groups = single(x).reshape(12, 4, -1)
    middle = mean_of(groups)
    variance = narrower(mean_of(np.square(groups))) - np.square(narrower(middle))
    normal = ((groups - middle) * square_root(variance + EPSILON)).reshape(SHAPE)
    return brain(normal * single(gain)[:, None] + single(bias)[:, None])


def one_formula(x: Array, gain: Array, bias: Array, narrower=unchanged) -> Array:
    """Compute a * x + b with a factor and a shift for each channel."""
    groups = single(x).reshape(12, 4, -1)
    middle = mean_of(groups)
    root = square_root(mean_of(np.square(groups - middle)) + EPSILON)
    factor = narrower(np.repeat(root, 4, axis=1) * single(gain)[:, None])
    shift = narrower(single(bias)[:, None] - np.repeat(middle, 4, axis=1) * factor)
    return brain(single(x) * factor + shift)


def channels_apart(x: Array, gain: Array, bias: Array) -> Array:
    """Sum each channel first, and then the channels of a group."""
    return group_norm(x, gain, bias, total=lambda groups: tree(lanes(groups.reshape(12, 4, 4, 32))))


def samples(random: np.random.Generator) -> tuple[Array, ...]:
    """Draw samples whose groups have means and deviations of their own, a gain and a bias."""
    middle, deviation = random.normal(0.5, 1, (12, 4, 1)), random.uniform(0.5, 2, (12, 4, 1))
    x = random.normal(middle, deviation, (12, 4, 128)).reshape(SHAPE)
    return brain(x), brain(random.normal(1, 0.2, 16)), brain(random.normal(0, 0.2, 16))


GROUP_NORM = Operator(
    "group_norm_bfloat16",
    samples,
    exact_group_norm,
    group_norm,
    {
        "the mean stored in bfloat16": partial(group_norm, middle=as_brain),
        "the mean truncated to 10 bits": partial(group_norm, middle=partial(cut, bits=10)),
        "the variance stored in bfloat16": partial(group_norm, spread=as_brain),
        "the variance rounded to 9 bits": partial(group_norm, spread=partial(kept, bits=9)),
        "the root stored in bfloat16": partial(group_norm, root=lambda x: as_brain(square_root(x))),
        "the root truncated to 10 bits": partial(group_norm, root=lambda x: cut(square_root(x), 10)),
        "the normalised group stored in bfloat16": partial(group_norm, scale=as_brain),
        "the normalised group rounded to 9 bits": partial(group_norm, scale=partial(kept, bits=9)),
        "the product with the gain in bfloat16": partial(group_norm, gained=lambda x, y: as_brain(x * y)),
        "sums in bfloat16": partial(group_norm, total=partial(narrow, dtype=bfloat16)),
        "sums in bfloat16 by a tree": partial(group_norm, total=partial(narrow, dtype=bfloat16, order=tree)),
        "squares less the square, both in bfloat16": partial(by_squares, narrower=as_brain),
        "a * x + b, both in bfloat16": partial(one_formula, narrower=as_brain),
        "epsilon of 1e-3": partial(group_norm, epsilon=np.float32(1e-3)),
        "epsilon of 1e-1": partial(group_norm, epsilon=np.float32(1e-1)),
        "the bias lost": lambda x, gain, bias: group_norm(x, gain, 0 * bias),
        "truncated to bfloat16": partial(group_norm, store=brain_cut),
        "rounded to 10 bits first": partial(group_norm, store=lambda x: brain(kept(x, 10))),
        "the last position lost": partial(group_norm, total=without_last),
        "a stale tail": partial(group_norm, total=stale_tail),
    },
    {
        "one accumulator": partial(group_norm, total=serial),
        "from the last position": partial(group_norm, total=backward),
        "a tree of sums": partial(group_norm, total=tree),
        "sums by halves": partial(group_norm, total=halves),
        "sums in float64": partial(group_norm, total=wide),
        "channels first": channels_apart,
        "squares less the square": by_squares,
        "a * x + b": one_formula,
        "two steps of Newton's from 8 bits": partial(group_norm, root=partial(newton, steps=2)),
        "everything in float64": lambda x, gain, bias: brain(single(exact_group_norm(x, gain, bias))),
    },
)

TAPS = tuple(range(9))


def depthwise(
    x,
    weights,
    bias,
    order=TAPS,
    keep=unchanged,
    product=np.multiply,
    read=unchanged,
    begin=False,
    step=None,
    last=unchanged,
) -> Array:
    """Filter 48 channels of 72 positions with nine taps each, one tap after the other, in float32."""
    weights, count = read(weights), x.shape[1] - 8
    total = np.zeros((len(x), count), np.float32) + (bias[:, None] if begin else np.float32(0))
    for tap in order:
        part, weight = x[:, tap : tap + count], weights[:, tap, None]
        total = keep(total + product(part, weight) if step is None else step(part, weight, total))
    return last(total if begin else total + bias[:, None])


def of_products(x: Array, weights: Array, bias: Array, total=tree) -> Array:
    """Form all products first."""
    windows = np.lib.stride_tricks.sliding_window_view(x, 9, axis=1)
    return total(windows * weights[:, None]) + bias[:, None]


def exact_depthwise(x: Array, weights: Array, bias: Array) -> Array:
    """Filter in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(double(x), 9, axis=1)
    return (windows * double(weights)[:, None]).sum(-1) + double(bias)[:, None]


def even_taps_apart(x: Array, weights: Array, bias: Array) -> Array:
    """Let even taps and odd ones have accumulators of their own."""
    return depthwise(x, weights, 0 * bias, TAPS[0::2]) + depthwise(x, weights, bias, TAPS[1::2])


def last_positions_stale(x: Array, weights: Array, bias: Array) -> Array:
    """Return at the last four positions what the four before have."""
    found = depthwise(x, weights, bias)
    found[:, -4:] = found[:, -8:-4]
    return found


DEPTHWISE = Operator(
    "depthwise_filter_float32",
    lambda random: (
        single(random.normal(0, 1, (48, 72))),
        single(random.normal(0, 0.3, (48, 9))),
        single(random.normal(0, 0.5, 48)),
    ),
    exact_depthwise,
    depthwise,
    {
        "the accumulator rounded to 23 bits": partial(depthwise, keep=partial(kept, bits=23)),
        "the accumulator rounded to 22 bits": partial(depthwise, keep=partial(kept, bits=22)),
        "the accumulator truncated to 23 bits": partial(depthwise, keep=partial(cut, bits=23)),
        "the accumulator truncated to 24 bits of float64": partial(
            depthwise,
            step=lambda part, weight, total: single(cut(double(total) + double(part) * double(weight), 24)),
        ),
        "the accumulator in bfloat16": partial(depthwise, keep=as_brain),
        "products rounded to 23 bits": partial(depthwise, product=lambda x, w: kept(x * w, 23)),
        "products rounded to 22 bits": partial(depthwise, product=lambda x, w: kept(x * w, 22)),
        "products truncated to 23 bits": partial(depthwise, product=lambda x, w: cut(x * w, 23)),
        "products stored in float16": partial(depthwise, product=lambda x, w: as_half(x * w)),
        "weights of 22 bits": partial(depthwise, read=partial(kept, bits=22)),
        "weights truncated to 23 bits": partial(depthwise, read=partial(cut, bits=23)),
        "weights stored in float16": partial(depthwise, read=as_half),
        "factors of 11 bits (TF32)": lambda x, weights, bias: depthwise(kept(x, 11), kept(weights, 11), bias),
        "the bias lost": lambda x, weights, bias: depthwise(x, weights, 0 * bias),
        "the bias stored in bfloat16": lambda x, weights, bias: depthwise(x, weights, as_brain(bias)),
        "the last tap lost": partial(depthwise, order=TAPS[:-1]),
        "the last four positions stale": last_positions_stale,
        "truncated to 23 bits": partial(depthwise, last=partial(cut, bits=23)),
        "rounded to 22 bits": partial(depthwise, last=partial(kept, bits=22)),
        "begun with the bias": partial(depthwise, begin=True),
    },
    {
        "taps backward": partial(depthwise, order=TAPS[::-1]),
        "taps from the middle": partial(depthwise, order=(4, 5, 6, 7, 8, 0, 1, 2, 3)),
        "even taps before odd ones": partial(depthwise, order=TAPS[0::2] + TAPS[1::2]),
        "taps from the middle outward": partial(depthwise, order=(4, 3, 5, 2, 6, 1, 7, 0, 8)),
        "neighbouring taps exchanged": partial(depthwise, order=(2, 1, 0, 5, 4, 3, 8, 7, 6)),
        "multiplied and added in one": partial(depthwise, step=fused),
        "even taps and odd ones apart": even_taps_apart,
        "in float64": lambda x, weights, bias: single(exact_depthwise(x, weights, bias)),
        "a tree of products": of_products,
        "products summed in float64": partial(of_products, total=wide),
    },
    # Positions are drawn alike, and so are the taps of a channel: any order of nine terms has errors alike. Backward,
    # the pair is exchangeable: reflect positions and taps.
    null=frozenset(
        {
            "taps backward",
            "taps from the middle",
            "even taps before odd ones",
            "taps from the middle outward",
            "neighbouring taps exchanged",
        }
    ),
)

OPERATORS = (GROUP_NORM, DEPTHWISE)
