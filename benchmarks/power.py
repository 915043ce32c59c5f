"""Does `precreg power` tell the truth? Operators whose errors are made as much larger as it says, and what is caught.

Of each operator, format and shape a baseline of three seeds is kept, and its smallest loss is told. Then other inputs
are drawn, their errors are multiplied by that loss, by its square root, and by 1, and the rule for averages judges.
Usage: python benchmarks/power.py [DRAWS]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median

import numpy as np
from msgspec.structs import replace

from precreg.baseline import entry_from
from precreg.measure import compare_arrays
from precreg.tolerance import SHIPPED_LAYERS, resolve_tolerance
from precreg.types import AxisGroups, Case, Comparison, Computation, Execution, Location, Outcome
from precreg.verdict import case_alpha, detectable_losses, find_regressions, gather_evidence

SEEDS, OTHERS = 3, (1, 3)
LEVEL = case_alpha(500)
OPERATOR = Computation("python", "operator:f")
CASE = Case(
    "unit/s/a", "unit", "s", "a", Location("s.yaml"), "1:d", "unit/s/a", "1:d", "suites/unit", OPERATOR, OPERATOR,
    "reference", {}, {}, {}, (), SEEDS,
)  # fmt: skip
PLACES = ((np.float32, (64, 256)), (np.float32, (32, 33)), (np.float16, (64, 64)))


def softmax(x):
    """Over the last axis: a denominator is shared by a row."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x):
    """Over the last axis: a mean and a deviation are shared by a row."""
    away = x - x.mean(-1, keepdims=True)
    return away / np.sqrt((away * away).mean(-1, keepdims=True) + x.dtype.type(1e-5))


def product(x):
    """Of one half of the rows with the other."""
    half = len(x) // 2
    return x[:half] @ x[half:].T


def running_sum(x):
    """Along the last axis: an error is carried to all that follow."""
    return np.cumsum(x, -1, dtype=x.dtype)


def variance(x):
    """Of each row: few, and small differences of large numbers."""
    return x.var(-1, dtype=x.dtype)


def wave(x):
    """Element by element."""
    return np.exp(x) * np.sin(x)


OPERATORS = (softmax, layer_norm, product, running_sum, variance, wave)


def drawn(operator, random, dtype, shape) -> list[Comparison]:
    """Measure an operator on inputs of its own for each seed, against itself in float64."""
    inputs = [random.standard_normal(shape).astype(dtype) for _ in range(SEEDS)]
    terms = {"output": "out", "rtol": 1e-3, "atol": 1e-5, "regions": {}, "worst": 1}
    return [
        compare_arrays(operator(x), operator(x.astype(np.float64)), seed=seed, **terms) for seed, x in enumerate(inputs)
    ]


def larger(comparison: Comparison, times: float) -> Comparison:
    """Return what would be measured if every error were so many times larger; the logs stay as they are."""
    means = {name: comparison.metrics[name] * times for name in ("mean_abs_error", "rms_error", "mean_ulp", "bias")}
    groups = tuple(_larger(axis, times) for axis in comparison.groups)
    return replace(comparison, metrics=comparison.metrics | means, groups=groups)


def _larger(axis: AxisGroups, times: float) -> AxisGroups:
    powers = {"absolute": 1, "signed": 1, "squared": 2, "ulps": 1}
    sums = {name: [each * times**power for each in getattr(axis, name)] for name, power in powers.items()}
    return replace(axis, **sums)


def judged(operator, dtype, shape, draws) -> Iterator[tuple[float, list[bool]]]:
    """Yield the loss that is told of a baseline, and whether it, its root and no loss at all are caught in another."""
    random = np.random.default_rng([len(operator.__name__), *shape])
    sets = [drawn(operator, random, dtype, shape) for _ in range(draws)]
    tolerance = resolve_tolerance(SHIPPED_LAYERS, "out", np.dtype(dtype).name, ("generic",))
    for number, accepted in enumerate(sets):
        ran = Execution(tuple("abc"), {"out": tuple("abc")}, 1.0)
        entry = entry_from(Outcome("unit/s/a", "1:d", ran, tuple(accepted)), "f00d", "c0")
        (told,) = detectable_losses(CASE, entry, {"out": tolerance}, alpha=LEVEL, same_environment=True)
        for other in OTHERS:
            now = sets[(number + other) % draws]
            found = []
            for times in (told.ratio, told.ratio**0.5, 1.0):
                one = gather_evidence(
                    [larger(each, times) for each in now],
                    entry,
                    tolerance,
                    "reference",
                    same_environment=True,
                    alpha=LEVEL,
                )
                found.append(any(finding.rule == "statistic" for finding in find_regressions(one)))
            yield told.ratio, found


def main(draws: int) -> None:
    """Print a row for each operator, format and shape."""
    print(f"{'operator':12} {'format':8} {'shape':8} {'told':>7} {'caught':>7} {'its root':>8} {'no loss':>8}")
    for operator in OPERATORS:
        for dtype, shape in PLACES:
            found = list(judged(operator, dtype, shape, draws))
            rates = [sum(each[1][column] for each in found) / len(found) for column in range(3)]
            name, told = np.dtype(dtype).name, median(each[0] for each in found)
            place = "x".join(map(str, shape))
            print(
                f"{operator.__name__:12} {name:8} {place:8} {told:7.4g} {rates[0]:7.0%} {rates[1]:8.0%} {rates[2]:8.1%}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
