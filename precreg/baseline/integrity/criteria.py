"""Which acceptance criteria did a change loosen?

Cases of two sides are paired, and their bounds are compared for every dtype, output and environment. So are seeds,
repeats, exactness, requirements and budgets. PRECISION_THRESHOLDS is left out: a variable that tightens a bound today
must not hide that a file loosens it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple

from msgspec import Struct

from precreg.arithmetic import DTYPE_NAMES
from precreg.baseline.store import BaselineKey
from precreg.environment import environment_chain
from precreg.measure import declared_metric
from precreg.tolerance import CLOSENESS_KEYS, REGION_PREFIX, REGRESSION_PREFIX, is_tighter, resolve_tolerance
from precreg.types import (
    GAIN,
    GROWTH_DOWN,
    GROWTH_UP,
    AnalyzerDropped,
    BaselineEntry,
    BorrowedBaseline,
    Bound,
    Case,
    CaseRedefined,
    DeclarationDropped,
    ExpectFailureAdded,
    FindingKind,
    Layer,
    Location,
    LooserLimit,
    LooserScope,
    LooserTime,
    LoweredCount,
    RunFindingFact,
    SkipAdded,
    Tolerance,
    growth_key,
    split_growth_key,
)


class UnreadableFile(Struct, frozen=True):
    """Name a file that cannot be read, and the reason."""

    file: str
    message: str


class ProjectSide(Struct, frozen=True):
    """Hold one side of a comparison: a commit or the working tree."""

    cases: dict[str, Case]
    # Entries in every environment, of the suites whose baselines differ between the sides.
    accepted: dict[BaselineKey, BaselineEntry] = {}
    # All entries of each environment.
    numbers: dict[str, int] = {}
    # True if PRECISION_THRESHOLDS may replace bounds.
    looser_thresholds: bool = False
    # Only of a base: an unreadable file in the working tree is an error.
    unreadable: tuple[UnreadableFile, ...] = ()


class IntegrityChange(Struct, frozen=True):
    """Hold one loosened criterion: the kind of finding, and the case or file that it is about."""

    kind: FindingKind
    about: str
    fact: RunFindingFact
    factor: float | None = None
    source: Location | None = None


class CasePairs(Struct, frozen=True):
    """Pair the cases of both sides; `renamed` cases have the same definition under another id."""

    same: tuple[tuple[Case, Case], ...]
    renamed: tuple[tuple[Case, Case], ...]
    removed: tuple[Case, ...]
    introduced: tuple[Case, ...]

    @property
    def judged(self) -> tuple[tuple[Case, Case], ...]:
        """Return every case of the base that still exists, under its old or a new name, as (base, HEAD)."""
        return (*self.same, *self.renamed)


def is_redefined(before: Case, now: Case) -> bool:
    """Return whether a case computes something else under the same name."""
    return before.definition != now.definition


def pair_cases(base: dict[str, Case], head: dict[str, Case]) -> CasePairs:
    """Pair the cases of two sides by id, and the remaining ones by definition, in order of ids."""
    left = {id: case for id, case in sorted(base.items()) if id not in head}
    free: dict[str, list[Case]] = {}
    # Reversed, because `pop` takes from the end: several cases of one definition are paired in order of their ids.
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
# Dtypes, outputs or environments that a finding names; it counts the others.
MAX_SCOPES = 3
_ANY_OUTPUT = ""
_GENERIC = "generic"


class _Scope(NamedTuple):
    """Name where a tolerance applies: an output ("" for all unnamed ones), a dtype, and an environment's label."""

    output: str
    dtype: str
    environment: str


class _Looser(NamedTuple):
    """Describe one looser setting: its old and new value; None for no limit."""

    key: str
    old: float | None
    new: float | None
    source: Location | None


def written_layers(layers: Sequence[Layer]) -> PyramidLayers:
    """Return the layers from files, without PRECISION_THRESHOLDS."""
    return tuple(layer for layer in layers if layer.override is None)


def find_loosened_bounds(base: PyramidLayers, head: PyramidLayers, about: str) -> tuple[IntegrityChange, ...]:
    """Return every bound and every allowed growth that is looser under `head` than under `base`."""
    # Most changes touch no bound. Equal layers need no look at every dtype and environment.
    before, now = written_layers(base), written_layers(head)
    if list(map(_settings, before)) == list(map(_settings, now)):
        return ()
    # A setting that is looser in many scopes is one change. Its key is the setting itself, so equal ones meet.
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
    """Return a layer's values and scope, without its place in a file."""
    return layer.bounds, layer.regression, layer.dtype, layer.output, layer.environment


def _scopes(layers: PyramidLayers) -> list[_Scope]:
    """Return one scope for each combination in which layers can apply."""
    # Layers apply by names, so names that no layer has behave like "other outputs" or the generic environment.
    outputs = sorted({layer.output for layer in layers if layer.output is not None} | {_ANY_OUTPUT})
    labels = sorted({layer.environment for layer in layers if layer.environment is not None} | {_GENERIC})
    return [_Scope(*scope) for scope in product(outputs, DTYPE_NAMES, labels)]


def _looser(old: Tolerance, new: Tolerance) -> Iterator[_Looser]:
    # rtol and atol count matches, so they bind only through a bound on match_ratio.
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
    """Yield looser growths against the baseline, and regions with other constants, which have no order."""
    for name in sorted(old.regions.keys() | new.regions.keys()):
        if old.regions.get(name) != new.regions.get(name):
            yield _Looser(REGION_PREFIX + name, old.regions.get(name), new.regions.get(name), None)
    before, now = _growths_by_direction(old, new), _growths_by_direction(new, old)
    for metric, growth in before.items():
        allowed = now.get(metric)
        if allowed is None or allowed > growth:
            yield _Looser(REGRESSION_PREFIX + metric, growth, allowed, None)


def _growths_by_direction(tolerance: Tolerance, other: Tolerance) -> dict[str, float]:
    """Return the allowed growths of one tolerance, in both directions where either tolerance has them.

    A threshold for gains allows no loss, whatever it is.
    """
    growths = {**tolerance.regression, **tolerance.directions}
    keys = map(split_growth_key, (*tolerance.directions, *other.directions))
    for metric in {metric for metric, way in keys if way != GAIN}:
        # A plain number is the threshold of both directions.
        both = growths.pop(metric, None)
        if both is not None:
            growths |= dict.fromkeys((growth_key(metric, GROWTH_UP), growth_key(metric, GROWTH_DOWN)), both)
    return {key: growth for key, growth in growths.items() if split_growth_key(key)[1] != GAIN}


def _counts_matches(tolerance: Tolerance) -> bool:
    either = (bound for alternative in tolerance.alternatives for bound in alternative)
    return any(bound.metric == "match_ratio" for bound in (*tolerance.bounds, *either))


def _looser_alternatives(old: Tolerance, new: Tolerance) -> Iterator[_Looser]:
    """Yield an alternative that suffices now and is weaker than every former one."""
    # One of the alternatives has to hold. New ones beside none make a case stricter, and never looser.
    if old.alternatives and not new.alternatives:
        yield _Looser("alternatives", float(len(old.alternatives)), None, None)
    if old.alternatives:
        for number, alternative in enumerate(new.alternatives, 1):
            required = (*new.bounds, *alternative)
            if not any(_implies(required, before) for before in old.alternatives):
                yield _Looser("alternatives", None, float(number), alternative[0].source)


def _implies(required: Sequence[Bound], wanted: Sequence[Bound]) -> bool:
    return all(
        any(has.metric == bound.metric and not is_tighter(bound.metric, bound.limit, has.limit) for has in required)
        for bound in wanted
    )


def _bound_change(looser: _Looser, where: list[_Scope], scopes: list[_Scope], about: str) -> IntegrityChange:
    key, sort = looser.key, _sort(looser.key)
    kind = FindingKind.REGRESSION_LOOSENED if sort == "growth" else FindingKind.BOUND_LOOSENED
    at_least = sort == "bound" and key not in CLOSENESS_KEYS and declared_metric(key).better == "higher"
    fact = LooserLimit(key, sort, looser.old, looser.new, at_least, tuple(_looser_scopes(where, scopes)))
    return IntegrityChange(kind, about, fact, _factor(looser), looser.source)


def _sort(key: str) -> Literal["bound", "growth", "region", "alternatives"]:
    if key == "alternatives":
        return "alternatives"
    if key.startswith(REGRESSION_PREFIX):
        return "growth"
    return "region" if key.startswith(REGION_PREFIX) else "bound"


def _looser_scopes(where: list[_Scope], scopes: list[_Scope]) -> Iterator[LooserScope]:
    """Yield where a setting is looser, for each part that does not apply everywhere."""
    for field in ("dtype", "output", "environment"):
        every = {getattr(scope, field) for scope in scopes}
        some = sorted({getattr(scope, field) for scope in where})
        if len(some) < len(every):
            yield LooserScope(tuple(some[:MAX_SCOPES]), max(0, len(some) - MAX_SCOPES))


def _factor(looser: _Looser) -> float | None:
    """Return how many times looser a setting is; None without a meaningful ratio."""
    # Regions and alternatives have no order, so they have no ratio either.
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
        # Of a share that must match, the part that may differ grew.
        old, new = 1 - old, 1 - new
    return new / old if old > 0 else None


def find_weakened_settings(before: Case, now: Case) -> Iterator[IntegrityChange]:
    """Yield every setting of a case that is weaker than at the base, apart from bounds."""
    yield from _lowered_counts(before, now)
    yield from _weakened_rules(before, now)
    yield from _widened_skips(before, now)
    # A case may borrow another case's baseline. A change of the lender moves the bar as a changed baseline does.
    if before.baseline_id != now.baseline_id and before.baseline_id != before.id:
        fact = BorrowedBaseline(now.baseline_id, before.baseline_id)
        yield _setting_change(FindingKind.SETTING_LOOSENED, now, fact)
    elif now.baseline_id != now.id and before.baseline_id == before.id:
        yield _setting_change(FindingKind.SETTING_LOOSENED, now, BorrowedBaseline(now.baseline_id))


def _lowered_counts(before: Case, now: Case) -> Iterator[IntegrityChange]:
    if now.seeds < before.seeds:
        fact = LoweredCount("seeds", now.seeds, before.seeds)
        yield _setting_change(FindingKind.SEEDS_LOWERED, now, fact, before.seeds / now.seeds)
    if now.repeats < before.repeats:
        fact = LoweredCount("repeats", now.repeats, before.repeats)
        yield _setting_change(FindingKind.REPEATS_LOWERED, now, fact, before.repeats / now.repeats)
    for analyzer in before.analyzers:
        if analyzer not in now.analyzers:
            yield _setting_change(FindingKind.SETTING_LOOSENED, now, AnalyzerDropped(analyzer))


def _weakened_rules(before: Case, now: Case) -> Iterator[IntegrityChange]:
    if now.expect_failure is not None and before.expect_failure is None:
        yield _setting_change(FindingKind.EXPECT_FAILURE_ADDED, now, ExpectFailureAdded(now.expect_failure))
    if before.exact and not now.exact:
        yield _setting_change(FindingKind.EXACT_DROPPED, now, DeclarationDropped("exact"))
    if before.deterministic and not now.deterministic:
        yield _setting_change(FindingKind.DETERMINISM_DROPPED, now, DeclarationDropped("deterministic"))
    old, new = before.budget.time_ratio, now.budget.time_ratio
    if old is not None and (new is None or new > old):
        factor = None if new is None else new / old
        yield _setting_change(FindingKind.BUDGET_LOOSENED, now, LooserTime("time_ratio", old, new), factor)
    # Under the base's own timeout a slower case would end as timed_out.
    if now.timeout_s > before.timeout_s:
        fact = LooserTime("timeout", before.timeout_s, now.timeout_s)
        yield _setting_change(FindingKind.BUDGET_LOOSENED, now, fact, now.timeout_s / before.timeout_s)


def _widened_skips(before: Case, now: Case) -> Iterator[IntegrityChange]:
    """Yield settings that can now skip a case, or leave it out of a selection."""
    for requirement in now.requires:
        if requirement not in before.requires:
            yield _setting_change(FindingKind.CASE_SKIPPED, now, SkipAdded("requires", requirement))
    for tag in before.tags:
        if tag not in now.tags:
            yield _setting_change(FindingKind.CASE_SKIPPED, now, SkipAdded("tags", tag))


def find_redefinitions(before: Case, now: Case) -> Iterator[IntegrityChange]:
    """Yield the finding that a case has another computation or oracle under its old name."""
    if is_redefined(before, now):
        parts = [name for name, differs in _differing_parts(before, now).items() if differs]
        yield _setting_change(FindingKind.CASE_REDEFINED, now, CaseRedefined(tuple(parts)))


def _differing_parts(before: Case, now: Case) -> dict[str, bool]:
    return {
        "subject": before.subject != now.subject,
        now.role: (before.role, before.oracle) != (now.role, now.oracle),
        "inputs": before.inputs != now.inputs,
        "params": before.params != now.params,
        "device": before.device != now.device,
        "reference_dtype": before.reference_dtype != now.reference_dtype,
    }


def _setting_change(
    kind: FindingKind, case: Case, fact: RunFindingFact, factor: float | None = None
) -> IntegrityChange:
    return IntegrityChange(kind, case.id, fact, factor, case.source)
