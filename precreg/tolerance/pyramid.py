"""The tolerance pyramid: layers become the one tolerance that holds for an output, and every bound knows its layer.

Layers apply in order, and per metric the later one wins. `standard: NAME` takes the place of every bound before it,
so that a standard means what its publisher wrote; single metrics of the same or a later layer change or add to it.
A layer that names rtol or atol asks for every element to match (match_ratio 1), unless a match ratio is asked for
already. A standard may ask for one of several alternatives, and bring constants of regions; they go with it, and later
bounds are asked for besides. Layers of an environment come last, the exact environment after its family, the family
after generic.

Overrides come after all of these. Among themselves the later wins; what is left takes hold always, or only where it is
tighter than what holds. They ask for no elements to match: their rtol and atol say how near a match has to be, where
a match ratio is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.measure import METRICS, analyzer_of, baseline_metrics, declared_metric
from precreg.tolerance.standard import DtypeLimits
from precreg.tolerance.standards import find_standard
from precreg.types import ANY_FINITE, CUMULATIVE_LOSS, NOT_NEGATIVE, STATISTIC, Bound, Layer, Location, Tolerance

REGRESSION_PREFIX = "regression."
"""What stands before a metric where a setting is about its growth."""


EITHER = "either."
"""What stands before the number of an alternative and a metric: either.2.mean_ulp."""


REGION_PREFIX = "regions."
"""What stands before a constant of measure/regions.py."""


SHIPPED_STANDARD = "torch-2.13"


DEFAULT_GROWTHS: dict[str, float] = {
    STATISTIC: 0.02,
    CUMULATIVE_LOSS: 0.25,
    **{metric.name: metric.default_growth for metric in METRICS.values() if metric.default_growth is not None},
}
"""Growth allowed against the baseline: averages by their own noise, above 2 %; accepted losses may add up to 25 %.

Maxima are extreme values, which harmless reordering moves by up to 2.5 times: theirs is a guard, at 4 times.
"""


CLOSENESS_KEYS = ("rtol", "atol")
"""What a match ratio counts by; without one they bind nothing, and there is nothing to be looser than."""


_SHIPPED_NAME = "shipped"

_DEFAULTS = Location("precreg's defaults")

SHIPPED_LAYERS = (
    Layer(_SHIPPED_NAME, Location(f"standard {SHIPPED_STANDARD}"), {"standard": SHIPPED_STANDARD}),
    Layer(_SHIPPED_NAME, _DEFAULTS, {}, regression={**DEFAULT_GROWTHS}),
)
"""The foot of every pyramid."""


class Setting(Struct, frozen=True):
    """One setting of one layer, and whether it holds.

    The metric `regression.METRIC` stands for allowed growth, `either.N.METRIC` for a bound of the Nth alternative, all
    of which must hold where no other alternative does, and `regions.CONSTANT` for a constant of measure/regions.py.
    """

    layer: str
    source: Location
    metric: str
    value: float | None
    holds: bool = False


class _Identity:
    """Layers by identity: the cases of a suite share one tuple, and comparing identities is what makes a cache fast."""

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
    """Return the tolerance that holds for an output of that dtype in that environment (exact first, generic last)."""
    return _resolve(_Identity(layers), output, dtype, environment_chain)


@lru_cache(maxsize=1024)
def _resolve(identity: _Identity, output: str, dtype: str, environment_chain: tuple[str, ...]) -> Tolerance:
    layers = _in_force(identity.layers, output, dtype, environment_chain)
    holding: dict[str, Setting] = {}
    _build(layers, dtype, holding)
    standard = next((layer.bounds["standard"] for layer in reversed(layers) if "standard" in layer.bounds), None)
    own = {
        metric: setting
        for metric, setting in holding.items()
        if not metric.startswith((REGRESSION_PREFIX, EITHER, REGION_PREFIX))
    }
    bounds = {metric: _bound(setting, metric) for metric, setting in own.items()}
    return Tolerance(
        rtol=bounds.pop("rtol"),
        atol=bounds.pop("atol"),
        bounds=tuple(bounds.values()),
        regression=_judged(holding),
        standard=None if standard is None else str(standard),
        alternatives=_alternatives(holding),
        regions={
            key.removeprefix(REGION_PREFIX): _limit(s) for key, s in holding.items() if key.startswith(REGION_PREFIX)
        },
    )


def explain_tolerance(
    layers: tuple[Layer, ...], output: str, dtype: str, environment_chain: tuple[str, ...]
) -> tuple[Setting, ...]:
    """Return every setting that applies to an output, in the order in which they apply, and which of them hold."""
    holding: dict[str, Setting] = {}
    settings = _build(_in_force(layers, output, dtype, environment_chain), dtype, holding)
    return tuple(replace(setting, holds=holding.get(setting.metric) is setting) for setting in settings)


def _in_force(layers: tuple[Layer, ...], output: str, dtype: str, chain: tuple[str, ...]) -> list[Layer]:
    rank = {name: len(chain) - index for index, name in enumerate(chain)}
    admitted = (
        layer
        for layer in layers
        if layer.dtype in (None, dtype)
        and layer.output in (None, output)
        and (layer.environment is None or layer.environment in rank)
    )
    return sorted(admitted, key=lambda layer: rank.get(layer.environment or "", 0))


def is_tighter(metric: str, value: float, than: float) -> bool:
    """Tell whether one limit on a metric (or rtol, atol) admits less than another one."""
    # rtol, atol and settings of growth are no metrics, and less of them is tighter.
    higher = (metric in METRICS or analyzer_of(metric) is not None) and declared_metric(metric).better == "higher"
    return value > than if higher else value < than


def limit_problem(metric: str, value: Any) -> str | None:
    """Say what a limit on a metric (or rtol, atol) has to be, where a value cannot be one."""
    known = METRICS.get(metric)
    allowed = ANY_FINITE if analyzer_of(metric) is not None else NOT_NEGATIVE if known is None else known.range
    if isinstance(value, int | float) and not isinstance(value, bool) and allowed.least <= value <= allowed.greatest:
        return None
    return allowed.words


def _build(layers: list[Layer], dtype: str, holding: dict[str, Setting]) -> list[Setting]:
    """Apply layers in order, overrides at the end, and return every setting."""
    settings = [setting for layer in layers if layer.override is None for setting in _apply(layer, dtype, holding)]
    return settings + _override([layer for layer in layers if layer.override is not None], holding)


def _override(layers: list[Layer], holding: dict[str, Setting]) -> list[Setting]:
    """Let overrides take hold where they may, and return their settings."""
    given = [(layer.override, setting) for layer in layers for setting in _own_settings(layer)]
    last = {setting.metric: (override, setting) for override, setting in given}
    matched = _matches(holding)
    for metric, (override, setting) in last.items():
        if metric in CLOSENESS_KEYS and not (matched or "match_ratio" in last):
            continue
        held = None if metric in CLOSENESS_KEYS and not matched else holding.get(metric)
        if held is None or override == "always" or _is_tighter(setting, held):
            holding[metric] = setting
    return [setting for _, setting in given]


def _is_tighter(setting: Setting, held: Setting) -> bool:
    return (
        setting.value is not None and held.value is not None and is_tighter(setting.metric, setting.value, held.value)
    )


def _apply(layer: Layer, dtype: str, holding: dict[str, Setting]) -> list[Setting]:
    """Let a layer's settings take the place of those that hold, and return them."""
    settings = list(_standard_settings(layer, dtype))
    if settings:
        for key in [key for key in holding if key not in CLOSENESS_KEYS and not key.startswith(REGRESSION_PREFIX)]:
            del holding[key]
        holding.update((setting.metric, setting) for setting in settings)
    if layer.regression.keys() >= set(baseline_metrics()) and not any(layer.regression.values()):
        for key in [
            key
            for key in holding
            if key.startswith(REGRESSION_PREFIX) and analyzer_of(key.removeprefix(REGRESSION_PREFIX))
        ]:
            del holding[key]
    own = list(_own_settings(layer))
    holding.update((setting.metric, setting) for setting in own)
    if not _matches(holding) and ("rtol" in layer.bounds or "atol" in layer.bounds):
        key = "rtol" if "rtol" in layer.bounds else "atol"
        own.append(Setting(layer.name, _place(layer, key), "match_ratio", 1.0))
        holding["match_ratio"] = own[-1]
    return settings + own


def _standard_settings(layer: Layer, dtype: str) -> Iterator[Setting]:
    name = layer.bounds.get("standard")
    if name is not None:
        label = layer.name if layer == SHIPPED_LAYERS[0] else f"{layer.name}, standard {name}"
        limits = find_standard(str(name)).limits(dtype) or DtypeLimits()
        for key, limit in _keyed(limits):
            yield Setting(label, _place(layer, "standard"), key, limit)


def _keyed(limits: DtypeLimits) -> Iterator[tuple[str, float]]:
    """Yield a standard's limits by the keys that settings have."""
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
    """Tell whether a share of matching elements is asked for, be it in an alternative."""
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


def _judged(holding: dict[str, Setting]) -> dict[str, float]:
    growths = {
        key.removeprefix(REGRESSION_PREFIX): setting.value
        for key, setting in holding.items()
        if key.startswith(REGRESSION_PREFIX)
    }
    return {metric: growth for metric, growth in growths.items() if growth is not None}
