"""Sums over rows: float32 and float64, float16 with a wider accumulator, and with what was rounded away carried."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import (
    as_brain,
    as_half,
    as_single,
    bfloat16,
    cut,
    double,
    extended,
    half,
    half_cut,
    kept,
    single,
)
from detecting.summing import (
    LANE_ORDERS,
    Sum,
    backward,
    blocks,
    compensated,
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


def lanes_of_terms(x: Array, terms: Sum) -> Array:
    """Change the terms, and sum them in eight lanes."""
    return lanes(terms(x))


ROW_SUM = Operator(
    "row_sum_float32",
    lambda random: (single(random.normal(0.5, 1, (1536, 128))),),
    lambda x: double(x).sum(-1),
    lanes,
    {
        "one accumulator instead of eight lanes": serial,
        "two lanes instead of eight": partial(lanes, count=2),
        "four lanes instead of eight": partial(lanes, count=4),
        "sums of lanes truncated to 22 bits": partial(lanes, after=partial(cut, bits=22)),
        "sums of lanes truncated to 23 bits": partial(lanes, after=partial(cut, bits=23)),
        "sums of lanes rounded to 22 bits": partial(lanes, after=partial(kept, bits=22)),
        "sums of lanes rounded to 21 bits": partial(lanes, after=partial(kept, bits=21)),
        "sums of lanes joined in float16": partial(lanes, after=as_half),
        "terms read as bfloat16": partial(lanes_of_terms, terms=as_brain),
        "terms truncated to 20 bits": partial(lanes_of_terms, terms=partial(cut, bits=20)),
        "blocks of 64, one after the other": partial(blocks, size=64),
        "the last term lost": without_last,
        "a stale tail": stale_tail,
    },
    {
        "lanes begin at the end": lanes_backward,
        "lanes joined by halves": lanes_halved,
        "lanes of neighbouring terms": runs,
        "the second half first": swapped,
        "summed in float64": wide,
        "a tree of sums": tree,
        "compensated": compensated,
        "sixteen lanes": partial(lanes, count=16),
    },
    # Errors are distributed alike: the terms of a row are drawn alike.
    null=LANE_ORDERS,
)


def mean_square(
    x: Array, total: Sum = lanes, square: Sum = np.square, term: Sum = unchanged, share: Sum | None = None, store=half
) -> Array:
    """Give the mean of squares of each row, accumulated in float32."""
    terms = term(square(single(x)))
    mean = total(terms) / np.float32(x.shape[-1]) if share is None else share(total(terms))
    return store(mean)


def divided_first(x: Array, narrower: Sum = unchanged) -> Array:
    """Divide every term, and not the sum."""
    return mean_square(x, term=lambda squares: narrower(squares / np.float32(x.shape[-1])), share=unchanged)


def halved_blocks(x: Array) -> Array:
    """Sum blocks of 20 in float16, and these sums in float32."""
    return lanes(single(serial(half(x).reshape(*x.shape[:-1], -1, 20))))


MEAN_SQUARE = Operator(
    "mean_square_float16",
    lambda random: (half(random.normal(0, 1, (1024, 160))),),
    lambda x: np.square(double(x)).mean(-1),
    mean_square,
    {
        "accumulated in float16": partial(mean_square, total=narrow),
        "blocks of 20 in float16": partial(mean_square, total=halved_blocks),
        "squares stored in float16": partial(mean_square, term=as_half),
        "squares truncated to 11 bits": partial(mean_square, term=partial(cut, bits=11)),
        "accumulated in bfloat16 by a tree": partial(mean_square, total=partial(narrow, dtype=bfloat16, order=tree)),
        "sums of lanes stored in float16": partial(mean_square, total=partial(lanes, after=as_half)),
        "the sum stored in float16 before the division": partial(mean_square, total=lambda x: as_half(lanes(x))),
        "the sum rounded to 12 bits before the division": partial(mean_square, total=lambda x: kept(lanes(x), 12)),
        "the sum truncated to 14 bits": partial(mean_square, total=lambda x: cut(lanes(x), 14)),
        "truncated to float16": partial(mean_square, store=half_cut),
        "1/160 with three digits": partial(mean_square, share=lambda total: total * np.float32(0.00625 + 2e-6)),
        "1/160 in float16": partial(mean_square, share=lambda total: total * single(np.float16(1 / 160))),
        "the last term lost": partial(mean_square, total=without_last),
        "a stale tail": partial(mean_square, total=stale_tail),
        "divided by one less": partial(mean_square, share=lambda total: total / np.float32(159)),
    },
    {
        "one accumulator": partial(mean_square, total=serial),
        "from the last term": partial(mean_square, total=backward),
        "lanes begin at the end": partial(mean_square, total=lanes_backward),
        "summed in float64": partial(mean_square, total=wide),
        "a tree of sums": partial(mean_square, total=tree),
        "times 1/160 in float32": partial(mean_square, share=lambda total: total * np.float32(1 / 160)),
        "divided before summing": divided_first,
        "x * x": partial(mean_square, square=lambda x: x * x),
    },
    # Errors are distributed alike: the terms of a row are drawn alike.
    null=frozenset({"lanes begin at the end"}),
)


def dot(x: Array, y: Array, total: Sum = lanes, product=np.multiply, read: Sum = unchanged) -> Array:
    """Give the products of rows, in float64."""
    return total(product(x, read(y)))


def products_apart(x: Array, y: Array) -> Array:
    """Sum products in float32, and what float32 lost of them besides."""
    rounded = single(x * y)
    return lanes(double(rounded)) + double(lanes(single(x * y - rounded)))


DOT = Operator(
    "dot_float64",
    lambda random: (random.normal(0.3, 1, (1000, 64)), random.normal(0.3, 1, (1000, 64))),
    lambda x, y: (extended(x) * extended(y)).sum(-1),
    dot,
    {
        "one accumulator instead of eight lanes": partial(dot, total=serial),
        "two lanes instead of eight": partial(dot, total=partial(lanes, count=2)),
        "four lanes instead of eight": partial(dot, total=partial(lanes, count=4)),
        "products truncated to 51 bits": partial(dot, product=lambda x, y: cut(x * y, 51)),
        "products rounded to 51 bits": partial(dot, product=lambda x, y: kept(x * y, 51)),
        "products rounded to float32": partial(dot, product=lambda x, y: as_single(x * y)),
        "a factor rounded to 48 bits": partial(dot, read=partial(kept, bits=48)),
        "a factor read as float32": partial(dot, read=as_single),
        "sums of lanes truncated to 52 bits": partial(dot, total=partial(lanes, after=partial(cut, bits=52))),
        "sums of lanes joined in float32": partial(dot, total=partial(lanes, after=as_single)),
        "what float32 loses of products summed in float32": products_apart,
        "the last term lost": partial(dot, total=without_last),
        "blocks of 32, one after the other": partial(dot, total=partial(blocks, size=32)),
    },
    {
        "lanes begin at the end": partial(dot, total=lanes_backward),
        "lanes joined by halves": partial(dot, total=lanes_halved),
        "lanes of neighbouring terms": partial(dot, total=runs),
        "the second half first": partial(dot, total=swapped),
        "a tree of sums": partial(dot, total=tree),
        "sixteen lanes": partial(dot, total=partial(lanes, count=16)),
        "factors change places": lambda x, y: dot(y, x),
        "accumulated in long double": lambda x, y: double(extended(x * y).sum(-1)),
    },
    # Errors are distributed alike: the terms of a row are drawn alike.
    null=LANE_ORDERS,
)


def kahan(x: Array, carry: Sum = unchanged, every: int = 0, last: bool = True) -> Array:
    """Add one term after the other; `carry` keeps what was rounded away, which is forgotten `every` so many terms."""
    total, lost = x[..., 0].copy(), np.zeros_like(x[..., 0])
    for at in range(1, x.shape[-1]):
        if every and at % every == 0:
            lost = np.zeros_like(lost)
        term = x[..., at] - lost
        longer = total + term
        lost = carry((longer - total) - term)
        total = longer
    return total - lost if last else total


def neumaier(x: Array, order: Sum = unchanged) -> Array:
    """Sum what is rounded away apart, exactly in either case of which operand is larger."""
    terms = order(x)
    total, lost = terms[..., 0].copy(), np.zeros_like(x[..., 0])
    for at in range(1, x.shape[-1]):
        term = terms[..., at]
        longer = total + term
        larger = np.abs(total) >= np.abs(term)
        lost += np.where(larger, (total - longer) + term, (term - longer) + total)
        total = longer
    return total + lost


def by_two_sums(x: Array) -> Array:
    """Sum what is rounded away apart, by Knuth's six operations."""
    total, lost = x[..., 0].copy(), np.zeros_like(x[..., 0])
    for at in range(1, x.shape[-1]):
        longer = total + x[..., at]
        other = longer - total
        lost += (total - (longer - other)) + (x[..., at] - other)
        total = longer
    return total + lost


def two_compensated(x: Array, count: int = 2) -> Array:
    """Compensate lanes, and add their sums plainly."""
    return tree(np.stack([kahan(x[..., lane::count]) for lane in range(count)], axis=-1))


COMPENSATED_SUM = Operator(
    "compensated_sum_float32",
    lambda random: (single(random.exponential(1, (1500, 48))),),
    lambda x: double(x).sum(-1),
    kahan,
    {
        "no compensation": serial,
        "no compensation, eight lanes": lanes,
        "no compensation, a tree": tree,
        "the compensation forgotten every 12 terms": partial(kahan, every=12),
        "the compensation forgotten every 6 terms": partial(kahan, every=6),
        "the compensation forgotten every 24 terms": partial(kahan, every=24),
        "the compensation has the wrong sign": partial(kahan, carry=np.negative),
        "half of the compensation": partial(kahan, carry=lambda lost: lost * np.float32(0.5)),
        "compensated lanes added plainly": two_compensated,
        "four compensated lanes added plainly": partial(two_compensated, count=4),
        "truncated to 23 bits": lambda x: cut(kahan(x), 23),
        "the sum of float64 truncated": lambda x: _single_cut(double(x).sum(-1)),
        "terms read as float16": lambda x: kahan(as_half(x)),
        "terms rounded to 22 bits": lambda x: kahan(kept(x, 22)),
    },
    {
        "Neumaier's way": neumaier,
        "Knuth's six operations": by_two_sums,
        "from the last term": lambda x: kahan(x[..., ::-1]),
        "from the last term, Neumaier's way": partial(neumaier, order=lambda x: x[..., ::-1]),
        "summed in float64": wide,
        "sorted first": lambda x: kahan(np.sort(x, axis=-1)),
        "the last correction left out": partial(kahan, last=False),
        "the compensation kept in bfloat16": partial(kahan, carry=as_brain),
    },
    # Errors are distributed alike: the terms of a row are drawn alike.
    null=frozenset({"from the last term"}),
)


def _single_cut(x: Array) -> Array:
    """Truncate float64 to float32."""
    return single(cut(x, 24))


def length(x: Array, total: Sum = lanes, square: Sum = np.square, root: Sum = np.sqrt, read: Sum = single) -> Array:
    """Give the Euclidean length of each row, in float32."""
    return half(single(root(total(square(read(x))))))


def scaled_length(x: Array, narrower: Sum = unchanged) -> Array:
    """Divide by the largest element first, as hypot does."""
    x = single(x)
    largest = np.abs(x).max(-1, keepdims=True)
    return half(largest[:, 0] * np.sqrt(lanes(np.square(narrower(x / largest)))))


def long_rows(random: np.random.Generator) -> tuple[Array]:
    """Draw rows of all sizes; squares of some are beyond float16."""
    return (half(random.normal(0, 1, (1200, 64)) * np.exp(random.uniform(-3, 5.5, (1200, 1)))),)


LENGTH = Operator(
    "row_length_float16",
    long_rows,
    lambda x: np.sqrt(np.square(double(x)).sum(-1)),
    length,
    {
        "squares in float16": partial(length, square=lambda x: as_half(np.square(x))),
        "the sum in float16": partial(length, total=lambda x: as_half(lanes(x))),
        "squares in bfloat16": partial(length, square=lambda x: as_brain(np.square(x))),
        "squares truncated to 11 bits": partial(length, square=lambda x: cut(np.square(x), 11)),
        "the sum of 11 bits": partial(length, total=lambda x: kept(lanes(x), 11)),
        "the sum truncated to 12 bits": partial(length, total=lambda x: cut(lanes(x), 12)),
        "the root of 12 bits": partial(length, root=lambda x: kept(np.sqrt(x), 12)),
        "the root truncated to 13 bits": partial(length, root=lambda x: cut(np.sqrt(x), 13)),
        "one over a root of 11 bits": partial(length, root=lambda x: x * kept(1 / np.sqrt(x), 11)),
        "quotients by the largest in float16": partial(scaled_length, narrower=as_half),
        "quotients by the largest truncated to 11 bits": partial(scaled_length, narrower=partial(cut, bits=11)),
        "accumulated in bfloat16": partial(length, total=partial(narrow, dtype=bfloat16, order=tree)),
        "truncated to float16": lambda x: half_cut(np.sqrt(lanes(np.square(single(x))))),
        "the last term lost": partial(length, total=without_last),
    },
    {
        "divided by the largest first": scaled_length,
        "one accumulator": partial(length, total=serial),
        "from the last term": partial(length, total=backward),
        "a tree of sums": partial(length, total=tree),
        "sums by halves": partial(length, total=halves),
        "in float64": partial(length, read=double),
        "x over its root": partial(length, root=lambda x: x * (1 / np.sqrt(x))),
    },
)

OPERATORS = (ROW_SUM, MEAN_SQUARE, DOT, COMPENSATED_SUM, LENGTH)
