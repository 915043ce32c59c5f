"""What an analyzer is. It inherits from nothing: it declares metrics, and measures whole arrays or chunks of them.

The entry point of the group "precreg.analyzers" names the object, or a class that gives it without arguments. Metrics
are declared with names of their own; in records they are called ANALYZER.METRIC, after the entry point's name.

Analyzers by name: where installed packages have them, what they declare, and what names of metrics mean.

Analyzers at work: each measures the arrays of one comparison, and what it gives is checked and added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from math import isfinite, nan
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from precreg.arithmetic import dtype_name
from precreg.errors import UserError, nearest
from precreg.measure.metrics import METRICS, metric_named
from precreg.subject import EntryPointGroup, find_entry_point
from precreg.types import Comparison, Metric, MetricDescription

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from numpy.typing import NDArray


ChunkState = TypeVar("ChunkState")

AnalyzerFigures = Mapping[str, Any]
"""Numbers by the declared names. What is left out, NaN or infinite is absent: a bound on it is broken."""


class WholeArrays(Protocol):
    """Measures two arrays of one shape at once, each in its own dtype. Both are read-only."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """Describe every metric that may be given."""

    def __call__(self, actual: Array, reference: Array) -> AnalyzerFigures:
        """Return figures of two arrays that have at least one element, NaN and infinities included."""


class Chunked(Protocol[ChunkState]):
    """Measures arrays of any size chunk by chunk. States of neighbouring pieces merge into that of both together.

    A chunk has one dimension: neighbouring elements in C order. Where chunks begin does not depend on how many
    threads there are, and states are merged in the order of the pieces; so even sums that round come out the same.
    """

    @property
    def metrics(self) -> Sequence[Metric]:
        """Describe every metric that may be given."""

    def start(self, shape: tuple[int, ...], actual_dtype: str, reference_dtype: str) -> ChunkState:
        """Return the state of no element, of arrays of that shape; dtypes by name, as suites spell them."""

    def add(self, state: ChunkState, actual: Array, reference: Array, offset: int) -> ChunkState:
        """Return the state with a chunk more, whose first element has that flat index; `state` may be changed."""

    def merge(self, before: ChunkState, after: ChunkState) -> ChunkState:
        """Return the state of two neighbouring pieces; both may be changed."""

    def finish(self, state: ChunkState) -> AnalyzerFigures:
        """Return figures of all elements."""


class Declared(NamedTuple):
    """A function of whole arrays with its metrics."""

    metrics: tuple[Metric, ...]
    measure: Callable[[Array, Array], AnalyzerFigures]

    def __call__(self, actual: Array, reference: Array) -> AnalyzerFigures:
        """Call the function."""
        return self.measure(actual, reference)


def analyzer(*metrics: Metric) -> Callable[[Callable[[Array, Array], AnalyzerFigures]], Declared]:
    """Make an analyzer of a function of whole arrays, with the metrics that it gives."""

    def declared(measure: Callable[[Array, Array], AnalyzerFigures]) -> Declared:
        return Declared(metrics, measure)

    return declared


ANALYZERS = EntryPointGroup("precreg.analyzers", "analyzer", "analyzer", "unknown-analyzer")


ANALYZER_NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_-]*"

_METRIC = re.compile(rf"(?P<analyzer>{ANALYZER_NAME_PATTERN})\.(?P<metric>[A-Za-z_][A-Za-z0-9_.-]*)")
"""No metric of ours is spelled so: what follows a point in share_above_0.5_ulp is a digit."""


_WHOLE = ("__call__",)

_CHUNKED = ("start", "add", "merge", "finish")


class Analyzer(NamedTuple):
    """An analyzer that was loaded. `metrics` are called ANALYZER.METRIC; one of the other two fields is None."""

    name: str
    metrics: dict[str, MetricDescription]
    whole: WholeArrays | None
    chunked: Chunked[Any] | None


@cache
def analyzer_entry_point(name: str) -> EntryPoint:
    """Return where an analyzer is, without loading it.

    Raises UserError (unknown-analyzer) when no installed package brings it, or two do.
    """
    return find_entry_point(ANALYZERS, name)


@cache
def load_analyzer(name: str) -> Analyzer:
    """Import an analyzer, check what it declares, and make its metrics known.

    Raises UserError: unknown-analyzer; analyzer-failed where importing it raises; bad-analyzer where it is neither kind
    of analyzer, or declares its metrics badly.
    """
    point = analyzer_entry_point(name)
    try:
        found = point.load()
        found = found() if isinstance(found, type) else found
    except Exception as error:
        message = f"expected analyzer {name} to be importable but {point.value} raised {describe_exception(error)}"
        raise UserError("analyzer-failed", message) from error
    metrics = {metric.name: metric for metric in _declared(name, getattr(found, "metrics", ()))}
    if _offers(found, _CHUNKED):
        return Analyzer(name, metrics, None, found)
    if _offers(found, _WHOLE):
        return Analyzer(name, metrics, found, None)
    message = f"expected a function or start, add, merge and finish but got {point.value} of type {_kind(found)}"
    raise UserError("bad-analyzer", f"analyzer {name}: {message}")


def describe_exception(error: BaseException) -> str:
    """Tell an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _kind(value: object) -> str:
    return type(value).__name__


def _offers(found: object, methods: Iterable[str]) -> bool:
    return all(callable(getattr(found, method, None)) for method in methods)


def _declared(name: str, metrics: Any) -> Iterator[MetricDescription]:
    """Yield what an analyzer declares, under the names of records."""
    rows = list(metrics) if isinstance(metrics, list | tuple) else [metrics]
    for row in rows:
        if not isinstance(row, Metric) or not all(isinstance(field, str) for field in row.description):
            raise UserError("bad-analyzer", f"analyzer {name}: expected metrics of type Metric but got {row!r}")
        if row != Metric(*row.description):
            message = f"expected a metric of name, unit, formula, better and source alone but got {row!r}"
            raise UserError("bad-analyzer", f"analyzer {name}: {message}")
        metric = row.description._replace(name=f"{name}.{row.name}")
        if _METRIC.fullmatch(metric.name) is None or row.better not in ("lower", "higher"):
            message = f"expected a name of letters, digits and _ - . and better=lower or higher but got {row!r}"
            raise UserError("bad-analyzer", f"analyzer {name}: {message}")
        yield metric
    distinct = {row.name for row in rows}
    if len(distinct) != len(rows) or not rows:
        came = "none" if not rows else "one name twice"
        raise UserError("bad-analyzer", f"analyzer {name}: expected metrics with names of their own but got {came}")


def analyzer_of(metric: str) -> str | None:
    """Return the name of the analyzer that a metric is called after; None for one that can only be ours."""
    match = None if metric in METRICS else _METRIC.fullmatch(metric)
    return None if match is None else match["analyzer"]


def metrics_like(name: str) -> tuple[str, ...]:
    """Return every metric of the analyzer that a metric is called after, which is loaded; none for our own.

    Raises UserError as `load` does.
    """
    analyzer = analyzer_of(name)
    return () if analyzer is None else tuple(load_analyzer(analyzer).metrics)


def declared_metric(name: str) -> Metric:
    """Return a metric of the table, or one of an installed analyzer, which is loaded.

    Bounds of a tolerance name metrics before anything is measured, so no comparison describes them.

    Raises UserError as `load_analyzer` does.
    """
    analyzer = analyzer_of(name)
    return metric_named(name, () if analyzer is None else load_analyzer(analyzer).metrics.values())


Array = NDArray[Any]


ANALYZER_CHUNK = 2**16
"""Elements of a chunk, but for the last: what two processors' nearest caches hold of both sides."""


PIECE = 64 * ANALYZER_CHUNK
"""Elements that are added to one state, in order, before it is merged with that of the piece before."""


class ArrayPair(NamedTuple):
    """Two arrays of one shape, read-only."""

    actual: Array
    reference: Array


def add_analyzer_metrics(
    comparison: Comparison, actual: ArrayLike, reference: ArrayLike, analyzers: Sequence[str], threads: int = 1
) -> Comparison:
    """Add what analyzers measure of the arrays that were compared, and the descriptions of their metrics.

    Without an element, and where the shapes differ, there is nothing to measure. The number of threads changes no bit.

    Raises:
        UserError: what `load` raises; analyzer-failed, from what the analyzer raised; bad-analyzer, for a result that
            is no number or was not declared.
    """
    loaded = [load_analyzer(name) for name in dict.fromkeys(analyzers)]
    described = tuple(metric for analyzer in loaded for metric in analyzer.metrics.values())
    pair = ArrayPair(_read_only(np.asarray(actual)), _read_only(np.asarray(reference)))
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
        message = f"expected analyzer {name} to measure output {output} but it raised {describe_exception(error)}"
        raise UserError("analyzer-failed", message) from error


def _measured(analyzer: Analyzer, pair: ArrayPair, threads: int) -> Any:
    if analyzer.chunked is not None:
        return analyzer.chunked.finish(reduce(analyzer.chunked.merge, _states(analyzer.chunked, pair, threads)))
    assert analyzer.whole is not None
    with np.errstate(all="ignore"):
        return analyzer.whole(*pair)


def _states(chunked: Chunked[Any], pair: ArrayPair, threads: int) -> Iterator[Any]:
    """Yield the states of the pieces in order; no more than one for each thread waits to be merged."""
    actual, reference = _flat(pair.actual), _flat(pair.reference)
    names = dtype_name(pair.actual.dtype), dtype_name(pair.reference.dtype)

    def state_of(start: int) -> Any:
        state = chunked.start(pair.actual.shape, *names)
        with np.errstate(all="ignore"):
            for offset in range(start, min(start + PIECE, pair.actual.size), ANALYZER_CHUNK):
                end = min(offset + ANALYZER_CHUNK, pair.actual.size)
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
