"""Small networks with seeded weights, which the tests trace and run in float64."""

import math

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, d):
        super().__init__()
        self.n1, self.n2, self.qkv, self.o = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        scores = (q / math.sqrt(d // 4)) @ k.transpose(-1, -2)
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(functional.gelu(self.up(self.n2(x))))


def transformer(layers=3, d=32, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(*[Block(d) for _ in range(layers)])


class Residual(nn.Module):
    """Convolutions with running statistics, an activation and an addition in place, and pools."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.pool, self.relu, self.fc = nn.MaxPool2d(3, 2, 1), nn.ReLU(inplace=True), nn.Linear(8, 5)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        y = self.bn2(self.conv2(x))
        y += x
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(self.relu(y), 1), 1))


def residual(seed=0):
    torch.manual_seed(seed)
    module = Residual()
    for norm in (module.bn1, module.bn2):
        norm.running_mean.normal_(0, 0.1)
        norm.running_var.uniform_(0.5, 1.5)
    return module
