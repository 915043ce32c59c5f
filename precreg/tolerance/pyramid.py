"""Which tolerance applies to an output, and from which layer does each bound come?

Layers apply in order, and per metric the later one wins. `standard: NAME` replaces every earlier bound, so that a
standard means what its publisher wrote; single metrics of the same or a later layer change it or add to it. A layer
that names rtol or atol requires every element to match (match_ratio 1), unless a match ratio is required already. A
standard may offer alternatives and bring constants of regions, which go with it. Layers of an environment come last,
the exact environment after its family, the family after generic.

Overrides come after all of these, and among themselves the later wins. An override applies always, or only if it is
tighter than the bound it replaces. It requires no elements to match: its rtol and atol say how near a match has to be,
if a match ratio is required.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.measure import METRICS, analyzer_of, baseline_metrics, declared_metric
from precreg.tolerance.standard import DtypeLimits
from precreg.tolerance.standards import NO_BOUNDS, find_standard
from precreg.types import (
    ANY_FINITE,
    CUMULATIVE_LOSS,
    GAIN,
    GROWTH_DOWN,
    GROWTH_UP,
    NOT_NEGATIVE,
    PAIRED_LOSS,
    STATISTIC,
    Bound,
    Layer,
    Location,
    Tolerance,
    growth_key,
    split_growth_key,
)

# The prefixes of settings: the growth of a metric, the bounds of an alternative (either.2.mean_ulp), and the constants
# of the regions of precreg.measure.
REGRESSION_PREFIX = "regression."
EITHER = "either."
REGION_PREFIX = "regions."

SHIPPED_STANDARD = "torch-2.13"

# Growth allowed against the baseline. Harmless reordering moves maxima, which are extreme values, by up to 2.5 times,
# so their threshold is at 4 times the baseline. Averages are judged by their own noise, with a minimum relevant change
# of 2 %: docs/detection-method.md labels a change of up to 1.02x as not worse. On fresh inputs a test with a hundred
# seeds proves true losses of 2 to 10 % in 3.7 % of all harmless changes, and from 5 % on in 0.4 %, hence its 5 %.
DEFAULT_GROWTHS: dict[str, float] = {
    STATISTIC: 0.02,
    CUMULATIVE_LOSS: 0.25,
    PAIRED_LOSS: 0.05,
    **{metric.name: metric.default_growth for metric in METRICS.values() if metric.default_growth is not None},
}

# These set the match ratio, so without a match ratio they have no effect, and no other setting is looser.
CLOSENESS_KEYS = ("rtol", "atol")

_SHIPPED_NAME = "shipped"
_DEFAULTS = Location("precreg's defaults")

# The lowest layers of every pyramid.
SHIPPED_LAYERS = (
    Layer(_SHIPPED_NAME, Location(f"standard {SHIPPED_STANDARD}"), {"standard": SHIPPED_STANDARD}),
    Layer(_SHIPPED_NAME, _DEFAULTS, {}, regression={**DEFAULT_GROWTHS}),
)


class Setting(Struct, frozen=True):
    """One setting of one layer, and whether it applies.

    `metric` is a metric, rtol or atol for a bound; `regression.METRIC` for an allowed growth; `either.N.METRIC` for a
    bound of the Nth alternative; `regions.CONSTANT` for a constant of a region.
    """

    layer: str
    source: Location
    metric: str
    value: float | None
    holds: bool = False


class _Identity:
    """A cache key of layers by identity."""

    # The cases of a suite share one tuple of layers. Hashing the layers themselves would cost more than the cache
    # saves.

    __slots__ = ("layers",)

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers

    def __hash__(self) -> int:
        return id(self.layers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.layers is self.layers


def resolve_tolerance(
    layers: tuple[Layer, ...], output: str, dtype: str, environment_chain: tuple[str, ...]
) -> Tolerance:
    """Return the tolerance of an output of that dtype in an environment chain (exact first, generic last)."""
    return _resolve(_Identity(layers), output, dtype, environment_chain)


# The cases of a suite differ in output and dtype, and each combination recurs in many cases.
@lru_cache(maxsize=1024)
def _resolve(identity: _Identity, output: str, dtype: str, environment_chain: tuple[str, ...]) -> Tolerance:
    layers = _applicable(identity.layers, output, dtype, environment_chain)
    holding: dict[str, Setting] = {}
    _build(layers, dtype, holding)
    standard = next((layer.bounds["standard"] for layer in reversed(layers) if "standard" in layer.bounds), None)
    own = {
        metric: setting
        for metric, setting in holding.items()
        if not metric.startswith((REGRESSION_PREFIX, EITHER, REGION_PREFIX))
    }
    bounds = {metric: _bound(setting, metric) for metric, setting in own.items()}
    growths = _regression(holding)
    return Tolerance(
        rtol=bounds.pop("rtol"),
        atol=bounds.pop("atol"),
        bounds=tuple(bounds.values()),
        regression={key: growth for key, growth in growths.items() if not split_growth_key(key)[1]},
        standard=None if standard is None else str(standard),
        alternatives=_alternatives(holding),
        regions={
            key.removeprefix(REGION_PREFIX): _limit(s) for key, s in holding.items() if key.startswith(REGION_PREFIX)
        },
        directions={key: growth for key, growth in growths.items() if split_growth_key(key)[1]},
    )


def explain_tolerance(
    layers: tuple[Layer, ...], output: str, dtype: str, environment_chain: tuple[str, ...]
) -> tuple[Setting, ...]:
    """Return every setting for an output in the order of the layers, and which of them are in the tolerance."""
    holding: dict[str, Setting] = {}
    settings = _build(_applicable(layers, output, dtype, environment_chain), dtype, holding)
    # By identity, because two layers may have equal settings.
    return tuple(replace(setting, holds=holding.get(setting.metric) is setting) for setting in settings)


def _applicable(layers: tuple[Layer, ...], output: str, dtype: str, chain: tuple[str, ...]) -> list[Layer]:
    rank = {name: len(chain) - index for index, name in enumerate(chain)}
    admitted = (
        layer
        for layer in layers
        if layer.dtype in (None, dtype)
        and (layer.output is None or names_output(layer.output, output))
        and (layer.environment is None or layer.environment in rank)
    )
    # Sorting is stable, so layers of the same environment keep their order.
    return sorted(admitted, key=lambda layer: rank.get(layer.environment or "", 0))


def names_output(pattern: str, output: str) -> bool:
    """Return whether the key of a layer is an output's name, or a pattern with wildcards that matches it."""
    return pattern == output or ("*" in pattern and fnmatchcase(output, pattern))


def is_tighter(metric: str, value: float, than: float) -> bool:
    """Return whether a limit on a metric (or rtol, atol) admits less than another one."""
    # rtol, atol and settings of growth are no metrics, and less of them is tighter.
    higher = (metric in METRICS or analyzer_of(metric) is not None) and declared_metric(metric).better == "higher"
    return value > than if higher else value < than


def limit_problem(metric: str, value: Any) -> str | None:
    """Return a description of valid limits on a metric (or rtol, atol) if a value is invalid, else None."""
    known = METRICS.get(metric)
    allowed = ANY_FINITE if analyzer_of(metric) is not None else NOT_NEGATIVE if known is None else known.range
    # The comparison is false for NaN.
    if isinstance(value, int | float) and not isinstance(value, bool) and allowed.least <= value <= allowed.greatest:
        return None
    return allowed.words


def limit_example(metric: str) -> str:
    """Return a valid limit on a metric, as text for advice."""
    known = METRICS.get(metric)
    if known is None or known.better != "higher":
        return "4" if metric.endswith("_ulp") else "1e-3"
    return "0.999" if known.range.greatest <= 1 else "60"


def _build(layers: list[Layer], dtype: str, holding: dict[str, Setting]) -> list[Setting]:
    """Apply layers in order, overrides at the end, to the settings that hold so far, and return every setting."""
    settings = [setting for layer in layers if layer.override is None for setting in _apply(layer, dtype, holding)]
    return settings + _override([layer for layer in layers if layer.override is not None], holding)


def _override(layers: list[Layer], holding: dict[str, Setting]) -> list[Setting]:
    """Apply overrides and return their settings."""
    given = [(layer.override, setting) for layer in layers for setting in _own_settings(layer)]
    last = {setting.metric: (override, setting) for override, setting in given}
    matched = _matches(holding)
    for metric, (override, setting) in last.items():
        if metric in CLOSENESS_KEYS and not (matched or "match_ratio" in last):
            continue
        # Without a match ratio in the project, its rtol and atol have no effect, so any override is tighter.
        replaced = None if metric in CLOSENESS_KEYS and not matched else holding.get(metric)
        if replaced is None or override == "always" or _is_tighter(setting, replaced):
            holding[metric] = setting
    return [setting for _, setting in given]


def _is_tighter(setting: Setting, other: Setting) -> bool:
    return (
        setting.value is not None and other.value is not None and is_tighter(setting.metric, setting.value, other.value)
    )


def _apply(layer: Layer, dtype: str, holding: dict[str, Setting]) -> list[Setting]:
    """Apply a layer to the settings that hold so far, and return its settings."""
    settings = list(_standard_settings(layer, dtype))
    # A standard sets bounds. Growths are no part of one, and rtol and atol always need a value.
    if settings or layer.bounds.get("standard") == NO_BOUNDS.name:
        for key in [key for key in holding if key not in CLOSENESS_KEYS and not key.startswith(REGRESSION_PREFIX)]:
            del holding[key]
        holding.update((setting.metric, setting) for setting in settings)
    _drop_replaced_growths(layer, holding)
    # The layer's own settings come after its standard, which they may change.
    own = list(_own_settings(layer))
    holding.update((setting.metric, setting) for setting in own)
    # rtol and atol alone have no effect, so whoever sets them means all elements.
    if not _matches(holding) and ("rtol" in layer.bounds or "atol" in layer.bounds):
        key = "rtol" if "rtol" in layer.bounds else "atol"
        own.append(Setting(layer.name, _place(layer, key), "match_ratio", 1.0))
        holding["match_ratio"] = own[-1]
    return settings + own


def _drop_replaced_growths(layer: Layer, holding: dict[str, Setting]) -> None:
    """Remove the growths that a layer replaces under other keys: of analyzers, and of both directions."""
    # `regression: off` names every metric that precreg itself knows, and means metrics of analyzers, too.
    if layer.regression.keys() >= set(baseline_metrics()) and not any(layer.regression.values()):
        for key in [
            key
            for key in holding
            if key.startswith(REGRESSION_PREFIX)
            and (split_growth_key(key)[1] or analyzer_of(key.removeprefix(REGRESSION_PREFIX)) is not None)
        ]:
            del holding[key]
    for key in layer.regression:
        metric, direction = split_growth_key(key)
        # One number limits both directions of a signed metric, and two numbers take its place.
        both = (growth_key(metric, GROWTH_UP), growth_key(metric, GROWTH_DOWN))
        for replaced in {"": both, GAIN: ()}.get(direction, (metric,)):
            holding.pop(REGRESSION_PREFIX + replaced, None)


def _standard_settings(layer: Layer, dtype: str) -> Iterator[Setting]:
    name = layer.bounds.get("standard")
    if name is not None:
        label = layer.name if layer == SHIPPED_LAYERS[0] else f"{layer.name}, standard {name}"
        # A dtype that the standard leaves out keeps its bounds, and tolerance_warnings reports that.
        limits = find_standard(str(name)).limits(dtype) or DtypeLimits()
        for key, limit in _keyed(limits):
            yield Setting(label, _place(layer, "standard"), key, limit)


def _keyed(limits: DtypeLimits) -> Iterator[tuple[str, float]]:
    """Yield the limits of a standard with the keys of settings."""
    yield from limits.bounds.items()
    for number, alternative in enumerate(limits.alternatives, 1):
        yield from ((f"{EITHER}{number}.{metric}", limit) for metric, limit in alternative.items())
    yield from ((REGION_PREFIX + constant, value) for constant, value in limits.regions.items())


def _own_settings(layer: Layer) -> Iterator[Setting]:
    for metric, limit in layer.bounds.items():
        if metric != "standard":
            yield Setting(layer.name, _place(layer, metric), metric, float(limit))
    for metric, growth in layer.regression.items():
        key = REGRESSION_PREFIX + metric
        yield Setting(layer.name, _place(layer, key), key, growth)


def _place(layer: Layer, key: str) -> Location:
    return Location(layer.source.file, layer.lines.get(key, layer.source.line))


def _matches(holding: dict[str, Setting]) -> bool:
    """Return whether a match ratio is required, if only in an alternative."""
    return any(key == "match_ratio" or (key.startswith(EITHER) and key.endswith(".match_ratio")) for key in holding)


def _alternatives(holding: dict[str, Setting]) -> tuple[tuple[Bound, ...], ...]:
    branches: dict[str, list[Bound]] = {}
    for key, setting in holding.items():
        if key.startswith(EITHER):
            number, metric = key.removeprefix(EITHER).split(".", 1)
            branches.setdefault(number, []).append(_bound(setting, metric))
    return tuple(map(tuple, branches.values()))


def _bound(setting: Setting, metric: str) -> Bound:
    return Bound(metric, _limit(setting), setting.layer, setting.source)


def _limit(setting: Setting) -> float:
    assert setting.value is not None
    return setting.value


def _regression(holding: dict[str, Setting]) -> dict[str, float]:
    growths = {
        key.removeprefix(REGRESSION_PREFIX): setting.value
        for key, setting in holding.items()
        if key.startswith(REGRESSION_PREFIX)
    }
    return {metric: growth for metric, growth in growths.items() if growth is not None}
