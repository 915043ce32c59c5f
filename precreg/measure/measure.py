"""Analyzers at work: each measures the arrays of one comparison, and what it gives is checked and added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from math import isfinite, nan
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from precreg.arithmetic.formats import dtype_name
from precreg.errors import UserError, nearest
from precreg.measure.installed import Analyzer, load, told
from precreg.measure.protocol import Chunked
from precreg.types.types import Comparison

Array = NDArray[Any]


CHUNK = 2**16
"""Elements of a chunk, but for the last: what two processors' nearest caches hold of both sides."""


PIECE = 64 * CHUNK
"""Elements that are added to one state, in order, before it is merged with that of the piece before."""


class Pair(NamedTuple):
    """Two arrays of one shape, read-only."""

    actual: Array
    reference: Array


def analyzed(
    comparison: Comparison, actual: ArrayLike, reference: ArrayLike, analyzers: Sequence[str], threads: int = 1
) -> Comparison:
    """Add what analyzers measure of the arrays that were compared, and the descriptions of their metrics.

    Without an element, and where the shapes differ, there is nothing to measure. The number of threads changes no bit.

    Raises:
        UserError: what `load` raises; analyzer-failed, from what the analyzer raised; bad-analyzer, for a result that
            is no number or was not declared.
    """
    loaded = [load(name) for name in dict.fromkeys(analyzers)]
    described = tuple(metric for analyzer in loaded for metric in analyzer.metrics.values())
    pair = Pair(_read_only(np.asarray(actual)), _read_only(np.asarray(reference)))
    metrics = dict(comparison.metrics)
    if pair.actual.shape == pair.reference.shape and pair.actual.size:
        for analyzer in loaded:
            with _blamed_on(analyzer.name, comparison.output):
                figures = _measured(analyzer, pair, threads)
            metrics.update(_finite(analyzer, figures))
    return replace(comparison, metrics=metrics, described=described)


def _read_only(array: Array) -> Array:
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


@contextmanager
def _blamed_on(name: str, output: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        message = f"expected analyzer {name} to measure output {output} but it raised {told(error)}"
        raise UserError("analyzer-failed", message) from error


def _measured(analyzer: Analyzer, pair: Pair, threads: int) -> Any:
    if analyzer.chunked is not None:
        return analyzer.chunked.finish(reduce(analyzer.chunked.merge, _states(analyzer.chunked, pair, threads)))
    assert analyzer.whole is not None
    with np.errstate(all="ignore"):
        return analyzer.whole(*pair)


def _states(chunked: Chunked[Any], pair: Pair, threads: int) -> Iterator[Any]:
    """Yield the states of the pieces in order; no more than one for each thread waits to be merged."""
    actual, reference = _flat(pair.actual), _flat(pair.reference)
    names = dtype_name(pair.actual.dtype), dtype_name(pair.reference.dtype)

    def state_of(start: int) -> Any:
        state = chunked.start(pair.actual.shape, *names)
        with np.errstate(all="ignore"):
            for offset in range(start, min(start + PIECE, pair.actual.size), CHUNK):
                end = min(offset + CHUNK, pair.actual.size)
                state = chunked.add(state, actual[offset:end], reference[offset:end], offset)
        return state

    starts = range(0, pair.actual.size, PIECE)
    if min(threads, len(starts)) < 2:
        yield from map(state_of, starts)
        return
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(starts), threads):
            yield from pool.map(state_of, starts[first : first + threads])


def _flat(array: Array) -> Any:
    """Return what gives chunks in C order: a view where the array lies so in memory, else copies of each chunk."""
    return array.reshape(-1) if array.flags.c_contiguous else array.flat


def _finite(analyzer: Analyzer, figures: Any) -> Iterator[tuple[str, float]]:
    """Yield the finite figures under the names of records; what was not declared, or is no number, is refused."""
    if not isinstance(figures, Mapping):
        message = f"expected figures by name but got {type(figures).__name__}"
        raise UserError("bad-analyzer", f"analyzer {analyzer.name}: {message}")
    for key, value in figures.items():
        name = f"{analyzer.name}.{key}"
        if name not in analyzer.metrics:
            declared = ", ".join(analyzer.metrics)
            near = nearest(name, analyzer.metrics)
            raise UserError("bad-analyzer", f"expected one of {declared} but got {name}={value}{near}")
        if isfinite(number := _number(name, value)):
            yield name, number


def _number(name: str, value: Any) -> float:
    """Return a number of Python or numpy as float; an integer beyond all floats is none that is defined."""
    scalar = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    is_number = scalar.dtype.kind in "biufV" if isinstance(scalar, np.generic) else isinstance(scalar, Real)
    if not is_number:
        raise UserError("bad-analyzer", f"expected a number but got {name}={value!r} of type {type(value).__name__}")
    try:
        return float(scalar)
    except OverflowError:
        return nan
