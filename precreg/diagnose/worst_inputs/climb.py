"""How does hill-climbing on bits raise the error of a trial?

Each trial of a call is a climber of its own. A step changes one of its parts, and is kept unless the error falls.
"""

from __future__ import annotations

import numpy as np

from precreg.diagnose.worst_inputs.domain import Domain, Ordinals, Values
from precreg.diagnose.worst_inputs.evaluation import Errors
from precreg.diagnose.worst_inputs.strategies import Parts, Proposal, Scores, Space, Strategy

# Steps without a larger error after which a climber starts elsewhere.
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
    scores = yield Proposal(state, space.trials)
    errors, waited = scores.errors, np.zeros(space.trials, np.int64)
    while True:
        tried = mutate(space, state, generator)
        scores = yield Proposal(tried, space.trials)
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
    rows, length = values.shape
    # Mostly one element, sometimes several.
    share = np.where(generator.random((rows, 1)) < 0.8, 0.0, generator.random((rows, 1)))
    touched = generator.random((rows, length)) < share
    touched[np.arange(rows), generator.integers(length, size=rows)] = True
    ordinals = domain.ordinals(values)
    other = np.take_along_axis(ordinals, generator.integers(length, size=(rows, length)), axis=1)
    options = [
        domain.ordinals(_flipped(domain, values, generator)),
        ordinals + _steps(domain, (rows, length), generator),
        domain.ordinals(domain.draw(generator, (rows, length))),
        # Another element's number, or its negative with a few steps: terms that are equal, or that cancel.
        other,
        -other + _steps(domain, (rows, length), generator),
    ]
    # The last two need a second element.
    kinds = generator.choice(5 if length > 1 else 3, size=(rows, 1), p=_WEIGHTS if length > 1 else _SCALAR_WEIGHTS)
    made = np.choose(kinds, options)
    return np.where(touched, domain.admit(domain.values(_within(domain, made))), values)


_WEIGHTS = (0.35, 0.3, 0.1, 0.1, 0.15)
_SCALAR_WEIGHTS = (0.45, 0.45, 0.1)


def _within(domain: Domain, ordinals: Ordinals) -> Ordinals:
    # Sums of ordinals may leave the bits of the format.
    return np.clip(ordinals, domain.low, domain.high)


def _flipped(domain: Domain, values: Values, generator: np.random.Generator) -> Values:
    patterns = values.view(f"u{domain.dtype.itemsize}").astype(np.uint64)
    bits = generator.integers(domain.bits, size=values.shape).astype(np.uint64)
    return domain.admit(domain.patterns(patterns ^ (np.uint64(1) << bits)))


def _steps(domain: Domain, shape: tuple[int, ...], generator: np.random.Generator) -> Ordinals:
    """Return distances in ordinals of both signs: powers of two up to a few binades."""
    sizes = np.int64(1) << generator.integers(domain.format.precision + 2, size=shape)
    return np.where(generator.random(shape) < 0.5, -sizes, sizes)


def score_of(scores: Scores) -> float:
    """Return the largest error of one call."""
    return float(scores.errors.max(initial=0.0))
