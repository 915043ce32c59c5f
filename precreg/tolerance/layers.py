"""Which layers of the pyramid does a file or a variable set?

Tolerance mappings in YAML become layers, and each setting keeps its line. The variable PRECISION_THRESHOLDS adds
absolute bounds as the last layers. It holds JSON: metrics, rtol and atol with their limits, the same by dtype, and all
of this by tier, as in {"max_ulp": 4, "float16": {"rtol": 2e-3}, "model": {"rtol": 1e-2}}. Limits for everything come
first, then limits of dtypes, then limits of the tier, and the later wins. Each then replaces a bound of the project,
but only a looser one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from os.path import abspath
from pathlib import Path
from sys import float_info
from typing import Any, NamedTuple, NoReturn

from msgspec.structs import replace

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError, name_hint, nearest
from precreg.measure import METRICS, analyzer_of, baseline_metrics, metrics_like
from precreg.storage import KeyPath, Source, expect_mapping, format_value, read_yaml
from precreg.tolerance.pyramid import CLOSENESS_KEYS, REGRESSION_PREFIX, is_tighter, limit_example, limit_problem
from precreg.tolerance.standard import format_standard
from precreg.tolerance.standards import NO_BOUNDS, find_standard
from precreg.types import (
    CUMULATIVE_LOSS,
    GAIN,
    GROWTH_DOWN,
    GROWTH_UP,
    PAIRED_LOSS,
    RULES,
    TIERS,
    Layer,
    Location,
    Override,
    Tier,
    Tolerance,
    UnmetThreshold,
    growth_key,
    split_growth_key,
)

# The file of the layers below every suite, relative to the project.
TOLERANCES_FILE = "suites/tolerances.yaml"

THRESHOLDS_VARIABLE = "PRECISION_THRESHOLDS"

# In front of the path of a file that has the thresholds.
THRESHOLDS_FILE_MARK = "@"
# The place of a value of thresholds, by the keys that lead to it.
_Where = Callable[[tuple[str, ...]], Location]

_GROUPS = ("outputs", "environments")
_KEYS = ("rtol", "atol", *METRICS, "standard", "regression", *_GROUPS, *DTYPE_NAMES)
_THRESHOLDS_LAYER = "thresholds"


class _Scope(NamedTuple):
    """The dtype, output and environment that enclose a nested mapping; each can be set once."""

    dtype: str | None = None
    output: str | None = None
    environment: str | None = None

    def __str__(self) -> str:
        words = {"": self.dtype, "output ": self.output, "environment ": self.environment}
        return "".join(f", {kind}{name}" for kind, name in words.items() if name is not None)


_EVERYTHING = _Scope()


def read_layers(name: str, source: Source, path: KeyPath, mapping: Any, scope: _Scope = _EVERYTHING) -> Iterator[Layer]:
    """Yield the layers of one tolerance mapping: for everything, then by dtype, by output, by environment.

    `path` is the path of the mapping in its file. The word `none` stands for a mapping that takes all bounds away.
    Raises UserError: bad-value, unknown-metric, unknown-dtype,
    unknown-standard.
    """
    if mapping == NO_BOUNDS.name:
        mapping = {"standard": NO_BOUNDS.name}
    expect_mapping(source, mapping, *path)
    # The later layer wins, so a mapping with a narrower scope comes after the wider one.
    own = {key: value for key, value in mapping.items() if key not in _GROUPS and key not in DTYPE_NAMES}
    if own:
        yield _read_layer(name, source, path, own, scope)
    for dtype in (key for key in mapping if key in DTYPE_NAMES):
        _refuse_repeated(source, scope.dtype, dtype, *path, dtype)
        yield from read_layers(name, source, (*path, dtype), mapping[dtype], scope._replace(dtype=dtype))
    for group, field in (("outputs", "output"), ("environments", "environment")):
        inner = mapping.get(group, {})
        expect_mapping(source, inner, *path, group)
        for key, value in inner.items():
            _refuse_repeated(source, getattr(scope, field), key, *path, group, key)
            yield from read_layers(name, source, (*path, group, key), value, scope._replace(**{field: key}))


def environment_layers(name: str, source: Source, path: KeyPath, mapping: Any) -> Iterator[Layer]:
    """Yield the layers of a mapping from environment to tolerance."""
    for key, value in mapping.items():
        yield from read_layers(name, source, (*path, key), value, _Scope(environment=key))


def _refuse_repeated(source: Source, outer: str | None, key: str, *path: str | int) -> None:
    # Settings inside two dtypes, or two outputs, could never apply.
    if outer is not None:
        raise source.error(
            "bad-value",
            f"expected settings but got {key} again inside {outer}",
            *path,
            hint=f"move {key}: out of {outer}:, to its left",
        )


def _read_layer(name: str, source: Source, path: KeyPath, settings: dict[str, Any], scope: _Scope) -> Layer:
    regression = _read_regression(source, path, settings.pop("regression", {}))
    # A metric may have a bound and a growth, on different lines.
    # The settings of both directions have keys of two words: the metric, and the key below it.
    lines = {
        REGRESSION_PREFIX + key: source.where(*path, "regression", *filter(None, split_growth_key(key))).line
        for key in regression
    }
    lines |= {key: source.where(*path, key).line for key in settings}
    if isinstance(settings.get("standard"), dict):
        settings["standard"] = _read_standard(source, (*path, "standard"), settings["standard"])
    for key, value in settings.items():
        _check_setting(source, (*path, key), key, value)
    return Layer(f"{name}{scope}", source.where(*path), settings, regression, *scope, lines)


def _read_standard(source: Source, path: KeyPath, given: dict[str, Any]) -> str:
    """Return a standard that is a mapping of name and parameters in the one-text form of the command line."""
    parameters = {key: value for key, value in given.items() if key != "name"}
    if not isinstance(given.get("name"), str):
        message = f"expected a mapping with the name of a standard but got standard={format_value(given)}"
        raise source.error(
            "bad-value", message, *path, hint="write the name first: standard: {name: flaggems-1, reduced: 768}"
        )
    return format_standard(given["name"], parameters)


def _check_setting(source: Source, path: KeyPath, key: str, value: Any) -> None:
    if key == "standard":
        find_standard(str(value), source.where(*path))
    elif key in CLOSENESS_KEYS or key in METRICS or key in (others := _metrics_like_setting(source, path, key)):
        if expected := limit_problem(key, value):
            raise source.error(
                "bad-value",
                f"expected {expected} but got {key}={format_value(value)}",
                *path,
                hint=f"write such a limit: {key}: {limit_example(key)}",
            )
    # An unknown key with a mapping is a misspelt dtype or group, and one with a number a misspelt metric.
    elif isinstance(value, dict):
        message = f"expected the name of a dtype, outputs or environments but got {key}{nearest(key, _KEYS)}"
        raise source.error("unknown-dtype", message, *path, hint=name_hint(key, _KEYS))
    else:
        message = (
            f"expected the name of a metric, rtol, atol, standard or regression but got {key}={format_value(value)}"
        )
        hint = name_hint(key, (*_KEYS, *others))
        raise source.error(
            "unknown-metric",
            message + nearest(key, (*_KEYS, *others)),
            *path,
            hint=hint and f"{hint}: {format_value(value)}",
        )


def _metrics_like_setting(source: Source, path: KeyPath, metric: str) -> tuple[str, ...]:
    """Return all metrics of the analyzer whose prefix a metric has."""
    try:
        return metrics_like(metric)
    except UserError as error:
        raise source.error(error.slug, error.message, *path, hint=error.hint) from None


def _read_regression(source: Source, path: KeyPath, value: Any) -> dict[str, float | None]:
    """Read the allowed growths: None for `off`, and for each rule and metric after `regression: off`."""
    path = (*path, "regression")
    if value == "off":
        return dict.fromkeys((*RULES, *baseline_metrics()))
    expect_mapping(source, value, *path)
    growths: dict[str, float | None] = {}
    for metric, growth in value.items():
        _check_judged(source, (*path, metric), metric, growth)
        if isinstance(growth, dict):
            growths |= _read_directions(source, (*path, metric), metric, growth)
        else:
            growths[metric] = _read_growth(source, (*path, metric), metric, growth)
    return growths


# The key of the growth that a plain number allows.
_LOSS = "worse"


def _read_directions(source: Source, path: KeyPath, metric: str, given: dict[str, Any]) -> dict[str, float | None]:
    """Read the thresholds of both directions of a metric, or of the statistic, by the keys of settings."""
    signed = metric in METRICS and METRICS[metric].scale == "signed"
    ways = f"worse and better{', or up and down' if signed else ''}"
    allowed = (_LOSS, GAIN, *((GROWTH_UP, GROWTH_DOWN) if signed else ()))
    # One of up and down alone would leave the other direction without a threshold, and a mixture has no meaning.
    mixed = not given or (given.keys() & {GROWTH_UP, GROWTH_DOWN} and given.keys() != {GROWTH_UP, GROWTH_DOWN})
    is_budget = metric in (CUMULATIVE_LOSS, PAIRED_LOSS)
    if is_budget or mixed or not given.keys() <= set(allowed):
        expected = "a growth such as 0.1, or off" if is_budget else f"the keys {ways}"
        message = f"expected {expected} but got {metric}={format_value(given)}"
        raise source.error(
            "bad-value",
            message,
            *path,
            *(key for key in list(given)[:1] if not mixed),
            hint=f"write the growth as a share: {metric}: 0.1 allows 10 %, and {metric}: off does not judge it",
        )
    return {
        metric if way == _LOSS else growth_key(metric, way): _read_growth(
            source, (*path, way), f"{metric}.{way}", growth
        )
        for way, growth in given.items()
    }


def _check_judged(source: Source, path: KeyPath, metric: str, growth: Any) -> None:
    """Require the name of a rule, or of a metric that baselines keep."""
    known = (*RULES, *METRICS)
    if metric not in known and metric not in (others := _metrics_like_setting(source, path, metric)):
        expected = f"the name of a metric, {' or '.join(RULES)}"
        message = f"expected {expected} but got {metric}={format_value(growth)}{nearest(metric, (*known, *others))}"
        raise source.error("unknown-metric", message, *path)
    # Growth is measured against the baseline, so the baseline must have the metric.
    if metric in METRICS and not METRICS[metric].kept:
        from difflib import get_close_matches  # takes 1 ms, which a successful command need not spend

        names = baseline_metrics()
        kept = ", ".join(get_close_matches(metric, names, n=len(names), cutoff=0))
        message = f"expected a metric that baselines keep ({kept}) but got {metric}={format_value(growth)}"
        raise source.error("bad-value", message, *path, hint="write one of them: regression: {max_ulp: 0.1}")


def _read_growth(source: Source, path: KeyPath, metric: str, growth: Any) -> float | None:
    if growth == "off":
        return None
    # YAML reads `yes` and `on` as true, and Python counts true as the number 1.
    if isinstance(growth, bool) or not isinstance(growth, int | float) or not 0 <= growth <= float_info.max:
        raise source.error(
            "bad-value",
            f"expected a growth such as 0.1, or off, but got {metric}={format_value(growth)}",
            *path,
            hint=f"write the growth as a share: {metric}: 0.1 allows 10 %, and {metric}: off does not judge it",
        )
    return float(growth)


def require_analyzers(layers: Iterable[Layer], analyzers: Collection[str]) -> None:
    """Require that the metrics in layers are precreg's own, or belong to requested analyzers.

    Raises UserError (unknown-analyzer) with the line.
    """
    for layer in layers:
        for metric, value in (*layer.bounds.items(), *layer.regression.items()):
            if not _is_requested(metric, analyzers):
                key = metric if metric in layer.bounds else REGRESSION_PREFIX + metric
                analyzer = analyzer_of(split_growth_key(metric)[0])
                message = f"expected {analyzer} under analyzers but got {metric}={value} without it"
                line = layer.lines.get(key, layer.source.line)
                raise UserError("unknown-analyzer", message, file=layer.source.file, line=line)


def drop_unmeasured_settings(layers: Iterable[Layer], analyzers: Collection[str]) -> Iterator[Layer]:
    """Yield layers without the settings of analyzers that the case does not request, which nothing measures."""
    # suites/tolerances.yaml applies to many suites, which may request different analyzers.
    for layer in layers:
        if all(_is_requested(metric, analyzers) for metric in (*layer.bounds, *layer.regression)):
            yield layer
        else:
            bounds = {metric: limit for metric, limit in layer.bounds.items() if _is_requested(metric, analyzers)}
            growths = {
                metric: growth for metric, growth in layer.regression.items() if _is_requested(metric, analyzers)
            }
            yield replace(layer, bounds=bounds, regression=growths)


def _is_requested(metric: str, analyzers: Collection[str]) -> bool:
    """Return whether a setting has a metric of precreg, or of a requested analyzer."""
    analyzer = analyzer_of(split_growth_key(metric)[0])
    return analyzer is None or analyzer in analyzers


def read_thresholds(text: str, project: Path = Path(), *, looser: bool) -> dict[Tier, tuple[Layer, ...]]:
    """Return the layers that the text of the variable adds in each tier; none for an empty text.

    A text `@FILE` names a file with the same content in YAML or JSON. With `looser`, a bound also replaces a tighter
    one. Raises UserError: bad-thresholds, with the line of invalid JSON or of the file, and with the path of an invalid
    value, as in `unit.float16.rtol`; the errors of `read_yaml`.
    """
    if not text.strip():
        return {}
    override: Override = "always" if looser else "tighter"
    if text.startswith(THRESHOLDS_FILE_MARK):
        source = _read_thresholds_file(Path(text.removeprefix(THRESHOLDS_FILE_MARK)), project)
        given, where = _as_pairs(source.data), lambda path: source.where(*path)
    else:
        given, where = _parse_json(text), lambda path: Location(THRESHOLDS_VARIABLE)
    found = list(_threshold_layers(given, (), (*DTYPE_NAMES, *TIERS), override, where))
    return {tier: tuple(layer for path, layer in found if _tier_of(path) in (None, tier)) for tier in TIERS}


def _read_thresholds_file(path: Path, project: Path) -> Source:
    """Read a file of thresholds; messages name it relative to the project, if it lies inside."""
    absolute = Path(abspath(path))
    inside = absolute.is_relative_to(project)
    return read_yaml(absolute, absolute.relative_to(project).as_posix() if inside else str(path))


def _as_pairs(value: Any) -> Any:
    return _Pairs((key, _as_pairs(item)) for key, item in value.items()) if isinstance(value, dict) else value


def _tier_of(path: tuple[str, ...]) -> str | None:
    return path[0] if path[:1] and path[0] in TIERS else None


def unmet_thresholds(layers: Sequence[Layer], tolerance: Tolerance, dtype: str) -> Iterator[UnmetThreshold]:
    """Yield the thresholds that do not apply to an output.

    The project's bound is tighter, or the case requires no match ratio. They name no case, so that a run reports each
    of them once.
    """
    holding = {bound.metric: bound for bound in (tolerance.rtol, tolerance.atol, *tolerance.bounds)}
    alternatives = (bound for alternative in tolerance.alternatives for bound in alternative)
    matched = "match_ratio" in holding or any(bound.metric == "match_ratio" for bound in alternatives)
    # Among overrides the later wins, so only the last limit of each metric matters.
    given = [layer for layer in layers if layer.override is not None and layer.dtype in (None, dtype)]
    last = {metric: (float(limit), layer) for layer in given for metric, limit in layer.bounds.items()}
    for metric, (limit, layer) in last.items():
        name, file = layer.name, layer.source.file
        shown = "" if file == THRESHOLDS_VARIABLE else file
        if metric in CLOSENESS_KEYS and not matched:
            yield UnmetThreshold(metric, limit, name, "unmatched", shown)
        elif holding[metric].source.file != file and is_tighter(metric, holding[metric].limit, limit):
            yield UnmetThreshold(metric, limit, name, "looser", shown)


class _Pairs(list[tuple[str, Any]]):
    """The items of a JSON object, in which a repeated key is still visible."""


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as problem:
        message = f"expected JSON but got {text[:60]!r}: {problem.msg} at column {problem.colno}"
        raise UserError("bad-thresholds", message, file=THRESHOLDS_VARIABLE, line=problem.lineno) from None
    # An integer of too many digits is a ValueError, and deep nesting a RecursionError.
    except (ValueError, RecursionError) as problem:
        raise UserError("bad-thresholds", f"expected JSON but got: {problem}", file=THRESHOLDS_VARIABLE) from None


def _read_mapping(value: Any, path: tuple[str, ...], where: _Where) -> dict[str, Any]:
    """Return a JSON object as a dict; raise UserError (bad-thresholds) for another value or a repeated key."""
    if not isinstance(value, _Pairs):
        _refuse("a mapping from metric, rtol, atol, dtype or tier", path, value, where)
    mapping: dict[str, Any] = {}
    for key, item in value:
        if key in mapping:
            _refuse("each key once", (*path, key), item, where, " a second time")
        mapping[key] = item
    return mapping


def _threshold_layers(
    value: Any, path: tuple[str, ...], groups: tuple[str, ...], override: Override, where: _Where
) -> Iterator[tuple[tuple[str, ...], Layer]]:
    """Yield the layer of the limits in a mapping, then the layers of its groups, which are mappings themselves."""
    mapping = _read_mapping(value, path, where)
    bounds: dict[str, float | str] = {
        key: _read_limit(key, item, (*path, key), groups, where) for key, item in mapping.items() if key not in groups
    }
    if bounds:
        dtype = next((name for name in path if name in DTYPE_NAMES), None)
        yield (
            path,
            Layer(
                ", ".join((_THRESHOLDS_LAYER, *path)),
                where(path),
                bounds,
                dtype=dtype,
                lines={key: line for key in bounds if (line := where((*path, key)).line)},
                override=override,
            ),
        )
    # A tier may hold dtypes; a dtype holds limits alone.
    for group in (group for group in groups if group in mapping):
        yield from _threshold_layers(
            mapping[group], (*path, group), DTYPE_NAMES if group in TIERS else (), override, where
        )


def _read_limit(key: str, value: Any, path: tuple[str, ...], groups: tuple[str, ...], where: _Where) -> float:
    known = (*CLOSENESS_KEYS, *METRICS, *groups, *_metrics_like_threshold(key, path, where))
    if key not in known:
        _refuse("a metric, rtol, atol, a dtype or, outermost, a tier", path, value, where, nearest(key, known))
    if expected := limit_problem(key, value):
        _refuse(expected, path, value, where)
    return float(value)


def _metrics_like_threshold(metric: str, path: tuple[str, ...], where: _Where) -> tuple[str, ...]:
    """Return all metrics of the analyzer whose prefix a metric has."""
    try:
        return metrics_like(metric)
    except UserError as error:
        place = where(path)
        raise UserError(error.slug, error.message, file=place.file, line=place.line or None) from None


def _refuse(expected: str, path: tuple[str, ...], value: Any, where: _Where, more: str = "") -> NoReturn:
    name = json.dumps(".".join(path))[1:-1]  # a key may have any character, even a line break
    got = f"{format_value(name) or THRESHOLDS_VARIABLE}={_format_json(value)}"
    place = where(path)
    message = f"expected {expected} but got {got}{more}"
    raise UserError("bad-thresholds", message, file=place.file, line=place.line or None)


def _format_json(value: Any) -> str:
    """Format a value, shortened."""
    # A text keeps its quotes, because "0.1" without them looks like the number that was expected.
    return format_value(json.dumps(value) if isinstance(value, str) else _as_dicts(value))


def _as_dicts(value: Any) -> Any:
    return {key: _as_dicts(item) for key, item in value} if isinstance(value, _Pairs) else value
