"""What is changed: an operator as it is, what it should compute, and changes that somebody could make to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Compute = Callable[..., Array]
Draw = Callable[[np.random.Generator], tuple[Array, ...]]


class Operator(NamedTuple):
    """An implementation with its changes, by what is changed.

    `draw` gives the inputs, in the dtype in which they are stored; `exact` computes from them in a wider type,
    `original` and the changes in the operator's own. In which mapping a change stands is what its author expects of
    it; labels are measured and know nothing of that.

    `null` names the harmless changes that are as accurate as the original by construction: a null control. There, a
    change of the inputs that leaves their distribution as it is (another order of terms that are drawn alike, a
    reflection, a quarter turn) makes one implementation the other. So errors have the same distribution in the two,
    and every alarm is a false one, whatever label was measured.
    """

    name: str
    draw: Draw
    exact: Compute
    original: Compute
    harmful: Mapping[str, Compute]
    harmless: Mapping[str, Compute]
    null: frozenset[str] = frozenset()

    def changes(self) -> dict[str, Compute]:
        """Return every change by its name."""
        return {**self.harmful, **self.harmless}

    def inputs(self, seed: int) -> tuple[Array, ...]:
        """Draw the inputs of a seed: other operators draw others."""
        return self.draw(np.random.default_rng([seed, *self.name.encode()]))
