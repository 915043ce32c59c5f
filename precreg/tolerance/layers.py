"""From tolerance mappings in YAML to layers of the pyramid, each setting with its line.

Which settings of a pyramid are for whom: metrics of analyzers are measured only where the analyzer is asked for.

PRECISION_THRESHOLDS: absolute bounds from the environment, as the last layers of the pyramid.

The variable holds JSON: metrics, rtol and atol with their limits, the same by dtype, and all of this by tier, as in
{"max_ulp": 4, "float16": {"rtol": 2e-3}, "model": {"rtol": 1e-2}}. What holds for everything comes first, then dtypes,
then the tier, and among these the later wins; then each bound takes hold where it is tighter than the project's.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from sys import float_info
from typing import Any, NamedTuple, NoReturn

from msgspec.structs import replace

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError, nearest
from precreg.measure import METRICS, analyzer_of, baseline_metrics, metrics_like
from precreg.storage import KeyPath, Source, expect_mapping, format_value
from precreg.tolerance.pyramid import CLOSENESS_KEYS, REGRESSION_PREFIX, is_tighter, limit_problem
from precreg.tolerance.standard import format_standard
from precreg.tolerance.standards import find_standard
from precreg.types import RULES, TIERS, Layer, Location, Override, Tier, Tolerance

TOLERANCES_FILE = "suites/tolerances.yaml"
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
    lines = {REGRESSION_PREFIX + metric: source.where(*path, "regression", metric).line for metric in regression}
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
        message = f"expected a mapping with the name of a standard but got standard={format_value(given)}"
        raise source.error("bad-value", message, *path)
    return format_standard(given["name"], parameters)


def _check(source: Source, path: KeyPath, key: str, value: Any) -> None:
    if key == "standard":
        find_standard(str(value), source.where(*path))
    elif key in (known := ("rtol", "atol", *METRICS, *_analyzer_setting(source, path, key))):
        if expected := limit_problem(key, value):
            raise source.error("bad-value", f"expected {expected} but got {key}={format_value(value)}", *path)
    elif isinstance(value, dict):
        message = f"expected the name of a dtype, outputs or environments but got {key}{nearest(key, _KEYS)}"
        raise source.error("unknown-dtype", message, *path)
    else:
        message = (
            f"expected the name of a metric, rtol, atol, standard or regression but got {key}={format_value(value)}"
        )
        raise source.error("unknown-metric", message + nearest(key, (*_KEYS, *known)), *path)


def _analyzer_setting(source: Source, path: KeyPath, metric: str) -> tuple[str, ...]:
    """Return every metric of the analyzer that a metric is called after."""
    try:
        return metrics_like(metric)
    except UserError as error:
        raise source.error(error.slug, error.message, *path) from None


def _regression(source: Source, path: KeyPath, value: Any) -> dict[str, float | None]:
    """Read the allowed growths; `off` is None, and `regression: off` is None for each rule and metric there is."""
    path = (*path, "regression")
    if value == "off":
        return dict.fromkeys((*RULES, *baseline_metrics()))
    expect_mapping(source, value, *path)
    return {metric: _growth(source, (*path, metric), metric, growth) for metric, growth in value.items()}


def _growth(source: Source, path: KeyPath, metric: str, growth: Any) -> float | None:
    known = (*RULES, *METRICS, *_analyzer_setting(source, path, metric))
    if metric not in known:
        expected = f"the name of a metric, {' or '.join(RULES)}"
        message = f"expected {expected} but got {metric}={format_value(growth)}{nearest(metric, known)}"
        raise source.error("unknown-metric", message, *path)
    if metric in METRICS and not METRICS[metric].kept:
        names = baseline_metrics()
        kept = ", ".join(get_close_matches(metric, names, n=len(names), cutoff=0))
        message = f"expected a metric that baselines keep ({kept}) but got {metric}={format_value(growth)}"
        raise source.error("bad-value", message, *path)
    if growth == "off":
        return None
    if isinstance(growth, bool) or not isinstance(growth, int | float) or not 0 <= growth <= float_info.max:
        raise source.error(
            "bad-value", f"expected a growth such as 0.1, or off, but got {metric}={format_value(growth)}", *path
        )
    return float(growth)


def require_analyzers(layers: Iterable[Layer], analyzers: Collection[str]) -> None:
    """Require that the metrics that layers name are ours, or of the analyzers that are asked for.

    Raises UserError (unknown-analyzer) with the line.
    """
    for layer in layers:
        for metric, value in (*layer.bounds.items(), *layer.regression.items()):
            if not _is_asked(metric, analyzers):
                key = metric if metric in layer.bounds else REGRESSION_PREFIX + metric
                message = f"expected {analyzer_of(metric)} under analyzers but got {metric}={value} without it"
                line = layer.lines.get(key, layer.source.line)
                raise UserError("unknown-analyzer", message, file=layer.source.file, line=line)


def drop_unmeasured_settings(layers: Iterable[Layer], analyzers: Collection[str]) -> Iterator[Layer]:
    """Leave out of layers what they say of metrics of analyzers that are not asked for: nobody measures those."""
    for layer in layers:
        if all(_is_asked(metric, analyzers) for metric in (*layer.bounds, *layer.regression)):
            yield layer
        else:
            bounds = {metric: limit for metric, limit in layer.bounds.items() if _is_asked(metric, analyzers)}
            growths = {metric: growth for metric, growth in layer.regression.items() if _is_asked(metric, analyzers)}
            yield replace(layer, bounds=bounds, regression=growths)


def _is_asked(metric: str, analyzers: Collection[str]) -> bool:
    """Tell whether a setting is of ours, or of an analyzer that is asked for."""
    analyzer = analyzer_of(metric)
    return analyzer is None or analyzer in analyzers


THRESHOLDS_VARIABLE = "PRECISION_THRESHOLDS"


_NAME = "thresholds"


def read_thresholds(text: str, *, looser: bool) -> dict[Tier, tuple[Layer, ...]]:
    """Return the layers that the variable's text adds in each tier; none for an empty text.

    `looser` lets a bound replace one that is tighter.

    Raises:
        UserError: bad-thresholds, with the line of JSON that cannot be read, or the path of a value, as in
            `unit.float16.rtol`.
    """
    if not text.strip():
        return {}
    override: Override = "always" if looser else "tighter"
    found = list(_layers(_parsed(text), (), (*DTYPE_NAMES, *TIERS), override))
    return {tier: tuple(layer for path, layer in found if _tier_of(path) in (None, tier)) for tier in TIERS}


def _tier_of(path: tuple[str, ...]) -> str | None:
    return path[0] if path[:1] and path[0] in TIERS else None


def unmet_thresholds(layers: Sequence[Layer], tolerance: Tolerance, dtype: str) -> Iterator[str]:
    """Say which thresholds do not hold for an output: the project's bound is tighter, or no element is matched.

    The texts name no case, so that a run says each of them once.
    """
    holding = {bound.metric: bound for bound in (tolerance.rtol, tolerance.atol, *tolerance.bounds)}
    alternatives = (bound for alternative in tolerance.alternatives for bound in alternative)
    matched = "match_ratio" in holding or any(bound.metric == "match_ratio" for bound in alternatives)
    given = [layer for layer in layers if layer.override is not None and layer.dtype in (None, dtype)]
    last = {metric: (float(limit), layer.name) for layer in given for metric, limit in layer.bounds.items()}
    for metric, (limit, name) in last.items():
        setting = f"{THRESHOLDS_VARIABLE}: {metric}={limit:g} ({name})"
        if metric in CLOSENESS_KEYS and not matched:
            yield f"{setting} binds nothing in some cases, which ask for no match_ratio"
        elif holding[metric].source.file != THRESHOLDS_VARIABLE and is_tighter(metric, holding[metric].limit, limit):
            yield f"{setting} is looser than some bounds, and does not hold there"


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON as it stands there, so that a key that stands twice can be told."""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as problem:
        message = f"expected JSON but got {text[:60]!r}: {problem.msg} at column {problem.colno}"
        raise UserError("bad-thresholds", message, file=THRESHOLDS_VARIABLE, line=problem.lineno) from None
    except (ValueError, RecursionError) as problem:
        raise UserError("bad-thresholds", f"expected JSON but got: {problem}", file=THRESHOLDS_VARIABLE) from None


def _mapping(value: Any, path: tuple[str, ...]) -> dict[str, Any]:
    """Return an object of JSON as a dict. Raises UserError (bad-thresholds) for another value, and for a key twice."""
    if not isinstance(value, _Pairs):
        _refuse("a mapping from metric, rtol, atol, dtype or tier", path, value)
    mapping: dict[str, Any] = {}
    for key, item in value:
        if key in mapping:
            _refuse("each key once", (*path, key), item, " a second time")
        mapping[key] = item
    return mapping


def _layers(
    value: Any, path: tuple[str, ...], groups: tuple[str, ...], override: Override
) -> Iterator[tuple[tuple[str, ...], Layer]]:
    """Yield the layer of the limits in a mapping, then those of its groups: keys that hold mappings themselves."""
    mapping = _mapping(value, path)
    bounds: dict[str, float | str] = {
        key: _limit(key, item, (*path, key), groups) for key, item in mapping.items() if key not in groups
    }
    if bounds:
        dtype = next((name for name in path if name in DTYPE_NAMES), None)
        yield (
            path,
            Layer(", ".join((_NAME, *path)), Location(THRESHOLDS_VARIABLE), bounds, dtype=dtype, override=override),
        )
    for group in (group for group in groups if group in mapping):
        yield from _layers(mapping[group], (*path, group), DTYPE_NAMES if group in TIERS else (), override)


def _limit(key: str, value: Any, path: tuple[str, ...], groups: tuple[str, ...]) -> float:
    known = (*CLOSENESS_KEYS, *METRICS, *groups, *_analyzer_threshold(key))
    if key not in known:
        _refuse("a metric, rtol, atol, a dtype or, outermost, a tier", path, value, nearest(key, known))
    if expected := limit_problem(key, value):
        _refuse(expected, path, value)
    return float(value)


def _analyzer_threshold(metric: str) -> tuple[str, ...]:
    """Return every metric of the analyzer that a metric is called after."""
    try:
        return metrics_like(metric)
    except UserError as error:
        raise UserError(error.slug, error.message, file=THRESHOLDS_VARIABLE) from None


def _refuse(expected: str, path: tuple[str, ...], value: Any, more: str = "") -> NoReturn:
    name = json.dumps(".".join(path))[1:-1]  # a key may have any character, a line's end among them
    came = f"{format_value(name) or THRESHOLDS_VARIABLE}={_as_json(value)}"
    raise UserError("bad-thresholds", f"expected {expected} but got {came}{more}", file=THRESHOLDS_VARIABLE)


def _as_json(value: Any) -> str:
    """Write what came, shortened; a text in its quotes, without which it may look like the number it should be."""
    return format_value(json.dumps(value) if isinstance(value, str) else _plain(value))


def _plain(value: Any) -> Any:
    return {key: _plain(item) for key, item in value} if isinstance(value, _Pairs) else value
