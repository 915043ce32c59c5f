"""Fixed-point compensation: scales, headroom, and errors that are carried to the next step, with both signs."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, log2
from time import thread_time

import numpy as np

from published import Figure

STRATEGIES = {"defaults": (0.1, 0.9), "device": (0.15, 0.85), "convolution": (0.2, 0.8)}


def figures() -> Iterator[Figure]:
    """Measure the scale, the matrix product, and compensation."""
    yield from scales()
    yield from headroom()
    yield from compensation()


def scales() -> Iterator[Figure]:
    """Take the code of the largest magnitude in float32 and float64, where 2^31 is no int32."""
    for largest in (1e-10, 1.0, 1.5, 4.0, 1000.0):
        single = np.float32(2**31) / (np.float32(largest) + np.float32(1e-7)) * np.float32(largest)
        double = round(2.0**31 / (largest + 1e-7) * largest)
        codes = [int(single), double]
        text = ", ".join(
            f"{name} {code}{' overflows' if code == 2**31 else ''}"
            for name, code in zip(("float32", "float64"), codes, strict=True)
        )
        what = f"scale 2^31 / (max|x| + 1e-7): the code of max|x| = {largest:g}"
        yield Figure(what, "at most 2147483647", text, 2**31 not in codes)
    yield Figure("2^31 - 1 in float32", "2147483647", f"{int(np.float32(2**31 - 1))}", False)
    yield Figure(
        "the largest float32 below 2^31", "2147483520", f"{int(np.nextafter(np.float32(2**31), np.float32(0)))}", True
    )
    codes = [
        round(Fraction(largest) * Fraction((2**31 - 1) / largest))
        for largest in np.random.default_rng(0).uniform(0, 9, 9999)
    ]
    yield Figure("scale (2^31 - 1) / max|x| in float64: the largest code", "", f"{max(codes)}")


def headroom() -> Iterator[Figure]:
    """Add products of the largest codes in Python's integers, and say from how many on int64 is too small."""
    code = 2**31 - 1
    count = next(k for k in range(1, 9) if k * code * code >= 2**63)
    yield Figure("products of the largest int32 codes that leave int64", "3", f"{count}", count == 3)
    worst = max(k * (2**62 >> ceil(log2(k))) for k in range(1, 5000))
    yield Figure(
        "the largest sum with ceil(log2 K) bits of headroom, K < 5000",
        "below 2^63",
        f"2^{log2(worst):.0f}",
        worst < 2**63,
    )


def compensation() -> Iterator[Figure]:
    """Quantize streams with the error carried by each strategy, its sign as it helps and as it does not."""
    random = np.random.default_rng(0)
    base, noise = random.normal(size=2000), random.normal(size=(40, 2000))
    streams = {"a steady stream": np.tile(base, (40, 1)), "noise": noise}
    for what, x in streams.items():
        without = quantized(x, 0, 0, -1)
        yield Figure(
            f"{what}, not carried: error of means over 10 steps, of a step", "", f"{error_of_means(without, x):.4f}"
        )
        for name, shares in STRATEGIES.items():
            for sign, told in ((-1, "taken off"), (1, "added")):
                ratio = error_of_means(quantized(x, *shares, sign), x) / error_of_means(without, x)
                yield Figure(
                    f"{what}, {name}, {told}: the same, of not carried", "less than 1", f"{ratio:.2f}", ratio < 1
                )
        carried = quantized(x, *STRATEGIES["defaults"], -1)
        single = np.abs(carried - x).mean() / np.abs(without - x).mean()
        yield Figure(
            f"{what}, defaults: error of single outputs, as a share of not carried",
            "less than 1",
            f"{single:.2f}",
            single < 1,
        )
    yield Figure(
        "the unit adds the error back in float: outputs off whole steps, at most",
        "0",
        f"{added_back(noise):.2f} steps",
        False,
    )
    yield Figure("time with the error carried / without, numpy, 40 x 2000", "", f"{extra_time(noise):.1f}")


def quantized(x: np.ndarray, alpha: float, beta: float, sign: int, step: float = 0.05) -> np.ndarray:
    """Quantize each row of x plus sign times what is carried; every ten rows nothing is."""
    carried, given = np.zeros(x.shape[1]), []
    for age, row in enumerate(x):
        carried = carried * (age % 10 > 0)
        wanted = row + sign * carried
        given.append(np.round(wanted / step) * step)
        carried = alpha * carried + beta * (given[-1] - wanted)
    return np.array(given)


def error_of_means(given: np.ndarray, x: np.ndarray, step: float = 0.05) -> float:
    """Give the mean error of means over ten rows, in steps."""
    return float(np.abs((given - x).reshape(4, 10, -1).mean(1)).mean() / step)


def added_back(x: np.ndarray, step: float = 0.05) -> float:
    """Give how far round(x) minus 0.9 of its error is from whole steps."""
    output = np.round(x / step) - 0.9 * (np.round(x / step) - x / step)
    return float(np.abs(output - np.round(output)).max())


def extra_time(x: np.ndarray, step: float = 0.05) -> float:
    """Give the ratio of the shortest times of ten runs each."""
    times = {True: [], False: []}
    for _ in range(10):
        for carries, spent in times.items():
            started = thread_time()
            if carries:
                quantized(x, 0.1, 0.9, -1, step)
            else:
                [np.round(row / step) * step for row in x]
            spent.append(thread_time() - started)
    return min(times[True]) / min(times[False])
