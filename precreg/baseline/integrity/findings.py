"""Which findings does a comparison with a base give?

Changed and removed baselines, loosened criteria and new cases become findings. All functions are pure: they read two
sides and the permissions between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from posixpath import commonpath

from msgspec.structs import replace

from precreg.baseline.entry import entry_from, is_continuation, is_extension
from precreg.baseline.integrity.criteria import (
    CasePairs,
    IntegrityChange,
    ProjectSide,
    PyramidLayers,
    find_loosened_bounds,
    find_redefinitions,
    find_weakened_settings,
    is_redefined,
)
from precreg.baseline.integrity.sides import Allowance, allowed_reason, find_unused_allowances
from precreg.baseline.store import BaselineKey
from precreg.environment import environment_chain
from precreg.measure import METRICS, mean_metrics, mean_over_seeds, metric_ratio
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import (
    BaselineChanged,
    BaselineEntry,
    BaselineOutput,
    BaselineRemoved,
    Case,
    CaseIntroduced,
    CaseRemoved,
    CaseRenamed,
    CaseResult,
    CloserBaseline,
    ComparedOracleFact,
    FindingKind,
    FirstBaseline,
    HistoryRemoved,
    KnownBadAccepted,
    Location,
    OracleDifference,
    OracleFact,
    RunFinding,
    ThresholdsFreed,
    UnreadableBase,
    is_test_defined,
)

# The parts of an entry, by its fields, that affect a verdict; reason, author, date and commit do not.
_PARTS = {
    "definition": "definition",
    "inputs": "inputs",
    "fingerprint": "fingerprint",
    "duration_s": "time",
    "outputs": "figures",
    "sketch": "figures",
    "groups": "figures",
    "described": "analyzers",
    "reach": "past",
    "accepted": "past",
    "known": "known",
    "processor": "time",
    "oracle": "oracle",
    "oracle_files": "oracle",
}


def find_rewritten_entries(base: ProjectSide, head: ProjectSide, pairs: CasePairs) -> Iterator[IntegrityChange]:
    """Yield every entry of the base that is changed, removed or no longer looked up at HEAD.

    Only existing cases with the same definition count, and test-defined cases. The entry of a removed case goes with
    it.
    """
    ids = {before.baseline_id: now.baseline_id for before, now in pairs.judged if not is_redefined(before, now)}
    for place, entry in base.accepted.items():
        id = place.id if is_test_defined(entry.definition) else ids.get(place.id)
        if id is not None:
            # A renamed case keeps its baseline under the new id.
            yield from _compare_entries(place, entry, head.accepted.get(BaselineKey(place.environment, id)), id)
    yield from _added_entries(base, head, ids)


def _compare_entries(
    place: BaselineKey, before: BaselineEntry, now: BaselineEntry | None, id: str
) -> Iterator[IntegrityChange]:
    source = Location(place.file)
    if now is None:
        fact = BaselineRemoved(place.file, before.date)
        yield IntegrityChange(FindingKind.BASELINE_REMOVED, id, fact, source=source)
        return
    if is_extension(now, before):
        return
    # A dict in place of a set: the finding has the parts in the order of the fields, each once.
    parts = dict.fromkeys(part for name, part in _PARTS.items() if _differs(before, now, name))
    # In an environment that the entry no longer knows, the limits are looser. A new value knows none anew, and a
    # further environment is stricter.
    if not parts and not {*before.seen} <= {*now.seen}:
        parts = {"environments": None}
    if parts:
        factor, metric, output = _worst(before, now) or (None, "", "")
        changed = BaselineChanged(place.file, tuple(parts), metric, output)
        yield IntegrityChange(FindingKind.BASELINE_CHANGED, id, changed, factor, source)
    # Another definition computes something else, so its accepted values begin anew.
    if before.definition == now.definition and not is_continuation(now, before):
        yield IntegrityChange(FindingKind.HISTORY_REMOVED, id, HistoryRemoved(place.file), source=source)


def _differs(before: BaselineEntry, now: BaselineEntry, name: str) -> bool:
    """Return whether a field of an entry is another one; a first record of its oracle makes the entry stricter."""
    former, new = getattr(before, name), getattr(now, name)
    if name in ("oracle", "oracle_files") and not former:
        return False
    return bool(former != new)


def find_extensions(base: ProjectSide, head: ProjectSide, pairs: CasePairs) -> dict[str, BaselineEntry]:
    """Return the entries of HEAD, by the id under which they are looked up, that only have more of the base's.

    They are no finding, so a run compares their further seeds with its own.
    """
    former = {now.baseline_id: before.baseline_id for before, now in pairs.judged if not is_redefined(before, now)}
    found: dict[str, BaselineEntry] = {}
    for place, entry in head.accepted.items():
        id = place.id if is_test_defined(entry.definition) else former.get(place.id)
        before = None if id is None else base.accepted.get(BaselineKey(place.environment, id))
        if before is not None and before != entry and is_extension(entry, before):
            found[place.id] = entry
    return found


def find_false_extensions(
    extended: Mapping[str, BaselineEntry], results: Iterable[CaseResult], allowances: Sequence[Allowance]
) -> tuple[RunFinding, ...]:
    """Return a finding for each extended entry whose further seeds or metrics differ from the run's."""
    found = []
    for result in results:
        entry = extended.get(result.baseline_id or result.id)
        if entry is None or not result.outcome.comparisons:
            continue
        measured = entry_from(result.outcome, entry.fingerprint, entry.commit)
        # Only with the bits of this run can the statistics of the entry be computed again.
        if any(getattr(measured, name) != getattr(entry, name) for name in ("inputs", "outputs", "sketch", "groups")):
            place = result.stored.file if result.stored is not None else ""
            kind = FindingKind.BASELINE_CHANGED
            allowed = allowed_reason(kind, result.id, allowances)
            fact = BaselineChanged(place, ("extension",))
            found.append(RunFinding(kind, result.id, source=Location(place), allowed=allowed, fact=fact))
    return tuple(found)


def _worst(before: BaselineEntry, now: BaselineEntry) -> tuple[float, str, str] | None:
    """Return the largest growth of an average, the metric and the output; None if none changed."""
    found = [
        (grown, metric, name)
        for name, output in before.outputs.items()
        if name in now.outputs
        for metric in mean_metrics()  # maxima move by themselves
        if METRICS[metric].scale == "linear"
        if (grown := metric_ratio(METRICS[metric], _mean(now.outputs[name], metric), _mean(output, metric)))
    ]
    return max((item for item in found if item[0] != 1), default=None)


def _mean(output: BaselineOutput, metric: str) -> float | None:
    return mean_over_seeds(output.metrics.get(metric, []))


def _added_entries(base: ProjectSide, head: ProjectSide, ids: Mapping[str, str]) -> Iterator[IntegrityChange]:
    """Yield new entries of known cases: they take precedence over a former entry, or judge for the first time."""
    former = {now: before for before, now in ids.items()}
    unreadable = {each.file for each in base.unreadable}
    for place, entry in head.accepted.items():
        before = former.get(place.id, place.id)
        # Behind an unreadable file of the base, an entry only looks new.
        known = (place.id in former or is_test_defined(entry.definition)) and place.file not in unreadable
        if known and BaselineKey(place.environment, before) not in base.accepted:
            levels = (
                level for level in environment_chain(place.environment) if BaselineKey(level, before) in base.accepted
            )
            yield _added_entry(place, next(levels, None))


def _added_entry(place: BaselineKey, judged: str | None) -> IntegrityChange:
    source = Location(place.file)
    if judged is None:
        return IntegrityChange(FindingKind.CASE_INTRODUCED, place.id, FirstBaseline(place.environment), source=source)
    return IntegrityChange(FindingKind.BASELINE_CHANGED, place.id, CloserBaseline(place.file, judged), source=source)


def find_known_bad(base: ProjectSide, head: ProjectSide, pairs: CasePairs) -> Iterator[IntegrityChange]:
    """Yield every entry that newly accepts a wrong result, of new cases too: it excuses bounds that the base has."""
    former = {now.baseline_id: before.baseline_id for before, now in pairs.judged}
    for place, entry in head.accepted.items():
        before = base.accepted.get(BaselineKey(place.environment, former.get(place.id, place.id)))
        if entry.known is not None and (before is None or before.known is None):
            fact = KnownBadAccepted(place.file, entry.known.reason)
            yield IntegrityChange(FindingKind.KNOWN_BAD_ACCEPTED, place.id, fact, source=Location(place.file))


def integrity_changes(
    base: ProjectSide, head: ProjectSide, pairs: CasePairs, references: Mapping[str, OracleFact]
) -> tuple[IntegrityChange, ...]:
    """Return every way in which `head` is less strict than `base`, or tests something else.

    `references` has, by the id of a case at HEAD, changes of its reference that its definition does not show.
    """
    return (
        *_unreadable(base),
        *_project_changes(base, head),
        *_case_changes(pairs, references),
        *find_rewritten_entries(base, head, pairs),
        *find_known_bad(base, head, pairs),
    )


def integrity_findings(
    found: Iterable[IntegrityChange], pairs: CasePairs, allowances: Sequence[Allowance]
) -> tuple[RunFinding, ...]:
    """Return the findings of a run: changed and new criteria, and unused permissions.

    A change that every case of a suite has in common is one finding about the suite.
    """
    known = tuple(found)
    judged = [
        RunFinding(
            change.kind,
            change.about,
            factor=change.factor,
            source=change.source,
            allowed=allowed_reason(change.kind, change.about, allowances),
            fails=change.kind is not FindingKind.CASE_INTRODUCED,
            fact=change.fact,
        )
        for change in (*known, *_introduced(pairs))
    ]
    return (*_by_suite(judged, pairs), *find_unused_allowances(allowances, known))


def _unreadable(base: ProjectSide) -> Iterator[IntegrityChange]:
    """Yield the unreadable files of the base, those with one message as one change about their folder."""
    files: dict[str, list[str]] = {}
    for each in base.unreadable:
        files.setdefault(each.message, []).append(each.file)
    for message, names in files.items():
        yield IntegrityChange(FindingKind.BASE_UNREADABLE, commonpath(names), UnreadableBase(message, len(names)))


def _project_changes(base: ProjectSide, head: ProjectSide) -> Iterator[IntegrityChange]:
    if head.looser_thresholds and not base.looser_thresholds:
        place = Location(TOLERANCES_FILE)
        yield IntegrityChange(FindingKind.SETTING_LOOSENED, TOLERANCES_FILE, ThresholdsFreed(), source=place)


def _case_changes(pairs: CasePairs, references: Mapping[str, OracleFact]) -> Iterator[IntegrityChange]:
    for case in pairs.removed:
        yield IntegrityChange(FindingKind.CASE_REMOVED, case.id, CaseRemoved(case.source))
    for before, now in pairs.renamed:
        yield IntegrityChange(FindingKind.CASE_RENAMED, now.id, CaseRenamed(before.id), source=now.source)
    compared: dict[tuple[int, int], tuple[IntegrityChange, ...]] = {}
    for before, now in pairs.judged:
        yield from find_redefinitions(before, now)
        if now.id in references and not is_redefined(before, now):
            yield IntegrityChange(FindingKind.REFERENCE_CHANGED, now.id, references[now.id], source=now.source)
        yield from find_weakened_settings(before, now)
        yield from _loosened(before.layers, now.layers, now.id, compared)


def _loosened(
    before: PyramidLayers, now: PyramidLayers, id_: str, compared: dict[tuple[int, int], tuple[IntegrityChange, ...]]
) -> Iterator[IntegrityChange]:
    """Yield loosened bounds; the cases of a suite share their layers, which are compared once."""
    # By identity, because the cases of a suite share one tuple of layers, and its bounds are slow to compare.
    key = (id(before), id(now))
    if key not in compared:
        compared[key] = find_loosened_bounds(before, now, id_)
    yield from (replace(change, about=id_) for change in compared[key])


def _introduced(pairs: CasePairs) -> Iterator[IntegrityChange]:
    for case in pairs.introduced:
        yield IntegrityChange(FindingKind.CASE_INTRODUCED, case.id, CaseIntroduced(), source=case.source)


def _by_suite(found: Sequence[RunFinding], pairs: CasePairs) -> Iterator[RunFinding]:
    """Yield findings in order, joined into one for a suite (tier/suite) if all of its cases have the same."""
    sizes = _sizes([*(now for _, now in pairs.judged), *pairs.removed, *pairs.introduced])
    by_finding: dict[RunFinding, list[RunFinding]] = {}
    for finding in found:
        by_finding.setdefault(replace(_without_difference(finding), about=_suite_of(finding.about)), []).append(finding)
    # Only if every case of the suite has the finding. Otherwise the reader must see which cases have it.
    for of_suite, each in by_finding.items():
        is_whole = len({finding.about for finding in each}) == sizes.get(of_suite.about)
        yield from [replace(max(each, key=_difference), about=of_suite.about)] if is_whole else each


def _without_difference(finding: RunFinding) -> RunFinding:
    """Leave out how much the results of an oracle differ: cases have figures of their own for one change."""
    fact = finding.fact
    if isinstance(fact, ComparedOracleFact) and isinstance(fact.results, OracleDifference):
        return replace(finding, fact=replace(fact, results=None), factor=-1.0)
    return finding


def _difference(finding: RunFinding) -> float:
    """Return the sort key by which the largest difference of an oracle's results is the last."""
    fact = finding.fact
    if not isinstance(fact, ComparedOracleFact) or not isinstance(fact.results, OracleDifference):
        return 0.0
    return inf if fact.results.ulp is None else fact.results.ulp


def _sizes(cases: Iterable[Case]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for case in cases:
        suite = _suite_of(case.id)
        sizes[suite] = sizes.get(suite, 0) + 1
    return sizes


def _suite_of(about: str) -> str:
    return "/".join(about.split("/", 2)[:2])
