"""The networks of suites/networks again, in plain numpy and float64, from the weights by name."""

import math

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


def linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(x, weights, name, eps):
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attention(x, weights, name, heads, visible):
    """Attend within one text x (places, width); `visible` (places, places) marks what a place (row) sees."""
    q, k, v = (linear(x, weights, f"{name}.{part}") for part in ("query", "key", "value"))
    depth = x.shape[1] // heads
    context = np.empty_like(x)
    for head in range(heads):
        part = slice(head * depth, (head + 1) * depth)
        for place in range(len(x)):
            seen = np.flatnonzero(visible[place])
            chances = np.exp(k[seen, part] @ q[place, part] / math.sqrt(depth))
            context[place, part] = chances @ v[seen, part] / chances.sum()
    return linear(context, weights, f"{name}.output")


def erf_gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def tanh_gelu(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def bert(tokens, length, weights, heads=4):
    """Return the logits of the words and of the text, for one text whose first `length` tokens are no padding."""
    places = np.arange(len(tokens))
    x = weights["tokens.weight"][tokens] + weights["places.weight"][places]
    x = layer_norm(x + weights["segments.weight"][np.where(places >= length / 2, 1, 0)], weights, "norm", 1e-12)
    visible = np.tile(places < length, (len(tokens), 1))
    for block in range(4):
        name = f"blocks.{block}"
        x = layer_norm(
            x + attention(x, weights, f"{name}.attention", heads, visible), weights, f"{name}.attention_norm", 1e-12
        )
        up = erf_gelu(linear(x, weights, f"{name}.up"))
        x = layer_norm(x + linear(up, weights, f"{name}.down"), weights, f"{name}.output_norm", 1e-12)
    hidden = layer_norm(erf_gelu(linear(x, weights, "words.0")), weights, "words.2", 1e-12)
    words = hidden @ weights["tokens.weight"].T + weights["words_bias"]
    return words, linear(np.tanh(linear(x[0], weights, "pooler")), weights, "classifier")


def gpt(tokens, weights, heads=4):
    """Return the logits of the tokens that follow each place of one text."""
    places = np.arange(len(tokens))
    x = weights["tokens.weight"][tokens] + weights["places.weight"][places]
    visible = places <= places[:, None]
    for block in range(4):
        name = f"blocks.{block}"
        normal = layer_norm(x, weights, f"{name}.attention_norm", 1e-5)
        x = x + attention(normal, weights, f"{name}.attention", heads, visible)
        up = tanh_gelu(linear(layer_norm(x, weights, f"{name}.norm", 1e-5), weights, f"{name}.up"))
        x = x + linear(up, weights, f"{name}.down")
    return layer_norm(x, weights, "norm", 1e-5) @ weights["tokens.weight"].T


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
