"""Softmax of float16 numbers: what a float16 accumulator costs beside a float32 one."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from published import Figure


def figures() -> Iterator[Figure]:
    """Give the ratio of mean errors, over three seeds."""
    for shape in ((4, 4096), (4, 64), (3, 5, 63)):
        inputs = [np.random.default_rng(seed).normal(size=shape).astype(np.float16) for seed in range(3)]
        means = [np.mean([mean_error(x, accumulator) for x in inputs]) for accumulator in (np.float16, np.float32)]
        yield Figure(f"mean error on {shape}, float16 accumulator / float32", "", f"{means[0] / means[1]:.3f}")


def mean_error(x: npt.NDArray, accumulator: npt.DTypeLike) -> float:
    """Compute in float32 with the sum, of 64 lanes, in the accumulator; round to float16; hold it against float64."""
    exact = np.exp(x.astype(np.float64))
    terms = np.exp(x.astype(np.float32) - x.max(-1, keepdims=True))
    lanes = np.zeros((*x.shape[:-1], 64), accumulator)
    for start in range(0, x.shape[-1], 64):
        block = terms[..., start : start + 64]
        lanes[..., : block.shape[-1]] += block.astype(accumulator)
    while lanes.shape[-1] > 1:
        lanes = np.add(*np.split(lanes, 2, axis=-1))
    actual = (terms / lanes.astype(np.float32)).astype(np.float16)
    return float(np.mean(np.abs(actual - exact / exact.sum(-1, keepdims=True))))
