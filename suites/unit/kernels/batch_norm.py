"""Batch normalization of [batch, channels, height, width] by channel, in training and in inference; in float32.

    y = (x - mean) / sqrt(variance + eps) * gain + bias

Ioffe and Szegedy, "Batch Normalization", 2015. Training takes both statistics from the batch, the variance divided by
n; the running statistics move towards them by `momentum`, with the variance divided by n - 1. Inference takes the
running ones.
"""

import numpy as np
import numpy.typing as npt

AXES = (0, 2, 3)


def training(
    x: npt.NDArray,
    gain: npt.NDArray,
    bias: npt.NDArray,
    running_mean: npt.NDArray,
    running_variance: npt.NDArray,
    *,
    eps: float,
    momentum: float,
) -> dict[str, npt.NDArray]:
    """Normalize by the batch's statistics; the running ones, [channels], stay in the dtype they came in."""
    values = x.astype(np.float32)
    mean = values.mean(AXES)
    centered = values - by_channel(mean)
    squares = (centered * centered).sum(AXES)
    count = x.size // x.shape[1]
    return {
        "y": scaled(centered, squares / np.float32(count), gain, bias, eps).astype(x.dtype),
        "running_mean": moved(running_mean, mean, momentum),
        "running_variance": moved(running_variance, squares / np.float32(count - 1), momentum),
    }


def inference(
    x: npt.NDArray,
    gain: npt.NDArray,
    bias: npt.NDArray,
    running_mean: npt.NDArray,
    running_variance: npt.NDArray,
    *,
    eps: float,
    momentum: float,
) -> npt.NDArray:
    """Normalize by the running statistics; `momentum` is training's and means nothing here."""
    centered = x.astype(np.float32) - by_channel(running_mean.astype(np.float32))
    return scaled(centered, running_variance.astype(np.float32), gain, bias, eps).astype(x.dtype)


def scaled(
    centered: npt.NDArray, variance: npt.NDArray, gain: npt.NDArray, bias: npt.NDArray, eps: float
) -> npt.NDArray:
    """Divide by the standard deviation, then apply gain and bias, in float32."""
    normalized = centered / by_channel(np.sqrt(variance + np.float32(eps)))
    return normalized * by_channel(gain.astype(np.float32)) + by_channel(bias.astype(np.float32))


def moved(running: npt.NDArray, batch: npt.NDArray, momentum: float) -> npt.NDArray:
    """Move a running statistic towards the batch's, in float32."""
    step = np.float32(momentum) * (batch - running.astype(np.float32))
    return (running.astype(np.float32) + step).astype(running.dtype)


def by_channel(values: npt.NDArray) -> npt.NDArray:
    """Give [channels] the shape that meets [batch, channels, height, width]."""
    return values[:, None, None]


def exact_training(
    x: npt.NDArray,
    gain: npt.NDArray,
    bias: npt.NDArray,
    running_mean: npt.NDArray,
    running_variance: npt.NDArray,
    *,
    eps: float,
    momentum: float,
) -> dict[str, npt.NDArray]:
    """Compute in x's dtype, float64."""
    mean, variance, unbiased = x.mean(AXES), x.var(AXES), x.var(AXES, ddof=1)
    normalized = (x - by_channel(mean)) / np.sqrt(by_channel(variance) + eps)
    return {
        "y": normalized * by_channel(gain) + by_channel(bias),
        "running_mean": (1 - momentum) * running_mean + momentum * mean,
        "running_variance": (1 - momentum) * running_variance + momentum * unbiased,
    }


def exact_inference(
    x: npt.NDArray,
    gain: npt.NDArray,
    bias: npt.NDArray,
    running_mean: npt.NDArray,
    running_variance: npt.NDArray,
    *,
    eps: float,
    momentum: float,
) -> npt.NDArray:
    """Compute in x's dtype, float64."""
    normalized = (x - by_channel(running_mean)) / np.sqrt(by_channel(running_variance) + eps)
    return normalized * by_channel(gain) + by_channel(bias)
