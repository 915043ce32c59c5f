"""Task figures of networks: made-up text, its perplexity, and the mean average precision of boxes.

A figure is a number that users know. float64 computes it from the network's outputs, so its error is the network's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

WORDS = 2**30
"""Random words are whole numbers of [0, WORDS)."""
THRESHOLDS = tuple(0.5 + 0.05 * step for step in range(10))
"""The overlaps at which COCO counts a box as right."""

Array = npt.NDArray[np.float64]


def zipf_tokens(words: Tensor, vocabulary: int) -> Tensor:
    """Turn uniform random words into tokens by Zipf's law: token k has a probability proportional to 1 / (k + 1).

    Thresholds are whole numbers, made by integer division, so the text is the same on every platform.
    """
    shares = [WORDS * 2**30 // rank for rank in range(1, vocabulary + 1)]
    total, reached, limits = sum(shares), 0, []
    for share in shares:
        reached += share
        limits.append(WORDS * reached // total)
    return torch.searchsorted(torch.tensor(limits, device=words.device), words.long().contiguous(), right=True)


def perplexity(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return exp of the mean of -log p(token), for logits (..., vocabulary) and tokens (...,), in float64."""
    chances = torch.log_softmax(logits.double(), -1)
    return torch.exp(-chances.gather(-1, tokens[..., None]).mean())


def mean_average_precision(
    found: tuple[Array, Array, npt.NDArray[np.int64]], truth: tuple[Array, npt.NDArray[np.int64]]
) -> float:
    """Return the mean of the average precisions over the classes in the truth and over overlaps 0.5, 0.55, ... 0.95.

    `found` has boxes (images, n, 4) as left, top, right, bottom, with scores and classes (images, n); `truth` has boxes
    and classes. A class of -1 is no box.
    """
    boxes, scores, classes = found
    kinds = sorted(set(truth[1][truth[1] >= 0].tolist()))
    shares = [overlaps(ours, theirs) for ours, theirs in zip(boxes, truth[0], strict=True)]
    areas = [
        average_precision(*_of_kind(shares, scores, classes, truth[1], kind), threshold)
        for kind in kinds
        for threshold in THRESHOLDS
    ]
    return float(np.mean(areas)) if areas else 0.0


def overlaps(ours: Array, theirs: Array) -> Array:
    """Return intersection over union of each box (n, 4) with each box (m, 4), as (n, m)."""
    first = np.maximum(ours[:, None, :2], theirs[None, :, :2])
    last = np.minimum(ours[:, None, 2:], theirs[None, :, 2:])
    shared = np.prod(np.maximum(last - first, 0), axis=-1)
    union = _areas(ours)[:, None] + _areas(theirs)[None, :] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def _areas(boxes: Array) -> Array:
    return np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=-1)


def _of_kind(
    shares: list[Array], scores: Array, classes: npt.NDArray, truth: npt.NDArray, kind: int
) -> tuple[list[Array], list[Array]]:
    """Return the overlaps and the scores of the boxes of one class, image by image."""
    picked = zip(shares, classes, truth, strict=True)
    kept = [share[np.ix_(ours == kind, theirs == kind)] for share, ours, theirs in picked]
    return kept, [score[ours == kind] for score, ours in zip(scores, classes, strict=True)]


def average_precision(shares: list[Array], scores: list[Array], threshold: float) -> float:
    """Return the area under precision over recall, precision made to fall: Everingham et al., 2012, section 4.2.

    Best boxes come first. A box is right if it overlaps an object that no better box has taken by the threshold; of
    several such objects it takes the one with the largest overlap.
    """
    order = sorted((-score, image, at) for image, ones in enumerate(scores) for at, score in enumerate(ones))
    free = [np.ones(share.shape[1], bool) for share in shares]
    right = np.zeros(len(order), bool)
    for place, (_, image, at) in enumerate(order):
        candidates = np.where(free[image], shares[image][at], -1.0)
        if candidates.size and candidates.max() >= threshold:
            right[place] = True
            free[image][candidates.argmax()] = False
    if not len(order):
        return 0.0
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(falling[right].sum() / sum(map(len, free)))
