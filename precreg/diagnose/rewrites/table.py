"""In which order are hypotheses tried?"""

from __future__ import annotations

from collections.abc import Iterable

from precreg.diagnose.places import Place
from precreg.diagnose.rewrites.edges import input_hypotheses, output_hypotheses, param_hypotheses
from precreg.diagnose.rewrites.hypothesis import Hypothesis, Params
from precreg.diagnose.rewrites.operations import PlaceRewrites
from precreg.run import Arrays


def all_hypotheses(places: Iterable[Place], inputs: Arrays, params: Params, outputs: Arrays) -> list[Hypothesis]:
    """Return every rewrite at every place, those of the lowest rank first, and within a rank in order of execution."""
    found = [
        *input_hypotheses(inputs),
        *param_hypotheses(params),
        *(each for place in places for each in PlaceRewrites(place).all()),
        *output_hypotheses(outputs),
    ]
    return sorted(found, key=lambda each: each.rank)
