"""Which networks classify, and which images? Two residual networks and an encoder, on made-up pictures of 24 classes.

The networks start with seeded weights, and train for some minutes: classes differ as those of a trained network do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "suites"))

from networks.resnet import STAGES, ResNet
from networks.seeded import initialized

CLASSES, SIZE = 24, 32
# Steps of 32 pictures, and the largest rate of AdamW.
STEPS, RATE = 400, 1e-3
STAGES_152 = ((64, 3), (128, 8), (256, 36), (512, 3))


def pictures(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw waves of 8 directions in 3 colours, with random phases, lengths and noise: (count, 3, 32, 32), classes."""
    kinds = torch.randint(CLASSES, (count,), generator=generator)
    angles = (kinds % 8 + 0.5 * torch.rand(count, generator=generator)) * (torch.pi / 8)
    lengths = torch.rand(count, generator=generator) * 6 + 5
    rows, columns = torch.meshgrid(torch.arange(float(SIZE)), torch.arange(float(SIZE)), indexing="ij")
    along = torch.cos(angles)[:, None, None] * columns + torch.sin(angles)[:, None, None] * rows
    phases = torch.rand(count, generator=generator) * 2 * torch.pi
    waves = torch.sin(2 * torch.pi * along / lengths[:, None, None] + phases[:, None, None])
    colours = 0.4 + functional.one_hot(kinds // 8, 3).float()
    noise = torch.randn(count, 3, SIZE, SIZE, generator=generator)
    return waves[:, None] * colours[:, :, None, None] + 0.6 * noise, kinds


class Layer(nn.Module):
    """x + attention(norm(x)), then x + down(gelu(up(norm(x)))), with 6 heads."""

    HEADS = 6

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return x (pictures, places, width) after attention and two layers."""
        pictures, places, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(pictures, places, 3, self.HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(pictures, places, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """12 layers of width 192 on patches of 8 by 8 places, as ViT-Tiny: Dosovitskiy et al., 2021."""

    def __init__(self, width: int = 192, depth: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.places = nn.Parameter(torch.empty(1, (SIZE // 8) ** 2, width))
        self.layers = nn.Sequential(*(Layer(width) for _ in range(depth)))
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def features(self, x: Tensor) -> Tensor:
        """Return (pictures, width): the mean over places."""
        return self.norm(self.layers(self.patches(x).flatten(2).mT + self.places)).mean(1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return the logits of pictures (pictures, 3, 32, 32)."""
        return {"logits": self.fc(self.features(x))}


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ResNet-50": lambda: ResNet(CLASSES, STAGES),
    "ResNet-152": lambda: ResNet(CLASSES, STAGES_152),
    "encoder of 12 layers": Encoder,
}


def trained(name: str) -> nn.Module:
    """Make a network with seeded weights, and train it briefly: the same weights each time on one machine."""
    with torch.device("meta"):
        model = NETWORKS[name]()
    model = initialized(model).requires_grad_(True).train()
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.05)
    # A short warm-up, then down to zero: long rates at the end would leave the statistics of normalizations behind.
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.15)
    for _ in range(STEPS):
        x, classes = pictures(32, generator)
        optimizer.zero_grad()
        functional.cross_entropy(model(x)["logits"], classes).backward()
        optimizer.step()
        schedule.step()
    return model.eval().requires_grad_(False)


def batches(count: int, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (pictures, classes) of held-out pictures; the first batch calibrates, so it is always the same."""
    generator = torch.Generator().manual_seed(2)
    for first in range(0, count, size):
        yield pictures(min(size, count - first), generator)
