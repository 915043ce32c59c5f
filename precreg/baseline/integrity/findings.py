"""Whether what was accepted is still what was accepted: baselines changed, removed, or put in the shade of others.

What is found about a merge request's own bar, as a pure function of two sides and of what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from posixpath import commonpath

from msgspec.structs import replace

from precreg.baseline.entry import is_continuation
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
from precreg.types import BaselineEntry, BaselineOutput, Case, FindingKind, Location, RunFinding, is_test_defined

_PARTS = {
    "definition": "definition",
    "inputs": "inputs",
    "fingerprint": "fingerprint",
    "duration_s": "time",
    "outputs": "figures",
    "sketch": "figures",
    "groups": "figures",
    "described": "metrics of analyzers",
    "reach": "past",
    "accepted": "past",
}
"""What judges of an entry, in words; its reason, author, date and commit do not."""


def find_rewritten_entries(base: ProjectSide, head: ProjectSide, pairs: CasePairs) -> Iterator[IntegrityChange]:
    """Yield every entry of the base that is another one now, is gone, or is looked up no more.

    Looked at are the entries of cases that are still there and compute the same, and those of hand-written tests, which
    no suite tells of. An entry of a case that is gone goes with it.
    """
    ids = {before.baseline_id: now.baseline_id for before, now in pairs.judged if not is_redefined(before, now)}
    for place, entry in base.accepted.items():
        id = place.id if is_test_defined(entry.definition) else ids.get(place.id)
        if id is not None:
            yield from _entry(place, entry, head.accepted.get(BaselineKey(place.environment, id)), id)
    yield from _added(base, head, ids)


def _entry(place: BaselineKey, before: BaselineEntry, now: BaselineEntry | None, id: str) -> Iterator[IntegrityChange]:
    source = Location(place.file)
    if now is None:
        message = f"what was accepted on {before.date or 'an unknown day'} is gone from {place.file}"
        yield IntegrityChange(FindingKind.BASELINE_REMOVED, id, message, source=source)
        return
    parts = dict.fromkeys(part for name, part in _PARTS.items() if getattr(before, name) != getattr(now, name))
    if parts:
        worst = _worst(before, now)
        message = f"another baseline in {place.file}: {', '.join(parts)} changed"
        if worst is not None:
            message += f"; {worst[1]} is {worst[0]:.3g} times what was accepted"
        yield IntegrityChange(FindingKind.BASELINE_CHANGED, id, message, None if worst is None else worst[0], source)
    if before.definition == now.definition and not is_continuation(now, before):
        message = f"what was accepted before is not all kept in {place.file}: small losses would add up unseen"
        yield IntegrityChange(FindingKind.HISTORY_REMOVED, id, message, source=source)


def _worst(before: BaselineEntry, now: BaselineEntry) -> tuple[float, str] | None:
    """Return the largest growth of an average, and whose it is; None where none grew or fell."""
    found = [
        (grown, f"{metric} of {name}")
        for name, output in before.outputs.items()
        if name in now.outputs
        for metric in mean_metrics()  # maxima move by themselves
        if METRICS[metric].scale == "linear"
        if (grown := metric_ratio(METRICS[metric], _mean(now.outputs[name], metric), _mean(output, metric)))
    ]
    return max((item for item in found if item[0] != 1), default=None)


def _mean(output: BaselineOutput, metric: str) -> float | None:
    return mean_over_seeds(output.metrics.get(metric, []))


def _added(base: ProjectSide, head: ProjectSide, ids: Mapping[str, str]) -> Iterator[IntegrityChange]:
    """Yield entries of known cases that are new: they are found before one that judged, or judge where none did."""
    former = {now: before for before, now in ids.items()}
    unreadable = {each.file for each in base.unreadable}
    for place, entry in head.accepted.items():
        before = former.get(place.id, place.id)
        known = (place.id in former or is_test_defined(entry.definition)) and place.file not in unreadable
        if known and BaselineKey(place.environment, before) not in base.accepted:
            levels = (
                level for level in environment_chain(place.environment) if BaselineKey(level, before) in base.accepted
            )
            yield _new(place, next(levels, None))


def _new(place: BaselineKey, judged: str | None) -> IntegrityChange:
    source = Location(place.file)
    if judged is None:
        message = f"has a first baseline in {place.environment}, and HEAD's judges there"
        return IntegrityChange(FindingKind.CASE_INTRODUCED, place.id, message, source=source)
    message = f"{place.file} is new, and comes before the baseline of {judged}, which judged"
    return IntegrityChange(FindingKind.BASELINE_CHANGED, place.id, message, source=source)


def integrity_changes(
    base: ProjectSide, head: ProjectSide, pairs: CasePairs, references: Mapping[str, str]
) -> tuple[IntegrityChange, ...]:
    """Return every way in which `head` asks for less than `base`, or for something else.

    `references` says, by the id of a case at HEAD, what changed of its reference that no definition tells.
    """
    return (
        *_unreadable(base),
        *_of_the_project(base, head),
        *_of_cases(pairs, references),
        *find_rewritten_entries(base, head, pairs),
    )


def integrity_findings(
    found: Iterable[IntegrityChange], pairs: CasePairs, allowances: Sequence[Allowance]
) -> tuple[RunFinding, ...]:
    """Return the findings of a run: what changed, what is new, and which allowances nothing needs.

    What changed alike in every case that a suite had is one finding about the suite.
    """
    known = tuple(found)
    judged = [
        RunFinding(
            change.kind,
            change.about,
            change.message,
            change.factor,
            change.source,
            allowed_reason(change.kind, change.about, allowances),
            fails=change.kind is not FindingKind.CASE_INTRODUCED,
        )
        for change in (*known, *_introduced(pairs))
    ]
    return (*_by_suite(judged, pairs), *find_unused_allowances(allowances, known))


def _unreadable(base: ProjectSide) -> Iterator[IntegrityChange]:
    """Yield what cannot be read of the base; files with the same to say, as of an older schema, by their folder."""
    files: dict[str, list[str]] = {}
    for each in base.unreadable:
        files.setdefault(each.message, []).append(each.file)
    for message, names in files.items():
        several = f"{len(names)} files " if len(names) > 1 else ""
        text = f"{several}cannot be read as the base has it, so HEAD's own bar judges: {message}"
        yield IntegrityChange(FindingKind.BASE_UNREADABLE, commonpath(names), text)


def _of_the_project(base: ProjectSide, head: ProjectSide) -> Iterator[IntegrityChange]:
    if head.looser_thresholds and not base.looser_thresholds:
        message = "allow_looser_thresholds is new: PRECISION_THRESHOLDS may replace any bound"
        yield IntegrityChange(FindingKind.SETTING_LOOSENED, TOLERANCES_FILE, message, source=Location(TOLERANCES_FILE))


def _of_cases(pairs: CasePairs, references: Mapping[str, str]) -> Iterator[IntegrityChange]:
    for case in pairs.removed:
        yield IntegrityChange(FindingKind.CASE_REMOVED, case.id, f"is no case any more, and was one of {case.source}")
    for before, now in pairs.renamed:
        message = f"is {before.id} under another name, and its baseline judges"
        yield IntegrityChange(FindingKind.CASE_RENAMED, now.id, message, source=now.source)
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
    """Yield what is looser; the cases of a suite share their layers, which are compared once."""
    key = (id(before), id(now))
    if key not in compared:
        compared[key] = find_loosened_bounds(before, now, id_)
    yield from (replace(change, about=id_) for change in compared[key])


def _introduced(pairs: CasePairs) -> Iterator[IntegrityChange]:
    for case in pairs.introduced:
        yield IntegrityChange(
            FindingKind.CASE_INTRODUCED, case.id, "is new: HEAD's baseline judges", source=case.source
        )


def _by_suite(found: Sequence[RunFinding], pairs: CasePairs) -> Iterator[RunFinding]:
    """Yield findings in order, one for a suite where each of its cases has the same; a suite is tier/suite."""
    sizes = _sizes([*(now for _, now in pairs.judged), *pairs.removed, *pairs.introduced])
    alike: dict[RunFinding, list[RunFinding]] = {}
    for finding in found:
        alike.setdefault(replace(finding, about=_suite_of(finding.about)), []).append(finding)
    for of_suite, each in alike.items():
        yield from [of_suite] if len({finding.about for finding in each}) == sizes.get(of_suite.about) else each


def _sizes(cases: Iterable[Case]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for case in cases:
        suite = _suite_of(case.id)
        sizes[suite] = sizes.get(suite, 0) + 1
    return sizes


def _suite_of(about: str) -> str:
    return "/".join(about.split("/", 2)[:2])
