"""Which candidates for large errors does each strategy propose?

A strategy is a generator: it yields the parts of all trials of one call, and receives their scores. All randomness is
that of the search, so that a seed and a number of trials determine every candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from math import log2, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import Format, round_to, ulp
from precreg.diagnose.worst_inputs.domain import Domain, Ordinals, Values
from precreg.diagnose.worst_inputs.evaluation import Errors

# The parts of the searched inputs by name, each (trials, elements of a part).
Parts = dict[str, Values]


class Scores(NamedTuple):
    """The largest error of each trial, and the exact outputs of each trial by output element, in float64.

    `exact` is None where the call failed. `format` is that of the first real output.
    """

    errors: Errors
    exact: NDArray[np.float64] | None
    format: Format


class Candidates(NamedTuple):
    """The parts of one call, and the number of its trials that count: the rest fills the arrays."""

    parts: Parts
    counted: int


Strategy = Generator[Candidates, Scores, None]


class Space(NamedTuple):
    """The domains of the searched inputs, the elements of a part of each, and the number of trials of one call."""

    domains: tuple[Domain, ...]
    sizes: tuple[int, ...]
    trials: int

    @property
    def is_scalar(self) -> bool:
        """Return whether each part has one element: a trial of an elementwise operation."""
        return all(size == 1 for size in self.sizes)

    @property
    def bits(self) -> float:
        """Return log2 of the number of different trials."""
        return sum(size * log2(domain.size) for domain, size in zip(self.domains, self.sizes, strict=True))

    def draw(self, generator: np.random.Generator) -> Parts:
        """Return parts whose elements have uniform ordinals, or in half of the trials uniform values."""
        evenly = generator.random((self.trials, 1)) < 0.5

        def fill(domain: Domain, shape: tuple[int, int]) -> Values:
            return np.where(evenly, domain.draw_evenly(generator, shape), domain.draw(generator, shape))

        return self.make(fill)

    def make(self, fill: Callable[[Domain, tuple[int, int]], Values]) -> Parts:
        """Return the parts that a function makes of each domain and shape."""
        pairs = zip(self.domains, self.sizes, strict=True)
        return {domain.name: fill(domain, (self.trials, size)) for domain, size in pairs}


# All values of 16 bits are tried one by one: one input of float16 or bfloat16, or two of 8 bits.
MAX_EXHAUSTIVE_BITS = 16.0


def can_exhaust(space: Space) -> bool:
    """Return whether a search can try all combinations of values."""
    return space.bits <= MAX_EXHAUSTIVE_BITS


def exhaust(space: Space) -> Strategy:
    """Propose all combinations of values of the domains once."""
    slots = [domain for domain, size in zip(space.domains, space.sizes, strict=True) for _ in range(size)]
    return _combinations(space, [_all_values(domain) for domain in slots])


def _combinations(space: Space, choices: list[Values]) -> Strategy:
    """Propose all combinations of the values that each element may have."""
    lengths = tuple(map(len, choices))
    total = prod(lengths)
    for start in range(0, total, space.trials):
        numbers = np.arange(start, min(start + space.trials, total))
        indices = np.unravel_index(np.resize(numbers, space.trials), lengths)
        columns = [values[index] for values, index in zip(choices, indices, strict=True)]
        yield Candidates(_gather(space, columns), len(numbers))


def _gather(space: Space, columns: list[Values]) -> Parts:
    """Return the parts whose elements are given column by column."""
    rest = iter(columns)
    pairs = zip(space.domains, space.sizes, strict=True)
    return {domain.name: np.stack([next(rest) for _ in range(size)], axis=1) for domain, size in pairs}


def _all_values(domain: Domain) -> Values:
    ordinals = np.arange(domain.low, domain.high + 1)
    values = domain.values(ordinals[np.abs(ordinals) >= domain.least])
    return _distinct(np.concatenate([values, _zeros(domain), _beyond(domain)]))


def _zeros(domain: Domain) -> Values:
    has_zero = domain.low <= 0 <= domain.high and not domain.least
    zeros = [0.0, -0.0] if domain.format.negative_zero else [0.0]
    return np.array(zeros if has_zero else [], np.float64).astype(domain.dtype)


def _beyond(domain: Domain) -> Values:
    return np.array(domain.special, np.float64).astype(domain.dtype)


def _distinct(values: Values) -> Values:
    """Return the values with different bits, in order."""
    _, first = np.unique(values.view(f"u{values.dtype.itemsize}"), return_index=True)
    return values[np.sort(first)]


def edge_values(domain: Domain) -> Values:
    """Return the values of a domain at the edges of its format: zeros, subnormals, powers of two, ends, neighbours."""
    format = domain.format
    powers = 2.0 ** np.arange(format.min_exponent - format.precision + 1, format.max_exponent + 1)
    magnitudes = domain.ordinals(np.concatenate([powers, [1.0, format.largest]]).astype(domain.dtype))
    around = np.concatenate([magnitudes - 1, magnitudes, magnitudes + 1])
    around = around[(around > 0) & (around <= magnitudes[-1])]
    ends = np.arange(3)
    ordinals = np.concatenate([around, -around, domain.low + ends, domain.high - ends])
    inside = (ordinals >= domain.low) & (ordinals <= domain.high) & (np.abs(ordinals) >= domain.least)
    return _distinct(np.concatenate([_zeros(domain), domain.values(ordinals[inside]), _beyond(domain)]))


# Combinations of edge values that are tried one by one; of more, as many are drawn.
_MAX_EDGES = 2**17


def special_values_first(space: Space, generator: np.random.Generator) -> Strategy:
    """Propose edge values: all combinations of scalar trials; else constant parts, and parts with some edge values."""
    edges = {domain.name: edge_values(domain) for domain in space.domains}
    if space.is_scalar and prod(map(len, edges.values())) <= _MAX_EDGES:
        yield from _combinations(space, [*edges.values()])
        return
    longest = max(map(len, edges.values()))
    for number in range(max(4, -(-4 * longest // space.trials))):
        shares = (1.0, 1.0, 0.5, 0.1)[number % 4]
        is_constant = number % 4 == 0

        def fill(domain: Domain, shape: tuple[int, int], share: float = shares, same: bool = is_constant) -> Values:
            drawn = generator.choice(edges[domain.name], (shape[0], 1) if same else shape)
            return np.where(generator.random(shape) < share, drawn, domain.draw(generator, shape))

        yield Candidates(space.make(fill), space.trials)


def sweep_exponents(space: Space, generator: np.random.Generator) -> Strategy:
    """Propose numbers of all binades; every second time the elements of a part have similar exponents."""

    def fill(domain: Domain, shape: tuple[int, int]) -> Values:
        centre = domain.draw(generator, (shape[0], 1)).astype(np.float64)
        spread = generator.choice([0.0, 1.0, 4.0, 16.0], (shape[0], 1))
        signs = np.where(generator.random(shape) < generator.random((shape[0], 1)), -1.0, 1.0)
        return domain.round(signs * centre * 2.0 ** (spread * generator.standard_normal(shape)))

    while True:
        yield Candidates(space.draw(generator), space.trials)
        if not space.is_scalar:
            yield Candidates(space.make(fill), space.trials)


def structured_parts(space: Space, generator: np.random.Generator) -> Strategy:
    """Propose parts that sums, means and norms find hard; each call mixes all structures."""
    while True:

        def fill(domain: Domain, shape: tuple[int, int]) -> Values:
            return domain.round(_structures(generator, domain, shape))

        yield Candidates(space.make(fill), space.trials)


def _structures(generator: np.random.Generator, domain: Domain, shape: tuple[int, int]) -> NDArray[np.float64]:
    rows, length = shape
    scale = np.abs(domain.draw(generator, (rows, 1)).astype(np.float64))
    fractions = generator.random(shape)
    small = 2.0 ** -generator.uniform(1, domain.format.precision + 4, (rows, 1))
    positive = 0.5 + 0.5 * fractions
    large_first = np.where(np.arange(length) == generator.integers(length), 1.0, small * positive)
    magnitudes = 2.0 ** -generator.uniform(0, domain.format.precision, shape)
    choices = np.stack(
        [
            # Equal terms round the same way every time, and stop growing at 1 / unit roundoff.
            np.broadcast_to(0.5 + 0.5 * generator.random((rows, 1)), shape),
            positive,
            np.where(np.arange(length) % 2, -1.0, 1.0) * (1.0 + small * fractions),
            large_first,
            np.sort(magnitudes, axis=1),
            np.sort(magnitudes, axis=1)[:, ::-1],
            # A large mean with a small variation: E[x^2] - E[x]^2 cancels.
            1.0 + small * (fractions - 0.5),
        ]
    )
    kinds = generator.integers(len(choices), size=rows)
    signs = np.where(generator.random((rows, 1)) < 0.5, -1.0, 1.0)
    found: NDArray[np.float64] = signs * scale * choices[kinds, np.arange(rows)]
    return found


def cancelling_parts(space: Space, generator: np.random.Generator) -> Strategy:
    """Propose elements of opposite sign and nearly equal size, within parts and between inputs of one dtype."""
    while True:
        parts = space.draw(generator)
        for domain in space.domains:
            parts[domain.name] = _cancel_within(domain, parts[domain.name], generator)
        if len(space.domains) > 1:
            _cancel_between(space, parts, generator)
        yield Candidates(parts, space.trials)


def _few_steps(generator: np.random.Generator, domain: Domain, shape: tuple[int, ...]) -> Ordinals:
    """Return distances in ordinals, from none to a quarter of the significand, with uniform logarithm."""
    sizes = 2.0 ** generator.uniform(-1, max(1, domain.format.precision - 2), shape)
    return np.where(generator.random(shape) < 0.5, -1, 1) * sizes.astype(np.int64)


def _cancel_within(domain: Domain, part: Values, generator: np.random.Generator) -> Values:
    pairs = part.shape[1] // 2
    if not pairs:
        return part
    first = domain.ordinals(part[:, :pairs])
    opposite = domain.values(-(first + _few_steps(generator, domain, first.shape)))
    found = np.concatenate([part[:, :pairs], opposite, part[:, 2 * pairs :]], axis=1)
    # Half of the rows mix the order, because pairs that are neighbours cancel at once.
    order = np.where(
        generator.random((len(part), 1)) < 0.5, np.arange(part.shape[1]), np.argsort(generator.random(part.shape))
    )
    return domain.admit(np.take_along_axis(found, order, axis=1))


def _cancel_between(space: Space, parts: Parts, generator: np.random.Generator) -> None:
    """Give the second of two inputs of one dtype and size values near the first's, of either sign."""
    first, *others = zip(space.domains, space.sizes, strict=True)
    for domain, size in others:
        if (domain.dtype, size) == (first[0].dtype, first[1]):
            ordinals = domain.ordinals(parts[first[0].name])
            steps = _few_steps(generator, domain, ordinals.shape)
            signs = np.where(generator.random((space.trials, 1)) < 0.5, -1, 1)
            parts[domain.name] = domain.admit(domain.values(signs * (ordinals + steps)))


# Searches for two signs after which an output counts as one without zeros.
_MAX_FAILURES = 5


def bisect_to_roots(space: Space, generator: np.random.Generator) -> Strategy:
    """Halve intervals over which the exact output changes its sign: near its zeros relative errors are large."""
    width = max(domain.bits for domain in space.domains)
    failures = 0
    while failures < _MAX_FAILURES:
        batches: list[tuple[Parts, NDArray[np.float64]]] = []
        # Two calls are enough for many trials; one trial a call needs more to see both signs.
        for _ in range(max(2, 16 // space.trials)):
            parts = space.draw(generator)
            scores = yield Candidates(parts, space.trials)
            if scores.exact is not None:
                batches.append((parts, scores.exact))
        ends = _opposite_signs(space, batches, generator)
        failures = failures + 1 if ends is None else 0
        if ends is None:
            continue
        low, high, column = ends
        for _ in range(width):
            middle = {domain.name: domain.admit(domain.values(_between(domain, low, high))) for domain in space.domains}
            scores = yield Candidates(middle, space.trials)
            if scores.exact is None:
                break
            below = (scores.exact[:, column] < 0)[:, np.newaxis]
            for name, values in middle.items():
                low[name] = np.where(below, values, low[name])
                high[name] = np.where(below, high[name], values)


def _between(domain: Domain, low: Parts, high: Parts) -> Ordinals:
    first, second = domain.ordinals(low[domain.name]), domain.ordinals(high[domain.name])
    # Halves first, because the sum of two ordinals of float64 may overflow.
    middle: Ordinals = (first >> 1) + (second >> 1) + (first & second & 1)
    return middle


def _opposite_signs(
    space: Space, batches: list[tuple[Parts, NDArray[np.float64]]], generator: np.random.Generator
) -> tuple[Parts, Parts, int] | None:
    """Return trials with negative and with positive exact outputs, and the output element; None without both."""
    if not batches:
        return None
    exact = np.concatenate([each for _, each in batches])
    column = int(generator.integers(exact.shape[1]))
    negative, positive = np.flatnonzero(exact[:, column] < 0), np.flatnonzero(exact[:, column] > 0)
    if not (negative.size and positive.size):
        return None
    joined = {domain.name: np.concatenate([parts[domain.name] for parts, _ in batches]) for domain in space.domains}
    order = _nearest_pairs(space, joined, negative, positive, generator)
    low, high = ({name: values[chosen] for name, values in joined.items()} for chosen in order)
    return low, high, column


def _nearest_pairs(
    space: Space,
    joined: Parts,
    negative: NDArray[np.intp],
    positive: NDArray[np.intp],
    generator: np.random.Generator,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pair trials of opposite signs: neighbours on the line if a trial is one number, so that all roots are found."""
    first = generator.choice(negative, space.trials)
    if not (space.is_scalar and len(space.domains) == 1):
        return first, generator.choice(positive, space.trials)
    domain = space.domains[0]
    ordinals = domain.ordinals(joined[domain.name])[:, 0]
    sorted_positive = positive[np.argsort(ordinals[positive])]
    place = np.searchsorted(ordinals[sorted_positive], ordinals[first])
    return first, sorted_positive[np.clip(place, 0, len(positive) - 1)]


def step_to_ties(space: Space, generator: np.random.Generator) -> Strategy:
    """Move one element of each trial so that the exact output comes to the middle of two numbers of its format.

    The slope of the output between two near inputs leads there. The neighbours of the result are tried, too.
    """
    while True:
        domain, size = _choose_input(space, generator)
        element = generator.integers(size, size=space.trials)
        parts = space.draw(generator)
        start = yield Candidates(parts, space.trials)
        if start.exact is None:
            continue
        column = int(generator.integers(start.exact.shape[1]))
        distance = 2 ** generator.integers(0, max(1, domain.format.precision // 2), size=space.trials)
        other = yield Candidates(_moved(domain, parts, element, distance), space.trials)
        if other.exact is None:
            continue
        steps = _steps_to_tie(start.exact[:, column], other.exact[:, column], distance, start.format)
        for neighbour in (0, -1, 1):
            yield Candidates(_moved(domain, parts, element, steps + neighbour), space.trials)


def _moved(domain: Domain, parts: Parts, element: NDArray[np.int64], steps: Ordinals) -> Parts:
    """Return the parts with one element of each moved by so many ordinals."""
    values = np.array(parts[domain.name])
    rows = np.arange(len(values))
    ordinals = np.clip(domain.ordinals(values)[rows, element] + steps, domain.low, domain.high)
    values[rows, element] = domain.admit(domain.values(ordinals))
    return {**parts, domain.name: values}


def _choose_input(space: Space, generator: np.random.Generator) -> tuple[Domain, int]:
    number = int(generator.integers(len(space.domains)))
    return space.domains[number], space.sizes[number]


@np.errstate(all="ignore")
def _steps_to_tie(
    start: NDArray[np.float64], other: NDArray[np.float64], distance: Ordinals, format: Format
) -> Ordinals:
    """Return the steps in ordinals to the nearest midpoint of two outputs, by the secant."""
    slope = (other - start) / distance
    spacing = ulp(start, format)
    lower = round_to(start, format)
    lower = np.where(lower > start, lower - spacing, lower)
    steps = (lower + spacing / 2 - start) / slope
    # A step beyond the straight part of the curve leads nowhere near a tie.
    usable = np.isfinite(steps) & (np.abs(steps) < 2.0**format.precision)
    return np.where(usable, steps, 0.0).round().astype(np.int64)
