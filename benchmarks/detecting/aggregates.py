"""A few numbers from many: the length of a gradient, scores of classes, pooled features."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, as_single, cut, double, extended, fused, kept, single
from detecting.summing import (
    EQUAL_ORDERS,
    Sum,
    backward,
    blocks,
    compensated,
    lanes,
    narrow,
    serial,
    shuffled,
    stale_tail,
    tree,
    unchanged,
    wide,
    without_last,
)


def gradient_norm(
    *tensors: Array, total: Sum = serial, square: Sum = np.square, each: Sum = unchanged, root: Sum = np.sqrt
) -> Array:
    """Return the Euclidean length of three tensors together, shape (1,), in float64."""
    return root(serial(each(np.stack([total(square(one)) for one in tensors], axis=-1))))


def of_norms(*tensors: Array, narrower: Sum = unchanged) -> Array:
    """Return the length of the lengths of the tensors."""
    return gradient_norm(*tensors, each=lambda sums: np.square(narrower(np.sqrt(sums))))


def scaled_norm(*tensors: Array) -> Array:
    """Divide by the largest element first."""
    largest = max(np.abs(one).max() for one in tensors)
    return largest * gradient_norm(*(one / largest for one in tensors))


def of_one_tensor(*tensors: Array) -> Array:
    """Join the tensors, and sum over all of them."""
    return np.sqrt(serial(np.square(np.concatenate(tensors, axis=-1))))


def from_the_middle(x: Array) -> Array:
    """Sum one term after the other, from the middle."""
    return serial(np.roll(x, x.shape[-1] // 2, axis=-1))


def in_pairs(x: Array) -> Array:
    """Sum one term after the other, the second before the first, the fourth before the third, and so on."""
    return serial(x[..., np.arange(x.shape[-1]) ^ 1])


def odd_first(x: Array) -> Array:
    """Sum one term after the other, every second one first."""
    return serial(np.concatenate([x[..., 1::2], x[..., 0::2]], axis=-1))


ONE_ACCUMULATOR = {
    "from the last term": backward,
    "from the middle": from_the_middle,
    "terms exchanged in pairs": in_pairs,
    "every second term first": odd_first,
    "terms in an order that was drawn": partial(shuffled, order=serial),
}


def root_by_newton(x: Array, steps: int = 1) -> Array:
    """Return the root by steps from 1 / sqrt(x) of float32."""
    estimate = double(single(1 / np.sqrt(single(x))))
    for _ in range(steps):
        estimate = estimate * (1.5 - 0.5 * x * estimate * estimate)
    return x * estimate


def gradients(random: np.random.Generator) -> tuple[Array, ...]:
    """Draw three tensors of other sizes and scales."""
    return tuple(random.normal(0, scale, (1, count)) for scale, count in ((1, 256), (0.3, 160), (2, 96)))


def accumulated(x: Array, keep: Sum) -> Array:
    """Sum one term after the other, with an accumulator that is kept in another way."""
    total = x[..., 0]
    for at in range(1, x.shape[-1]):
        total = keep(total + x[..., at])
    return total


GRADIENT_NORM = Operator(
    "gradient_norm_float64",
    gradients,
    lambda *tensors: np.sqrt(sum(np.square(extended(one)).sum(-1) for one in tensors)),
    gradient_norm,
    {
        "the accumulator of 51 bits": partial(gradient_norm, total=partial(accumulated, keep=partial(kept, bits=51))),
        "the accumulator truncated to 52 bits": partial(
            gradient_norm, total=partial(accumulated, keep=partial(cut, bits=52))
        ),
        "the accumulator in float32": partial(gradient_norm, total=partial(accumulated, keep=as_single)),
        "squares truncated to 50 bits": partial(gradient_norm, square=lambda x: cut(np.square(x), 50)),
        "squares truncated to 48 bits": partial(gradient_norm, square=lambda x: cut(np.square(x), 48)),
        "squares stored in float32": partial(gradient_norm, square=lambda x: as_single(np.square(x))),
        "elements read as float32": lambda *tensors: gradient_norm(*map(as_single, tensors)),
        "elements of 46 bits": lambda *tensors: gradient_norm(*(kept(one, 46) for one in tensors)),
        "sums of tensors stored in float32": partial(gradient_norm, each=as_single),
        "sums of tensors rounded to 48 bits": partial(gradient_norm, each=partial(kept, bits=48)),
        "sums of tensors truncated to 49 bits": partial(gradient_norm, each=partial(cut, bits=49)),
        "lengths of tensors rounded to 48 bits": partial(of_norms, narrower=partial(kept, bits=48)),
        "the root truncated to 51 bits": partial(gradient_norm, root=lambda x: cut(np.sqrt(x), 51)),
        "the root truncated to 49 bits": partial(gradient_norm, root=lambda x: cut(np.sqrt(x), 49)),
        "the root rounded to 49 bits": partial(gradient_norm, root=lambda x: kept(np.sqrt(x), 49)),
        "one step of Newton's from float32": partial(gradient_norm, root=root_by_newton),
        "1e-6 added": partial(gradient_norm, root=lambda x: np.sqrt(x) + 1e-6),
        "1e-12 below the root": partial(gradient_norm, root=lambda x: np.sqrt(x + 1e-12)),
        "the last tensor lost": lambda *tensors: gradient_norm(*tensors[:-1]),
        "the last terms lost": partial(gradient_norm, total=partial(without_last, order=serial)),
        "stale tails": partial(gradient_norm, total=partial(stale_tail, order=serial)),
    },
    {
        **{name: partial(gradient_norm, total=total) for name, total in ONE_ACCUMULATOR.items()},
        "eight lanes": partial(gradient_norm, total=lanes),
        "a tree of sums": partial(gradient_norm, total=tree),
        "compensated": partial(gradient_norm, total=compensated),
        "sums in long double": partial(gradient_norm, total=lambda x: double(extended(x).sum(-1))),
        "the tensors joined": of_one_tensor,
        "the length of lengths": of_norms,
        "divided by the largest first": scaled_norm,
        "two steps of Newton's from float32": partial(gradient_norm, root=partial(root_by_newton, steps=2)),
    },
    null=frozenset(ONE_ACCUMULATOR),  # the elements of a tensor are drawn alike
)


def class_scores(x, weights, bias, total=lanes, product=np.multiply, read=unchanged, last=unchanged) -> Array:
    """Return ten scores, each a product of 128 features with a row of weights, in float32."""
    return last(total(product(x, read(weights))) + bias)


def fused_scores(x: Array, weights: Array, bias: Array) -> Array:
    """Multiply and add in one rounding, in eight lanes."""
    x, weights = x.reshape(-1, 8), weights.reshape(10, -1, 8)
    total = np.zeros((10, 8), np.float32)
    for at in range(len(x)):
        total = fused(weights[:, at], x[at], total)
    return tree(total) + bias


def exact_scores(x: Array, weights: Array, bias: Array) -> Array:
    """Return the scores in float64."""
    return double(weights) @ double(x) + double(bias)


def head(random: np.random.Generator) -> tuple[Array, ...]:
    """Draw features, most of them above zero, and weights and biases of ten classes."""
    return (
        single(np.maximum(random.normal(0.5, 1, 128), 0.01 * random.normal(0, 1, 128))),
        single(random.normal(0, 0.2, (10, 128))),
        single(random.normal(0, 1, 10)),
    )


CLASS_SCORES = Operator(
    "class_scores_float32",
    head,
    exact_scores,
    class_scores,
    {
        "one accumulator instead of eight lanes": partial(class_scores, total=serial),
        "two lanes instead of eight": partial(class_scores, total=partial(lanes, count=2)),
        "four lanes instead of eight": partial(class_scores, total=partial(lanes, count=4)),
        "blocks of 64, one after the other": partial(class_scores, total=partial(blocks, size=64)),
        "products truncated to 23 bits": partial(class_scores, product=lambda x, w: cut(x * w, 23)),
        "products rounded to 22 bits": partial(class_scores, product=lambda x, w: kept(x * w, 22)),
        "products stored in bfloat16": partial(class_scores, product=lambda x, w: as_brain(x * w)),
        "weights stored in bfloat16": partial(class_scores, read=as_brain),
        "weights of 22 bits": partial(class_scores, read=partial(kept, bits=22)),
        "weights of 20 bits": partial(class_scores, read=partial(kept, bits=20)),
        "features stored in float16": lambda x, weights, bias: class_scores(as_half(x), weights, bias),
        "factors of 11 bits (TF32)": lambda x, weights, bias: class_scores(kept(x, 11), kept(weights, 11), bias),
        "sums of lanes truncated to 23 bits": partial(class_scores, total=partial(lanes, after=partial(cut, bits=23))),
        "sums of lanes joined in float16": partial(class_scores, total=partial(lanes, after=as_half)),
        "accumulated in bfloat16": partial(class_scores, total=lambda x: as_brain(lanes(as_brain(x)))),
        "the bias lost": lambda x, weights, bias: class_scores(x, weights, 0 * bias),
        "the bias stored in bfloat16": lambda x, weights, bias: class_scores(x, weights, as_brain(bias)),
        "truncated to 22 bits": partial(class_scores, last=partial(cut, bits=22)),
        "the last feature lost": partial(class_scores, total=without_last),
        "a stale tail": partial(class_scores, total=stale_tail),
    },
    {
        **{name: partial(class_scores, total=total) for name, total in EQUAL_ORDERS.items()},
        "in float64": lambda x, weights, bias: single(exact_scores(x, weights, bias)),
        "a tree of sums": partial(class_scores, total=tree),
        "compensated": partial(class_scores, total=compensated),
        "sixteen lanes": partial(class_scores, total=partial(lanes, count=16)),
        "multiplied and added in one": fused_scores,
        "sums in float64": partial(class_scores, total=wide),
    },
    null=frozenset(EQUAL_ORDERS),  # features are drawn alike, and so are the weights of a class
)


def pooled(x, total=lanes, cube=None, root=np.cbrt, share=None, least=1e-6, mean=unchanged) -> Array:
    """Return the generalized mean of third power of eight channels of 192 pixels, in float32."""
    x = np.maximum(x, np.float32(least))
    sums = total(x * x * x if cube is None else cube(x))
    return root(mean(sums / np.float32(192) if share is None else share(sums)))


def exact_pooled(x: Array) -> Array:
    """Return the means in float64."""
    return np.cbrt((np.maximum(double(x), double(np.float32(1e-6))) ** 3).mean(-1))


def cube_root(x: Array, steps: int = 2, bits: int = 8) -> Array:
    """Return the cube root by Newton's steps from an estimate of so many bits."""
    estimate = kept(np.cbrt(x), bits)
    for _ in range(steps):
        estimate = estimate - (estimate - x / (estimate * estimate)) / np.float32(3)
    return estimate


def by_logarithm(x: Array) -> Array:
    """Return the cube root by exponential and logarithm."""
    return np.exp(np.log(x) / np.float32(3))


POOLED = Operator(
    "pooled_features_float32",
    lambda random: (single(random.gamma(2, 0.7, (8, 192)) - 0.5),),
    exact_pooled,
    pooled,
    {
        "one accumulator instead of eight lanes": partial(pooled, total=serial),
        "two lanes instead of eight": partial(pooled, total=partial(lanes, count=2)),
        "cubes truncated to 22 bits": partial(pooled, cube=lambda x: cut(x * x * x, 22)),
        "cubes truncated to 20 bits": partial(pooled, cube=lambda x: cut(x * x * x, 20)),
        "cubes stored in bfloat16": partial(pooled, cube=lambda x: as_brain(x * x * x)),
        "squares stored in float16": partial(pooled, cube=lambda x: as_half(x * x) * x),
        "pixels read as bfloat16": lambda x: pooled(as_brain(x)),
        "sums of lanes truncated to 22 bits": partial(pooled, total=partial(lanes, after=partial(cut, bits=22))),
        "accumulated in float16": partial(pooled, total=narrow),
        "the mean truncated to 21 bits": partial(pooled, mean=partial(cut, bits=21)),
        "the mean rounded to 21 bits": partial(pooled, mean=partial(kept, bits=21)),
        "1/192 with five digits": partial(pooled, share=lambda total: total * np.float32(0.0052083)),
        "the root truncated to 23 bits": partial(pooled, root=lambda x: cut(np.cbrt(x), 23)),
        "the root rounded to 22 bits": partial(pooled, root=lambda x: kept(np.cbrt(x), 22)),
        "the power 0.33333": partial(pooled, root=lambda x: np.power(x, np.float32(0.33333))),
        "the power 1/3 in float32": partial(pooled, root=lambda x: np.power(x, np.float32(1 / 3))),
        "by exponential and logarithm": partial(pooled, root=by_logarithm),
        "one step of Newton's from 8 bits": partial(pooled, root=partial(cube_root, steps=1)),
        "clipped at 0.1": partial(pooled, least=0.1),
        "the last pixel lost": partial(pooled, total=without_last),
        "a stale tail": partial(pooled, total=stale_tail),
    },
    {
        **{name: partial(pooled, total=total) for name, total in EQUAL_ORDERS.items()},
        "sums in float64": partial(pooled, total=wide),
        "a tree of sums": partial(pooled, total=tree),
        "the root in float64": partial(pooled, root=lambda x: as_double(np.cbrt, x)),
        "everything in float64": lambda x: single(exact_pooled(x)),
        "cubes as powers": partial(pooled, cube=lambda x: np.power(x, np.float32(3))),
        "cubes in float64": partial(pooled, cube=lambda x: single(double(x) ** 3)),
        "three steps of Newton's from 8 bits": partial(pooled, root=partial(cube_root, steps=3)),
        "times 1/192": partial(pooled, share=lambda total: total * np.float32(1 / 192)),
    },
    null=frozenset(EQUAL_ORDERS),  # the pixels of a channel are drawn alike
)

OPERATORS = (GRADIENT_NORM, CLASS_SCORES, POOLED)
