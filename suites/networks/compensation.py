"""Quantization of a stream of values whose error is carried from each step to the next.

A quantizer is given u_t = x_t - c_(t-1) and gives q_t, a whole number of quantization steps. Its error is
e_t = q_t - u_t, and what is carried is c_t = alpha c_(t-1) + beta e_t, from 0 again every RESET steps. With
alpha + beta = 1 the sum of q_t - x_t since the reset is e_T + alpha / (1 - alpha) c_(T-1): it stays below half a
quantization step / (1 - alpha), however many steps it has, where errors that are not carried add up. A single q_t
is no nearer to x_t for it, but farther off. The wrong sign, u_t = x_t + c_(t-1), adds the errors up twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RESET = 10
LARGEST_CODE = 127


class Coefficients(NamedTuple):
    """The shares of what was carried before and of the newest error; `sign` -1 takes them off, and 1 adds them."""

    alpha: float
    beta: float
    sign: int = -1


NOT_CARRIED = Coefficients(0.0, 0.0)


def quantized(values: npt.NDArray, step: npt.NDArray) -> npt.NDArray:
    """Round to multiples of `step`, to nearest even, at most 127 of them; in the dtype of values."""
    return np.clip(np.rint(values / step), -LARGEST_CODE, LARGEST_CODE) * step


class Quantizer:
    """Quantizes one tensor of a network step after step, and carries its error; the coefficients stay as they are."""

    def __init__(self, step: npt.NDArray, coefficients: Coefficients) -> None:
        self.step, self.coefficients = step, coefficients
        self.carried: npt.NDArray | None = None
        self.age = 0

    def __call__(self, values: npt.NDArray) -> npt.NDArray:
        """Give a whole number of steps for each value; the shape may not change between resets."""
        if self.age % RESET == 0 or self.carried is None:
            self.carried = np.zeros_like(values)
        alpha, beta = (values.dtype.type(share) for share in self.coefficients[:2])
        wanted = values + self.carried if self.coefficients.sign > 0 else values - self.carried
        given = quantized(wanted, self.step)
        self.carried = alpha * self.carried + beta * (given - wanted)
        self.age += 1
        return given


def fitted(stream: npt.NDArray, step: npt.NDArray, *, grid: int = 10) -> Coefficients:
    """Learn alpha and beta from a stream (steps, n): those of a grid over [0, 1] with the nearest means over resets.

    Of equally good ones the first is taken. A stream is a whole number of resets long.
    """
    shares = [index / grid for index in range(grid + 1)]
    pairs = [Coefficients(alpha, beta) for alpha in shares[:-1] for beta in shares]
    return min(pairs, key=lambda pair: error_of_means(stream, step, pair))


def error_of_means(stream: npt.NDArray, step: npt.NDArray, coefficients: Coefficients) -> float:
    """Give the mean squared error of the means over resets, in quantization steps."""
    quantizer = Quantizer(step, coefficients)
    errors = np.stack([quantizer(values) for values in stream]).astype(np.float64) - stream
    return float(np.mean(np.square(means(errors) / step)))


def means(stream: npt.NDArray) -> npt.NDArray:
    """Average (steps, ...) over each stretch of RESET steps, one after the other, in at least float32."""
    total = np.zeros((len(stream) // RESET, *stream.shape[1:]), stream.dtype)
    for age in range(RESET):
        total += stream[age::RESET]
    return total / stream.dtype.type(RESET)
