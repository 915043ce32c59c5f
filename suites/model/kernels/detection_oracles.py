"""What the detector is held against: the same model in float64, box by box, with nothing of the kernel's code.

A box is (left, top, right, bottom) in pixels, a detection (score, class, box).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Box = tuple[float, float, float, float]
Detection = tuple[float, int, Box]
SIDE, PIXELS = 9, 32.0


def detect(
    centers: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.float64],
    classes: npt.NDArray[np.int64],
    noise: npt.NDArray[np.float64],
    *,
    spread: float,
    tail: str,
) -> dict[str, npt.NDArray]:
    """Find the objects and score them; `tail` is the subject's and means nothing here."""
    directions = hadamard(16)[1:9] / 4
    truth = [
        [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(*image, strict=True)]
        for image in zip(centers, sizes, strict=True)
    ]
    found = []
    for boxes, kinds, disturbance in zip(truth, classes.tolist(), noise, strict=True):
        said = directions @ (directions.T @ wanted(boxes, kinds) + spread * disturbance)
        found.append(without_doubles(read(said)))
    areas = [precision_area(found, truth, classes.tolist(), kind) for kind in range(3)]
    return {
        "mean_average_precision": np.float64(sum(areas) / 3),
        "average_precision": np.array(areas),
        "boxes": np.float64(sum(map(len, found))),
    }


def hadamard(order: int) -> npt.NDArray[np.float64]:
    """Give the Hadamard matrix of an order that is a power of two: -1 to the number of ones that i and j share."""
    return np.array([[(-1.0) ** (i & j).bit_count() for j in range(order)] for i in range(order)])


def wanted(boxes: list[Box], kinds: list[int]) -> npt.NDArray[np.float64]:
    """Give the head's planes, (8, cells); a later box takes the cells of an earlier one."""
    planes = np.zeros((8, SIDE * SIDE))
    for (left, top, right, bottom), kind in zip(boxes, kinds, strict=True):
        for cell in range(SIDE * SIDE):
            x, y = (cell % SIDE + 0.5) * PIXELS, (cell // SIDE + 0.5) * PIXELS
            near_x = abs(x - (left + right) / 2) <= max((right - left) / 6, PIXELS / 2)
            near_y = abs(y - (top + bottom) / 2) <= max((bottom - top) / 6, PIXELS / 2)
            if near_x and near_y:
                one_hot = [float(kind == other) for other in range(3)]
                planes[:, cell] = [1, *one_hot, *(d / PIXELS for d in (x - left, y - top, right - x, bottom - y))]
    return planes


def read(planes: npt.NDArray[np.float64]) -> list[Detection]:
    """Give what the cells say, best first, of equals the first cell."""
    found = []
    for cell, (objectness, *rest) in enumerate(planes.T.tolist()):
        if objectness > 0.5:
            x, y = (cell % SIDE + 0.5) * PIXELS, (cell // SIDE + 0.5) * PIXELS
            left, top, right, bottom = (PIXELS * distance for distance in rest[3:])
            best = max(rest[:3])
            found.append((objectness * best, rest.index(best), (x - left, y - top, x + right, y + bottom)))
    return sorted(found, key=lambda detection: -detection[0])


def without_doubles(found: list[Detection]) -> list[Detection]:
    """Take the best, drop what overlaps it by more than 1/2 and is of its class, and begin again with the rest."""
    kept = []
    while found:
        best, *rest = found
        kept.append(best)
        found = [one for one in rest if one[1] != best[1] or overlap(one[2], best[2]) <= 0.5]
    return kept


def overlap(one: Box, other: Box) -> float:
    """Give the shared area over that of both together, which counts for a pixel at least."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(width, 0) * max(height, 0)
    areas = (max(box[2] - box[0], 0) * max(box[3] - box[1], 0) for box in (one, other))
    return shared / max(sum(areas) - shared, 1)


def precision_area(found: list[list[Detection]], truth: list[list[Box]], classes: list[list[int]], kind: int) -> float:
    """Average over the objects of a class, k = 1, 2, ...: the best precision of any list that has k of them right.

    A list is all detections down to some score.
    """
    every = [(score, image, box) for image, ones in enumerate(found) for score, of, box in ones if of == kind]
    objects = {(image, at) for image, kinds in enumerate(classes) for at, of in enumerate(kinds) if of == kind}
    free, right, reached = set(objects), 0, [0.0] * (len(objects) + 1)
    for length, (_, image, box) in enumerate(sorted(every, key=lambda one: -one[0]), start=1):
        shares = {at: overlap(box, truth[image][at]) for where, at in free if where == image}
        nearest = max(shares, key=lambda at: shares[at], default=None)
        if nearest is not None and shares[nearest] >= 0.5:
            free.remove((image, nearest))
            right += 1
            reached[right] = right / length
    return sum(max(reached[k:]) for k in range(1, len(objects) + 1)) / len(objects)
