"""What one run of an implementation gives at one seed: all that any of the rules asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from detecting.operator import Array, Compute, Operator
from precreg.measure import compare_arrays
from precreg.types import Comparison

CLOSE = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}
"""The defaults of torch.testing.assert_close: rtol and atol by dtype."""


class Sample(NamedTuple):
    """One output against the exact result, and against the original's output at the same seed.

    `excess` is the largest |d| / (atol + rtol * |r|); `pairs`, `growth` and `spread` are the number of elements with
    an error in both, the sum of how much |d| grew, and of its squares.
    """

    comparison: Comparison
    digest: str
    excess: float
    pairs: int = 0
    growth: float = 0.0
    spread: float = 0.0


class Truth(NamedTuple):
    """What a seed gives: inputs, the exact result, and the errors of the original."""

    inputs: tuple[Array, ...]
    exact: Array
    errors: Array


def truth(operator: Operator, seed: int) -> Truth:
    """Draw inputs, compute exactly, and run the original."""
    inputs = operator.inputs(seed)
    with np.errstate(all="ignore"):
        exact = operator.exact(*inputs)
        return Truth(inputs, exact, errors_of(operator.original(*inputs), exact))


def errors_of(output: Array, exact: Array) -> Array:
    """Give |output - exact|, in the wider dtype of the two."""
    return np.abs(output.astype(exact.dtype) - exact).astype(np.float64)


def run(compute: Compute, known: Truth, seed: int) -> tuple[Array, Comparison]:
    """Run an implementation, and measure its output."""
    output = computed(compute, known)
    return output, compare_with_exact(output, known, seed)


def computed(compute: Compute, known: Truth) -> Array:
    """Run an implementation: NaN and infinities are findings, and not warnings."""
    with np.errstate(all="ignore"):
        return compute(*known.inputs)


def compare_with_exact(output: Array, known: Truth, seed: int) -> Comparison:
    """Compare an output with the exact result."""
    rtol, atol = CLOSE[str(output.dtype)]
    return compare_arrays(output, known.exact, seed=seed, rtol=rtol, atol=atol, worst=0, threads=1)


def sample(compute: Compute, known: Truth, seed: int) -> Sample:
    """Run an implementation at a seed, and keep what rules ask for."""
    output, comparison = run(compute, known, seed)
    rtol, atol = CLOSE[comparison.dtype]
    with np.errstate(all="ignore"):
        errors = errors_of(output, known.exact)
        excess = float(np.max(errors / (atol + rtol * np.abs(known.exact)))) if errors.size else 0.0
        growth = errors - known.errors
    both = growth[np.isfinite(growth)]
    return Sample(
        replace(comparison, histogram=None, non_finite=None, heat=None, places={}),
        digest(output),
        float("inf") if np.isnan(excess) else excess,
        both.size,
        float(both.sum()),
        float(np.square(both).sum()),
    )


def digest(output: Array) -> str:
    """Give what stands for the bits of an output."""
    return hashlib.blake2b(output.tobytes(), digest_size=16).hexdigest()


ORIGINAL = "the original"
"""How the implementation that is changed is named among its changes."""


def samples(operator: Operator, seeds: Sequence[int]) -> dict[str, list[Sample]]:
    """Run the original and every change at every seed."""
    computes: dict[str, Callable[..., Array]] = {ORIGINAL: operator.original, **operator.changes()}
    found: dict[str, list[Sample]] = {name: [] for name in computes}
    for seed in seeds:
        known = truth(operator, seed)
        for name, compute in computes.items():
            found[name].append(sample(compute, known, seed))
    return found
