"""Pairs of arrays to compare: ordinary numbers, bit-identical ones, subnormals, and data with many NaN and infinities.

Everything is drawn block by block, so that drawing needs little memory beside the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Block = Callable[[np.random.Generator, int], tuple[Array, Array]]
BLOCK = 1 << 18
NOISE = 1e-6
"""Relative errors are uniform up to this: about eight units in the last place of float32, within rtol of everybody."""


class Pair(NamedTuple):
    """An actual float32 array and its reference."""

    actual: Array
    reference: Array

    @property
    def nbytes(self) -> int:
        """What both take together."""
        return int(self.actual.nbytes + self.reference.nbytes)


def ordinary(random: np.random.Generator, n: int, noise: float = NOISE) -> tuple[Array, Array]:
    """Draw standard normal references and actual values near them, both as float64."""
    reference = random.standard_normal(n)
    return reference * (1 + random.uniform(-noise, noise, n)), reference


def failing(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw pairs most of which are beyond everybody's tolerance."""
    return ordinary(random, n, noise=1e-2)


def identical(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw float32 numbers and take them for both sides."""
    values = random.standard_normal(n, dtype=np.float32)
    return values, values


def subnormal(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw subnormal float32 numbers of both signs and neighbours of them, up to eight units away."""
    unit = np.ldexp(1.0, -149)
    reference = random.integers(16, 2**23 - 16, n) * random.choice((-1, 1), n)
    return (reference + random.integers(-8, 9, n)) * unit, reference * unit


def spoiled(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw ordinary pairs, then make a tenth of them NaN or infinite: on both sides, or on one."""
    actual, reference = ordinary(random, n)
    kind = random.integers(0, 40, n)
    actual[kind == 0] = np.nan
    actual[kind == 1] = np.inf
    reference[kind == 0] = np.nan
    reference[kind == 2] = -np.inf
    actual[kind == 3] = -np.inf
    reference[kind == 3] = -np.inf
    return actual, reference


KINDS: dict[str, Block] = {
    "ordinary": ordinary,
    "failing": failing,
    "identical": identical,
    "subnormal": subnormal,
    "spoiled": spoiled,
}


def draw(kind: str, n: int, reference_dtype: str) -> Pair:
    """Return n pairs of one kind: float32 actual values, references of the dtype asked for."""
    random = np.random.default_rng(n)
    pair = Pair(np.empty(n, np.float32), np.empty(n, reference_dtype))
    for start in range(0, n, BLOCK):
        part = slice(start, min(start + BLOCK, n))
        pair.actual[part], pair.reference[part] = KINDS[kind](random, part.stop - start)
    return pair


def shaped(pair: Pair, dimensions: int) -> Pair:
    """Return as much of a pair as fills an array of so many equally long axes."""
    side = round(pair.actual.size ** (1 / dimensions))
    side -= side**dimensions > pair.actual.size
    shape = (side,) * dimensions
    return Pair(*(array[: side**dimensions].reshape(shape) for array in pair))
