"""How long does a sweep of loss scales take, and how long 25 conversions to float16?

`python -m benchmarks.training.loss_scale` prints nanoseconds for each of 4 million float32 gradients, on one core.
The gauges and the conversions alternate, so that other programs disturb each of them. The conversions count what
becomes zero and what overflows at each scale, as the sweep does.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

from precreg.training import StepGradients, sweep_clipping, sweep_scales, sweep_tensor_scales

ELEMENTS = 4_000_000
REPEATS = 3


def convert(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[tuple[int, int]]:
    """Return the counts of gradients that become zero and overflow, from a conversion at each scale."""
    counts = []
    with np.errstate(over="ignore"):
        for exponent in range(25):
            half = (values * np.float32(2.0**exponent)).astype(np.float16)
            counts.append((int(np.count_nonzero(half == 0)), int(np.count_nonzero(np.isinf(half)))))
    return counts


def main() -> None:
    """Print a line for each way."""
    values = (np.random.default_rng(0).standard_normal(ELEMENTS) * 1e-4).astype(np.float32)
    step = StepGradients(0, None, 1.0, {"w": values}, {"w": "float32"})
    ways: dict[str, Callable[[], object]] = {
        "loss scales, 2^0 to 2^24": lambda: sweep_scales([step]),
        "per-tensor scales, sampled": lambda: sweep_tensor_scales([step]),
        "clipping": lambda: sweep_clipping([step]),
        "25 conversions by numpy": lambda: convert(values),
    }
    total = sweep_scales([step]).total
    assert list(zip(total.zero, total.beyond, strict=True)) == convert(values)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, way in ways.items():
            begun = perf_counter()
            way()
            seconds[name].append(perf_counter() - begun)
    for name, taken in seconds.items():
        print(f"{name:30}{median(taken) / ELEMENTS * 1e9:8.1f} ns for each gradient")


if __name__ == "__main__":
    main()
