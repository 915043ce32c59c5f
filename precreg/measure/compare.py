"""compare(actual, reference): everything that is measured of one output, as one Comparison without judgement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from math import isfinite
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from precreg.environment.processors import processors
from precreg.measure.figures import figures
from precreg.measure.forms import form
from precreg.measure.mapped import unmapping
from precreg.measure.merge import merge_all
from precreg.measure.metrics import COUNTS
from precreg.measure.pairing import Array, Pairing, pairing_of
from precreg.measure.regions import regions_of
from precreg.measure.sketch import histogram
from precreg.measure.tally import Counts, Groups, Named, Rules, Tally
from precreg.types.types import AxisGroups, Comparison, Positions

CHUNK = 1 << 18
"""Elements that are copied at a time, where they must be."""


IN_PLACE, LARGEST_CHUNK = 1 << 20, 1 << 21
"""Elements that are measured at a time where nothing is copied: fewer of smaller arrays, for the sake of threads."""


MANY = 1 << 21
"""From this many elements on, threads are worth their start."""


def compare(
    actual: ArrayLike,
    reference: ArrayLike,
    *,
    output: str = "out",
    seed: int = 0,
    rtol: float,
    atol: float,
    worst: int = 100,
    threads: int | None = None,
    regions: Mapping[str, float] | None = None,
) -> Comparison:
    """Measure how far `actual` is from `reference`.

    Arrays of any shape, memory layout and byte order; integers, booleans, floating-point formats that arith knows,
    complex numbers. The reference may be of a wider dtype. `rtol` and `atol` decide which elements count as
    matching; `worst` limits how many positions are named. Nothing is broadcast: where the shapes differ, metrics
    and counts are empty; where there is no element, metrics are. docs/metrics.md has every formula. `regions` takes the
    place of constants of regions.py. `threads` changes no metric; None means one for small arrays, else as many as the
    process has cores.
    Raises UserError (bad-value, unknown-dtype) for arrays of anything but numbers.
    """
    a, r = np.asarray(actual), np.asarray(reference)
    pairing = pairing_of(a.dtype, r.dtype)
    identity = (output, seed, pairing.dtype, a.shape, pairing.reference_dtype, r.shape)
    if a.shape != r.shape:
        return Comparison(*identity)
    if a.size == 0:
        return Comparison(*identity, counts=dict.fromkeys(COUNTS, 0))
    rules = Rules(rtol, atol, worst, tuple((regions or {}).items()))
    return replace(Comparison(*identity), **measurements(tally_of(a, r, rules, threads), pairing, rules))


def measurements(tally: Tally, pairing: Pairing, rules: Rules) -> dict[str, Any]:
    """Return the fields of a Comparison that a tally of at least one element gives."""
    return {
        "metrics": figures(tally, pairing.format, regions_of(pairing.dtype, rules.regions)),
        "counts": _counts(tally.counts),
        "worst": _positions(tally.worst),
        "non_finite": _positions(tally.non_finite),
        "histogram": histogram(tally.sketches.absolute) if tally.counts.finite else None,
        "heat": _heat(tally.groups),
        "places": _places(tally),
        "groups": tuple(map(_axis_groups, tally.groups)),
    }


def tally_of(actual: Array, reference: Array, rules: Rules, threads: int | None = None) -> Tally:
    """Return the tally of two arrays of one shape, with at least one element, in whatever memory layout."""
    size = actual.size
    if size <= IN_PLACE and _in_order(actual, reference):
        return form()(actual.reshape(-1), reference.reshape(-1), 0, actual.shape, rules)
    chunk = _chunk_of(size)
    chunks = -(-size // chunk)
    workers = min(_workers(size) if threads is None else max(threads, 1), chunks)
    if workers == 1:
        return merge_all(_tallies(actual, reference, 0, size, rules), rules)
    cuts = [chunks * worker // workers * chunk for worker in range(workers)] + [size]
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(lambda low, high: _tallies(actual, reference, low, high, rules), cuts, cuts[1:])
        return merge_all(list(chain.from_iterable(parts)), rules)


def _chunk_of(size: int) -> int:
    """Return how many elements are measured at a time: the same for any number of threads, and so the same bits."""
    return min(max(IN_PLACE, 1 << (size // 32).bit_length()), LARGEST_CHUNK)


def _workers(size: int) -> int:
    return 1 if size < MANY else processors()


def _tallies(actual: Array, reference: Array, low: int, high: int, rules: Rules) -> list[Tally]:
    tally, shape = form(), actual.shape
    chunks = unmapping(_chunks(actual, reference, low, high), actual, reference)
    return [tally(a, r, start, shape, rules) for start, a, r in chunks]


def _chunks(actual: Array, reference: Array, low: int, high: int) -> Iterator[tuple[int, Array, Array]]:
    """Yield the flat chunks of a range, each with the position that it begins at; they are read before the next.

    Arrays that lie in memory in C order, aligned and in the machine's byte order, are cut; of others, numpy copies a
    chunk at a time.
    """
    if _in_order(actual, reference):
        a, r = actual.reshape(-1), reference.reshape(-1)
        chunk = _chunk_of(a.size)
        for start in range(low, high, chunk):
            stop = min(start + chunk, high)
            yield start, a[start:stop], r[start:stop]
        return
    size = min(CHUNK, high - low)
    into = np.empty(size, actual.dtype.newbyteorder("=")), np.empty(size, reference.dtype.newbyteorder("="))
    for start in range(low, high, CHUNK):
        stop = min(start + CHUNK, high)
        _copy_flat((actual, reference), start, stop, into)
        yield start, into[0][: stop - start], into[1][: stop - start]


def _in_order(*sides: Array) -> bool:
    return all([side.flags.c_contiguous and side.flags.aligned and side.dtype.isnative for side in sides])


def _copy_flat(arrays: tuple[Array, Array], start: int, stop: int, into: tuple[Array, Array]) -> None:
    flags = ["external_loop", "buffered", "ranged"]
    with np.nditer(arrays, flags, [["readonly"], ["readonly"]], order="C", buffersize=1 << 14) as pieces:  # type: ignore[call-overload]
        pieces.iterrange = (start, stop)
        done = 0
        for a, r in pieces:
            into[0][done : done + a.size] = a
            into[1][done : done + a.size] = r
            done += a.size


def _counts(counts: Counts) -> dict[str, int]:
    every = dict(zip(counts._fields, counts, strict=True))
    every["inf_matched"] = counts.plus_inf_matched + counts.minus_inf_matched
    every["inf_mismatched"] = counts.plus_inf_mismatched + counts.minus_inf_mismatched
    return {name: every[name] for name in COUNTS}


def _positions(named: Named) -> Positions | None:
    return Positions(*named) if named.index else None


def _places(tally: Tally) -> dict[str, int]:
    names = ("max_abs_error", "max_rel_error", "mare", "max_ulp")
    return {name: place for name, place in zip(names, tally.places, strict=True) if place >= 0}


def _heat(groups: tuple[Groups, ...]) -> list[float] | None:
    """Return the mean error in the groups of the last axis of two or more; 0 for a group without a finite pair."""
    if len(groups) < 2:
        return None
    heat = [total / max(n, 1) for total, n in zip(groups[-1].absolute, groups[-1].n, strict=True)]
    return heat if all(map(isfinite, heat)) else None


def _axis_groups(groups: Groups) -> AxisGroups:
    return AxisGroups(groups.n, *map(_finite_or_none, groups[1:]))


def _finite_or_none(sums: list[float]) -> list[float | None]:
    return [*sums] if isfinite(sum(sums)) else [number if isfinite(number) else None for number in sums]
