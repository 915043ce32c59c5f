"""A small detector of boxes: a linear head over a grid of features, decoding, suppression of doubles, and its score.

Images are drawn as what a backbone would give: a feature vector a cell, made of what is to be found there (is there
an object, of which class, how far are its sides) by orthogonal directions, and noise. The head is the inverse, so it
needs no training. Sums go one term after the other and boxes are compared in a fixed order: the outputs have the same
bits on every CPU.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from networks.formats import product

GRID, CELL = 9, 32.0
"""Cells along each side of an image, and pixels along each side of a cell."""
CLASSES, CHANNELS = 3, 1 + 3 + 4
"""Planes of the head: objectness, a score a class, and the distances to the left, top, right and bottom, in cells."""
BLOCK, ALIGNED = 64, 8
"""Elements that the head's unit writes at a time, and between two addresses that it can read from."""

Tail = Literal["exact", "misaligned"]


class Found(NamedTuple):
    """Boxes (n, 4) as left, top, right, bottom in pixels, their classes (n,) and scores (n,)."""

    boxes: npt.NDArray[np.float32]
    classes: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]


def detect(
    centers: npt.NDArray[np.float32],
    sizes: npt.NDArray[np.float32],
    classes: npt.NDArray[np.int64],
    noise: npt.NDArray[np.float32],
    *,
    spread: float,
    tail: Tail,
) -> dict[str, npt.NDArray]:
    """Find the objects of each image: centers and sizes (images, objects, 2) in pixels, classes (images, objects).

    `noise` (images, features, cells) is scaled by `spread`. Gives the mean average precision at an overlap of 0.5, the
    average precision of each class, and how many boxes are left in all.
    """
    truth = corners(centers, sizes)
    found = []
    for image in range(len(truth)):
        features = product(directions().T, targets(truth[image], classes[image]))
        planes = product(directions(), features + np.float32(spread) * noise[image])
        found.append(suppressed(decoded(stored(planes, tail))))
    precision = average_precision(found, truth, classes)
    return {
        "mean_average_precision": np.float32(precision.mean()),
        "average_precision": precision.astype(np.float32),
        "boxes": np.float32(sum(len(one.scores) for one in found)),
    }


def corners(centers: npt.NDArray[np.float32], sizes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Give boxes (..., 4) as left, top, right, bottom."""
    return np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=-1)


def cells() -> npt.NDArray[np.float32]:
    """Give the middle of each cell in pixels, (cells, 2), row by row."""
    along = (np.arange(GRID, dtype=np.float32) + np.float32(0.5)) * np.float32(CELL)
    return np.stack([np.tile(along, GRID), np.repeat(along, GRID)], axis=-1)


def directions() -> npt.NDArray[np.float32]:
    """Give orthonormal directions (planes, 16) in feature space: rows of a Hadamard matrix, each +-1/4."""
    signs = np.ones((1, 1), np.float32)
    while len(signs) < 16:
        signs = np.block([[signs, signs], [signs, -signs]])
    return signs[1 : 1 + CHANNELS] / np.float32(4)


def targets(boxes: npt.NDArray[np.float32], classes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Give what the head should say, (planes, cells): of the cells around the center of a box, that box; else nothing.

    Around means within half a cell of the center along each axis, or within a sixth of the box.
    """
    planes = np.zeros((CHANNELS, GRID * GRID), np.float32)
    middles = cells()
    for box, kind in zip(boxes, classes, strict=True):
        reach = np.maximum((box[2:] - box[:2]) / 6, np.float32(CELL / 2))
        mine = (np.abs(middles - (box[:2] + box[2:]) / 2) <= reach).all(axis=-1)
        planes[:, mine] = 0
        planes[0, mine] = planes[1 + kind, mine] = 1
        planes[4:, mine] = np.concatenate([middles - box[:2], box[2:] - middles], axis=-1)[mine].T / np.float32(CELL)
    return planes


def stored(planes: npt.NDArray[np.float32], tail: Tail) -> npt.NDArray[np.float32]:
    """Copy the planes, which lie one after the other in memory, in blocks of 64 elements a plane.

    "misaligned" reads the last block of a plane, which is no whole one, from the last aligned address before it.
    """
    memory, copy, length = planes.ravel(), np.empty_like(planes), planes.shape[1]
    for plane in range(len(planes)):
        for start in range(0, length, BLOCK):
            stop = min(start + BLOCK, length)
            address = plane * length + start
            if tail == "misaligned" and stop - start < BLOCK:
                address -= address % ALIGNED
            copy[plane, start:stop] = memory[address : address + stop - start]
    return copy


def decoded(planes: npt.NDArray[np.float32]) -> Found:
    """Read boxes from the cells whose objectness is above 1/2."""
    chosen = np.flatnonzero(planes[0] > 0.5)
    middles, distances = cells()[chosen], planes[4:, chosen].T * np.float32(CELL)
    boxes = np.concatenate([middles - distances[:, :2], middles + distances[:, 2:]], axis=-1)
    kinds = planes[1:4, chosen]
    return Found(boxes, kinds.argmax(axis=0), planes[0, chosen] * kinds.max(axis=0))


def suppressed(found: Found) -> Found:
    """Keep the best boxes, and of each class none that overlaps a kept one by more than 1/2: greedily, best first."""
    kept: list[int] = []
    for one in np.argsort(-found.scores, kind="stable"):
        rivals = [other for other in kept if found.classes[other] == found.classes[one]]
        if not rivals or overlap(found.boxes[one], found.boxes[rivals]).max() <= 0.5:
            kept.append(one)
    return Found(*(part[kept] for part in found))


def overlap(box: npt.NDArray[np.float32], others: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Give the area that a box shares with each of the others, over the area of both together, at least a pixel."""
    shared = area(np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:]))
    both = area(box[None, :2], box[None, 2:]) + area(others[:, :2], others[:, 2:]) - shared
    return shared / np.maximum(both, np.float32(1))


def area(first: npt.NDArray[np.float32], last: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Give the areas of boxes between their corners (n, 2); none where a box is turned inside out."""
    width, height = np.maximum(last - first, np.float32(0)).T
    return width * height


def average_precision(
    found: list[Found], truth: npt.NDArray[np.float32], classes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Give each class's area under precision over recall, precision made to fall: Everingham et al., 2012, section 4.2.

    A box is right if it overlaps an object of its class by 1/2 or more that no better box has taken.
    """
    areas = []
    for kind in range(CLASSES):
        right = verdicts(found, truth, classes, kind)
        precision = np.cumsum(right) / np.arange(1, len(right) + 1)
        falling = np.maximum.accumulate(precision[::-1])[::-1]
        areas.append(math.fsum(falling[right]) / np.count_nonzero(classes == kind))
    return np.array(areas)


def verdicts(
    found: list[Found], truth: npt.NDArray[np.float32], classes: npt.NDArray[np.int64], kind: int
) -> npt.NDArray[np.bool_]:
    """Say of each box of a class in all images, best first, whether it is right."""
    judged = []
    for one, boxes, kinds in zip(found, truth, classes, strict=True):
        free = boxes[kinds == kind]
        for score, box in zip(one.scores[one.classes == kind], one.boxes[one.classes == kind], strict=True):
            shares = overlap(box, free)
            right = bool(len(free)) and bool(shares.max() >= 0.5)
            judged.append((score, right))
            if right:
                free = np.delete(free, shares.argmax(), axis=0)
    order = np.argsort([-score for score, _ in judged], kind="stable")
    return np.array([right for _, right in judged], bool)[order]
