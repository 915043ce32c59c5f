"""In which order are hypotheses tried?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from precreg.diagnose.places import PlaceKey, SourcePlace
from precreg.diagnose.rewrites.edges import input_hypotheses, output_hypotheses, param_hypotheses
from precreg.diagnose.rewrites.hypothesis import Hypothesis, Params
from precreg.diagnose.rewrites.operations import PlaceRewrites
from precreg.run import Arrays

# Rewrites of places that a change touched come before all others, which have ranks from 0 to 9.
_TOUCHED = -10


def all_hypotheses(
    of_places: Iterable[Hypothesis],
    inputs: Arrays,
    params: Params,
    outputs: Arrays,
    is_touched: Callable[[PlaceKey], bool] = lambda _: False,
    located: Iterable[Hypothesis] = (),
) -> list[Hypothesis]:
    """Return the rewrites of places, inputs, params and outputs, those of the lowest rank first.

    `located` are those of the parts of arrays that errors touch. Within a rank, places are in the order of execution.
    """
    found = [
        *input_hypotheses(inputs),
        *param_hypotheses(params),
        *(_ranked(each, is_touched) for each in (*of_places, *located)),
        *output_hypotheses(outputs),
    ]
    return sorted(found, key=lambda each: each.rank)


def _ranked(hypothesis: Hypothesis, is_touched: Callable[[PlaceKey], bool]) -> Hypothesis:
    touched = any(map(is_touched, hypothesis.keys))
    return hypothesis._replace(rank=hypothesis.rank + _TOUCHED) if touched else hypothesis


def place_hypotheses(place: SourcePlace, inputs: Arrays) -> list[Hypothesis]:
    """Return every rewrite of an operation of numpy; an input may take the place of an operand."""
    return list(PlaceRewrites(place, inputs).all())
