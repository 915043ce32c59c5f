"""In which order are hypotheses tried?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from precreg.arithmetic.devices import is_floating
from precreg.diagnose.places import PlaceKey, SourcePlace
from precreg.diagnose.rewrites.edges import input_hypotheses, output_hypotheses, param_hypotheses
from precreg.diagnose.rewrites.hypothesis import Hypothesis, Params
from precreg.diagnose.rewrites.operations import PlaceRewrites, narrower_together
from precreg.run import Arrays

# Rewrites of places that a change touched come before all others, which have ranks from 0 to 9.
_TOUCHED = -10
_INDIRECT = 3


def all_hypotheses(
    of_places: Iterable[Hypothesis],
    inputs: Arrays,
    params: Params,
    outputs: Arrays,
    is_touched: Callable[[PlaceKey], bool] = lambda _: False,
    located: Iterable[Hypothesis] = (),
    *,
    is_changed: bool = False,
) -> list[Hypothesis]:
    """Return the rewrites of places, inputs, params and outputs, the lowest rank first.

    `located` are those of the parts of arrays that errors touch. `is_changed` is true if the code of a place changed.
    Within a rank, places are in the order of execution.
    """
    # The code changed: a rewrite of an input or an output is an indirect description of it.
    later = _INDIRECT if is_changed else 0
    found = [
        *(_later(each, later) for each in input_hypotheses(inputs)),
        *param_hypotheses(params),
        *(_ranked(each, is_touched) for each in (*of_places, *located)),
        *(_later(each, later) for each in output_hypotheses(outputs)),
    ]
    return sorted(found, key=lambda each: each.rank)


def _later(hypothesis: Hypothesis, by: int) -> Hypothesis:
    # A cast of an input is the most frequent cause, wherever the change is.
    return hypothesis if hypothesis.rewrite == "hop" else hypothesis._replace(rank=hypothesis.rank + by)


def _ranked(hypothesis: Hypothesis, is_touched: Callable[[PlaceKey], bool]) -> Hypothesis:
    touched = any(map(is_touched, hypothesis.keys))
    return hypothesis._replace(rank=hypothesis.rank + _TOUCHED) if touched else hypothesis


def place_hypotheses(place: SourcePlace, inputs: Arrays) -> list[Hypothesis]:
    """Return every rewrite of an operation of numpy; an input may take the place of an operand."""
    return list(PlaceRewrites(place, inputs).all())


def group_hypotheses(places: Sequence[SourcePlace]) -> Iterator[Hypothesis]:
    """Yield narrower computations of all operations of one expression, and of one line.

    numpy.mean with a dtype adds and divides in it, and so does a line of casts.
    """
    groups: dict[tuple[object, ...], list[SourcePlace]] = {}
    for place in places:
        if is_floating(place.dtype):
            key = place.key
            groups.setdefault((key.file, key.line, key.column, key.end_line, key.end_column), []).append(place)
            groups.setdefault((key.file, key.line), []).append(place)
    for group in groups.values():
        if len(group) > 1:
            yield from narrower_together(group)
