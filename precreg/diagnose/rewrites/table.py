"""In which order are hypotheses tried?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from precreg.diagnose.places import Place
from precreg.diagnose.rewrites.edges import input_hypotheses, output_hypotheses, param_hypotheses
from precreg.diagnose.rewrites.hypothesis import Hypothesis, Params
from precreg.diagnose.rewrites.operations import PlaceRewrites
from precreg.run import Arrays

# Rewrites of places that a change touched come before all others, which have ranks from 0 to 9.
_TOUCHED = -10


def all_hypotheses(
    places: Iterable[Place],
    inputs: Arrays,
    params: Params,
    outputs: Arrays,
    is_touched: Callable[[Place], bool] = lambda _: False,
) -> list[Hypothesis]:
    """Return every rewrite at every place, those of the lowest rank first, and within a rank in order of execution."""
    found = [
        *input_hypotheses(inputs),
        *param_hypotheses(params),
        *(each for place in places for each in _of_place(place, is_touched(place))),
        *output_hypotheses(outputs),
    ]
    return sorted(found, key=lambda each: each.rank)


def _of_place(place: Place, is_touched: bool) -> list[Hypothesis]:
    found = PlaceRewrites(place).all()
    return [each._replace(rank=each.rank + _TOUCHED) for each in found] if is_touched else list(found)
