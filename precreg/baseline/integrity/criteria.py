"""What one commit, or the working tree, says about how a project is judged; and what may have become of it.

Whether one pyramid of tolerances admits more than another: every bound, for every dtype, output and environment.

PRECISION_THRESHOLDS is no part of it: what a variable tightens today hides nothing of what a file loosens.

Whether a case asks for less than it did: seeds, repeats, exactness, requirements, budgets, all that is no bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from msgspec import Struct

from precreg.arithmetic import DTYPE_NAMES
from precreg.baseline.store import BaselineKey
from precreg.environment import environment_chain
from precreg.measure import declared_metric
from precreg.tolerance import CLOSENESS_KEYS, REGION_PREFIX, REGRESSION_PREFIX, is_tighter, resolve_tolerance
from precreg.types import BaselineEntry, Bound, Case, FindingKind, Layer, Location, Tolerance


class UnreadableFile(Struct, frozen=True):
    """A file that cannot be read as it stands there, and why."""

    file: str
    message: str


class ProjectSide(Struct, frozen=True):
    """The cases of a project by id, and what was accepted, in every environment, of the suites whose baselines differ.

    `numbers` tells how many entries each environment has in all, `looser_thresholds` whether PRECISION_THRESHOLDS may
    replace bounds. `unreadable` is what cannot be read as it stands; only of a base, the working tree must be sound.
    """

    cases: dict[str, Case]
    accepted: dict[BaselineKey, BaselineEntry] = {}
    numbers: dict[str, int] = {}
    looser_thresholds: bool = False
    unreadable: tuple[UnreadableFile, ...] = ()


class IntegrityChange(Struct, frozen=True):
    """One way in which the bar was moved: the kind of finding it is, and the case, or the file, that it is about."""

    kind: FindingKind
    about: str
    message: str
    factor: float | None = None
    source: Location | None = None


class CasePairs(Struct, frozen=True):
    """The cases of both sides, each of the base beside what it is now. `renamed` compute the same under another id."""

    same: tuple[tuple[Case, Case], ...]
    renamed: tuple[tuple[Case, Case], ...]
    removed: tuple[Case, ...]
    introduced: tuple[Case, ...]

    @property
    def judged(self) -> tuple[tuple[Case, Case], ...]:
        """Every case of the base that is still there, whatever it is called now."""
        return (*self.same, *self.renamed)


def is_redefined(before: Case, now: Case) -> bool:
    """Tell whether a case computes something else under the same name."""
    return before.definition != now.definition


def pair_cases(base: dict[str, Case], head: dict[str, Case]) -> CasePairs:
    """Pair the cases of two sides by id, and what is left by what it computes, in order of ids."""
    left = {id: case for id, case in sorted(base.items()) if id not in head}
    free: dict[str, list[Case]] = {}
    for id, case in sorted(head.items(), reverse=True):
        if id not in base:
            free.setdefault(case.definition, []).append(case)
    renamed = [(case, free[case.definition].pop()) for case in left.values() if free.get(case.definition)]
    moved, taken = {before.id for before, _ in renamed}, {now.id for _, now in renamed}
    return CasePairs(
        same=tuple((base[id], case) for id, case in sorted(head.items()) if id in base),
        renamed=tuple(renamed),
        removed=tuple(case for id, case in left.items() if id not in moved),
        introduced=tuple(case for id, case in sorted(head.items()) if id not in base and id not in taken),
    )


PyramidLayers = tuple[Layer, ...]


MAX_SCOPES = 3
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


def written_layers(layers: Sequence[Layer]) -> PyramidLayers:
    """Return the layers that stand in files, without those of PRECISION_THRESHOLDS."""
    return tuple(layer for layer in layers if layer.override is None)


def find_loosened_bounds(base: PyramidLayers, head: PyramidLayers, about: str) -> tuple[IntegrityChange, ...]:
    """Return every bound and every allowed growth that admits more under `head` than under `base`."""
    before, now = written_layers(base), written_layers(head)
    if list(map(_settings, before)) == list(map(_settings, now)):
        return ()
    found: dict[_Looser, list[_Scope]] = {}
    scopes = _scopes((*before, *now))
    for scope in scopes:
        old, new = (
            resolve_tolerance(layers, scope.output, scope.dtype, environment_chain(scope.environment))
            for layers in (before, now)
        )
        for looser in _looser(old, new):
            found.setdefault(looser, []).append(scope)
    return tuple(_bound_change(looser, where, scopes, about) for looser, where in found.items())


def _settings(layer: Layer) -> tuple[object, ...]:
    """Return what a layer says and for what, wherever it stands."""
    return layer.bounds, layer.regression, layer.dtype, layer.output, layer.environment


def _scopes(layers: PyramidLayers) -> list[_Scope]:
    """Return one scope for each way in which layers can apply: any other label has the chain of one of these."""
    outputs = sorted({layer.output for layer in layers if layer.output is not None} | {_ANY_OUTPUT})
    labels = sorted({layer.environment for layer in layers if layer.environment is not None} | {_GENERIC})
    return [_Scope(*scope) for scope in product(outputs, DTYPE_NAMES, labels)]


def _looser(old: Tolerance, new: Tolerance) -> Iterator[_Looser]:
    if _counts_matches(old):
        for before, now in ((old.rtol, new.rtol), (old.atol, new.atol)):
            if is_tighter(before.metric, before.limit, now.limit):
                yield _Looser(before.metric, before.limit, now.limit, now.source)
    held = {bound.metric: bound for bound in new.bounds}
    for before in old.bounds:
        holds = held.get(before.metric)
        if holds is None:
            yield _Looser(before.metric, before.limit, None, before.source)
        elif is_tighter(before.metric, before.limit, holds.limit):
            yield _Looser(before.metric, before.limit, holds.limit, holds.source)
    yield from _looser_alternatives(old, new)
    yield from _looser_growth(old, new)


def _looser_growth(old: Tolerance, new: Tolerance) -> Iterator[_Looser]:
    """Yield what may grow more against the baseline, and regions whose constants changed: those have no order."""
    for name in sorted(old.regions.keys() | new.regions.keys()):
        if old.regions.get(name) != new.regions.get(name):
            yield _Looser(REGION_PREFIX + name, old.regions.get(name), new.regions.get(name), None)
    for metric, growth in old.regression.items():
        allowed = new.regression.get(metric)
        if allowed is None or allowed > growth:
            yield _Looser(REGRESSION_PREFIX + metric, growth, allowed, None)


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
        any(has.metric == bound.metric and not is_tighter(bound.metric, bound.limit, has.limit) for has in asked)
        for bound in wanted
    )


def _bound_change(looser: _Looser, where: list[_Scope], scopes: list[_Scope], about: str) -> IntegrityChange:
    kind = FindingKind.REGRESSION_LOOSENED if looser.key.startswith(REGRESSION_PREFIX) else FindingKind.BOUND_LOOSENED
    message = f"{_told(looser)}{_named(where, scopes)}"
    return IntegrityChange(kind, about, message, _factor(looser), looser.source)


def _told(looser: _Looser) -> str:
    key, old, new = looser.key, looser.old, looser.new
    if key == "alternatives":
        return (
            "one of several sets of bounds had to hold, and none has to"
            if new is None
            else (f"alternative {new:g} is enough now, and asks for less than any that was")
        )
    has, had = _apart(new, old)
    if key.startswith(REGRESSION_PREFIX):
        return f"{key} is off, and allowed {had}" if new is None else f"{key} allows {has}, and allowed {had}"
    if key.startswith(REGION_PREFIX):
        return f"{key} is {_figure(new)}, and was {_figure(old)}: other elements count"
    relation = "at least" if key not in CLOSENESS_KEYS and declared_metric(key).better == "higher" else "at most"
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
            shown = ", ".join(names[:MAX_SCOPES])
            parts.append(shown + (f" and {len(names) - MAX_SCOPES} more" if len(names) > MAX_SCOPES else ""))
    return f" ({'; '.join(parts)})" if parts else ""


def _factor(looser: _Looser) -> float | None:
    """Return how many times as much is admitted: of a share that has to match, how much of it need not."""
    if looser.old is None or looser.new is None or looser.key == "alternatives" or looser.key.startswith(REGION_PREFIX):
        return None
    old, new = looser.old, looser.new
    if (
        looser.key not in CLOSENESS_KEYS
        and not looser.key.startswith(REGRESSION_PREFIX)
        and declared_metric(looser.key).better == "higher"
    ):
        if declared_metric(looser.key).unit != "1":
            return None
        old, new = 1 - old, 1 - new
    return new / old if old > 0 else None


def find_weakened_settings(before: Case, now: Case) -> Iterator[IntegrityChange]:
    """Yield every setting of a case that asks for less than the same case of the base; bounds are looked at apart."""
    yield from _looked_at_less(before, now)
    yield from _held_to_less(before, now)
    yield from _left_out(before, now)
    if before.baseline_id != now.baseline_id and before.baseline_id != before.id:
        message = f"judged by the baseline of {now.baseline_id}, and was by that of {before.baseline_id}"
        yield _setting_change(FindingKind.SETTING_LOOSENED, now, message)
    elif now.baseline_id != now.id and before.baseline_id == before.id:
        yield _setting_change(
            FindingKind.SETTING_LOOSENED, now, f"judged by the baseline of {now.baseline_id}, and was by its own"
        )


def _looked_at_less(before: Case, now: Case) -> Iterator[IntegrityChange]:
    if now.seeds < before.seeds:
        message = f"seeds: {now.seeds}, and had {before.seeds}"
        yield _setting_change(FindingKind.SEEDS_LOWERED, now, message, before.seeds / now.seeds)
    if now.repeats < before.repeats:
        message = f"repeats: {now.repeats}, and had {before.repeats}"
        yield _setting_change(FindingKind.REPEATS_LOWERED, now, message, before.repeats / now.repeats)
    for analyzer in before.analyzers:
        if analyzer not in now.analyzers:
            yield _setting_change(FindingKind.SETTING_LOOSENED, now, f"analyzer {analyzer} measures it no more")


def _held_to_less(before: Case, now: Case) -> Iterator[IntegrityChange]:
    if now.expect_failure is not None and before.expect_failure is None:
        yield _setting_change(FindingKind.EXPECT_FAILURE_ADDED, now, f"expect: fail is new: {now.expect_failure}")
    if before.exact and not now.exact:
        yield _setting_change(
            FindingKind.EXACT_DROPPED, now, "exact: true is gone: other bits are no regression any more"
        )
    if before.deterministic and not now.deterministic:
        yield _setting_change(FindingKind.DETERMINISM_DROPPED, now, "deterministic: false is new: repeats may differ")
    old, new = before.budget.time_ratio, now.budget.time_ratio
    if old is not None and (new is None or new > old):
        told = "no time_ratio" if new is None else f"time_ratio: {new:g}"
        yield _setting_change(
            FindingKind.BUDGET_LOOSENED, now, f"{told}, and had {old:g}", None if new is None else new / old
        )
    if now.timeout_s > before.timeout_s:
        message = f"timeout: {now.timeout_s:g} s, and had {before.timeout_s:g} s"
        yield _setting_change(FindingKind.BUDGET_LOOSENED, now, message, now.timeout_s / before.timeout_s)


def _left_out(before: Case, now: Case) -> Iterator[IntegrityChange]:
    """Yield what lets a case be skipped, or not be selected, where it was not before."""
    for requirement in now.requires:
        if requirement not in before.requires:
            yield _setting_change(
                FindingKind.CASE_SKIPPED, now, f"requires {requirement} now, and is skipped without it"
            )
    for tag in before.tags:
        if tag not in now.tags:
            yield _setting_change(
                FindingKind.CASE_SKIPPED, now, f"has the tag {tag} no more: what selects by it leaves the case out"
            )


def find_redefinitions(before: Case, now: Case) -> Iterator[IntegrityChange]:
    """Yield the finding that a case computes, or is held against, something else under its old name."""
    if is_redefined(before, now):
        parts = [name for name, differs in _parts(before, now).items() if differs]
        message = f"computes something else under the same name: {', '.join(parts)} changed; HEAD's baseline judges"
        yield _setting_change(FindingKind.CASE_REDEFINED, now, message)


def _parts(before: Case, now: Case) -> dict[str, bool]:
    return {
        "subject": before.subject != now.subject,
        now.role: (before.role, before.oracle) != (now.role, now.oracle),
        "inputs": before.inputs != now.inputs,
        "params": before.params != now.params,
        "device": before.device != now.device,
    }


def _setting_change(kind: FindingKind, case: Case, message: str, factor: float | None = None) -> IntegrityChange:
    return IntegrityChange(kind, case.id, message, factor, case.source)
