"""Whether one pyramid of tolerances admits more than another: every bound, for every dtype, output and environment.

PRECISION_THRESHOLDS is no part of it: what a variable tightens today hides nothing of what a file loosens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from precreg.arithmetic.formats import DTYPE_NAMES
from precreg.baseline.integrity.side import Change
from precreg.environment.environment import chain
from precreg.measure.metrics import described
from precreg.tolerance.pyramid import CLOSENESS, GROWTH, REGION, resolve, tighter
from precreg.types.records import Kind
from precreg.types.types import Bound, Layer, Location, Tolerance

Layers = tuple[Layer, ...]


MOST_SCOPES = 3
"""Dtypes named where a bound is looser for some of them."""


_ANY_OUTPUT = ""

_GENERIC = "generic"

_OTHERS = {_ANY_OUTPUT: "other outputs", _GENERIC: "other environments"}


class _Scope(NamedTuple):
    """Where a tolerance holds: an output ("" for those that no layer names), a dtype, and an environment's label."""

    output: str
    dtype: str
    environment: str


class _Looser(NamedTuple):
    """One setting that admits more: what held, and what holds now; None where nothing does."""

    key: str
    old: float | None
    new: float | None
    source: Location | None


def written(layers: Sequence[Layer]) -> Layers:
    """Return the layers that stand in files, without those of PRECISION_THRESHOLDS."""
    return tuple(layer for layer in layers if layer.override is None)


def loosened(base: Layers, head: Layers, about: str) -> tuple[Change, ...]:
    """Return every bound and every allowed growth that admits more under `head` than under `base`."""
    before, now = written(base), written(head)
    if list(map(_settings, before)) == list(map(_settings, now)):
        return ()
    found: dict[_Looser, list[_Scope]] = {}
    scopes = _scopes((*before, *now))
    for scope in scopes:
        old, new = (resolve(layers, scope.output, scope.dtype, chain(scope.environment)) for layers in (before, now))
        for looser in _looser(old, new):
            found.setdefault(looser, []).append(scope)
    return tuple(_change(looser, where, scopes, about) for looser, where in found.items())


def _settings(layer: Layer) -> tuple[object, ...]:
    """Return what a layer says and for what, wherever it stands."""
    return layer.bounds, layer.regression, layer.dtype, layer.output, layer.environment


def _scopes(layers: Layers) -> list[_Scope]:
    """Return one scope for each way in which layers can apply: any other label has the chain of one of these."""
    outputs = sorted({layer.output for layer in layers if layer.output is not None} | {_ANY_OUTPUT})
    labels = sorted({layer.environment for layer in layers if layer.environment is not None} | {_GENERIC})
    return [_Scope(*scope) for scope in product(outputs, DTYPE_NAMES, labels)]


def _looser(old: Tolerance, new: Tolerance) -> Iterator[_Looser]:
    if _counts_matches(old):
        for before, now in ((old.rtol, new.rtol), (old.atol, new.atol)):
            if tighter(before.metric, before.limit, now.limit):
                yield _Looser(before.metric, before.limit, now.limit, now.source)
    held = {bound.metric: bound for bound in new.bounds}
    for before in old.bounds:
        holds = held.get(before.metric)
        if holds is None:
            yield _Looser(before.metric, before.limit, None, before.source)
        elif tighter(before.metric, before.limit, holds.limit):
            yield _Looser(before.metric, before.limit, holds.limit, holds.source)
    yield from _looser_alternatives(old, new)
    yield from _looser_growth(old, new)


def _looser_growth(old: Tolerance, new: Tolerance) -> Iterator[_Looser]:
    """Yield what may grow more against the baseline, and regions whose constants changed: those have no order."""
    for name in sorted(old.regions.keys() | new.regions.keys()):
        if old.regions.get(name) != new.regions.get(name):
            yield _Looser(REGION + name, old.regions.get(name), new.regions.get(name), None)
    for metric, growth in old.regression.items():
        allowed = new.regression.get(metric)
        if allowed is None or allowed > growth:
            yield _Looser(GROWTH + metric, growth, allowed, None)


def _counts_matches(tolerance: Tolerance) -> bool:
    either = (bound for alternative in tolerance.alternatives for bound in alternative)
    return any(bound.metric == "match_ratio" for bound in (*tolerance.bounds, *either))


def _looser_alternatives(old: Tolerance, new: Tolerance) -> Iterator[_Looser]:
    """Yield an alternative that is enough now, and asks for less than each that was enough before."""
    if old.alternatives and not new.alternatives:
        yield _Looser("alternatives", float(len(old.alternatives)), None, None)
    if old.alternatives:
        for number, alternative in enumerate(new.alternatives, 1):
            asked = (*new.bounds, *alternative)
            if not any(_implies(asked, before) for before in old.alternatives):
                yield _Looser("alternatives", None, float(number), alternative[0].source)


def _implies(asked: Sequence[Bound], wanted: Sequence[Bound]) -> bool:
    return all(
        any(has.metric == bound.metric and not tighter(bound.metric, bound.limit, has.limit) for has in asked)
        for bound in wanted
    )


def _change(looser: _Looser, where: list[_Scope], scopes: list[_Scope], about: str) -> Change:
    kind = Kind.REGRESSION_LOOSENED if looser.key.startswith(GROWTH) else Kind.BOUND_LOOSENED
    message = f"{_told(looser)}{_named(where, scopes)}"
    return Change(kind, about, message, _factor(looser), looser.source)


def _told(looser: _Looser) -> str:
    key, old, new = looser.key, looser.old, looser.new
    if key == "alternatives":
        return (
            "one of several sets of bounds had to hold, and none has to"
            if new is None
            else (f"alternative {new:g} is enough now, and asks for less than any that was")
        )
    has, had = _apart(new, old)
    if key.startswith(GROWTH):
        return f"{key} is off, and allowed {had}" if new is None else f"{key} allows {has}, and allowed {had}"
    if key.startswith(REGION):
        return f"{key} is {_figure(new)}, and was {_figure(old)}: other elements count"
    relation = "at least" if key not in CLOSENESS and described(key).better == "higher" else "at most"
    now = "is not bound" if new is None else f"has to be {relation} {has}"
    return f"{key} {now}, and had to be {relation} {had}"


def _apart(new: float | None, old: float | None) -> tuple[str, str]:
    """Write two numbers with as many digits as tell them apart."""
    figures = (tuple("" if each is None else f"{each:.{digits}g}" for each in (new, old)) for digits in range(6, 18))
    return next(((has, had) for has, had in figures if has != had), ("", ""))


def _figure(value: float | None) -> str:
    return "the shipped one" if value is None else f"{value:g}"


def _named(where: list[_Scope], scopes: list[_Scope]) -> str:
    """Say where a setting is looser, of each part that does not hold everywhere."""
    parts: list[str] = []
    for field in ("dtype", "output", "environment"):
        every = {getattr(scope, field) for scope in scopes}
        some = sorted({getattr(scope, field) for scope in where})
        if len(some) < len(every):
            names = [_OTHERS.get(name, name) for name in some]
            shown = ", ".join(names[:MOST_SCOPES])
            parts.append(shown + (f" and {len(names) - MOST_SCOPES} more" if len(names) > MOST_SCOPES else ""))
    return f" ({'; '.join(parts)})" if parts else ""


def _factor(looser: _Looser) -> float | None:
    """Return how many times as much is admitted: of a share that has to match, how much of it need not."""
    if looser.old is None or looser.new is None or looser.key == "alternatives" or looser.key.startswith(REGION):
        return None
    old, new = looser.old, looser.new
    if looser.key not in CLOSENESS and not looser.key.startswith(GROWTH) and described(looser.key).better == "higher":
        if described(looser.key).unit != "1":
            return None
        old, new = 1 - old, 1 - new
    return new / old if old > 0 else None
