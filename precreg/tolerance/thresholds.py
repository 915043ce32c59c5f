"""PRECISION_THRESHOLDS: absolute bounds from the environment, as the last layers of the pyramid.

The variable holds JSON: metrics, rtol and atol with their limits, the same by dtype, and all of this by tier, as in
{"max_ulp": 4, "float16": {"rtol": 2e-3}, "model": {"rtol": 1e-2}}. What holds for everything comes first, then dtypes,
then the tier, and among these the later wins; then each bound takes hold where it is tighter than the project's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from precreg.arithmetic.formats import DTYPE_NAMES
from precreg.errors import UserError, nearest
from precreg.measure.installed import metrics_like
from precreg.measure.metrics import METRICS
from precreg.storage.yaml_source import shown
from precreg.tolerance.pyramid import CLOSENESS, no_limit, tighter
from precreg.types.types import TIERS, Layer, Location, Override, Tier, Tolerance

VARIABLE = "PRECISION_THRESHOLDS"


_LIMITS = (*CLOSENESS, *METRICS)

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


def unmet(layers: Sequence[Layer], tolerance: Tolerance, dtype: str) -> Iterator[str]:
    """Say which thresholds do not hold for an output: the project's bound is tighter, or no element is matched.

    The texts name no case, so that a run says each of them once.
    """
    holding = {bound.metric: bound for bound in (tolerance.rtol, tolerance.atol, *tolerance.bounds)}
    alternatives = (bound for alternative in tolerance.alternatives for bound in alternative)
    matched = "match_ratio" in holding or any(bound.metric == "match_ratio" for bound in alternatives)
    given = [layer for layer in layers if layer.override is not None and layer.dtype in (None, dtype)]
    last = {metric: (float(limit), layer.name) for layer in given for metric, limit in layer.bounds.items()}
    for metric, (limit, name) in last.items():
        if metric in CLOSENESS and not matched:
            yield f"{VARIABLE}: {metric}={limit:g} ({name}) binds nothing in some cases, which ask for no match_ratio"
        elif holding[metric].source.file != VARIABLE and tighter(metric, holding[metric].limit, limit):
            yield f"{VARIABLE}: {metric}={limit:g} ({name}) is looser than some bounds, and does not hold there"


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON as it stands there, so that a key that stands twice can be told."""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as problem:
        message = f"expected JSON but got {text[:60]!r}: {problem.msg} at column {problem.colno}"
        raise UserError("bad-thresholds", message, file=VARIABLE, line=problem.lineno) from None
    except (ValueError, RecursionError) as problem:
        raise UserError("bad-thresholds", f"expected JSON but got: {problem}", file=VARIABLE) from None


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
        yield path, Layer(", ".join((_NAME, *path)), Location(VARIABLE), bounds, dtype=dtype, override=override)
    for group in (group for group in groups if group in mapping):
        yield from _layers(mapping[group], (*path, group), DTYPE_NAMES if group in TIERS else (), override)


def _limit(key: str, value: Any, path: tuple[str, ...], groups: tuple[str, ...]) -> float:
    known = (*_LIMITS, *groups, *_of_analyzer(key))
    if key not in known:
        _refuse("a metric, rtol, atol, a dtype or, outermost, a tier", path, value, nearest(key, known))
    if expected := no_limit(key, value):
        _refuse(expected, path, value)
    return float(value)


def _of_analyzer(metric: str) -> tuple[str, ...]:
    """Return every metric of the analyzer that a metric is called after."""
    try:
        return metrics_like(metric)
    except UserError as error:
        raise UserError(error.slug, error.message, file=VARIABLE) from None


def _refuse(expected: str, path: tuple[str, ...], value: Any, more: str = "") -> NoReturn:
    name = json.dumps(".".join(path))[1:-1]  # a key may have any character, a line's end among them
    came = f"{shown(name) or VARIABLE}={_as_json(value)}"
    raise UserError("bad-thresholds", f"expected {expected} but got {came}{more}", file=VARIABLE)


def _as_json(value: Any) -> str:
    """Write what came, shortened; a text in its quotes, without which it may look like the number it should be."""
    return shown(json.dumps(value) if isinstance(value, str) else _plain(value))


def _plain(value: Any) -> Any:
    return {key: _plain(item) for key, item in value} if isinstance(value, _Pairs) else value
