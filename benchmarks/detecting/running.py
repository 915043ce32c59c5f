"""Running sums: what is carried is shared by all that follows."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import (
    as_brain,
    as_half,
    cut,
    double,
    kept,
    single,
)
from detecting.summing import unchanged


def running(x, size=16, carry=unchanged, inside=None) -> Array:
    """Give running sums of rows: of blocks first, and what came before is added to all of a block, in float32."""
    inner = (inside or partial(np.add.accumulate, axis=-1))(x.reshape(len(x), -1, size))
    before = carry(np.add.accumulate(inner[..., -1], axis=-1))
    before = np.concatenate([np.zeros_like(before[:, :1]), before[:, :-1]], axis=1)
    return (inner + before[..., None]).reshape(x.shape)


def doubling(x: Array) -> Array:
    """Add what is 1, 2, 4 and so on places before (Hillis and Steele)."""
    step = 1
    while step < x.shape[-1]:
        x = np.concatenate([x[..., :step], x[..., step:] + x[..., :-step]], axis=-1)
        step *= 2
    return x


def blocks_by_doubling(x: Array) -> Array:
    """Double inside of blocks."""
    return running(x, inside=doubling)


def sums_by_tree(x: Array) -> Array:
    """Double over the sums of blocks, too."""
    inner = doubling(x.reshape(len(x), -1, 16))
    before = doubling(inner[..., -1])
    before = np.concatenate([np.zeros_like(before[:, :1]), before[:, :-1]], axis=1)
    return (inner + before[..., None]).reshape(x.shape)


def compensated_running(x: Array) -> Array:
    """Carry what was rounded away."""
    total, lost, found = x[:, 0].copy(), np.zeros_like(x[:, 0]), [x[:, 0].copy()]
    for at in range(1, x.shape[1]):
        term = x[:, at] - lost
        longer = total + term
        lost, total = (longer - total) - term, longer
        found.append(total)
    return np.stack(found, axis=1)


def reset(x: Array) -> Array:
    """Lose the sum of the block before the last in the last block."""
    found = running(x)
    found[:, -16:] -= np.add.reduce(x[:, -32:-16], axis=-1)[:, None]
    return found


def carries_in_float64(x: Array) -> Array:
    """Add the sums of blocks in float64."""
    inner = np.add.accumulate(x.reshape(len(x), -1, 16), axis=-1)
    before = np.cumsum(double(inner[..., -1]), axis=-1) - double(inner[..., -1])
    return (inner + single(before)[..., None]).reshape(x.shape)


CUMSUM = Operator(
    "cumsum_float32",
    lambda random: (single(random.normal(0.1, 1, (40, 256))),),
    lambda x: np.cumsum(double(x), axis=-1),
    running,
    {
        "one accumulator": partial(np.add.accumulate, axis=-1),
        "blocks of 4": partial(running, size=4),
        "blocks of 64": partial(running, size=64),
        "blocks of 128": partial(running, size=128),
        "carries of 23 bits": partial(running, carry=partial(kept, bits=23)),
        "carries of 22 bits": partial(running, carry=partial(kept, bits=22)),
        "carries truncated to 22 bits": partial(running, carry=partial(cut, bits=22)),
        "carries in bfloat16": partial(running, carry=as_brain),
        "carries in float16": partial(running, carry=as_half),
        "sums truncated to 22 bits": lambda x: cut(running(x), 22),
        "sums truncated to 23 bits": lambda x: cut(running(x), 23),
        "terms of 20 bits": lambda x: running(kept(x, 20)),
        "terms of 22 bits": lambda x: running(kept(x, 22)),
        "a block is left out of the last one": reset,
    },
    {
        "blocks of 32": partial(running, size=32),
        "blocks of 8": partial(running, size=8),
        "doubling inside of blocks": blocks_by_doubling,
        "doubling everywhere": sums_by_tree,
        "doubling over the row": doubling,
        "compensated": compensated_running,
        "in float64": lambda x: single(np.cumsum(double(x), axis=-1)),
        "the carries in float64": carries_in_float64,
        "negated": lambda x: -running(-x),
    },
)

OPERATORS = (CUMSUM,)
