"""Analyzers by name: where installed packages have them, what they declare, and what names of metrics mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from precreg.errors import UserError
from precreg.measure.metrics import METRICS
from precreg.subject.plugins import Group, installed
from precreg.types.metric import Metric, learn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from precreg.measure.protocol import Chunked, WholeArrays


ANALYZERS = Group("precreg.analyzers", "analyzer", "analyzer", "unknown-analyzer")


NAME = r"[A-Za-z_][A-Za-z0-9_-]*"

_METRIC = re.compile(rf"(?P<analyzer>{NAME})\.(?P<metric>[A-Za-z_][A-Za-z0-9_.-]*)")
"""No metric of ours is spelled so: what follows a point in share_above_0.5_ulp is a digit."""


_WHOLE = ("__call__",)

_CHUNKED = ("start", "add", "merge", "finish")


class Analyzer(NamedTuple):
    """An analyzer that was loaded. `metrics` are called ANALYZER.METRIC; one of the other two fields is None."""

    name: str
    metrics: dict[str, Metric]
    whole: WholeArrays | None
    chunked: Chunked[Any] | None


@cache
def entry_point(name: str) -> EntryPoint:
    """Return where an analyzer is, without loading it.

    Raises UserError (unknown-analyzer) when no installed package brings it, or two do.
    """
    return installed(ANALYZERS, name)


@cache
def load(name: str) -> Analyzer:
    """Import an analyzer, check what it declares, and make its metrics known.

    Raises UserError: unknown-analyzer; analyzer-failed where importing it raises; bad-analyzer where it is neither kind
    of analyzer, or declares its metrics badly.
    """
    point = entry_point(name)
    try:
        found = point.load()
        found = found() if isinstance(found, type) else found
    except Exception as error:
        message = f"expected analyzer {name} to be importable but {point.value} raised {told(error)}"
        raise UserError("analyzer-failed", message) from error
    metrics = {metric.name: metric for metric in _declared(name, getattr(found, "metrics", ()))}
    learn(metrics.values())
    if _offers(found, _CHUNKED):
        return Analyzer(name, metrics, None, found)
    if _offers(found, _WHOLE):
        return Analyzer(name, metrics, found, None)
    message = f"expected a function or start, add, merge and finish but got {point.value} of type {_kind(found)}"
    raise UserError("bad-analyzer", f"analyzer {name}: {message}")


def told(error: BaseException) -> str:
    """Tell an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _kind(value: object) -> str:
    return type(value).__name__


def _offers(found: object, methods: Iterable[str]) -> bool:
    return all(callable(getattr(found, method, None)) for method in methods)


def _declared(name: str, metrics: Any) -> Iterator[Metric]:
    """Yield what an analyzer declares, under the names of records."""
    rows = list(metrics) if isinstance(metrics, list | tuple) else [metrics]
    for row in rows:
        if not isinstance(row, Metric) or not all(isinstance(field, str) for field in row):
            raise UserError("bad-analyzer", f"analyzer {name}: expected metrics of type Metric but got {row!r}")
        metric = row._replace(name=f"{name}.{row.name}")
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
    return () if analyzer is None else tuple(load(analyzer).metrics)
