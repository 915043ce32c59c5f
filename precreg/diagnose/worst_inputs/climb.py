"""How do zooming into intervals and hill-climbing on bits raise the error of a trial?

A zoom halves boxes of scalar inputs and keeps those with the largest errors. In a climb each trial of a call is a
climber: a step changes one of its parts, and is kept unless the error falls.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.diagnose.worst_inputs.domain import Domain, Ordinals, Values
from precreg.diagnose.worst_inputs.evaluation import Errors
from precreg.diagnose.worst_inputs.strategies import Candidates, Parts, Scores, Space, Strategy

# Steps without a larger error after which a climber starts again at another input.
PATIENCE = 150


class Elite:
    """The trials with the largest errors so far, without two of the same bits."""

    def __init__(self, capacity: int) -> None:
        """Keep at most so many trials."""
        self.capacity = capacity
        self._found: dict[bytes, tuple[float, Parts]] = {}
        self._least = 0.0

    def add(self, parts: Parts, errors: Errors) -> None:
        """Take the trials whose errors are among the largest."""
        wanted = np.flatnonzero(errors > self._least)
        # Of many equal ones a few are enough.
        for trial in wanted[np.argsort(-errors[wanted], kind="stable")][: self.capacity]:
            own = {name: values[trial].copy() for name, values in parts.items()}
            key = b"".join(values.tobytes() for values in own.values())
            self._found.setdefault(key, (float(errors[trial]), own))
        if len(self._found) > self.capacity:
            ranked = sorted(self._found.items(), key=lambda item: -item[1][0])[: self.capacity]
            self._found = dict(ranked)
            self._least = ranked[-1][1][0]

    def ranked(self) -> list[tuple[float, Parts]]:
        """Return errors and parts, the largest error first."""
        return sorted(self._found.values(), key=lambda item: -item[0])


def climb(space: Space, generator: np.random.Generator, elite: Elite) -> Strategy:
    """Propose changed trials for ever: half of the climbers start from the elite, half from draws of all binades."""
    state = _starts(space, generator, elite)
    scores = yield Candidates(state, space.trials)
    errors, waited = scores.errors, np.zeros(space.trials, np.int64)
    while True:
        tried = mutate(space, state, generator)
        scores = yield Candidates(tried, space.trials)
        # Equal errors are kept, too: a plateau can be crossed.
        kept = scores.errors >= errors
        waited = np.where(scores.errors > errors, 0, waited + 1)
        errors = np.where(kept, scores.errors, errors)
        state = _replace(state, tried, kept)
        stuck = waited > PATIENCE
        if stuck.any():
            state = _replace(state, _starts(space, generator, elite), stuck)
            # The next step of a new climber counts as progress, whatever its error.
            errors, waited = np.where(stuck, -1.0, errors), np.where(stuck, 0, waited)


def _replace(old: Parts, new: Parts, chosen: np.ndarray) -> Parts:
    return {name: np.where(chosen[:, np.newaxis], new[name], values) for name, values in old.items()}


def _starts(space: Space, generator: np.random.Generator, elite: Elite) -> Parts:
    drawn = space.draw(generator)
    ranked = elite.ranked()
    if not ranked:
        return drawn
    # The square of a uniform number prefers the largest errors.
    ranks = (len(ranked) * generator.random(space.trials) ** 2).astype(np.int64)
    best = {name: np.stack([ranked[rank][1][name] for rank in ranks]) for name in drawn}
    return _replace(drawn, best, generator.random(space.trials) < 0.5 if space.trials > 1 else np.array([True]))


def mutate(space: Space, state: Parts, generator: np.random.Generator) -> Parts:
    """Return the parts with some elements of one input changed in each trial."""
    chosen = generator.integers(len(space.domains), size=space.trials)
    found = {}
    for number, domain in enumerate(space.domains):
        values = state[domain.name]
        changed = _changed(domain, values, generator)
        found[domain.name] = np.where((chosen == number)[:, np.newaxis], changed, values)
    return found


def _changed(domain: Domain, values: Values, generator: np.random.Generator) -> Values:
    """Return the values with some elements changed, each row in one way."""
    rows, length = values.shape
    touched = np.zeros((rows, length), bool)
    touched[np.arange(rows), generator.integers(length, size=rows)] = True
    if length > 1:
        # Mostly one element, sometimes several.
        share = np.where(generator.random((rows, 1)) < 0.8, 0.0, generator.random((rows, 1)))
        touched |= generator.random((rows, length)) < share
    ways, weights = (_WAYS, _WEIGHTS) if length > 1 else (_WAYS[:3], _SCALAR_WEIGHTS)
    kinds = generator.choice(len(ways), size=rows, p=weights)
    made = np.array(values)
    for kind, way in enumerate(ways):
        chosen = np.flatnonzero(kinds == kind)
        if chosen.size:
            made[chosen] = domain.values(_within(domain, way(domain, values[chosen], generator)))
    return np.where(touched, domain.admit(made), values)


def _flip(domain: Domain, values: Values, generator: np.random.Generator) -> Ordinals:
    patterns = values.view(f"u{domain.dtype.itemsize}").astype(np.uint64)
    bits = generator.integers(domain.bits, size=values.shape).astype(np.uint64)
    return domain.ordinals(domain.admit(domain.patterns(patterns ^ (np.uint64(1) << bits))))


def _step(domain: Domain, values: Values, generator: np.random.Generator) -> Ordinals:
    """Move by powers of two up to a few binades, in both directions."""
    sizes = np.int64(1) << generator.integers(domain.format.precision + 2, size=values.shape)
    return domain.ordinals(values) + np.where(generator.random(values.shape) < 0.5, -sizes, sizes)


def _redraw(domain: Domain, values: Values, generator: np.random.Generator) -> Ordinals:
    return domain.ordinals(domain.draw(generator, values.shape))


def _copy_other(domain: Domain, values: Values, generator: np.random.Generator) -> Ordinals:
    """Take the number of another element: equal terms round equally."""
    chosen = generator.integers(values.shape[1], size=values.shape)
    return np.take_along_axis(domain.ordinals(values), chosen, axis=1)


def _oppose_other(domain: Domain, values: Values, generator: np.random.Generator) -> Ordinals:
    """Take nearly the negative of another element: such terms cancel."""
    opposite = domain.values(-_copy_other(domain, values, generator))
    return _step(domain, opposite, generator)


# The last two need a second element.
_WAYS = (_flip, _step, _redraw, _copy_other, _oppose_other)
_WEIGHTS = (0.35, 0.3, 0.1, 0.1, 0.15)
_SCALAR_WEIGHTS = (0.45, 0.45, 0.1)


def _within(domain: Domain, ordinals: Ordinals) -> Ordinals:
    # Sums of ordinals may leave the bits of the format.
    return np.clip(ordinals, domain.low, domain.high)


class _Boxes(NamedTuple):
    """Boxes of scalar inputs: the lowest ordinals and the spans, each (boxes, domains)."""

    low: Ordinals
    # Floats, because the span of all numbers of float64 does not fit into an int64.
    span: NDArray[np.float64]

    def draw(self, generator: np.random.Generator) -> Ordinals:
        """Return one point of each box."""
        offset = (generator.random(self.span.shape) * self.span).astype(np.uint64)
        # Unsigned sums wrap around to the right ordinal.
        return (self.low.view(np.uint64) + offset).view(np.int64)

    def halve(self, chosen: NDArray[np.intp], points: Ordinals, generator: np.random.Generator) -> _Boxes:
        """Return a box within each of the chosen ones, with half of its spans: every second one has its point."""
        low, span = self.low[chosen], self.span[chosen]
        before = (points.view(np.uint64) - low.view(np.uint64)).astype(np.float64)
        # The box has the point if it begins before it, and by at most half of the span.
        least, most = np.maximum(before - span / 2, 0.0), np.minimum(before, span / 2)
        around = least + generator.random(span.shape) * (most - least)
        anywhere = generator.random(span.shape) * span / 2
        offset = np.where(np.arange(len(chosen))[:, np.newaxis] % 2, around, anywhere).astype(np.uint64)
        return _Boxes((low.view(np.uint64) + offset).view(np.int64), span / 2)


# Points that are drawn in each box before the next halving, and the share of the boxes that are kept.
_POINTS, _KEPT = 12, 0.25


def _count_boxes(space: Space) -> int:
    """Return the number of boxes of a zoom: less for few trials a call, so that a zoom ends within the budget."""
    return min(1024, max(64, 4 * space.trials))


def zoom(space: Space, generator: np.random.Generator) -> Strategy:
    """Propose points of boxes that shrink around large errors, for trials of one element per input.

    Errors of functions are smooth curves with rounding noise: the largest ones are near other large ones.
    """
    for turn in count():
        boxes, by_mean = _first_boxes(space, generator, by_value=turn % 2 == 1), turn % 4 >= 2
        while float(boxes.span.max()) >= 1.0:
            points = np.stack([boxes.draw(generator) for _ in range(_POINTS)])
            errors = yield from _score_points(space, points.reshape(-1, len(space.domains)))
            by_box = np.where(np.isfinite(errors), errors, 0.0).reshape(_POINTS, -1)
            # The mean follows the curve, and the maximum its luckiest roundings.
            ranked = np.argsort(-(by_box.mean(axis=0) if by_mean else by_box.max(axis=0)), kind="stable")
            # Repeated as often as they fill the boxes again.
            chosen = np.repeat(ranked[: int(len(ranked) * _KEPT)], int(1 / _KEPT))
            boxes = boxes.halve(chosen, points[by_box.argmax(axis=0), np.arange(len(ranked))][chosen], generator)


def _first_boxes(space: Space, generator: np.random.Generator, *, by_value: bool) -> _Boxes:
    """Return boxes that cover the domain of one input in parts of equal ordinals or values; of several, all of it."""
    first, *others = space.domains
    if others:
        return _random_boxes(space, generator, by_value=by_value)
    boxes = _count_boxes(space)
    if by_value:
        # Functions that oscillate have most of their periods among the largest numbers.
        ends = first.values(np.array([first.low, first.high])).astype(np.float64)
        shares = np.linspace(0.0, 1.0, boxes + 1)
        edges = first.ordinals(first.round(ends[0] * (1.0 - shares) + ends[1] * shares))
        return _Boxes(edges[:-1, np.newaxis], np.diff(edges.astype(np.float64))[:, np.newaxis] + 1.0)
    span = float(first.high - first.low + 1) / boxes
    starts = (np.arange(boxes) * span).astype(np.uint64)
    low = (np.array([first.low], np.int64).view(np.uint64) + starts).view(np.int64)
    return _Boxes(low[:, np.newaxis], np.full((boxes, 1), span))


def _random_boxes(space: Space, generator: np.random.Generator, *, by_value: bool) -> _Boxes:
    """Return boxes between two points that are drawn for each."""
    shape = (_count_boxes(space), 2)
    draws = [(domain.draw_evenly if by_value else domain.draw)(generator, shape) for domain in space.domains]
    ends = np.stack([domain.ordinals(values) for domain, values in zip(space.domains, draws, strict=True)], axis=1)
    low, high = ends.min(axis=2), ends.max(axis=2)
    return _Boxes(low, (high.view(np.uint64) - low.view(np.uint64)).astype(np.float64) + 1.0)


def _score_points(space: Space, points: Ordinals) -> Generator[Candidates, Scores, Errors]:
    """Propose points in as many calls as they need, and return their errors."""
    found = []
    for start in range(0, len(points), space.trials):
        part = points[start : start + space.trials]
        filled = part[np.arange(space.trials) % len(part)]
        parts = {
            domain.name: domain.admit(domain.values(np.clip(filled[:, [number]], domain.low, domain.high)))
            for number, domain in enumerate(space.domains)
        }
        scores = yield Candidates(parts, len(part))
        found.append(scores.errors[: len(part)])
    return np.concatenate(found)
