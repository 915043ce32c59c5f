"""Which last-bit changes does a twin of a training get?

A twin changes one in sixteen weights, drawn anew at each step, by one ULP up or down. Roundings of another order of
operations change fewer weights in most trainings; a change of all weights by one ULP is four times as far.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.training.divergence.distance import Weights

# Measured: the swapped order of Adam changes 2.7 % of the weights in one step (suites/model/adam_training.yaml).
TWIN_SHARE = 1 / 16


class Twin(NamedTuple):
    """A run that gets last-bit changes at each step from `first` on; `seed` draws them."""

    seed: int
    first: int

    def change(self, step: int, weights: Weights) -> dict[str, NDArray[Any]]:
        """Return the weights with the changes of a step; the given arrays stay as they are."""
        if step < self.first:
            return dict(weights)
        generator = np.random.default_rng((self.seed, step))
        return {name: change_last_bits(array, generator) for name, array in weights.items()}


def change_last_bits(array: NDArray[Any], generator: np.random.Generator, share: float = TWIN_SHARE) -> NDArray[Any]:
    """Return a copy of a floating-point array in which a share of the elements moved by one ULP; others unchanged.

    Zeros, and elements whose neighbour is not finite, stay as they are. An array of at least one other element changes
    in at least one.
    """
    if not _is_floating(array.dtype) or not array.size:
        return array.copy()
    flat = array.ravel()
    movable = np.flatnonzero(np.asarray(flat != 0))
    if not movable.size:
        return array.copy()
    chosen = movable[generator.random(movable.size) < share]
    if not chosen.size:
        chosen = generator.choice(movable, 1)
    away = generator.random(chosen.size) < 0.5
    before = flat[chosen]
    after = _neighbours(before, away)
    flat = flat.copy()
    flat[chosen] = np.where(_is_step(before, after, away), after, before)
    return flat.reshape(array.shape)


def _is_floating(dtype: np.dtype[Any]) -> bool:
    from precreg.arithmetic import FORMATS

    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name in FORMATS)


def _is_step(before: NDArray[Any], after: NDArray[Any], away: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where a step in the bits is one in the values: beyond the largest number it leads to NaN, or around."""
    # Formats of 4 and 6 bits fill a byte: the next pattern after the largest number is 0.
    small, large = (np.abs(each.astype(np.promote_types(np.float64, _wide(each.dtype)))) for each in (before, after))
    found: NDArray[np.bool_] = np.isfinite(large) & ((large > small) == away)
    return found


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def _neighbours(values: NDArray[Any], away: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the next number away from zero where `away`, else the next one toward zero, in the values' dtype."""
    if values.dtype.itemsize > 8:
        outward = np.copysign(np.inf, values)
        further: NDArray[Any] = np.nextafter(values, np.where(away, outward, 0).astype(values.dtype))
        return further
    # All other formats have their sign in the first bit, and magnitudes in the order of their bits.
    bits = values.view(f"u{values.dtype.itemsize}")
    moved: NDArray[Any] = np.where(away, bits + bits.dtype.type(1), bits - bits.dtype.type(1)).view(values.dtype)
    return moved
