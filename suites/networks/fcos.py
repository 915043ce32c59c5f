"""A detector head, FCOS by Tian et al., 2019, on a feature pyramid by Lin et al., 2017, with scores that need no NMS.

Each place of each level predicts a box, a score for each class, and how central it lies. A box counts if its score is
the largest of its 3x3 neighbours, as in CenterNet by Zhou et al., 2019. Weights come from networks/seeded.py. As nobody
trained them, the objects of an image are the boxes that the same weights find in float64.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from networks.precision import in_precision, restored
from networks.scores import mean_average_precision
from networks.seeded import initialized
from torch import Tensor, nn
from torch.nn import functional

CHANNELS = (64, 128, 256)
"""Channels of the backbone's last three stages, with strides of 8, 16 and 32 pixels."""
STRIDES = (8, 16, 32, 64)
WIDTH, CLASSES = 64, 8
OBJECTS = 12
"""Objects of an image on average: so many boxes of all images have the best scores. A detector names twice as many."""


class Pyramid(nn.Module):
    """Lateral and output convolutions from coarse to fine, and one level more with a stride of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(channels, WIDTH, 1) for channels in CHANNELS)
        self.output = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in CHANNELS)
        self.extra = nn.Conv2d(WIDTH, WIDTH, 3, 2, 1)

    def forward(self, stages: list[Tensor]) -> list[Tensor]:
        """Return a level of features for each stride, finest first."""
        merged = [lateral(stage) for lateral, stage in zip(self.lateral, stages, strict=True)]
        for finer in (1, 0):
            merged[finer] = merged[finer] + functional.interpolate(merged[finer + 1], scale_factor=2, mode="nearest")
        levels = [output(level) for output, level in zip(self.output, merged, strict=True)]
        return [*levels, self.extra(torch.relu(levels[-1]))]


def tower() -> nn.Sequential:
    """Make four convolutions with group norms and ReLUs."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.GroupNorm(8, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers)


class Fcos(nn.Module):
    """The pyramid, and the head that all its levels share."""

    def __init__(self) -> None:
        super().__init__()
        self.pyramid = Pyramid()
        self.class_tower, self.box_tower = tower(), tower()
        self.classes = nn.Conv2d(WIDTH, CLASSES, 3, padding=1)
        self.distances = nn.Conv2d(WIDTH, 4, 3, padding=1)
        self.distances.gain = 0.25
        self.centerness = nn.Conv2d(WIDTH, 1, 3, padding=1)

    def dense(self, stages: list[Tensor]) -> dict[str, Tensor]:
        """Return scores (images, places, classes), boxes (images, places, 4) in pixels, and which places are peaks."""
        found: dict[str, list[Tensor]] = {"scores": [], "boxes": [], "peaks": []}
        for level, stride in zip(self.pyramid(stages), STRIDES, strict=True):
            towered = self.box_tower(level)
            central = torch.sigmoid(self.centerness(towered))
            scores = torch.sqrt(torch.sigmoid(self.classes(self.class_tower(level))) * central)
            # The exponential of a distance in strides, as in the paper's first form.
            distances = torch.exp(self.distances(towered)) * stride
            found["scores"].append(flat(scores))
            found["boxes"].append(boxes(flat(distances), level.shape[-2:], stride))
            found["peaks"].append(flat(scores == functional.max_pool2d(scores, 3, 1, 1)))
        return {name: torch.cat(levels, 1) for name, levels in found.items()}

    def forward(self, c3: Tensor, c4: Tensor, c5: Tensor) -> dict[str, Tensor]:
        """Find boxes from a backbone's stages (images, channels, height, width), and score them against float64."""
        dtype = self.centerness.weight.dtype
        found = self.dense([stage.to(dtype) for stage in (c3, c4, c5)])
        return {"scores": found["scores"], "boxes": found["boxes"], **self.precision_of(found, [c3, c4, c5])}

    def precision_of(self, found: dict[str, Tensor], stages: list[Tensor]) -> dict[str, Tensor]:
        """Return the mean average precision, with the best boxes of the exact weights in float64 as objects."""
        exact = exact_form(self).dense([stage.double() for stage in stages])
        objects = best(exact, 2 * OBJECTS)
        # One bound for all images: the exact scores of objects are above those of all other boxes, wherever they are.
        bound = np.sort(objects[1], axis=None)[-OBJECTS * len(objects[1])]
        kinds = np.where(objects[1] >= bound, objects[2], -1)
        score = mean_average_precision(best(found, 2 * OBJECTS), (objects[0], kinds))
        return {"mean_average_precision": torch.tensor(score, dtype=torch.float64)}


def flat(planes: Tensor) -> Tensor:
    """Turn (images, channels, height, width) into (images, places, channels)."""
    return planes.flatten(2).transpose(1, 2)


def boxes(distances: Tensor, shape: torch.Size, stride: int) -> Tensor:
    """Turn distances (images, places, 4) to the left, top, right and bottom into boxes in pixels."""
    down, across = (
        (torch.arange(length, dtype=distances.dtype, device=distances.device) + 0.5) * stride for length in shape
    )
    centers = torch.cartesian_prod(down, across).flip(-1)
    return torch.cat([centers - distances[..., :2], centers + distances[..., 2:]], -1)


def best(found: dict[str, Tensor], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return boxes, scores and classes of the peaks with the best scores of each image, best first, in float64."""
    scores, kinds = torch.where(found["peaks"], found["scores"].double(), -1.0).max(-1)
    scores, at = scores.sort(descending=True, stable=True)
    at, scores = at[:, :count], scores[:, :count]
    kinds = torch.where(scores > 0, kinds.gather(1, at), -1)
    picked = found["boxes"].double().gather(1, at[..., None].expand(-1, -1, 4))
    return picked.cpu().numpy(), scores.cpu().numpy(), kinds.cpu().numpy()


def exact_form(model: Fcos) -> Fcos:
    """Return a float64 copy with the same weights; 8-bit layers become those that they were made of."""
    return restored(copy.deepcopy(model)).double()


def fcos(precision: str = "float32") -> nn.Module:
    """Make the detector in a precision: float64, float32, bfloat16, float16 or int8 (dynamic)."""
    with torch.device("meta"):
        model = Fcos()
    return in_precision(initialized(model), precision)
