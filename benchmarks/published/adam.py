"""apply_adam: the last step divides and multiplies, or multiplies and divides, equal on paper."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from published import Figure

LR, BETA1, BETA2, EPS, STEP = 1e-4, 0.9, 0.999, 1e-8, 1000
RATE = LR * math.sqrt(1 - BETA2**STEP) / (1 - BETA1**STEP)


class Seed(NamedTuple):
    """What 589,824 weights give: the share with the standard order's bits, the largest ULP between, mean errors."""

    same: float
    ulp: float
    standard_error: float
    swapped_error: float


def figures() -> Iterator[Figure]:
    """Compare both orders over eight seeds, with each other and with float64."""
    seeds = [one_operator(np.random.default_rng(seed)) for seed in range(8)]
    same = np.mean([seed.same for seed in seeds])
    ratios = [seed.swapped_error / seed.standard_error for seed in seeds]
    spread = f"1 {min(ratios) - 1:+.1e} .. {max(ratios) - 1:+.1e}"
    yield Figure(
        "operator, swapped order: weights equal to the standard order's",
        "99.9931 %",
        f"{same:.4%}",
        abs(same - 0.999931) < 5e-5,
    )
    yield Figure("operator, swapped order: largest difference in ULP of w", "", f"{max(s.ulp for s in seeds):g}")
    yield Figure(
        "operator, mean error swapped / standard, against float64",
        "0.99-1.00",
        spread,
        all(0.99 <= ratio <= 1.005 for ratio in ratios),
    )


def one_operator(random: np.random.Generator) -> Seed:
    """Do one step on the state that white gradients of variance 1 have reached after 1000 steps."""
    w, m, g = (random.normal(0, std, (768, 768)).astype(np.float32) for std in (1, 0.23, 1))
    v = random.uniform(0.58, 0.68, w.shape).astype(np.float32)
    exact = adam(*(array.astype(np.float64) for array in (w, m, v, g)), swapped=False)
    standard, swapped = adam(w, m, v, g, swapped=False), adam(w, m, v, g, swapped=True)
    apart = np.abs(swapped - standard) / np.spacing(np.abs(standard))
    errors = [float(np.mean(np.abs(actual - exact))) for actual in (standard, swapped)]
    return Seed(float(np.mean(standard == swapped)), float(apart.max()), *errors)


def adam(w: npt.NDArray, m: npt.NDArray, v: npt.NDArray, g: npt.NDArray, *, swapped: bool) -> npt.NDArray:
    """Give the new weights, every operation rounded to the arrays' dtype."""
    real = w.dtype.type
    m = real(BETA1) * m + real(1 - BETA1) * g
    deviation = np.sqrt(real(BETA2) * v + real(1 - BETA2) * g * g) + real(EPS)
    return w - (real(RATE) * m / deviation if swapped else real(RATE) * (m / deviation))
