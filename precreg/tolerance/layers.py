"""From tolerance mappings in YAML to layers of the pyramid, each setting with its line."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from sys import float_info
from typing import Any, NamedTuple

from precreg.arithmetic.formats import DTYPE_NAMES
from precreg.errors import UserError, nearest
from precreg.measure.installed import metrics_like
from precreg.measure.metrics import KEPT, METRICS
from precreg.storage.yaml_source import KeyPath, Source, expect_mapping, shown
from precreg.tolerance.pyramid import GROWTH, no_limit
from precreg.tolerance.standard import spelled
from precreg.tolerance.standards import find_standard
from precreg.types.types import RULES, Layer

TOLERANCES = "suites/tolerances.yaml"
"""The file of the layers below those of every suite, relative to the project."""


_GROUPS = ("outputs", "environments")

_KEYS = ("rtol", "atol", *METRICS, "standard", "regression", *_GROUPS, *DTYPE_NAMES)


class _Scope(NamedTuple):
    """What a nested mapping is restricted to so far; each restriction can be made once."""

    dtype: str | None = None
    output: str | None = None
    environment: str | None = None

    def __str__(self) -> str:
        words = {"": self.dtype, "output ": self.output, "environment ": self.environment}
        return "".join(f", {kind}{name}" for kind, name in words.items() if name is not None)


_EVERYTHING = _Scope()


def read_layers(name: str, source: Source, path: KeyPath, mapping: Any, scope: _Scope = _EVERYTHING) -> Iterator[Layer]:
    """Yield the layers of one tolerance mapping: for everything, then by dtype, by output, by environment.

    `path` is where the mapping stands in its file. Raises UserError: bad-value, unknown-metric, unknown-dtype,
    unknown-standard.
    """
    expect_mapping(source, mapping, *path)
    own = {key: value for key, value in mapping.items() if key not in _GROUPS and key not in DTYPE_NAMES}
    if own:
        yield _layer(name, source, path, own, scope)
    for dtype in (key for key in mapping if key in DTYPE_NAMES):
        _once(source, scope.dtype, dtype, *path, dtype)
        yield from read_layers(name, source, (*path, dtype), mapping[dtype], scope._replace(dtype=dtype))
    for group, field in (("outputs", "output"), ("environments", "environment")):
        inner = mapping.get(group, {})
        expect_mapping(source, inner, *path, group)
        for key, value in inner.items():
            _once(source, getattr(scope, field), key, *path, group, key)
            yield from read_layers(name, source, (*path, group, key), value, scope._replace(**{field: key}))


def environment_layers(name: str, source: Source, path: KeyPath, mapping: Any) -> Iterator[Layer]:
    """Yield the layers of a mapping from environment to tolerance."""
    for key, value in mapping.items():
        yield from read_layers(name, source, (*path, key), value, _Scope(environment=key))


def _once(source: Source, already: str | None, key: str, *path: str | int) -> None:
    if already is not None:
        raise source.error("bad-value", f"expected settings but got {key} again inside {already}", *path)


def _layer(name: str, source: Source, path: KeyPath, settings: dict[str, Any], scope: _Scope) -> Layer:
    regression = _regression(source, path, settings.pop("regression", {}))
    lines = {GROWTH + metric: source.where(*path, "regression", metric).line for metric in regression}
    lines |= {key: source.where(*path, key).line for key in settings}
    if isinstance(settings.get("standard"), dict):
        settings["standard"] = _with_parameters(source, (*path, "standard"), settings["standard"])
    for key, value in settings.items():
        _check(source, (*path, key), key, value)
    return Layer(f"{name}{scope}", source.where(*path), settings, regression, *scope, lines)


def _with_parameters(source: Source, path: KeyPath, given: dict[str, Any]) -> str:
    """Write a standard that is given as name and parameters as one text."""
    parameters = {key: value for key, value in given.items() if key != "name"}
    if not isinstance(given.get("name"), str):
        message = f"expected a mapping with the name of a standard but got standard={shown(given)}"
        raise source.error("bad-value", message, *path)
    return spelled(given["name"], parameters)


def _check(source: Source, path: KeyPath, key: str, value: Any) -> None:
    if key == "standard":
        find_standard(str(value), source.where(*path))
    elif key in (known := ("rtol", "atol", *METRICS, *_of_analyzer(source, path, key))):
        if expected := no_limit(key, value):
            raise source.error("bad-value", f"expected {expected} but got {key}={shown(value)}", *path)
    elif isinstance(value, dict):
        message = f"expected the name of a dtype, outputs or environments but got {key}{nearest(key, _KEYS)}"
        raise source.error("unknown-dtype", message, *path)
    else:
        message = f"expected the name of a metric, rtol, atol, standard or regression but got {key}={shown(value)}"
        raise source.error("unknown-metric", message + nearest(key, (*_KEYS, *known)), *path)


def _of_analyzer(source: Source, path: KeyPath, metric: str) -> tuple[str, ...]:
    """Return every metric of the analyzer that a metric is called after."""
    try:
        return metrics_like(metric)
    except UserError as error:
        raise source.error(error.slug, error.message, *path) from None


def _regression(source: Source, path: KeyPath, value: Any) -> dict[str, float | None]:
    """Read the allowed growths; `off` is None, and `regression: off` is None for each rule and metric there is."""
    path = (*path, "regression")
    if value == "off":
        return dict.fromkeys((*RULES, *KEPT))
    expect_mapping(source, value, *path)
    return {metric: _growth(source, (*path, metric), metric, growth) for metric, growth in value.items()}


def _growth(source: Source, path: KeyPath, metric: str, growth: Any) -> float | None:
    known = (*RULES, *METRICS, *_of_analyzer(source, path, metric))
    if metric not in known:
        expected = f"the name of a metric, {' or '.join(RULES)}"
        message = f"expected {expected} but got {metric}={shown(growth)}{nearest(metric, known)}"
        raise source.error("unknown-metric", message, *path)
    if metric in METRICS and metric not in KEPT:
        kept = ", ".join(get_close_matches(metric, KEPT, n=len(KEPT), cutoff=0))
        message = f"expected a metric that baselines keep ({kept}) but got {metric}={shown(growth)}"
        raise source.error("bad-value", message, *path)
    if growth == "off":
        return None
    if isinstance(growth, bool) or not isinstance(growth, int | float) or not 0 <= growth <= float_info.max:
        raise source.error(
            "bad-value", f"expected a growth such as 0.1, or off, but got {metric}={shown(growth)}", *path
        )
    return float(growth)
