"""ResNet-50 and the detector of suites/networks again, in plain numpy and float64, from the weights by name."""

import numpy as np


def convolution(x, weight, bias=None, stride=1, padding=0):
    """Correlate x (images, channels, height, width) with filters (outputs, channels, height, width)."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    result = np.einsum("ncyxhw,ochw->noyx", windows, weight, optimize=True)
    return result if bias is None else result + bias[:, None, None]


def batch_norm(x, weights, name):
    gain, shift, mean, variance = (
        weights[f"{name}.{part}"][:, None, None] for part in ("weight", "bias", "running_mean", "running_var")
    )
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + shift


def max_pool(x):
    """Return the maxima of 3x3 windows at every other place, with a border of -inf."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((-1, -2))


def resnet50(x, weights):
    """Return the logits of ResNet-50."""
    x = np.maximum(batch_norm(convolution(x, weights["conv1.weight"], stride=2, padding=3), weights, "bn1"), 0)
    x = max_pool(x)
    for stage, count in enumerate((3, 4, 6, 3), start=1):
        for block in range(count):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = x
            for layer, (step, border) in enumerate(((1, 0), (stride, 1), (1, 0)), start=1):
                y = convolution(y, weights[f"{name}.conv{layer}.weight"], stride=step, padding=border)
                y = batch_norm(y, weights, f"{name}.bn{layer}")
                y = np.maximum(y, 0) if layer < 3 else y
            if f"{name}.downsample.0.weight" in weights:
                x = convolution(x, weights[f"{name}.downsample.0.weight"], stride=stride)
                x = batch_norm(x, weights, f"{name}.downsample.1")
            x = np.maximum(x + y, 0)
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


def group_norm(x, weights, name, groups=8):
    parts = x.reshape(len(x), groups, -1)
    parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    gain, shift = (weights[f"{name}.{part}"][:, None, None] for part in ("weight", "bias"))
    return parts.reshape(x.shape) * gain + shift


def padded(x, weights, name, stride=1):
    return convolution(x, weights[f"{name}.weight"], weights[f"{name}.bias"], stride, 1)


def towered(x, weights, name):
    for layer in range(0, 12, 3):
        x = np.maximum(group_norm(padded(x, weights, f"{name}.{layer}"), weights, f"{name}.{layer + 1}"), 0)
    return x


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def fcos(stages, weights):
    """Return scores (images, places, classes) and boxes (images, places, 4)."""
    merged = [
        convolution(stage, weights[f"pyramid.lateral.{at}.weight"], weights[f"pyramid.lateral.{at}.bias"])
        for at, stage in enumerate(stages)
    ]
    for finer in (1, 0):
        merged[finer] = merged[finer] + merged[finer + 1].repeat(2, axis=2).repeat(2, axis=3)
    levels = [padded(level, weights, f"pyramid.output.{at}") for at, level in enumerate(merged)]
    levels.append(padded(np.maximum(levels[-1], 0), weights, "pyramid.extra", stride=2))
    scores, boxes = [], []
    for level, stride in zip(levels, (8, 16, 32, 64), strict=True):
        around = towered(level, weights, "box_tower")
        central = sigmoid(padded(around, weights, "centerness"))
        kinds = sigmoid(padded(towered(level, weights, "class_tower"), weights, "classes"))
        distances = np.exp(padded(around, weights, "distances")) * stride
        for down in range(level.shape[2]):
            for across in range(level.shape[3]):
                scores.append(np.sqrt(kinds[:, :, down, across] * central[:, :, down, across]))
                x, y = (across + 0.5) * stride, (down + 0.5) * stride
                left, top, right, bottom = distances[:, :, down, across].T
                boxes.append(np.stack([x - left, y - top, x + right, y + bottom], -1))
    return np.stack(scores, 1), np.stack(boxes, 1)
