"""Which trainings does the study repeat? A perceptron, a convolutional network and a transformer on made-up data.

Each has noise that a network can learn by heart: labels and words at random. So held-out losses rise above training
losses, and a format that regularises has room to show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.format_training.arithmetic import Arithmetic

NOISY_LABELS = 0.2


class Data(NamedTuple):
    """Inputs and targets of training, and held-out ones without noise in their labels."""

    inputs: Tensor
    targets: Tensor
    held_inputs: Tensor
    held_targets: Tensor


class Task(NamedTuple):
    """Make data and a network from a seed, and train it in `steps` steps of `batch` examples at the given rate.

    The loss is multiplied by `share`: a batch 1 / share times as large would give each of its examples that gradient.
    """

    data: Callable[[torch.Generator], Data]
    network: Callable[[], nn.Module]
    batch: int
    steps: int
    rate: float
    share: float = 1.0


class Dense(nn.Module):
    """A linear layer in an arithmetic."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, a: Arithmetic) -> Tensor:
        """Return x @ weight.T + bias for x (..., inputs)."""
        return a.keep(a.product(functional.linear(a.operand(x), a.operand(self.weight))) + a.keep(self.bias))


class Perceptron(nn.Module):
    """32 inputs, two hidden layers of 128, 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Dense(*sizes) for sizes in ((32, 128), (128, 128), (128, 10)))

    def forward(self, x: Tensor, a: Arithmetic) -> Tensor:
        """Return logits (examples, 10)."""
        x = a.keep(x)
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x, a))
        return self.layers[-1](x, a)


class Filters(nn.Module):
    """A 3x3 convolution in an arithmetic."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3) * (2 / (9 * inputs)) ** 0.5)

    def forward(self, x: Tensor, a: Arithmetic) -> Tensor:
        """Return the convolution of images (examples, inputs, height, width)."""
        return a.keep(a.product(functional.conv2d(a.operand(x), a.operand(self.weight), padding=1)))


class Convolutional(nn.Module):
    """Three convolutions with halving of 16x16 images, the mean over places, 8 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.ModuleList(Filters(*sizes) for sizes in ((1, 16), (16, 24), (24, 32)))
        self.last = Dense(32, 8)

    def forward(self, x: Tensor, a: Arithmetic) -> Tensor:
        """Return logits (examples, 8)."""
        x = a.keep(x)
        for filters in self.filters:
            x = a.keep(functional.avg_pool2d(torch.relu(filters(x, a)), 2))
        return self.last(a.keep(x.mean((2, 3))), a)


class Block(nn.Module):
    """x + attention(norm(x)), then x + down(gelu(up(norm(x)))); 4 heads, causal."""

    HEADS = 4

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList((nn.LayerNorm(width), nn.LayerNorm(width)))
        self.qkv, self.out = Dense(width, 3 * width), Dense(width, width)
        self.up, self.down = Dense(width, 4 * width), Dense(4 * width, width)

    def forward(self, x: Tensor, a: Arithmetic) -> Tensor:
        """Return x (texts, places, width) after attention and two layers."""
        x = a.keep(x + self._attention(a.keep(self.norms[0](x)), a))
        wide = a.keep(functional.gelu(self.up(a.keep(self.norms[1](x)), a)))
        return a.keep(x + self.down(wide, a))

    def _attention(self, x: Tensor, a: Arithmetic) -> Tensor:
        texts, places, width = x.shape
        heads = self.qkv(x, a).view(texts, places, 3, self.HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = (a.operand(part) for part in heads)
        logits = a.keep(a.product(q @ k.mT) * q.shape[-1] ** -0.5)
        hidden = torch.ones(places, places, dtype=torch.bool).triu(1)
        weights = a.operand(a.keep(torch.softmax(logits.masked_fill(hidden, -1e4), -1)))
        return self.out(a.keep(a.product(weights @ v)).transpose(1, 2).reshape(texts, places, width), a)


class Transformer(nn.Module):
    """Two blocks of width 64 that predict the next of 32 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Parameter(torch.randn(32, 64) * 0.5), nn.Parameter(torch.randn(24, 64) * 0.1)
        self.blocks = nn.ModuleList(Block(64) for _ in range(2))
        self.norm, self.last = nn.LayerNorm(64), Dense(64, 32)

    def forward(self, x: Tensor, a: Arithmetic) -> Tensor:
        """Return the logits of the next words, (texts * places, 32)."""
        x = a.keep(a.keep(self.words)[x] + a.keep(self.places))
        for block in self.blocks:
            x = block(x, a)
        return self.last(a.keep(self.norm(x)), a).flatten(0, 1)


def _with_noise(targets: Tensor, classes: int, generator: torch.Generator) -> Tensor:
    others = torch.randint(classes, targets.shape, generator=generator)
    return torch.where(torch.rand(targets.shape, generator=generator) < NOISY_LABELS, others, targets)


def teacher(generator: torch.Generator) -> Data:
    """Label random inputs by a random network of one hidden layer."""
    x = torch.randn(1024 + 4096, 32, generator=generator)
    hidden = torch.tanh(x @ torch.randn(32, 24, generator=generator) * 0.4)
    targets = (hidden @ torch.randn(24, 10, generator=generator)).argmax(-1)
    return Data(x[:1024], _with_noise(targets[:1024], 10, generator), x[1024:], targets[1024:])


def gratings(generator: torch.Generator) -> Data:
    """Draw waves of 8 directions with random phases and lengths, in noise as strong as they are."""
    count = 512 + 2048
    kinds = torch.randint(8, (count,), generator=generator)
    angles = kinds * (torch.pi / 8)
    lengths = torch.rand(count, generator=generator) * 3 + 3
    rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    along = torch.cos(angles)[:, None, None] * columns + torch.sin(angles)[:, None, None] * rows
    phases = torch.rand(count, generator=generator) * 2 * torch.pi
    waves = torch.sin(2 * torch.pi * along / lengths[:, None, None] + phases[:, None, None])
    x = (waves + torch.randn(waves.shape, generator=generator))[:, None]
    return Data(x[:512], _with_noise(kinds[:512], 8, generator), x[512:], kinds[512:])


def sentences(generator: torch.Generator) -> Data:
    """Write texts of 24 words: each word has 2 likely followers, by the words one and two places before."""
    followers = torch.randint(32, (2, 32, 2), generator=generator)
    texts = torch.randint(32, (512 + 512, 25), generator=generator)
    for place in range(2, 25):
        likely = followers[texts[:, place - 2] % 2, texts[:, place - 1]]
        chosen = likely.gather(1, torch.randint(2, (len(texts), 1), generator=generator))[:, 0]
        is_noise = torch.rand(len(texts), generator=generator) < NOISY_LABELS / 2
        texts[:, place] = torch.where(is_noise, texts[:, place], chosen)
    x, y = texts[:, :-1], texts[:, 1:]
    return Data(x[:512], y[:512], x[512:], y[512:])


TASKS = {
    "perceptron": Task(teacher, Perceptron, 64, 640, 1e-3),
    "convolutional": Task(gratings, Convolutional, 32, 400, 2e-3),
    "transformer": Task(sentences, Transformer, 16, 600, 1e-3),
    # Gradients as small as those of a large vocabulary and a large batch: most are below float16's smallest number.
    "small gradients": Task(sentences, Transformer, 16, 600, 1e-3, 2.0**-10),
}
