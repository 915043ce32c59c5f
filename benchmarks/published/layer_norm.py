"""LayerNorm in mixed precision: x through float16, statistics in float16 between blocks of 64."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from published import Figure

EPS = np.float32(1e-5)
RULE = 0.7


def figures() -> Iterator[Figure]:
    """Repeat the study on 8x128x768 standard normal numbers of numpy's legacy generator, seed 42."""
    x = np.random.RandomState(42).randn(8, 128, 768).astype(np.float32)
    count, correlation = findings(x, device_style(x, 64, np.float16))
    yield Figure("errors > 1e-3 of 786,432", "6,858", f"{count:,}", count == 6858)
    yield Figure("correlation of the error with |x|", "0.637", f"{correlation:.3f}", round(correlation, 3) == 0.637)
    for style, block, stored in (("in float32", 64, np.float32), ("in float16 after every element", 1, np.float16)):
        count, correlation = findings(x, device_style(x, block, stored))
        yield Figure(f"errors > 1e-3, statistics stored {style}", "", f"{count:,}")
        yield Figure(f"correlation, statistics stored {style}", "", f"{correlation:.3f}")
    accumulated = findings(x, device_style(x, 64, np.float16))[1]
    rounded = findings(x, device_style(x, 64, np.float32))[1]
    yield Figure(
        "correlation > 0.7 where rounding accumulated, and less where it did not",
        "> 0.7 and less",
        f"{accumulated:.3f} and {rounded:.3f}",
        accumulated > RULE > rounded,
    )


def findings(x: npt.NDArray, actual: npt.NDArray) -> tuple[int, float]:
    """Count the errors above 1e-3 against float64, and correlate their size with |x|."""
    x = x.astype(np.float64)
    exact = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    error = np.abs(actual - exact)
    return int(np.sum(error > 1e-3)), float(np.corrcoef(error.ravel(), np.abs(x).ravel())[0, 1])


def device_style(x: npt.NDArray, block: int, stored: npt.DTypeLike) -> npt.NDArray:
    """Walk blocks along the last axis in float32; what rests between them is rounded to `stored`."""
    read = x.astype(np.float16).astype(np.float32)
    mean = square = np.zeros(x.shape[:-1], np.float32)
    for part in np.split(read, x.shape[-1] // block, axis=-1):
        mean = mean.astype(stored) + np.sum(part, -1) / np.float32(x.shape[-1])
        square = square.astype(stored) + np.sum(part**2, -1) / np.float32(x.shape[-1])
    return (read - mean[..., None]) / np.sqrt(square - mean**2 + EPS)[..., None]
