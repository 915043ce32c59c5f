"""LayerNorm in mixed precision: x through float16, statistics in float16 between blocks of 64."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from published import Figure

EPS = np.float32(1e-5)


def figures() -> Iterator[Figure]:
    """Repeat the study on 8x128x768 standard normal numbers of numpy's legacy generator, seed 42."""
    x = np.random.RandomState(42).randn(8, 128, 768).astype(np.float32)
    error = np.abs(device_style(x).astype(np.float64) - exact(x.astype(np.float64)))
    count = int(np.sum(error > 1e-3))
    correlation = float(np.corrcoef(error.ravel(), np.abs(x).ravel())[0, 1])
    yield Figure("errors > 1e-3 of 786,432", "6,858", f"{count:,}", count == 6858)
    yield Figure("correlation of the error with |x|", "0.637", f"{correlation:.4f}", round(correlation, 3) == 0.637)
    yield Figure("that correlation is above 0.7, so that rounding accumulated", "> 0.7", f"{correlation:.4f}", False)


def exact(x: npt.NDArray) -> npt.NDArray:
    """Normalize in float64."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def device_style(x: npt.NDArray) -> npt.NDArray:
    """Walk blocks of 64 along the last axis in float32; what rests between them is rounded to float16."""
    stored = x.astype(np.float16).astype(np.float32)
    mean = square = np.zeros(x.shape[:-1], np.float32)
    for block in np.split(stored, x.shape[-1] // 64, axis=-1):
        mean = mean.astype(np.float16) + np.sum(block, -1) / np.float32(x.shape[-1])
        square = square.astype(np.float16) + np.sum(block**2, -1) / np.float32(x.shape[-1])
    deviation = np.sqrt(square - mean**2 + EPS)
    return (stored - mean[..., None]) / deviation[..., None]
