"""Deviations, losses, similarities and distances: differences of nearly equal numbers, and small outputs."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, cut, double, fused, kept, single
from detecting.summing import (
    LANE_ORDERS,
    halves,
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


def deviation(x, total=lanes, middle=unchanged, square=np.square, count=96, root=np.sqrt, off=unchanged) -> Array:
    """Give the standard deviation of each row in two passes, in float32."""
    mean = middle(total(x) / np.float32(96))
    return root(total(square(off(x - mean[:, None]))) / np.float32(count))


def by_squares(x: Array) -> Array:
    """Take the mean of squares, less the square of the mean."""
    return np.sqrt(lanes(np.square(x)) / np.float32(96) - np.square(lanes(x) / np.float32(96)))


def by_squares_above_zero(x: Array) -> Array:
    """Let no variance be below zero."""
    return np.sqrt(np.maximum(lanes(np.square(x)) / np.float32(96) - np.square(lanes(x) / np.float32(96)), 0))


def from_first(x: Array) -> Array:
    """Take the first element away before squares are summed."""
    off = x - x[:, :1]
    return np.sqrt((lanes(np.square(off)) - np.square(lanes(off)) / np.float32(96)) / np.float32(96))


def corrected(x: Array) -> Array:
    """Correct the two passes by what the mean was wrong by."""
    off = x - (lanes(x) / np.float32(96))[:, None]
    return np.sqrt((lanes(np.square(off)) - np.square(lanes(off)) / np.float32(96)) / np.float32(96))


def welford(x: Array) -> Array:
    """Give it in one pass."""
    mean, squares = x[:, 0].copy(), np.zeros_like(x[:, 0])
    for at in range(1, x.shape[1]):
        off = x[:, at] - mean
        mean = mean + off / np.float32(at + 1)
        squares = squares + off * (x[:, at] - mean)
    return np.sqrt(squares / np.float32(96))


def rows_with_offsets(random: np.random.Generator) -> tuple[Array]:
    """Draw rows with a mean of about 3; eight of them vary by 1/100 about 1000."""
    x = random.normal(3, 1, (400, 96))
    x[::50] = random.normal(1000, 0.01, (8, 96))
    return (single(x),)


DEVIATION = Operator(
    "deviation_float32",
    rows_with_offsets,
    lambda x: double(x).std(-1),
    deviation,
    {
        "squares less the square": by_squares,
        "squares less the square, not below zero": by_squares_above_zero,
        "the mean stored in bfloat16": partial(deviation, middle=as_brain),
        "the mean of 16 bits": partial(deviation, middle=partial(kept, bits=16)),
        "the sample's deviation": partial(deviation, count=95),
        "differences stored in float16": partial(deviation, off=as_half),
        "differences of 20 bits": partial(deviation, off=partial(kept, bits=20)),
        "differences truncated to 22 bits": partial(deviation, off=partial(cut, bits=22)),
        "squares of 20 bits": partial(deviation, square=lambda x: kept(np.square(x), 20)),
        "squares truncated to 23 bits": partial(deviation, square=lambda x: cut(np.square(x), 23)),
        "one accumulator": partial(deviation, total=serial),
        "the root of 22 bits": partial(deviation, root=lambda x: kept(np.sqrt(x), 22)),
        "the root truncated to 22 bits": partial(deviation, root=lambda x: cut(np.sqrt(x), 22)),
        "a stale tail": partial(deviation, total=stale_tail),
        "in one pass": welford,
    },
    {
        "lanes begin at the end": partial(deviation, total=lanes_backward),
        "lanes joined by halves": partial(deviation, total=lanes_halved),
        "lanes of neighbouring terms": partial(deviation, total=runs),
        "the second half first": partial(deviation, total=swapped),
        "a tree of sums": partial(deviation, total=tree),
        "sums by halves": partial(deviation, total=halves),
        "sums in float64": partial(deviation, total=wide),
        "corrected by the mean of differences": corrected,
    },
    # Errors are distributed alike: the terms of a row are drawn alike.
    null=LANE_ORDERS,
)


def cross_entropy(x, target, exp=np.exp, log=np.log, total=lanes, picked=unchanged, sums=unchanged) -> Array:
    """Give -log(softmax) at the target of each row: a small output, near zero where the guess is right."""
    off = x - x.max(-1, keepdims=True)
    return log(sums(total(exp(off)))) - picked(np.take_along_axis(off, target, -1)[:, 0])


def exact_cross_entropy(x: Array, target: Array) -> Array:
    """Give the loss in float64."""
    off = double(x) - double(x).max(-1, keepdims=True)
    return np.log(np.exp(off).sum(-1)) - np.take_along_axis(off, target, -1)[:, 0]


def by_probability(x: Array, target: Array, floor: float = 0.0) -> Array:
    """Take the logarithm of the target's share."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    shares = powers / lanes(powers)[:, None]
    return -np.log(np.take_along_axis(shares, target, -1)[:, 0] + np.float32(floor))


def largest_apart(x: Array, target: Array) -> Array:
    """Add the largest score at the end."""
    largest = x.max(-1)
    return (largest + np.log(lanes(np.exp(x - largest[:, None])))) - np.take_along_axis(x, target, -1)[:, 0]


def scores(random: np.random.Generator) -> tuple[Array, Array]:
    """Draw scores, and targets that are mostly those with high scores."""
    x = random.normal(0, 2.5, (128, 40))
    return single(x), np.argmax(x + random.gumbel(0, 1, x.shape), -1)[:, None]


CROSS_ENTROPY = Operator(
    "cross_entropy_float32",
    scores,
    exact_cross_entropy,
    cross_entropy,
    {
        "of a share and 1e-7": partial(by_probability, floor=1e-7),
        "of a share and 1e-5": partial(by_probability, floor=1e-5),
        "the sum of 20 bits": partial(cross_entropy, sums=partial(kept, bits=20)),
        "the sum truncated to 21 bits": partial(cross_entropy, sums=partial(cut, bits=21)),
        "the sum in bfloat16": partial(cross_entropy, sums=as_brain),
        "the score in float16": partial(cross_entropy, picked=as_half),
        "the score truncated to 20 bits": partial(cross_entropy, picked=partial(cut, bits=20)),
        "exponentials truncated to 20 bits": partial(cross_entropy, exp=lambda x: cut(np.exp(x), 20)),
        "exponentials of 16 bits": partial(cross_entropy, exp=lambda x: kept(np.exp(x), 16)),
        "the logarithm of 18 bits": partial(cross_entropy, log=lambda x: kept(np.log(x), 18)),
        "the last term lost": partial(cross_entropy, total=without_last),
        "a stale tail": partial(cross_entropy, total=stale_tail),
    },
    {
        "of a share": by_probability,
        "lanes begin at the end": partial(cross_entropy, total=lanes_backward),
        "lanes joined by halves": partial(cross_entropy, total=lanes_halved),
        "lanes of neighbouring terms": partial(cross_entropy, total=runs),
        "the second half first": partial(cross_entropy, total=swapped),
        "sums in float64": partial(cross_entropy, total=wide),
        "exp in float64": partial(cross_entropy, exp=lambda x: as_double(np.exp, x)),
        "log in float64": partial(cross_entropy, log=lambda x: as_double(np.log, x)),
        "the largest score at the end": largest_apart,
    },
    # Errors are distributed alike: classes are drawn alike.
    null=LANE_ORDERS,
)


def cosine(x, y, total=lanes, root=np.sqrt, product=np.multiply, terms=unchanged, join=None) -> Array:
    """Give the cosine between rows: most results are near zero."""
    inner, left, right = total(terms(x * y)), total(x * x), total(y * y)
    if join is not None:
        return join(inner, left, right)
    return inner / product(root(left), root(right))


def exact_cosine(x: Array, y: Array) -> Array:
    """Give the cosine in float64."""
    x, y = double(x), double(y)
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


COSINE = Operator(
    "cosine_similarity_float32",
    lambda random: (single(random.normal(0, 1, (900, 64))), single(random.normal(0.05, 1, (900, 64)))),
    exact_cosine,
    cosine,
    {
        "products of 22 bits": partial(cosine, terms=partial(kept, bits=22)),
        "products truncated to 23 bits": partial(cosine, terms=partial(cut, bits=23)),
        "products in bfloat16": partial(cosine, terms=as_brain),
        "roots of 18 bits": partial(cosine, root=lambda x: kept(np.sqrt(x), 18)),
        "roots truncated to 17 bits": partial(cosine, root=lambda x: cut(np.sqrt(x), 17)),
        "roots in float16": partial(cosine, root=lambda x: as_half(np.sqrt(x))),
        "one accumulator": partial(cosine, total=serial),
        "two lanes": partial(cosine, total=partial(lanes, count=2)),
        "factors read with 20 bits": lambda x, y: cosine(kept(x, 20), kept(y, 20)),
        "factors read with 11 bits": lambda x, y: cosine(kept(x, 11), kept(y, 11)),
        "the last term lost": partial(cosine, total=without_last),
        "epsilon of 1e-3 below": partial(cosine, product=lambda x, y: x * y + np.float32(1e-3)),
        "normalised in float16 first": lambda x, y: lanes(
            as_half(x / np.sqrt(lanes(x * x))[:, None]) * as_half(y / np.sqrt(lanes(y * y))[:, None])
        ),
        "normalised first": lambda x, y: lanes(
            (x / np.sqrt(lanes(x * x))[:, None]) * (y / np.sqrt(lanes(y * y))[:, None])
        ),
    },
    {
        "lanes begin at the end": partial(cosine, total=lanes_backward),
        "lanes joined by halves": partial(cosine, total=lanes_halved),
        "lanes of neighbouring terms": partial(cosine, total=runs),
        "the second half first": partial(cosine, total=swapped),
        "sums in float64": partial(cosine, total=wide),
        "the root of the product": partial(cosine, join=lambda inner, left, right: inner / np.sqrt(left * right)),
        "one division after the other": partial(
            cosine, join=lambda inner, left, right: inner / np.sqrt(left) / np.sqrt(right)
        ),
        "roots in float64": partial(cosine, root=lambda x: as_double(np.sqrt, x)),
        "by the reciprocal of the root": partial(
            cosine, join=lambda inner, left, right: inner * (np.float32(1) / np.sqrt(left * right))
        ),
    },
    # Errors are distributed alike: coordinates are drawn alike.
    null=LANE_ORDERS,
)


def distances(x, y, off=unchanged, square=np.square, root=np.sqrt, total=None) -> Array:
    """Give the distance of every point to every other, 24 coordinates one after the other, in float32."""
    if total is not None:
        return root(total(square(off(x[:, None] - y[None]))))
    found = np.zeros((len(x), len(y)), np.float32)
    for at in range(x.shape[1]):
        found = found + square(off(x[:, at, None] - y[:, at]))
    return root(found)


def expanded(x: Array, y: Array, floor: float | None = 0.0) -> Array:
    """Write the square of a difference out."""
    inner = np.zeros((len(x), len(y)), np.float32)
    for at in range(x.shape[1]):
        inner = inner + x[:, at, None] * y[:, at]
    squares = serial(x * x)[:, None] + serial(y * y) - np.float32(2) * inner
    return np.sqrt(squares if floor is None else np.maximum(squares, np.float32(floor)))


def points(random: np.random.Generator) -> tuple[Array, Array]:
    """Draw points; some are close to one of the others."""
    x, y = random.normal(1, 1, (72, 24)), random.normal(1, 1, (80, 24))
    y[:24] = x[:24] + random.normal(0, 1e-5, (24, 24))
    return single(x), single(y)


DISTANCE = Operator(
    "distance_float32",
    points,
    lambda x, y: np.sqrt(np.square(double(x)[:, None] - double(y)[None]).sum(-1)),
    distances,
    {
        "written out": partial(expanded, floor=None),
        "written out, not below zero": expanded,
        "differences of 22 bits": partial(distances, off=partial(kept, bits=22)),
        "differences of 23 bits": partial(distances, off=partial(kept, bits=23)),
        "differences truncated to 22 bits": partial(distances, off=partial(cut, bits=22)),
        "differences in float16": partial(distances, off=as_half),
        "squares truncated to 23 bits": partial(distances, square=lambda x: cut(x * x, 23)),
        "squares of 22 bits": partial(distances, square=lambda x: kept(x * x, 22)),
        "the root of 23 bits": partial(distances, root=lambda x: kept(np.sqrt(x), 23)),
        "the root truncated to 23 bits": partial(distances, root=lambda x: cut(np.sqrt(x), 23)),
        "epsilon of 1e-6 below the root": partial(distances, root=lambda x: np.sqrt(x + np.float32(1e-6))),
        "epsilon of 1e-9 below the root": partial(distances, root=lambda x: np.sqrt(x + np.float32(1e-9))),
        "points read with 20 bits": lambda x, y: distances(kept(x, 20), kept(y, 20)),
        "the last coordinate lost": lambda x, y: distances(x[:, :-1], y[:, :-1]),
    },
    {
        "coordinates backward": lambda x, y: distances(x[:, ::-1], y[:, ::-1]),
        "coordinates from the middle": lambda x, y: distances(np.roll(x, 12, 1), np.roll(y, 12, 1)),
        "eight lanes": partial(distances, total=lanes),
        "a tree of sums": partial(distances, total=tree),
        "sums in float64": partial(distances, total=wide),
        "the absolute difference squared": partial(distances, off=np.abs),
        "the root in float64": partial(distances, root=lambda x: as_double(np.sqrt, x)),
        "squared and added in one": lambda x, y: np.sqrt(squared_in_one(x, y)),
    },
    # Errors are distributed alike: coordinates are drawn alike.
    null=frozenset({"coordinates backward", "coordinates from the middle"}),
)


def squared_in_one(x: Array, y: Array) -> Array:
    """Square and add in one rounding."""
    found = np.zeros((len(x), len(y)), np.float32)
    for at in range(x.shape[1]):
        off = x[:, at, None] - y[:, at]
        found = fused(off, off, found)
    return found


OPERATORS = (DEVIATION, CROSS_ENTROPY, COSINE, DISTANCE)
