"""Adam's swapped order in a training step and in a run of 500 steps: bits lost, loss, distance from float64."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from published import Figure

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
MARKS = (1, 10, 100, 500)


class Run(NamedTuple):
    """All weights after each step as a vector, and the loss before it."""

    weights: list[npt.NDArray]
    losses: npt.NDArray


def figures() -> Iterator[Figure]:
    """Train relu(x w1) w2 on |x|, rate 5e-3, in both orders and in float64; two seeds."""
    yield from one_step()
    seeds = [[train(seed, order, kind) for order, kind in KINDS] for seed in (0, 1)]
    for mark in MARKS:
        shares = [np.mean(swapped.weights[mark - 1] == standard.weights[mark - 1]) for standard, swapped, _ in seeds]
        what = f"run, weights with the standard order's bits after step {mark}"
        yield Figure(what, "", " ".join(f"{share:.2%}" for share in shares))
    apart = [np.max(np.abs(swapped.losses / standard.losses - 1)) for standard, swapped, _ in seeds]
    yield Figure(
        "run: loss curves of both orders, largest relative difference",
        "trajectories can diverge",
        " ".join(f"{value:.1e}" for value in apart),
        max(apart) > 1e-6,
    )
    for mark in MARKS:
        ratios = [error(swapped, exact, mark) / error(standard, exact, mark) for standard, swapped, exact in seeds]
        what = f"run, mean error against float64 after step {mark}, swapped / standard"
        yield Figure(what, "", " ".join(f"{ratio:.3f}" for ratio in ratios))


def error(run: Run, exact: Run, mark: int) -> float:
    """Give the mean distance of the weights from float64's."""
    return float(np.mean(np.abs(run.weights[mark - 1] - exact.weights[mark - 1])))


def one_step() -> Iterator[Figure]:
    """Do step 1001 on a layer of 512 x 768 weights, as small as a layer's are."""
    random = np.random.default_rng(0)
    w, m, g = (random.normal(0, std, (512, 768)).astype(np.float32) for std in (0.0442, 2.3e-3, 1e-2))
    v = random.uniform(5.8e-5, 6.8e-5, w.shape).astype(np.float32)
    standard, swapped = (update(w, m, v, g, 1e-4, 1001, swapped=swapped)[0] for swapped in (False, True))
    yield Figure("step: weights with the standard order's bits", "", f"{np.mean(standard == swapped):.2%}")


KINDS = ((False, np.float32), (True, np.float32), (False, np.float64))


def train(seed: int, swapped: bool, kind: npt.DTypeLike) -> Run:
    """Do 500 steps from rest, in turn on eight batches of 16; sums in the order of k, one term after the other."""
    random = np.random.default_rng(seed)
    batches = random.normal(0, 1, (8, 16, 32)).astype(np.float32).astype(kind)
    weights = [random.normal(0, std, shape).astype(np.float32).astype(kind) for std, shape in SHAPES]
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    run = Run([], np.zeros(MARKS[-1]))
    for step in range(1, MARKS[-1] + 1):
        x = batches[(step - 1) % 8]
        before = multiply(x, weights[0])
        residual = multiply(np.maximum(before, 0), weights[1]) - np.abs(x[:, :8])
        run.losses[step - 1] = np.mean(np.square(residual, dtype=np.float64))
        slope = residual * kind(2 / residual.size)
        back = multiply(slope, weights[1].T) * (before > 0)
        gradients = (multiply(x.T, back), multiply(np.maximum(before, 0).T, slope))
        for at, g in enumerate(gradients):
            weights[at], *moments[at] = update(weights[at], *moments[at], g, 5e-3, step, swapped=swapped)
        run.weights.append(np.concatenate([w.ravel() for w in weights]))
    return run


SHAPES = ((0.25, (32, 96)), (0.15, (96, 8)))


def multiply(a: npt.NDArray, b: npt.NDArray) -> npt.NDArray:
    """Multiply matrices as a sum of outer products."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for column, row in zip(a.T, b, strict=True):
        total += np.outer(column, row)
    return total


def update(
    w: npt.NDArray, m: npt.NDArray, v: npt.NDArray, g: npt.NDArray, lr: float, step: int, *, swapped: bool
) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
    """Give the new weights and moments, every operation rounded to the arrays' dtype."""
    real = w.dtype.type
    m, v = real(BETA1) * m + real(1 - BETA1) * g, real(BETA2) * v + real(1 - BETA2) * g * g
    rate = real(lr * math.sqrt(1 - BETA2**step) / (1 - BETA1**step))
    deviation = np.sqrt(v) + real(EPS)
    return w - (rate * m / deviation if swapped else rate * (m / deviation)), m, v
