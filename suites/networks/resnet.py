"""ResNet-50: He et al., "Deep Residual Learning for Image Recognition", 2015, with the stride in the 3x3 convolution.

Its layers have the names that torchvision gives them. Weights come from networks/seeded.py.
"""

from __future__ import annotations

import torch
from networks.precision import in_precision
from networks.seeded import initialized
from torch import Tensor, nn

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width and number of the blocks of each stage of ResNet-50."""
EXPANSION = 4


class Bottleneck(nn.Module):
    """Three convolutions, 1x1, 3x3 and 1x1, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * EXPANSION, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * EXPANSION)
        # Branches that are smaller than their shortcuts keep the scale of 16 blocks, as training does.
        self.bn3.gain = 0.5
        self.downsample = None
        if stride > 1 or channels != width * EXPANSION:
            projection = nn.Conv2d(channels, width * EXPANSION, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(width * EXPANSION))

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(branch(x) + shortcut(x))."""
        branch = torch.relu(self.bn1(self.conv1(x)))
        branch = torch.relu(self.bn2(self.conv2(branch)))
        branch = self.bn3(self.conv3(branch))
        return torch.relu(branch + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Convolution, blocks in four stages, the mean over places, and a linear classifier."""

    def __init__(self, classes: int = 1000, stages: tuple[tuple[int, int], ...] = STAGES) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage, (width, count) in enumerate(stages, start=1):
            blocks = []
            for index in range(count):
                blocks.append(Bottleneck(channels, width, 2 if stage > 1 and index == 0 else 1))
                channels = width * EXPANSION
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)
        # The features are means of ReLUs, so all are positive, and their mean would favour the same class everywhere.
        self.fc.centred = True

    def features(self, x: Tensor) -> Tensor:
        """Return (images, 2048): the mean over the places of the last stage."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return x.mean((2, 3))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Classify images (images, 3, height, width): the logits, and the class with the largest one."""
        logits = self.fc(self.features(x.to(self.fc.weight.dtype)))
        return {"logits": logits, "top1": logits.argmax(-1)}


def resnet50(precision: str = "float32") -> nn.Module:
    """Make ResNet-50 in a precision: float64, float32, bfloat16, float16 or int8 (dynamic)."""
    with torch.device("meta"):
        model = ResNet()
    return in_precision(initialized(model), precision)
