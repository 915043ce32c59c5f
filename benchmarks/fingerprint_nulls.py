"""How many outputs without a fault have a fingerprint? `python benchmarks/fingerprint_nulls.py [SEEDS]` counts them.

The outputs are correctly rounded values, elementwise functions of a few roundings, and sums in several orders. With the
default of 40 seeds there are 15,520 of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from precreg.arithmetic import cast
from precreg.measure.fingerprints import find_fingerprints

BF16 = ml_dtypes.bfloat16
SHAPES = [(40,), (1000,), (32, 63), (7, 12, 65), (256, 256), (5, 5), (300, 4)]
SUMS = [(50, 1000), (400, 64), (1000, 30), (20, 5000)]
Pair = tuple[str, Any, Any]

DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "exponential": lambda random, shape: np.exp(3 * random.standard_normal(shape)),
    "uniform": lambda random, shape: random.random(shape),
    "quarters": lambda random, shape: random.integers(-50, 50, shape) / 4,
}
FUNCTIONS: list[Callable[[Any], Any]] = [
    np.exp,
    np.tanh,
    np.square,
    np.sin,
    lambda x: x * 3 - x,
    lambda x: x / (np.abs(x) + 1),
    lambda x: 1 / (1 + np.exp(-x)),
    lambda x: np.log1p(np.abs(x)),
    lambda x: x * 0.5 * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3))),
]


def rounded(random: np.random.Generator) -> Iterator[Pair]:
    """Yield values of several distributions, correctly rounded to three formats."""
    for shape in SHAPES:
        for name, draw in DRAWS.items():
            exact = draw(random, shape)
            yield from ((f"{name} {dtype}", cast(exact, dtype), exact) for dtype in ("float16", "bfloat16", "float32"))


def elementwise(random: np.random.Generator) -> Iterator[Pair]:
    """Yield functions of a few roundings in float32, float16 and bfloat16, and in float32 rounded to float16."""
    for shape in SHAPES:
        x = random.standard_normal(shape).astype(np.float32)
        half, brain = x.astype(np.float16), x.astype(BF16)
        for function in FUNCTIONS:
            yield "float32", function(x), function(x.astype(np.float64))
            exact = function(half.astype(np.float64))
            yield "float32 to float16", function(half.astype(np.float32)).astype(np.float16), exact
            yield "float16", function(half), exact
            yield "bfloat16", np.asarray(function(brain)).astype(BF16), function(brain.astype(np.float64))


def sums(random: np.random.Generator) -> Iterator[Pair]:
    """Yield sums in three orders, normalizations and products of matrices."""
    for shape in SUMS:
        for name, x in (("normal", random.standard_normal(shape)), ("positive", abs(random.standard_normal(shape)))):
            terms, half = x.astype(np.float32), x.astype(np.float16)
            wide = terms.astype(np.float64)
            yield f"sum {name}", terms.sum(1), wide.sum(1)
            yield f"half sum {name}", half.sum(1, dtype=np.float32).astype(np.float16), half.astype(np.float64).sum(1)
            naive = np.zeros(shape[0], np.float32)
            for column in terms.T:
                naive = naive + column
            yield f"naive sum {name}", naive, wide.sum(1)
            yield f"naive sum {name} against pairwise", naive, terms.sum(1)
            yield f"normalized {name}", normalized(terms, np.float32(1e-5)), normalized(wide, float(np.float32(1e-5)))
            yield f"softmax {name}", softmax(terms), softmax(wide)
    a, b = random.standard_normal((96, 130)).astype(np.float32), random.standard_normal((130, 77)).astype(np.float32)
    yield "product", a @ b, a.astype(np.float64) @ b.astype(np.float64)
    yield (
        "product of float16",
        a.astype(np.float16) @ b.astype(np.float16),
        (a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64)),
    )
    yield "product against einsum", a @ b, np.einsum("ij,jk->ik", a, b)
    yield "fft", np.fft.fft(a).astype(np.complex64), np.fft.fft(a.astype(np.float64))


def normalized(x: Any, eps: Any) -> Any:
    """Return rows of mean 0 and variance 1."""
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps)


def softmax(x: Any) -> Any:
    """Return the softmax of each row."""
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def main(seeds: int) -> None:
    """Print the number of outputs, and each fingerprint that one of them has."""
    outputs, alarms = 0, Counter[tuple[str, str]]()
    for seed in range(seeds):
        for make in (rounded, elementwise, sums):
            for name, actual, exact in make(np.random.default_rng(seed)):
                outputs += 1
                alarms.update((name, each.kind) for each in find_fingerprints(name, actual, exact))
    print(f"{outputs:,} outputs, {sum(alarms.values())} fingerprints")
    for (name, kind), count in alarms.most_common():
        print(f"{count:6}  {kind:16} {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
