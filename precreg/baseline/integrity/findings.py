"""What is found about a merge request's own bar, as a pure function of two sides and of what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from posixpath import commonpath

from msgspec.structs import replace

from precreg.baseline.integrity.accepted import rewritten
from precreg.baseline.integrity.allowances import Allowance, allowed, unused
from precreg.baseline.integrity.bounds import Layers, loosened
from precreg.baseline.integrity.settings import redefined, weakened
from precreg.baseline.integrity.side import Change, Pairs, Side, is_redefined
from precreg.tolerance.layers import TOLERANCES
from precreg.types.records import Kind, RunFinding
from precreg.types.types import Case, Location


def changes(base: Side, head: Side, pairs: Pairs, references: Mapping[str, str]) -> tuple[Change, ...]:
    """Return every way in which `head` asks for less than `base`, or for something else.

    `references` says, by the id of a case at HEAD, what changed of its reference that no definition tells.
    """
    return (
        *_unreadable(base),
        *_of_the_project(base, head),
        *_of_cases(pairs, references),
        *rewritten(base, head, pairs),
    )


def findings(found: Iterable[Change], pairs: Pairs, allowances: Sequence[Allowance]) -> tuple[RunFinding, ...]:
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
            allowed(change.kind, change.about, allowances),
            fails=change.kind is not Kind.CASE_INTRODUCED,
        )
        for change in (*known, *_introduced(pairs))
    ]
    return (*_by_suite(judged, pairs), *unused(allowances, known))


def _unreadable(base: Side) -> Iterator[Change]:
    """Yield what cannot be read of the base; files with the same to say, as of an older schema, by their folder."""
    files: dict[str, list[str]] = {}
    for each in base.unreadable:
        files.setdefault(each.message, []).append(each.file)
    for message, names in files.items():
        several = f"{len(names)} files " if len(names) > 1 else ""
        text = f"{several}cannot be read as the base has it, so HEAD's own bar judges: {message}"
        yield Change(Kind.BASE_UNREADABLE, commonpath(names), text)


def _of_the_project(base: Side, head: Side) -> Iterator[Change]:
    if head.looser_thresholds and not base.looser_thresholds:
        message = "allow_looser_thresholds is new: PRECISION_THRESHOLDS may replace any bound"
        yield Change(Kind.SETTING_LOOSENED, TOLERANCES, message, source=Location(TOLERANCES))


def _of_cases(pairs: Pairs, references: Mapping[str, str]) -> Iterator[Change]:
    for case in pairs.removed:
        yield Change(Kind.CASE_REMOVED, case.id, f"is no case any more, and was one of {case.source}")
    for before, now in pairs.renamed:
        message = f"is {before.id} under another name, and its baseline judges"
        yield Change(Kind.CASE_RENAMED, now.id, message, source=now.source)
    compared: dict[tuple[int, int], tuple[Change, ...]] = {}
    for before, now in pairs.judged:
        yield from redefined(before, now)
        if now.id in references and not is_redefined(before, now):
            yield Change(Kind.REFERENCE_CHANGED, now.id, references[now.id], source=now.source)
        yield from weakened(before, now)
        yield from _loosened(before.layers, now.layers, now.id, compared)


def _loosened(
    before: Layers, now: Layers, id_: str, compared: dict[tuple[int, int], tuple[Change, ...]]
) -> Iterator[Change]:
    """Yield what is looser; the cases of a suite share their layers, which are compared once."""
    key = (id(before), id(now))
    if key not in compared:
        compared[key] = loosened(before, now, id_)
    yield from (replace(change, about=id_) for change in compared[key])


def _introduced(pairs: Pairs) -> Iterator[Change]:
    for case in pairs.introduced:
        yield Change(Kind.CASE_INTRODUCED, case.id, "is new: HEAD's baseline judges", source=case.source)


def _by_suite(found: Sequence[RunFinding], pairs: Pairs) -> Iterator[RunFinding]:
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
