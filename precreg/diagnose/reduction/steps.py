"""Which outputs does a computation have, if some of its operations round and all others are exact?

Each operation has its own error: its result against the exact operation on the same low-precision inputs. An exact run
of the computation that adds the own errors of some operations is the computation in which they alone round. With the
own errors of all operations it has the values of the low-precision run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from precreg.types import Site, TraceEngine

Plain = NDArray[Any]


class ChainStep(NamedTuple):
    """One operation: its name and site, and the names of the values that it reads and makes."""

    name: str
    site: Site
    reads: tuple[str, ...]
    makes: tuple[str, ...]


class Chain(Protocol):
    """The recorded operations of one run, in order, and all of its values by name, in low precision."""

    engine: TraceEngine
    steps: Sequence[ChainStep]
    low: Mapping[str, Any]
    # The names of the values that the computation returned, by output.
    outputs: Mapping[str, str]

    def compute(self, place: int, wide: Mapping[str, Any]) -> Sequence[Any]:
        """Return the results of a step in higher precision; `wide` has the values that it reads."""

    def widen(self, value: Any) -> Any:
        """Return a value in higher precision."""


class ExactRun:
    """The exact values of a chain, and the own error of each step."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        made = {name for step in chain.steps for name in step.makes}
        given = {name: chain.widen(value) for name, value in chain.low.items() if name not in made}
        self._exact: dict[str, Any] = dict(given)
        self._errors: list[list[Any]] = []
        # Steps that nothing computes in higher precision: they have no own error.
        self.unknown: list[int] = []
        for place, step in enumerate(chain.steps):
            low = {name: chain.widen(chain.low[name]) for name in step.reads}
            own = self._computed(place, low)
            self._errors.append([_error(chain.low[name], one) for name, one in zip(step.makes, own, strict=True)])
            is_exact = all(self._exact[name] is given.get(name) for name in step.reads)
            exact = own if is_exact else self._computed(place, {name: self._exact[name] for name in step.reads})
            self._exact |= dict(zip(step.makes, exact, strict=True))

    def _computed(self, place: int, values: Mapping[str, Any]) -> Sequence[Any]:
        step = self._chain.steps[place]
        try:
            found = self._chain.compute(place, values)
        # The code of any library, on values that the low-precision run never had.
        except Exception:
            if place not in self.unknown:
                self.unknown.append(place)
            return [self._chain.widen(self._chain.low[name]) for name in step.makes]
        return found

    def rounding(self) -> list[int]:
        """Return the places of the steps that have an own error."""
        return [place for place, errors in enumerate(self._errors) if any(map(_has_error, errors))]

    def value(self, name: str) -> Any:
        """Return the exact value of a name."""
        return self._exact[name]

    def outputs(self, rounding: Iterable[int] = ()) -> dict[str, Plain]:
        """Return the outputs if the steps at these places round, and all others are exact."""
        chosen, changed = frozenset(rounding), dict[str, Any]()
        for place, step in enumerate(self._chain.steps):
            if any(name in changed for name in step.reads):
                found = self._computed(place, {name: changed.get(name, self._exact[name]) for name in step.reads})
            elif place in chosen:
                found = [self._exact[name] for name in step.makes]
            else:
                continue
            errors = self._errors[place] if place in chosen else [None] * len(found)
            changed |= {
                name: _with_error(value, error, self._chain.low[name])
                for name, value, error in zip(step.makes, found, errors, strict=True)
            }
        return {
            output: np.asarray(changed.get(name, self._exact[name])) for output, name in self._chain.outputs.items()
        }

    def replaced(self, name: str, value: Plain) -> dict[str, Plain]:
        """Return the outputs of the exact computation with another value in the place of a name's."""
        return outputs_after(self._chain, {**self._exact, name: value}, name, self._computed)

    def own_exact(self, names: Iterable[str], places: Iterable[int]) -> dict[str, Plain]:
        """Return the exact values that steps make of the low-precision values at their boundary."""
        values: dict[str, Any] = {}
        for place in sorted(places):
            step = self._chain.steps[place]
            given = {
                name: values[name] if name in values else self._chain.widen(self._chain.low[name])
                for name in step.reads
            }
            values |= dict(zip(step.makes, self._computed(place, given), strict=True))
        return {name: np.asarray(values[name]) for name in names}


class _Error(NamedTuple):
    """The own error of a result. `low` replaces it: all of an integer, and the elements that are not finite."""

    difference: Plain | None
    replaced: Plain | None = None


def _error(low: Any, exact: Any) -> _Error | None:
    if low is None or isinstance(low, list):
        return None
    array, wide = np.asarray(low), np.asarray(exact)
    if array.dtype.kind in "biuOUS" or array.shape != wide.shape:
        is_same = array.shape == wide.shape and np.array_equal(array, wide)
        return None if is_same else _Error(None)
    low_wide = array.astype(np.result_type(wide.dtype, np.float64))
    with np.errstate(all="ignore"):
        same = (low_wide == wide) | ((low_wide != low_wide) & (wide != wide))
        finite = np.isfinite(low_wide) & np.isfinite(wide)
        difference = np.where(same | ~finite, 0, low_wide - wide)
    replaced = ~same & ~finite
    if not difference.any() and not replaced.any():
        return None
    return _Error(difference, replaced if replaced.any() else None)


def _has_error(error: _Error | None) -> bool:
    return error is not None


def _with_error(value: Any, error: _Error | None, low: Any) -> Any:
    if error is None:
        return value
    if error.difference is None:
        return low
    with np.errstate(all="ignore"):
        found = np.asarray(value) + error.difference
    if error.replaced is not None:
        found = np.where(error.replaced, np.asarray(low).astype(found.dtype), found)
    return found


class Boundary(NamedTuple):
    """The values that some steps of a chain read from outside, and those that they make for others, in order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def boundary_of(chain: Chain, places: Iterable[int]) -> Boundary:
    """Return the boundary of the steps at some places."""
    chosen = frozenset(places)
    made = [name for place in sorted(chosen) for name in chain.steps[place].makes]
    reads = dict.fromkeys(name for place in sorted(chosen) for name in chain.steps[place].reads)
    outside = {name for place, step in enumerate(chain.steps) if place not in chosen for name in step.reads}
    wanted = outside | {*chain.outputs.values()}
    return Boundary(tuple(name for name in reads if name not in made), tuple(name for name in made if name in wanted))


class KeptComputation(NamedTuple):
    """The kept operations as a subject, its oracle, and the files of both by their path beside the suite.

    Without an `oracle` the kind's own reference judges. `inputs` are the tensors at the boundary by the names of the
    subject's arguments, and `outputs` are its results by the names of its outputs, with their exact values.
    """

    subject: Any
    oracle: tuple[str, Any] | None
    inputs: Mapping[str, Plain]
    outputs: Mapping[str, Plain]
    exact: Mapping[str, Plain]
    files: Mapping[str, bytes]


class RecordedChain(NamedTuple):
    """A chain, and the function that writes the steps at some places as a computation under a name."""

    chain: Chain
    keep: Callable[[ExactRun, Sequence[int], str], KeptComputation]


def outputs_after(
    chain: Chain,
    values: Mapping[str, Any],
    changed: str,
    compute: Callable[[int, Mapping[str, Any]], Sequence[Any]],
) -> dict[str, Plain]:
    """Return the outputs of a chain after one of its values has changed: the steps behind it compute again."""
    found, new = dict(values), {changed}
    for place, step in enumerate(chain.steps):
        if new.intersection(step.reads):
            made = [name for name in step.makes if name != changed]
            new.update(made)
            results = compute(place, {name: found[name] for name in step.reads})
            found |= {name: one for name, one in zip(step.makes, results, strict=True) if name in made}
    return {output: np.asarray(found[name]) for output, name in chain.outputs.items()}
