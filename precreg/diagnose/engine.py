"""Who runs a computation with its operations altered?

An engine notes the operations of a computation, and runs it again with rewrites in place. Computations whose operations
nobody sees, such as programs, have inputs, params and outputs alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from precreg.arithmetic.devices import Arithmetic
from precreg.diagnose.created_arrays import created_arrays_watched
from precreg.diagnose.locations import ErrorLocation
from precreg.diagnose.places import ComputedPlace, PlacedLayer, PlaceKey, PlaceRecorder, SourcePlace
from precreg.diagnose.rewrites import (
    Hypothesis,
    Params,
    group_hypotheses,
    index_hypotheses,
    located_hypotheses,
    place_hypotheses,
)
from precreg.run import Arrays

# Runs a computation on inputs and params, by an arithmetic or by none.
RunOnArrays = Callable[[Arrays, Params, Arithmetic | None], Arrays]


class Rewriting(Protocol):
    """Run a computation with rewrites of its operations."""

    def record(self, inputs: Arrays, params: Params) -> tuple[Arrays, Mapping[PlaceKey, ComputedPlace]]:
        """Return the outputs, and the places in the order of their first execution."""

    def run(self, inputs: Arrays, params: Params, hypotheses: Sequence[Hypothesis]) -> Arrays:
        """Return the outputs with the operations of all hypotheses altered."""

    def hypotheses(
        self, places: Iterable[ComputedPlace], inputs: Arrays, locations: Sequence[ErrorLocation]
    ) -> list[Hypothesis]:
        """Return every rewrite of every place; `locations` are the parts of axes that errors touch."""


class ArrayRewriting(NamedTuple):
    """Run a Python function on simulated arrays, whose operations an arithmetic computes.

    A function may also compute with torch, whose operators are rewritten, too.
    """

    compute: RunOnArrays
    arithmetic: Arithmetic

    def record(self, inputs: Arrays, params: Params) -> tuple[Arrays, Mapping[PlaceKey, ComputedPlace]]:
        """Return the outputs and the places."""
        had_torch = _has_torch()
        recorder = PlaceRecorder(self.arithmetic)
        with np.errstate(all="ignore"), created_arrays_watched(recorder), _operators_rewritten(()) as operators:
            outputs = self.compute(inputs, params, recorder)
        # The function itself imported torch, so its operators ran unseen.
        if _has_torch() and not had_torch:
            return self.record(inputs, params)
        return outputs, {**recorder.places, **operators}

    def run(self, inputs: Arrays, params: Params, hypotheses: Sequence[Hypothesis]) -> Arrays:
        """Return the outputs of altered operations."""
        arithmetic = self.arithmetic
        for each in hypotheses:
            if each.layer is not None:
                arithmetic = PlacedLayer(arithmetic, each.layer, frozenset(each.keys))
        with created_arrays_watched(arithmetic), _operators_rewritten(hypotheses):
            return self.compute(inputs, params, arithmetic)

    def hypotheses(
        self, places: Iterable[ComputedPlace], inputs: Arrays, locations: Sequence[ErrorLocation]
    ) -> list[Hypothesis]:
        """Return every rewrite of every place; `locations` are the parts of axes that errors touch."""
        places = [*places]
        known = [place for place in places if isinstance(place, SourcePlace)]
        found = [each for place in known for each in place_hypotheses(place, inputs)]
        if len(known) < len(places):
            from precreg.diagnose.torch import operator_hypotheses

            found += operator_hypotheses(places)
        located = located_hypotheses(known, {}, {}, locations)
        return [*found, *group_hypotheses(known), *located, *index_hypotheses(known)]


def _has_torch() -> bool:
    return "torch" in sys.modules


@contextmanager
def _operators_rewritten(hypotheses: Sequence[Hypothesis]) -> Iterator[Mapping[PlaceKey, ComputedPlace]]:
    """Alter operators of torch inside if the process has torch, and give their places."""
    if not _has_torch():
        yield {}
        return
    from precreg.diagnose.torch import operators_rewritten

    with operators_rewritten(hypotheses) as places:
        yield places


class PlainRewriting(NamedTuple):
    """Run a computation whose operations nobody sees."""

    compute: RunOnArrays

    def record(self, inputs: Arrays, params: Params) -> tuple[Arrays, Mapping[PlaceKey, ComputedPlace]]:
        """Return the outputs, and no place."""
        return self.compute(inputs, params, None), {}

    def run(self, inputs: Arrays, params: Params, hypotheses: Sequence[Hypothesis]) -> Arrays:
        """Return the outputs."""
        return self.compute(inputs, params, None)

    def hypotheses(
        self, places: Iterable[ComputedPlace], inputs: Arrays, locations: Sequence[ErrorLocation]
    ) -> list[Hypothesis]:
        """Return no rewrite."""
        return []
