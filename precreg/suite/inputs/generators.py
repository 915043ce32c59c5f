"""Which numbers do distributions with a structure have, and what may a function of the project draw with?

All numbers are float64, from the words of distributions.py, by operations whose results IEEE 754 fixes, in a fixed
order: no BLAS, no `sum` and no function of a C library. `cumsum` adds from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.suite.inputs.distributions import (
    RandomWords,
    Reals,
    Words,
    draw_integers,
    draw_log_uniform,
    draw_normal,
    draw_uniform,
    open_fraction,
    portable_exp2,
    portable_log,
    portable_log2,
    unit_fraction,
    word_stream,
)
from precreg.suite.inputs.options import DistributionOptions
from precreg.suite.inputs.structured import (
    Images,
    Mask,
    Orthogonal,
    Probabilities,
    Sorted,
    Sparse,
    SymmetricPositiveDefinite,
    Tokens,
)

Shape = int | Sequence[int]
# The mean and the standard deviation that models trained on ImageNet take, averaged over the colours.
_IMAGE_MEAN, _IMAGE_STD = 0.45, 0.225
# The distance in pixels of the points between which light is interpolated, and the number of edges in an image.
_SMOOTH_PIXELS, _EDGES = 8, 4


class InputGenerator:
    """Draw numbers with the same bits on every platform: the first argument of a function that makes an input.

    Each number takes the next word of the stream of the input's name and seed.
    """

    def __init__(self, name: str, seed: int) -> None:
        """Begin the stream of an input's name and seed."""
        self._words: Words = word_stream(name, seed)

    def words(self, shape: Shape) -> RandomWords:
        """Return words of 64 random bits."""
        lengths = _lengths(shape)
        return self._words(prod(lengths)).reshape(lengths)

    def normal(self, shape: Shape, mean: float = 0.0, std: float = 1.0) -> Reals:
        """Return normal numbers."""
        drawn: Reals = self._draw(shape, lambda words: draw_normal(words, mean, std))
        return drawn

    def uniform(self, shape: Shape, low: float = 0.0, high: float = 1.0) -> Reals:
        """Return uniform numbers from [low, high)."""
        drawn: Reals = self._draw(shape, lambda words: draw_uniform(words, low, high))
        return drawn

    def log_uniform(self, shape: Shape, low: float, high: float, sign: str = "positive") -> Reals:
        """Return numbers from [low, high] with uniform logarithm; with sign "both", half of them are negative."""
        drawn: Reals = self._draw(shape, lambda words: draw_log_uniform(words, low, high, sign))
        return drawn

    def exponential(self, shape: Shape) -> Reals:
        """Return positive numbers of the exponential distribution with mean 1."""
        drawn: Reals = self._draw(shape, lambda words: -portable_log(open_fraction(words)))
        return drawn

    def integers(self, shape: Shape, low: int, high: int) -> NDArray[np.int64]:
        """Return integers from [low, high)."""
        integers: NDArray[np.int64] = self._draw(shape, lambda words: draw_integers(words, low, high))
        return integers

    def permutation(self, number: int) -> NDArray[np.int64]:
        """Return the integers from 0 to number - 1 in random order."""
        return np.argsort(self._words(number), kind="stable").astype(np.int64)

    def choice(self, values: Any, shape: Shape) -> NDArray[Any]:
        """Return elements of a sequence, chosen at random with repetition."""
        known = np.asarray(values)
        chosen: NDArray[Any] = known[self.integers(shape, 0, len(known))]
        return chosen

    def _draw(self, shape: Shape, draw: Any) -> Any:
        lengths = _lengths(shape)
        return draw(self._words(prod(lengths))).reshape(lengths)


def _lengths(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def draw_structured(options: DistributionOptions, name: str, seed: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the numbers of a structured distribution before rounding, float64 or int64, of the shape."""
    generator = InputGenerator(name, seed)
    match options:
        case SymmetricPositiveDefinite(condition):
            return _per_matrix(shape, lambda lengths: _definite_matrix(generator, lengths[0], condition))
        case Orthogonal():
            return _per_matrix(shape, lambda lengths: _orthogonal_matrix(generator, *lengths))
        case Sorted(low, high, descending):
            rows = np.sort(generator.uniform(shape, low, high), axis=-1)
            return rows[..., ::-1] if descending else rows
        case Sparse(density, std):
            return _sparse(name, seed, shape, density, std)
        case Tokens(vocabulary, exponent):
            return _tokens(generator, shape, vocabulary, exponent)
        case Images(normalized):
            images = _images(generator, shape)
            return (images - _IMAGE_MEAN) / _IMAGE_STD if normalized else images
        case Mask(kind, additive):
            return _mask(generator, kind, shape, additive=additive)
        case Probabilities():
            weights = generator.exponential(shape)
            return weights / np.cumsum(weights, axis=-1)[..., -1:]
    raise TypeError(options)


def _per_matrix(shape: tuple[int, ...], make: Any) -> Reals:
    """Return matrices over the last two axes, made one after the other."""
    stacked = np.empty((prod(shape[:-2]), *shape[-2:]))
    for index in range(len(stacked)):
        stacked[index] = make(shape[-2:])
    return stacked.reshape(shape)


def _orthogonal_matrix(generator: InputGenerator, rows: int, columns: int) -> Reals:
    """Return a random matrix with orthonormal columns or rows, with the uniform (Haar) distribution.

    It is a product of Householder reflections with normal vectors (Stewart, The efficient generation of random
    orthogonal matrices, SIAM J. Numer. Anal. 17, 1980).
    """
    if rows < columns:
        return np.ascontiguousarray(_orthogonal_matrix(generator, columns, rows).T)
    vectors = [generator.normal(rows - place) for place in range(columns)]
    matrix = np.eye(rows, columns)
    for place in range(columns - 1, -1, -1):
        vector = vectors[place]
        length = np.sqrt(np.cumsum(vector * vector)[-1])
        sign = 1.0 if vector[0] >= 0 else -1.0
        reflector = vector.copy()
        reflector[0] += sign * length
        squared = np.cumsum(reflector * reflector)[-1]
        block = matrix[place:, place:]
        inner = np.cumsum(reflector[:, np.newaxis] * block, axis=0)[-1]
        block -= reflector[:, np.newaxis] * (inner * (2.0 / squared))
        # The reflection maps the vector to -sign * length e1. This factor makes the distribution uniform.
        block[0] *= -sign
    return matrix


def _definite_matrix(generator: InputGenerator, length: int, condition: float) -> Reals:
    """Return Q diag(eigenvalues) Q^T: the eigenvalues are 1, 1/condition and between them, uniform in the logarithm."""
    vectors = _orthogonal_matrix(generator, length, length)
    exponents = generator.uniform(length)
    exponents[:1], exponents[1:2] = 0.0, 1.0
    eigenvalues = portable_exp2(-portable_log2(np.array([condition])) * exponents)
    matrix = np.zeros((length, length))
    for place in range(length):
        # The same products in the same order for (i, j) and (j, i): the matrix is symmetric in every bit.
        column = vectors[:, place]
        matrix += eigenvalues[place] * (column[:, np.newaxis] * column)
    return matrix


def _sparse(name: str, seed: int, shape: tuple[int, ...], density: float, std: float) -> Reals:
    # A second stream chooses the positions, so that values stay if the density changes.
    chosen = unit_fraction(word_stream(name, seed, "positions")(prod(shape))) < density
    return np.where(chosen.reshape(shape), InputGenerator(name, seed).normal(shape, 0.0, std), 0.0)


def _tokens(generator: InputGenerator, shape: tuple[int, ...], vocabulary: int, exponent: float) -> NDArray[np.int64]:
    ranks = np.arange(1.0, vocabulary + 1.0)
    cumulated = np.cumsum(portable_exp2(-exponent * portable_log2(ranks)))
    tokens = np.searchsorted(cumulated, generator.uniform(shape) * cumulated[-1], side="right")
    # The last share of the sum may be rounded up.
    ids: NDArray[np.int64] = np.minimum(tokens, vocabulary - 1).astype(np.int64)
    return ids


def _images(generator: InputGenerator, shape: tuple[int, ...]) -> Reals:
    """Return images whose channels, the axis before height and width, share their edges."""
    *outer, height, width = shape
    channels = outer[-1] if outer else 1
    stacked = np.empty((prod(outer[:-1]), channels, height, width))
    for image in stacked:
        edges = _edges(generator, height, width)
        for channel in image:
            light = _smooth_field(generator, height, width)
            # Two thirds of the range are smooth light, and one third are the shares of edges.
            channel[...] = light * (2.0 / 3.0) + edges * generator.uniform(1) / 3.0
    return np.clip(stacked, 0.0, 1.0).reshape(shape)


def _smooth_field(generator: InputGenerator, height: int, width: int) -> Reals:
    """Return light in [0, 1], interpolated between random points in rows and in columns."""
    rows, row_shares = _interpolation(height)
    columns, column_shares = _interpolation(width)
    points = generator.uniform((height // _SMOOTH_PIXELS + 2, width // _SMOOTH_PIXELS + 2))
    lines = points[rows] * (1.0 - row_shares)[:, np.newaxis] + points[rows + 1] * row_shares[:, np.newaxis]
    return lines[:, columns] * (1.0 - column_shares) + lines[:, columns + 1] * column_shares


def _interpolation(length: int) -> tuple[NDArray[np.int64], Reals]:
    places = np.arange(length)
    return places // _SMOOTH_PIXELS, (places % _SMOOTH_PIXELS) / _SMOOTH_PIXELS


def _edges(generator: InputGenerator, height: int, width: int) -> Reals:
    """Return the share of half planes that cover each pixel: a straight edge for each half plane."""
    y, x = np.arange(height)[:, np.newaxis] / max(height, 1), np.arange(width) / max(width, 1)
    covered = np.zeros((height, width))
    for _ in range(_EDGES):
        slope_y, slope_x, offset = generator.uniform(3, -1.0, 1.0)
        covered += (y - 0.5) * slope_y + (x - 0.5) * slope_x > offset * 0.25
    return covered / _EDGES


def _mask(generator: InputGenerator, kind: str, shape: tuple[int, ...], *, additive: bool) -> Reals:
    keys = np.arange(shape[-1])
    if kind == "causal":
        queries = np.arange(shape[-2])[:, np.newaxis]
        visible = np.broadcast_to(keys <= queries + (shape[-1] - shape[-2]), shape)
    else:
        lengths = generator.integers(shape[:-1], 1, max(shape[-1], 1) + 1)
        visible = keys < lengths[..., np.newaxis]
    return np.where(visible, 0.0, -np.inf) if additive else visible.astype(np.float64)
