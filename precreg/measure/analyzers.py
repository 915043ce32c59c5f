"""Load the analyzers of installed packages, and add their metrics to a comparison.

An analyzer inherits from nothing: it declares metrics, and measures whole arrays or chunks of them. The entry point of
the group "precreg.analyzers" names the object, or a class without arguments. Records name a metric ANALYZER.METRIC,
after the entry point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, reduce
from importlib import import_module
from math import isfinite, nan
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from precreg.arithmetic import dtype_name
from precreg.errors import UserError, nearest
from precreg.measure.metrics import OWN_FIGURES, analyzer_of, metric_named
from precreg.storage import note_unknown
from precreg.subject import EntryPointGroup, find_entry_point
from precreg.types import Comparison, Metric, MetricDescription, described_metric

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]


ChunkState = TypeVar("ChunkState")

# Numbers by the declared names. A missing, infinite or NaN number is an absent metric, and a bound on it is broken.
AnalyzerFigures = Mapping[str, Any]


class WholeArrays(Protocol):
    """An analyzer of two whole arrays of one shape, each in its own dtype. Both are read-only."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """Declare every metric that the analyzer may return."""

    def __call__(self, actual: Array, reference: Array) -> AnalyzerFigures:
        """Return figures of two arrays with at least one element, NaN and infinities included."""


class Chunked(Protocol[ChunkState]):
    """An analyzer of arrays of any size, chunk by chunk. The states of neighbouring pieces merge.

    A chunk has one dimension: neighbouring elements in C order. The first element of a chunk does not depend on the
    number of threads, and states merge in the order of the pieces. So even sums that round have the same bits.
    """

    @property
    def metrics(self) -> Sequence[Metric]:
        """Declare every metric that the analyzer may return."""

    def start(self, shape: tuple[int, ...], actual_dtype: str, reference_dtype: str) -> ChunkState:
        """Return the state without an element, for arrays of that shape; dtypes have the names of suites."""

    def add(self, state: ChunkState, actual: Array, reference: Array, offset: int) -> ChunkState:
        """Return the state with one more chunk, whose first element has that flat index; may change `state`."""

    def merge(self, before: ChunkState, after: ChunkState) -> ChunkState:
        """Return the state of two neighbouring pieces; may change both."""

    def finish(self, state: ChunkState) -> AnalyzerFigures:
        """Return figures of all elements."""


class Declared(NamedTuple):
    """A function of whole arrays, and its metrics."""

    metrics: tuple[Metric, ...]
    measure: Callable[[Array, Array], AnalyzerFigures]

    def __call__(self, actual: Array, reference: Array) -> AnalyzerFigures:
        """Call the function."""
        return self.measure(actual, reference)


def analyzer(*metrics: Metric) -> Callable[[Callable[[Array, Array], AnalyzerFigures]], Declared]:
    """Turn a function of whole arrays into an analyzer with these metrics."""

    def declared(measure: Callable[[Array, Array], AnalyzerFigures]) -> Declared:
        return Declared(metrics, measure)

    return declared


# The analyzers that come with precreg. The names are reserved, and need no look at the installed packages.
BUILT_IN_ANALYZERS = {"classes": "precreg.measure.classes:classes"}
ANALYZERS = EntryPointGroup("precreg.analyzers", "analyzer", "analyzer", "unknown-analyzer")
_WHOLE = ("__call__",)
_CHUNKED = ("start", "add", "merge", "finish")


class Analyzer(NamedTuple):
    """A loaded analyzer. `metrics` have the names ANALYZER.METRIC; one of the other two fields is None."""

    name: str
    metrics: dict[str, MetricDescription]
    whole: WholeArrays | None
    chunked: Chunked[Any] | None


def analyzer_target(name: str) -> str:
    """Return the module:object of an analyzer, of precreg or of an installed package, without loading it.

    Raises:
        UserError: unknown-analyzer if no installed package has it, or several have.
    """
    if name not in BUILT_IN_ANALYZERS:
        note_unknown()
    return BUILT_IN_ANALYZERS.get(name) or _entry_point(name).value


@cache
def _entry_point(name: str) -> EntryPoint:
    return find_entry_point(ANALYZERS, name, BUILT_IN_ANALYZERS)


@cache
def load_analyzer(name: str) -> Analyzer:
    """Import an analyzer and check its declaration.

    Raises:
        UserError: unknown-analyzer; analyzer-failed if the import raises; bad-analyzer if the object is neither kind
            of analyzer, or declares its metrics wrongly.
    """
    target = analyzer_target(name)
    try:
        found = _import_object(name, target)
        found = found() if isinstance(found, type) else found
    except Exception as error:  # a package of others may raise anything
        message = f"expected analyzer {name} to be importable but {target} raised {describe_exception(error)}"
        raise UserError("analyzer-failed", message) from error
    metrics = {metric.name: metric for metric in _read_declaration(name, getattr(found, "metrics", ()))}
    # An object with both interfaces is measured in chunks, which need less memory.
    if _has_methods(found, _CHUNKED):
        return Analyzer(name, metrics, None, found)
    if _has_methods(found, _WHOLE):
        return Analyzer(name, metrics, found, None)
    message = f"expected a function or start, add, merge and finish but got {target} of type {_type_name(found)}"
    raise UserError("bad-analyzer", f"analyzer {name}: {message}")


def _import_object(name: str, target: str) -> Any:
    if name in BUILT_IN_ANALYZERS:
        module, _, attribute = target.partition(":")
        return getattr(import_module(module), attribute)
    # Late, because the check of the process brings numpy, and suites with analyzers of precreg load without it.
    from precreg.subject import ANALYZER_IMPORT, watch_import

    with watch_import((ANALYZER_IMPORT, name)):
        return _entry_point(name).load()


def describe_exception(error: BaseException) -> str:
    """Return type and message of an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _type_name(value: object) -> str:
    return type(value).__name__


def _has_methods(found: object, methods: Iterable[str]) -> bool:
    return all(callable(getattr(found, method, None)) for method in methods)


def _read_declaration(name: str, metrics: Any) -> Iterator[MetricDescription]:
    """Yield the declared metrics under their names in records."""
    rows = list(metrics) if isinstance(metrics, list | tuple) else [metrics]
    for row in rows:
        if not isinstance(row, Metric) or not all(isinstance(field, str) for field in row.description):
            raise UserError("bad-analyzer", f"analyzer {name}: expected metrics of type Metric but got {row!r}")
        if row != Metric(*row.description):
            message = f"expected a metric of name, unit, formula, better and source alone but got {row!r}"
            raise UserError("bad-analyzer", f"analyzer {name}: {message}")
        metric = row.description._replace(name=f"{name}.{row.name}")
        if analyzer_of(metric.name) is None or row.better not in ("lower", "higher"):
            message = f"expected a name of letters, digits and _ - . and better=lower or higher but got {row!r}"
            raise UserError("bad-analyzer", f"analyzer {name}: {message}")
        yield metric
    distinct = {row.name for row in rows}
    if len(distinct) != len(rows) or not rows:
        came = "none" if not rows else "one name twice"
        raise UserError("bad-analyzer", f"analyzer {name}: expected metrics with names of their own but got {came}")


def metrics_like(name: str) -> tuple[str, ...]:
    """Return every metric of the analyzer in the name of a metric; none for names of the table.

    A figure of a table's own, such as lower.cycles, stands for itself: only its table knows the others.

    Raises:
        UserError: as load_analyzer does.
    """
    analyzer = analyzer_of(name)
    if analyzer in OWN_FIGURES:
        return (name,)
    return () if analyzer is None else tuple(load_analyzer(analyzer).metrics)


def declared_metric(name: str) -> Metric:
    """Return a metric of the table, or one of an installed analyzer, which is loaded.

    Bounds of a tolerance name metrics before anything is measured, so no comparison describes them.

    Raises:
        UserError: as load_analyzer does.
    """
    analyzer = analyzer_of(name)
    for better in OWN_FIGURES:
        if analyzer == better:
            return described_metric(MetricDescription(name, "1", "recorded", better, "table"))
    return metric_named(name, () if analyzer is None else load_analyzer(analyzer).metrics.values())


# Elements of every chunk apart from the last, so that both sides of a chunk stay in a core's caches.
ANALYZER_CHUNK = 2**16
# Elements that one state takes in order before it merges with the state of the piece before.
PIECE = 64 * ANALYZER_CHUNK


class ArrayPair(NamedTuple):
    """Two arrays of one shape, read-only."""

    actual: Array
    reference: Array


def add_analyzer_metrics(
    comparison: Comparison, actual: ArrayLike, reference: ArrayLike, analyzers: Sequence[str], threads: int = 1
) -> Comparison:
    """Add the figures of analyzers on the compared arrays, and the descriptions of their metrics.

    Arrays without an element or of different shapes have no figures. The number of threads changes no bit.

    Raises:
        UserError: as load_analyzer does; analyzer-failed if the analyzer raises; bad-analyzer for a result that is no
            number or is not declared.
    """
    import numpy as np

    from precreg.subject import ANALYZER_IMPORT, note_use

    loaded = [load_analyzer(name) for name in dict.fromkeys(analyzers)]
    for name in analyzers:
        note_use((ANALYZER_IMPORT, name))
    described = tuple(metric for analyzer in loaded for metric in analyzer.metrics.values())
    pair = ArrayPair(_read_only(np.asarray(actual)), _read_only(np.asarray(reference)))
    metrics = dict(comparison.metrics)
    if pair.actual.shape == pair.reference.shape and pair.actual.size:
        for analyzer in loaded:
            with _blame(analyzer.name, comparison.output):
                figures = _measure(analyzer, pair, threads)
            metrics.update(_finite_figures(analyzer, figures))
    return replace(comparison, metrics=metrics, described=described)


def _read_only(array: Array) -> Array:
    import numpy as np

    # A view, so that the caller's array stays writable; np.ndarray drops the behaviour of subclasses.
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


@contextmanager
def _blame(name: str, output: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        message = f"expected analyzer {name} to measure output {output} but it raised {describe_exception(error)}"
        raise UserError("analyzer-failed", message) from error


def _measure(analyzer: Analyzer, pair: ArrayPair, threads: int) -> Any:
    import numpy as np

    if analyzer.chunked is not None:
        return analyzer.chunked.finish(reduce(analyzer.chunked.merge, _piece_states(analyzer.chunked, pair, threads)))
    assert analyzer.whole is not None
    with np.errstate(all="ignore"):  # NaN and infinities are ordinary input
        return analyzer.whole(*pair)


def _piece_states(chunked: Chunked[Any], pair: ArrayPair, threads: int) -> Iterator[Any]:
    """Yield the states of the pieces in order; at most one for each thread waits for its merge."""
    import numpy as np

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
    # Late, because it imports logging, and every reader of suites imports this module.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        # In batches, because pool.map alone would keep the states of all pieces in memory.
        for first in range(0, len(starts), threads):
            yield from pool.map(state_of, starts[first : first + threads])


def _flat(array: Array) -> Any:
    """Return a source of chunks in C order: a view of a contiguous array, else an iterator that copies each chunk."""
    return array.reshape(-1) if array.flags.c_contiguous else array.flat


def _finite_figures(analyzer: Analyzer, figures: Any) -> Iterator[tuple[str, float]]:
    """Yield the finite figures under their names in records. Raises UserError (bad-analyzer) for any wrong figure."""
    if not isinstance(figures, Mapping):
        message = f"expected figures by name but got {type(figures).__name__}"
        raise UserError("bad-analyzer", f"analyzer {analyzer.name}: {message}")
    for key, value in figures.items():
        name = f"{analyzer.name}.{key}"
        if name not in analyzer.metrics:
            declared = ", ".join(analyzer.metrics)
            near = nearest(name, analyzer.metrics)
            raise UserError("bad-analyzer", f"expected one of {declared} but got {name}={value}{near}")
        if isfinite(number := _to_float(name, value)):
            yield name, number


def _to_float(name: str, value: Any) -> float:
    """Return a number of Python or numpy as a float; NaN for an integer beyond float64."""
    import numpy as np

    # Kind "V" has the dtypes of ml_dtypes, such as bfloat16.
    scalar = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    is_number = scalar.dtype.kind in "biufV" if isinstance(scalar, np.generic) else isinstance(scalar, Real)
    if not is_number:
        raise UserError("bad-analyzer", f"expected a number but got {name}={value!r} of type {type(value).__name__}")
    try:
        return float(scalar)
    except OverflowError:
        return nan
