"""Ways to sum over the last axis, each in the dtype of its terms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from detecting.operator import Array

Sum = Callable[[Array], Array]


def serial(x: Array) -> Array:
    """Add one term after the other."""
    return np.add.accumulate(x, axis=-1)[..., -1]


def backward(x: Array) -> Array:
    """Add one term after the other, from the last."""
    return serial(x[..., ::-1])


def tree(x: Array) -> Array:
    """Add neighbours, then neighbouring sums, and so on."""
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = np.concatenate([x, np.zeros_like(x[..., :1])], axis=-1)
        x = x[..., 0::2] + x[..., 1::2]
    return x[..., 0]


def halves(x: Array) -> Array:
    """Add one half of the terms to the other, and so on."""
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = np.concatenate([x, np.zeros_like(x[..., :1])], axis=-1)
        middle = x.shape[-1] // 2
        x = x[..., :middle] + x[..., middle:]
    return x[..., 0]


def unchanged(x: Array) -> Array:
    """Return what is given."""
    return x


def lanes(x: Array, count: int = 8, after: Sum = unchanged, join: Sum = tree) -> Array:
    """Let lanes take turns at the terms, as vector units do; their sums are `join`ed."""
    return join(after(np.add.reduce(x.reshape(*x.shape[:-1], -1, count), axis=-2)))


def lanes_backward(x: Array) -> Array:
    """Let eight lanes begin at the end."""
    return lanes(np.ascontiguousarray(x[..., ::-1]))


def lanes_halved(x: Array) -> Array:
    """Join eight lanes by their halves."""
    return lanes(x, join=halves)


def runs(x: Array, count: int = 8) -> Array:
    """Give each of the lanes neighbouring terms, and not every eighth."""
    return lanes(np.ascontiguousarray(x.reshape(*x.shape[:-1], count, -1).swapaxes(-1, -2)).reshape(x.shape), count)


def swapped(x: Array) -> Array:
    """Let eight lanes take the second half of the terms first."""
    return lanes(np.roll(x, x.shape[-1] // 2, axis=-1))


def blocks(x: Array, size: int, after: Sum = unchanged) -> Array:
    """Sum blocks one term after the other, and then the sums of the blocks."""
    return serial(after(serial(x.reshape(*x.shape[:-1], -1, size))))


def wide(x: Array) -> Array:
    """Sum in float64."""
    return x.sum(axis=-1, dtype=np.float64).astype(x.dtype)


def narrow(x: Array, dtype: npt.DTypeLike = np.float16, order: Sum = serial) -> Array:
    """Sum in a narrow dtype: every partial sum is rounded to it."""
    return order(x.astype(dtype)).astype(x.dtype)


def compensated(x: Array) -> Array:
    """Add one term after the other and carry what was rounded away (Kahan)."""
    total, lost = x[..., 0].copy(), np.zeros_like(x[..., 0])
    for at in range(1, x.shape[-1]):
        term = x[..., at] - lost
        longer = total + term
        lost = (longer - total) - term
        total = longer
    return total


def without_last(x: Array, order: Sum = lanes) -> Array:
    """Lose the last term."""
    return order(np.concatenate([x[..., :-1], np.zeros_like(x[..., :1])], axis=-1))


def stale_tail(x: Array, order: Sum = lanes, size: int = 4) -> Array:
    """Read the terms before the last ones again in their place."""
    return order(np.concatenate([x[..., :-size], x[..., -2 * size : -size]], axis=-1))


def exchanged(x: Array) -> Array:
    """Let each of eight lanes take its second term before its first, its fourth before its third, and so on."""
    rows = x.reshape(*x.shape[:-1], -1, 8)
    return lanes(rows[..., np.arange(rows.shape[-2]) ^ 1, :].reshape(x.shape))


@cache
def places(count: int) -> Array:
    """Draw an order of so many places, once."""
    return np.random.default_rng(1).permutation(count)


def shuffled(x: Array, order: Sum = lanes) -> Array:
    """Sum the terms in an order that is drawn once."""
    return order(np.ascontiguousarray(x[..., places(x.shape[-1])]))


# Each applies eight lanes to a permutation of the terms. If the terms of a row are drawn alike and independently, their
# sum has errors of the same distribution in each of these orders and in that of `lanes`. All but `runs` and `shuffled`
# are their own inverse, too, so that a pair of results has the same distribution as the pair exchanged.
EQUAL_ORDERS: dict[str, Sum] = {
    "lanes begin at the end": lanes_backward,
    "lanes joined by halves": lanes_halved,
    "lanes of neighbouring terms": runs,
    "the second half first": swapped,
    "terms of lanes exchanged in pairs": exchanged,
    "terms in an order that was drawn": shuffled,
}

# The names of those that older operators have among their changes.
LANE_ORDERS = frozenset(
    {"lanes begin at the end", "lanes joined by halves", "lanes of neighbouring terms", "the second half first"}
)
