"""Losses: one number for a batch, and the gradient of a loss in every element."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, cut, double, fused, kept, single
from detecting.softmaxes import by_polynomial, by_powers_of_two, no_top, top
from detecting.summing import (
    EQUAL_ORDERS,
    Sum,
    blocks,
    compensated,
    lanes,
    lanes_backward,
    lanes_halved,
    narrow,
    serial,
    shuffled,
    stale_tail,
    tree,
    unchanged,
    wide,
    without_last,
)

COUNT = np.float32(384)


def squared_error(
    guess: Array,
    target: Array,
    total: Sum = lanes,
    off: Sum = unchanged,
    square: Sum = np.square,
    share: Sum | None = None,
    last: Sum = unchanged,
) -> Array:
    """Return the mean of squared differences of 384 pairs, shape (1,), in float32."""
    errors = total(square(off(guess - target)))
    return last(errors / COUNT if share is None else share(errors))


def written_out(guess: Array, target: Array) -> Array:
    """Write the square of the difference out, and sum its three parts."""
    return (lanes(guess * guess) - np.float32(2) * lanes(guess * target) + lanes(target * target)) / COUNT


def squared_in_one(guess: Array, target: Array) -> Array:
    """Square and add in one rounding, in eight lanes."""
    off = (guess - target).reshape(-1, 8)
    total = np.zeros_like(off[0])
    for row in off:
        total = fused(row, row, total)
    return tree(total[None]) / COUNT


def guesses(random: np.random.Generator) -> tuple[Array, Array]:
    """Draw targets about 1 and guesses near them."""
    target = random.normal(1, 1, (1, 384))
    return single(target + random.normal(0, 0.4, (1, 384))), single(target)


MEAN_SQUARED_ERROR = Operator(
    "mean_squared_error_float32",
    guesses,
    lambda guess, target: np.square(double(guess) - double(target)).mean(-1),
    squared_error,
    {
        "one accumulator instead of eight lanes": partial(squared_error, total=serial),
        "two lanes instead of eight": partial(squared_error, total=partial(lanes, count=2)),
        "blocks of 96, one after the other": partial(squared_error, total=partial(blocks, size=96)),
        "differences of 16 bits": partial(squared_error, off=partial(kept, bits=16)),
        "differences truncated to 22 bits": partial(squared_error, off=partial(cut, bits=22)),
        "differences stored in float16": partial(squared_error, off=as_half),
        "squares truncated to 23 bits": partial(squared_error, square=lambda x: cut(np.square(x), 23)),
        "squares truncated to 21 bits": partial(squared_error, square=lambda x: cut(np.square(x), 21)),
        "squares stored in bfloat16": partial(squared_error, square=lambda x: as_brain(np.square(x))),
        "guesses read as bfloat16": lambda guess, target: squared_error(as_brain(guess), target),
        "sums of lanes truncated to 23 bits": partial(squared_error, total=partial(lanes, after=partial(cut, bits=23))),
        "sums of lanes rounded to 21 bits": partial(squared_error, total=partial(lanes, after=partial(kept, bits=21))),
        "the sum truncated to 22 bits": partial(squared_error, total=lambda x: cut(lanes(x), 22)),
        "accumulated in float16": partial(squared_error, total=narrow),
        "1/384 with five digits": partial(squared_error, share=lambda total: total * np.float32(0.0026042)),
        "1/384 in bfloat16": partial(squared_error, share=lambda total: total * as_brain(np.float32([1 / 384]))),
        "divided by one less": partial(squared_error, share=lambda total: total / np.float32(383)),
        "written out": written_out,
        "rounded to 22 bits": partial(squared_error, last=partial(kept, bits=22)),
        "truncated to 22 bits": partial(squared_error, last=partial(cut, bits=22)),
        "the last term lost": partial(squared_error, total=without_last),
        "a stale tail": partial(squared_error, total=stale_tail),
    },
    {
        **{name: partial(squared_error, total=total) for name, total in EQUAL_ORDERS.items()},
        "summed in float64": partial(squared_error, total=wide),
        "a tree of sums": partial(squared_error, total=tree),
        "compensated": partial(squared_error, total=compensated),
        "sixteen lanes": partial(squared_error, total=partial(lanes, count=16)),
        "squared and added in one": squared_in_one,
        "times 1/384": partial(squared_error, share=lambda total: total * np.float32(1 / 384)),
    },
    null=frozenset(EQUAL_ORDERS),  # pairs are drawn alike
)


def mean_loss(
    x,
    target,
    exp=np.exp,
    log=np.log,
    shift=top,
    inner=lanes,
    outer=lanes,
    sums=unchanged,
    loss=unchanged,
    share=None,
) -> Array:
    """Return the mean cross-entropy of 24 rows of 32 scores, shape (1,), in float32."""
    off = x - shift(x)
    losses = loss(log(sums(inner(exp(off)))) - np.take_along_axis(off, target, -1)[:, 0])
    total = outer(losses[None])
    return total / np.float32(24) if share is None else share(total)


def exact_mean_loss(x: Array, target: Array) -> Array:
    """Return the mean loss in float64."""
    off = double(x) - double(x).max(-1, keepdims=True)
    return (np.log(np.exp(off).sum(-1)) - np.take_along_axis(off, target, -1)[:, 0]).mean(keepdims=True)


def of_shares(x: Array, target: Array, floor: float = 0.0) -> Array:
    """Take the logarithm of the target's share, with a floor added to it."""
    powers = np.exp(x - top(x))
    shares = np.take_along_axis(powers / lanes(powers)[:, None], target, -1)[:, 0]
    return lanes(-np.log(shares + np.float32(floor))[None]) / np.float32(24)


def parts_apart(x: Array, target: Array) -> Array:
    """Take the mean of the logarithms and the mean of the targets' scores apart."""
    off = x - top(x)
    logs, scores = np.log(lanes(np.exp(off))), np.take_along_axis(off, target, -1)[:, 0]
    return (lanes(logs[None]) - lanes(scores[None])) / np.float32(24)


def batch(random: np.random.Generator) -> tuple[Array, Array]:
    """Draw rows of scores, one in four of them about 95, and targets that mostly have high scores."""
    x = random.normal(0, 2, (24, 32))
    target = np.argmax(x + random.gumbel(0, 1, x.shape), -1)[:, None]
    return single(x + 95 * (random.uniform(0, 1, (24, 1)) < 0.25)), target


MEAN_CROSS_ENTROPY = Operator(
    "mean_cross_entropy_float32",
    batch,
    exact_mean_loss,
    mean_loss,
    {
        "the maximum is not taken away": partial(mean_loss, shift=no_top),
        "exponentials truncated to 22 bits": partial(mean_loss, exp=lambda x: cut(np.exp(x), 22)),
        "exponentials truncated to 20 bits": partial(mean_loss, exp=lambda x: cut(np.exp(x), 20)),
        "exponentials stored in bfloat16": partial(mean_loss, exp=lambda x: as_brain(np.exp(x))),
        "exp by a polynomial of degree 4": partial(mean_loss, exp=partial(by_polynomial, degree=4)),
        "the sums of 18 bits": partial(mean_loss, sums=partial(kept, bits=18)),
        "the sums truncated to 21 bits": partial(mean_loss, sums=partial(cut, bits=21)),
        "the sums stored in float16": partial(mean_loss, sums=as_half),
        "logarithms truncated to 21 bits": partial(mean_loss, log=lambda x: cut(np.log(x), 21)),
        "logarithms of 19 bits": partial(mean_loss, log=lambda x: kept(np.log(x), 19)),
        "losses truncated to 22 bits": partial(mean_loss, loss=partial(cut, bits=22)),
        "losses rounded to 21 bits": partial(mean_loss, loss=partial(kept, bits=21)),
        "losses stored in bfloat16": partial(mean_loss, loss=as_brain),
        "losses added in float16": partial(mean_loss, outer=narrow),
        "1/24 with five digits": partial(mean_loss, share=lambda total: total * np.float32(0.041667)),
        "1/24 in float16": partial(mean_loss, share=lambda total: total * single(np.float16(1 / 24))),
        "of shares and 1e-5": partial(of_shares, floor=1e-5),
        "of shares and 1e-7": partial(of_shares, floor=1e-7),
        "the last class lost": partial(mean_loss, inner=without_last),
        "the last row lost": partial(mean_loss, outer=without_last),
        "stale classes": partial(mean_loss, inner=stale_tail),
    },
    {
        **{name: partial(mean_loss, inner=total) for name, total in EQUAL_ORDERS.items()},
        "rows from the end": partial(mean_loss, outer=lanes_backward),
        "rows joined by halves": partial(mean_loss, outer=lanes_halved),
        "rows in an order that was drawn": partial(mean_loss, outer=shuffled),
        "sums in float64": partial(mean_loss, inner=wide, outer=wide),
        "log in float64": partial(mean_loss, log=lambda x: as_double(np.log, x)),
        "exp in float64": partial(mean_loss, exp=lambda x: as_double(np.exp, x)),
        "exp by powers of two": partial(mean_loss, exp=by_powers_of_two),
        "of shares": of_shares,
        "two means": parts_apart,
        "times 1/24": partial(mean_loss, share=lambda total: total * np.float32(1 / 24)),
    },
    # Classes are drawn alike, and so are rows: any order of either is as good.
    null=frozenset(
        (
            *EQUAL_ORDERS,
            "rows from the end",
            "rows joined by halves",
            "rows in an order that was drawn",
        )
    ),
)

ALPHA = np.float32(0.3)


def surprise(z: Array, log1p=np.log1p) -> Array:
    """Return -log of the sigmoid."""
    return np.maximum(-z, np.float32(0)) + log1p(np.exp(-np.abs(z)))


def sigmoid(z: Array, exp=np.exp, below=unchanged) -> Array:
    """Return 1 / (1 + exp(-z))."""
    return np.float32(1) / below(np.float32(1) + exp(-z))


def focal(
    x,
    sign,
    share=sigmoid,
    rest=None,
    log=surprise,
    weight=unchanged,
    inner=unchanged,
    alpha=ALPHA,
    last=unchanged,
) -> Array:
    """Return the derivative of the focal loss -alpha (1 - p)^2 log(p), p = sigmoid(sign x), by x, in float32."""
    z = sign * x
    p = share(z)
    q = share(-z) if rest is None else rest(p)
    slope = inner(-np.float32(2) * p * log(z) - q)
    return last(sign * (weight(alpha * np.square(q)) * slope))


def exact_focal(x: Array, sign: Array) -> Array:
    """Return the derivative in float64, with alpha as it is in float32."""
    z = double(x) * double(sign)
    p, q = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z))
    return double(sign) * double(ALPHA) * q * q * (-2 * p * np.logaddexp(0, -z) - q)


def one_exponential(x: Array, sign: Array) -> Array:
    """Take both shares and the logarithm from one exponential."""
    z = sign * x
    small = np.exp(-np.abs(z))
    one, other = np.float32(1) / (np.float32(1) + small), small / (np.float32(1) + small)
    p, q = np.where(z >= 0, one, other), np.where(z >= 0, other, one)
    logarithm = np.maximum(-z, np.float32(0)) + np.log1p(small)
    return sign * (ALPHA * (q * q) * (-np.float32(2) * p * logarithm - q))


def other_order(x: Array, sign: Array) -> Array:
    """Multiply alpha and the slope by one factor q each."""
    z = sign * x
    q = sigmoid(-z)
    return sign * ((ALPHA * q) * (q * (-np.float32(2) * sigmoid(z) * surprise(z) - q)))


FOCAL_GRADIENT = Operator(
    "focal_gradient_float32",
    lambda random: (single(random.normal(0, 2, (60, 80))), single(random.choice([-1, 1], (60, 80)))),
    exact_focal,
    focal,
    {
        "1 - p": partial(focal, rest=lambda p: np.float32(1) - p),
        "log(p)": partial(focal, log=lambda z: -np.log(sigmoid(z))),
        "log(p + 1e-6)": partial(focal, log=lambda z: -np.log(sigmoid(z) + np.float32(1e-6))),
        "log(1 + y) instead of log1p": partial(focal, log=partial(surprise, log1p=lambda y: np.log(np.float32(1) + y))),
        "p rounded to 22 bits": partial(focal, share=lambda z: kept(sigmoid(z), 22)),
        "p truncated to 23 bits": partial(focal, share=lambda z: cut(sigmoid(z), 23)),
        "p stored in float16": partial(focal, share=lambda z: as_half(sigmoid(z))),
        "the denominator truncated to 23 bits": partial(focal, share=partial(sigmoid, below=partial(cut, bits=23))),
        "exp truncated to 22 bits": partial(focal, share=partial(sigmoid, exp=lambda z: cut(np.exp(z), 22))),
        "exp by a polynomial of degree 5": partial(focal, share=partial(sigmoid, exp=partial(by_polynomial, degree=5))),
        "by the hyperbolic tangent": partial(
            focal, share=lambda z: np.float32(0.5) + np.float32(0.5) * np.tanh(np.float32(0.5) * z)
        ),
        "the logarithm of 20 bits": partial(focal, log=lambda z: kept(surprise(z), 20)),
        "the weight rounded to 22 bits": partial(focal, weight=partial(kept, bits=22)),
        "the weight truncated to 23 bits": partial(focal, weight=partial(cut, bits=23)),
        "the weight stored in bfloat16": partial(focal, weight=as_brain),
        "the slope rounded to 22 bits": partial(focal, inner=partial(kept, bits=22)),
        "alpha in float16": partial(focal, alpha=single(np.float16(0.3))),
        "alpha with seven digits": partial(focal, alpha=np.float32(0.3000001)),
        "truncated to 22 bits": partial(focal, last=partial(cut, bits=22)),
        "truncated to 23 bits": partial(focal, last=partial(cut, bits=23)),
    },
    {
        "sigmoids in float64": partial(focal, share=lambda z: as_double(lambda y: 1 / (1 + np.exp(-y)), z)),
        "everything in float64": lambda x, sign: single(exact_focal(x, sign)),
        "one exponential": one_exponential,
        "the logarithm in float64": partial(focal, log=lambda z: as_double(lambda y: np.logaddexp(0, -y), z)),
        "numpy's logaddexp": partial(focal, log=lambda z: np.logaddexp(np.float32(0), -z)),
        "the weight in float64": lambda x, sign: focal(
            x, sign, weight=lambda w: single(double(ALPHA) * np.square(double(sigmoid(-sign * x))))
        ),
        "the slope in one rounding": lambda x, sign: focal(
            x,
            sign,
            inner=lambda _: fused(-np.float32(2) * sigmoid(sign * x), surprise(sign * x), -sigmoid(-sign * x)),
        ),
        "factors in another order": other_order,
    },
)

OPERATORS = (MEAN_SQUARED_ERROR, MEAN_CROSS_ENTROPY, FOCAL_GRADIENT)
