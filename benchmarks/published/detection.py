"""What a misaligned tail does to the score of a detector: mean average precision at an overlap of 0.5."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from published import Figure

CELLS, PIXELS, IMAGES, OBJECTS = 9, 32.0, 192, 3
ACROSS, DOWN = np.meshgrid(np.arange(CELLS), np.arange(CELLS))
MIDDLES = (np.stack([ACROSS.ravel(), DOWN.ravel()], axis=1) + 0.5) * PIXELS


def figures() -> Iterator[Figure]:
    """Score four sets of images, with tails as they should be and misaligned."""
    scores = np.array([score(np.random.default_rng(seed)) for seed in range(4)])
    right, wrong = (f"{low:.2f}-{high:.2f}" for low, high in zip(scores.min(0), scores.max(0), strict=True))
    loss = scores[:, 0] - scores[:, 1]
    yield Figure("mean average precision, tails exact", "0.89", right)
    yield Figure("mean average precision, tails misaligned", "0.72", wrong)
    spread = f"{loss.min():.2f}-{loss.max():.2f}"
    yield Figure("what the misaligned tail costs", "0.17", spread, bool(loss.min() > 0.1 and loss.max() < 0.25))


def score(random: np.random.Generator) -> tuple[float, float]:
    """Give the mean average precision with exact and with misaligned tails, on one set of images."""
    centers = random.uniform(16, 272, (IMAGES, OBJECTS, 2))
    halves = random.uniform(24, 72, (IMAGES, OBJECTS, 2))
    kinds = random.integers(0, 3, (IMAGES, OBJECTS))
    boxes = np.concatenate([centers - halves, centers + halves], axis=2)
    found: tuple[list, list] = ([], [])
    for image in range(IMAGES):
        said = planes(boxes[image], kinds[image]) + 0.285 * random.normal(size=(8, CELLS**2))
        for at, seen in enumerate((said, misaligned(said))):
            found[at].extend((*one, image) for one in read(seen))
    exact, wrong = (np.mean([area(found[at], boxes, kinds, kind) for kind in range(3)]) for at in (0, 1))
    return float(exact), float(wrong)


def planes(boxes: npt.NDArray, kinds: npt.NDArray) -> npt.NDArray:
    """Give objectness, three classes and four distances in cells, of the box around whose center a cell lies."""
    wanted = np.zeros((8, CELLS**2))
    for box, kind in zip(boxes, kinds, strict=True):
        reach = np.maximum((box[2:] - box[:2]) / 6, PIXELS / 2)
        near = np.all(np.abs(MIDDLES - (box[:2] + box[2:]) / 2) <= reach, axis=1)
        wanted[:, near] = np.concatenate([[1], np.eye(3)[kind], np.zeros(4)])[:, None]
        wanted[4:, near] = np.hstack([MIDDLES[near] - box[:2], box[2:] - MIDDLES[near]]).T / PIXELS
    return wanted


def misaligned(said: npt.NDArray) -> npt.NDArray:
    """Read cells from 64 on from the last multiple of 8 in memory, where the planes lie one after the other."""
    seen, memory = said.copy(), said.ravel()
    for plane in range(8):
        address = plane * CELLS**2 + 64
        seen[plane, 64:] = memory[address - address % 8 :][: CELLS**2 - 64]
    return seen


def read(said: npt.NDArray) -> list[tuple[float, int, npt.NDArray]]:
    """Decode boxes where objectness is above 1/2; of those of a class that overlap by more than 1/2 the best stays."""
    kept: list[tuple[float, int, npt.NDArray]] = []
    cells = np.flatnonzero(said[0] > 0.5)
    for cell in sorted(cells, key=lambda cell: -said[0, cell] * said[1:4, cell].max()):
        distances = said[4:, cell] * PIXELS
        box = np.concatenate([MIDDLES[cell] - distances[:2], MIDDLES[cell] + distances[2:]])
        kind = int(said[1:4, cell].argmax())
        if all(other != kind or overlap(box, before) <= 0.5 for _, other, before in kept):
            kept.append((float(said[0, cell] * said[1:4, cell].max()), kind, box))
    return kept


def overlap(one: npt.NDArray, other: npt.NDArray) -> float:
    """Give intersection over union."""
    shared = np.prod(np.clip(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0, None))
    areas = sum(np.prod(np.clip(box[2:] - box[:2], 0, None)) for box in (one, other))
    return float(shared / max(areas - shared, 1))


def area(found: list, boxes: npt.NDArray, kinds: npt.NDArray, kind: int) -> float:
    """Give the area under the highest precision at each recall."""
    free = {(image, at) for image, at in zip(*np.nonzero(kinds == kind), strict=True)}
    total, hits = len(free), []
    for _, _, box, image in sorted((one for one in found if one[1] == kind), key=lambda one: -one[0]):
        shares = [(overlap(box, boxes[image, at]), at) for where, at in free if where == image]
        share, at = max(shares, default=(0.0, 0))
        free -= {(image, at)} if share >= 0.5 else set()
        hits.append(share >= 0.5)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return sum(precision[at:].max() for at in np.flatnonzero(hits)) / total
