"""Error growth with depth: d_n = d_0 * prod(1 + e_i), published as about d_0 * exp(n * e), in a chain of products."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from published import Figure

Array = npt.NDArray
DEPTHS = (1, 4, 16, 64, 256, 1024)
FITTED = 3
"""Depths 1, 4 and 16: the laws are fitted to them, and foretell the others."""

LANES = 1024


def figures() -> Iterator[Figure]:
    """Multiply 1024 chains by factors of 0.75 to 1.25; d_n / d_0 is the computed value over the exact one."""
    arithmetics = {"20 bits, truncated": truncated, "float32, nearest": nearest}
    for name, rounded in arithmetics.items():
        ratios = measured(rounded)
        sizes = [float(np.mean(np.abs(ratio - 1))) for ratio in ratios]
        yield Figure(f"{name}: mean |d_n/d_0 - 1| at n = 1, 16, 1024", "", of(sizes[0], sizes[2], sizes[5]))
        e = size_of_one(sizes)
        yield Figure(f"{name}: size of e of one operation, from n <= 16", "", f"{e:.3g}")
        size = np.expm1(DEPTHS[-1] * e) / sizes[-1]
        yield Figure(
            f"{name}: exp(n e) - 1 over mean |d_n/d_0 - 1| at 1024", "1", f"{size:.3f}", bool(abs(size - 1) < 0.05)
        )
        walk = walk_of(sizes) * DEPTHS[-1] ** 0.5 / sizes[-1]
        yield Figure(f"{name}: c sqrt(n) over the same", "", f"{walk:.3f}")
        yield Figure(f"{name}: share of lanes that are too small at 1024", "", f"{np.mean(ratios[-1] < 1):.3f}")
        yield Figure(f"{name}: a first deviation of 2^-10, after 1024 products", "", f"{carried(rounded):.4f} times")


def measured(rounded: Callable[[Array], Array], first: float = 1.0) -> list[Array]:
    """Return computed over exact values (lanes,) at each depth. Products of rounded numbers are exact in float64.

    Both chains begin with the same rounded numbers, times `first` in the computed one.
    """
    random = np.random.default_rng(42)
    exact = np.trunc(random.uniform(1024, 2048, LANES))
    computed = rounded(exact * first)
    ratios = []
    for n in range(1, DEPTHS[-1] + 1):
        factors = random.uniform(0.75, 1.25, LANES).astype(np.float32).astype(np.float64)
        exact, computed = exact * factors, rounded(computed * rounded(factors))
        if n in DEPTHS:
            ratios.append(computed / exact)
    return ratios


def truncated(values: Array) -> Array:
    """Cut float64 off after 20 bits of fraction."""
    return (values.view(np.uint64) & ~np.uint64((1 << 32) - 1)).view(np.float64)


def nearest(values: Array) -> Array:
    """Round float64 to float32, to nearest even."""
    return values.astype(np.float32).astype(np.float64)


def carried(rounded: Callable[[Array], Array]) -> float:
    """Return the mean deviation of two chains from each other in the end, over the one that they began with."""
    plain, moved = measured(rounded)[-1], measured(rounded, 1 + 2**-10)[-1]
    return float(np.mean(moved / plain - 1)) * 2**10


def size_of_one(sizes: Sequence[float]) -> float:
    """Fit e of exp(n e) - 1 to the sizes of errors at few operations."""
    return float(sum(np.log1p(sizes[:FITTED])) / sum(DEPTHS[:FITTED]))


def walk_of(sizes: Sequence[float]) -> float:
    """Fit c of c sqrt(n): the squares add."""
    return float(np.sqrt(sum(np.square(sizes[:FITTED])) / sum(DEPTHS[:FITTED])))


def of(*values: float) -> str:
    """Write a few numbers."""
    return ", ".join(f"{value:.3g}" for value in values)
