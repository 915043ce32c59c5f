"""Task figures, against other implementations: exact rationals, mpmath, and the detector's oracle."""

from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch

from tests.suites.kernel_files import load

SCORES, ORACLE = load("networks/scores"), load("model/kernels/detection_oracles")
WORDS = 2**30


def test_tokens_follow_zipfs_law():
    """The share of words that become token k is 1 / (k + 1) over the harmonic number, but for one word."""
    edges = torch.arange(0, WORDS, 2**14)
    counts = Counter(SCORES.zipf_tokens(edges, 100).tolist())
    harmonic = sum(Fraction(1, rank) for rank in range(1, 101))
    for token in range(100):
        share = Fraction(1, token + 1) / harmonic
        assert abs(counts[token] - share * 2**16) <= 2
    assert SCORES.zipf_tokens(torch.tensor([0, WORDS - 1]), 100).tolist() == [0, 99]


def test_perplexity_is_mpmaths():
    random = np.random.default_rng(3)
    logits, tokens = random.normal(0, 5, (2, 7, 11)), random.integers(0, 11, (2, 7))
    with mpmath.workdps(40):
        losses = [
            mpmath.log(mpmath.fsum(mpmath.exp(float(one)) for one in row)) - float(row[token])
            for row, token in zip(logits.reshape(-1, 11), tokens.ravel(), strict=True)
        ]
        expected = mpmath.exp(mpmath.fsum(losses) / len(losses))
    result = SCORES.perplexity(torch.from_numpy(logits), torch.from_numpy(tokens))
    assert float(result) == pytest.approx(float(expected), rel=1e-13)
    assert float(SCORES.perplexity(torch.zeros(5, 64), torch.zeros(5, dtype=torch.long))) == pytest.approx(64)


def made_up(random, images, objects):
    """Draw objects, and boxes near them with some missing, doubled, moved or of another class."""
    corner = random.uniform(0, 60, (images, objects, 2))
    truth = np.concatenate([corner, corner + random.uniform(8, 40, (images, objects, 2))], -1)
    kinds = random.integers(0, 3, (images, objects))
    boxes = np.concatenate([truth, truth], 1) + random.normal(0, 3, (images, 2 * objects, 4))
    classes = np.concatenate([kinds, random.integers(-1, 3, (images, objects))], 1)
    return boxes, random.uniform(0, 1, classes.shape), classes, truth, kinds


@pytest.mark.parametrize("seed", range(20))
def test_average_precision_at_an_overlap_of_half_is_the_oracles(seed):
    boxes, scores, classes, truth, kinds = made_up(np.random.default_rng(seed), 4, 6)
    found = [
        [(score, kind, tuple(box)) for score, kind, box in zip(*one, strict=True)]
        for one in zip(scores.tolist(), classes.tolist(), boxes.tolist(), strict=True)
    ]
    for kind in range(3):
        expected = ORACLE.precision_area(found, truth.tolist(), kinds.tolist(), kind)
        shares = [SCORES.overlaps(*pair) for pair in zip(boxes, truth, strict=True)]
        ours = SCORES._of_kind(shares, scores, classes, kinds, kind)
        assert SCORES.average_precision(*ours, 0.5) == pytest.approx(expected, abs=1e-12)


def test_the_mean_runs_over_classes_and_overlaps():
    """One object, one box that overlaps it by 0.7 and a bit: right at 0.5, 0.55, 0.6, 0.65 and 0.7."""
    truth = np.array([[[0.0, 0, 10, 10]]])
    found = np.array([[[0.0, 0, 10, 7.1]]]), np.array([[0.9]]), np.array([[2]])
    assert SCORES.mean_average_precision(found, (truth, np.array([[2]]))) == pytest.approx(0.5)
    assert SCORES.mean_average_precision(found, (truth, np.array([[1]]))) == 0
    perfect = (truth, np.array([[0.9]]), np.array([[2]]))
    assert SCORES.mean_average_precision(perfect, (truth, np.array([[2]]))) == 1


def test_boxes_of_no_class_do_not_count():
    truth, kinds = np.array([[[0.0, 0, 10, 10], [0, 0, 5, 5]]]), np.array([[0, -1]])
    found = (truth, np.array([[0.9, 0.8]]), np.array([[0, -1]]))
    assert SCORES.mean_average_precision(found, (truth, kinds)) == 1
