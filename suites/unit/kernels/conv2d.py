"""Two-dimensional convolution as deep learning means it (a cross-correlation), directly, with a wide accumulator.

    out[n, o, i, j] = sum over c, p, q of x[n, c, i stride + p - padding, j stride + q - padding] weight[o, c, p, q]

in the order of the loops c, p, q, where x is 0 outside. Products of float16 or bfloat16 are exact in float32; the
error of a float32 accumulator is at most gamma(c p q) times the same sum of absolute values. Only elementwise
operations in a fixed order, so the outputs have the same bits on every CPU.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt


def conv2d(
    x: npt.NDArray, weight: npt.NDArray, *, stride: int, padding: int, accumulator: Literal["own", "float32"]
) -> npt.NDArray:
    """Convolve x (n, c, h, w) with weight (o, c, p, q), of one dtype; the result (n, o, i, j) has x's dtype.

    i = (h + 2 padding - p) // stride + 1, and j likewise. An `own` accumulator is rounded to x's dtype each time.
    """
    accumulated = x.dtype if accumulator == "own" else np.dtype(accumulator)
    image = np.pad(x.astype(np.float32), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    height, width = ((image.shape[2 + axis] - weight.shape[2 + axis]) // stride + 1 for axis in (0, 1))
    total = np.zeros((len(x), len(weight), height, width), accumulated)
    for channel, p, q in np.ndindex(weight.shape[1:]):
        rows, columns = slice(p, p + stride * height, stride), slice(q, q + stride * width, stride)
        factors = weight[:, channel, p, q].astype(np.float32)[:, None, None]
        total = (total + image[:, channel, None, rows, columns] * factors).astype(accumulated)
    return total.astype(x.dtype)


def exact(x: npt.NDArray, weight: npt.NDArray, *, stride: int, padding: int, accumulator: str) -> npt.NDArray:
    """Multiply every window with every filter in float64; `accumulator` is the subject's and means nothing here."""
    count, channels, height, width = x.shape
    image = np.zeros((count, channels, height + 2 * padding, width + 2 * padding))
    image[:, :, padding : padding + height, padding : padding + width] = x
    windows = np.lib.stride_tricks.sliding_window_view(image, weight.shape[2:], axis=(2, 3))
    chosen = windows[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5)
    terms = chosen.reshape(*chosen.shape[:3], -1)
    filters = [np.add.accumulate(terms * factors.ravel(), axis=-1)[..., -1] for factors in weight]
    return np.stack(filters, axis=1)
