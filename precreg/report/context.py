"""Which facts beside the verdict explain a case: its code, the lines of the change, its earlier values?

Cases that passed get none of them, and lose their maps of errors: people look at the others, and records stay small.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.measure import metric_named
from precreg.report.causes import cause_location
from precreg.report.describe import limits_ratio, sort_results
from precreg.run import ChangedLines
from precreg.storage import WORKING_FOLDER, parse_module
from precreg.suite import possible_files, search_path
from precreg.types import (
    Case,
    CaseResult,
    EarlierValue,
    Finding,
    Location,
    Metric,
    MetricHistory,
    Outcome,
    Reason,
    RunRecord,
    Status,
)
from precreg.verdict import allowed_ratio

if TYPE_CHECKING:
    from precreg.history import History, HistoryRun, HistorySeries

# The worst cases: each takes a query of the history.
MAX_HISTORIES = 200
# The latest runs, so that a point of a drawing is wider than a pixel.
MAX_EARLIER_RUNS = 100
HISTORY_VARIABLE = "PRECREG_HISTORY"
# The name of the history in the working folder, which `precreg history add --create` makes.
DEFAULT_HISTORY = "history.sqlite"


class _Code(NamedTuple):
    """The place that defines a subject, and the last line of its definition; 0 for a whole file."""

    place: Location
    last: int


def add_context(
    record: RunRecord, cases: Sequence[Case], project: Path, changed_lines: ChangedLines = lambda _files: None
) -> RunRecord:
    """Return the record with the lines of subjects and the earlier values of the results that people look at.

    `changed_lines` gives the lines of files that the present change touches, and is called once.
    """
    by_id = {case.id: case for case in cases}
    codes = {
        result.id: code
        for result in record.results
        if needs_context(result) and result.id in by_id and (code := _subject_code(by_id[result.id], project))
    }
    results = [_add_subject(result, codes.get(result.id)) for result in record.results]
    results = _add_changed_places(results, codes, changed_lines)
    return _add_histories(replace(record, results=tuple(results)), project, os.environ)


def needs_context(result: CaseResult) -> bool:
    """Return whether people look at a result: it failed, was not judged, or improved."""
    status, reason = result.verdict.status, result.verdict.reason
    return status in (Status.FAILED, Status.ERROR) or reason is Reason.IMPROVED


def _add_subject(result: CaseResult, code: _Code | None) -> CaseResult:
    if not needs_context(result):
        return replace(result, outcome=_without_maps(result.outcome))
    return result if code is None else replace(result, subject=code.place)


def _add_changed_places(
    results: Sequence[CaseResult], codes: Mapping[str, _Code], changed_lines: ChangedLines
) -> list[CaseResult]:
    """Add the line of the change that each failure is shown at."""
    failed = [result for result in results if result.verdict.status in (Status.FAILED, Status.ERROR)]
    causes = {result.id: cause_location(result.diagnosis) for result in failed}
    places = [*(codes[each.id].place for each in failed if each.id in codes), *filter(None, causes.values())]
    changed = changed_lines({place.file for place in places}) if places else None
    if changed is None:
        return [*results]
    wanted = {each.id: _changed_place(codes.get(each.id), causes[each.id], changed) for each in failed}
    return [replace(each, in_change=wanted[each.id]) if each.id in wanted else each for each in results]


def _changed_place(
    code: _Code | None, cause: Location | None, changed: Mapping[str, Sequence[range]]
) -> Location | None:
    """Return the first line that the change has: the subject's, the cause's, another one of the subject's function."""
    first = None if code is None else code.place
    for place in (first, cause):
        # A file without lines, such as a model, is in the change as a whole.
        if place is not None and place.file in changed and (not place.line or _has(changed[place.file], place.line)):
            return place
    if code is None:
        return None
    # Most changes of a function leave its first line as it is.
    inside = [max(lines.start, code.place.line) for lines in changed.get(code.place.file, ())]
    found = min((line for line in inside if line <= code.last and _has(changed[code.place.file], line)), default=None)
    return None if found is None else Location(code.place.file, found)


def _has(ranges: Iterable[range], line: int) -> bool:
    return any(line in lines for lines in ranges)


def _without_maps(outcome: Outcome) -> Outcome:
    if not any(outline.has_error_map for outline in outcome.outlines):
        return outcome
    return replace(outcome, comparisons=tuple(replace(each, error_map=UNSET) for each in outcome.comparisons))


def subject_place(case: Case, project: Path) -> Location | None:
    """Return the line of the project that defines the subject of a case: a function, a class or a file.

    Return None for a subject that no file of the project defines.
    """
    code = _subject_code(case, project)
    return None if code is None else code.place


def _subject_code(case: Case, project: Path) -> _Code | None:
    spec = case.subject.spec
    target = spec
    if isinstance(spec, dict):
        # The kind "onnx" has its file under "model".
        target = spec.get(case.subject.kind, spec.get("model"))
    if not isinstance(target, str):
        return None
    module, _, function = target.partition(":")
    if function:
        found = next(
            (path for path in possible_files(module, search_path(project, case.directory)) if path.is_file()), None
        )
        if found is None:
            return None
        first, last = _lines_of(found, function, found.stat().st_mtime_ns)
        return _Code(Location(_relative(found, project), first), last)
    for folder in search_path(project, case.directory):
        if (folder / target).is_file() and (folder / target).is_relative_to(project):
            return _Code(Location(_relative(folder / target, project)), 0)
    return None


def _relative(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix()


@lru_cache(maxsize=1024)
def _lines_of(path: Path, function: str, _modified_ns: int) -> tuple[int, int]:
    """Return the first and the last line of a function, a class or a method; 0 if the source does not show it.

    The time of the last change is a part of the cache's key, so that a changed file is read again.
    """
    tree: ast.AST | None = parse_module(path.read_bytes())
    first = last = 0
    for name in function.split("."):
        tree = None if tree is None else _definition(tree, name)
        first, last = getattr(tree, "lineno", first), getattr(tree, "end_lineno", last)
    return first, last


def _definition(tree: ast.AST, name: str) -> ast.AST | None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    # The last definition of a name is the one that Python uses.
    return next(
        (node for node in reversed(getattr(tree, "body", [])) if isinstance(node, kinds) and node.name == name), None
    )


def _add_histories(record: RunRecord, project: Path, environ: Mapping[str, str]) -> RunRecord:
    """Add the earlier values of failed and improved cases, if the project has a history."""
    wanted = [each for each in sort_results(record.results) if needs_context(each) and _judged(each)]
    place = environ.get(HISTORY_VARIABLE) or project / WORKING_FOLDER / DEFAULT_HISTORY
    if not wanted or (isinstance(place, Path) and not place.is_file()):
        return record
    from precreg.history import open_history

    try:
        with open_history(place, project=record.project) as history:
            found = _read_histories(history, record, wanted[:MAX_HISTORIES])
    except UserError as problem:
        # The run has its results, and no drawing is worth losing them.
        return replace(record, history_problem=problem.message)
    results = (replace(each, history=found[each.id]) if each.id in found else each for each in record.results)
    return replace(record, results=tuple(results))


def _read_histories(history: History, record: RunRecord, wanted: Sequence[CaseResult]) -> dict[str, MetricHistory]:
    by_case: dict[str, list[HistorySeries]] = {result.id: [] for result in wanted}
    environment = record.environment.label
    with history.one_state():
        # Runs that started later, as when an old commit runs again, are no earlier runs.
        runs = {run.number: run for run in history.runs(environment) if run.started < record.started}
        for series in history.series(environment, cases=[*by_case]):
            if series.case in by_case:
                by_case[series.case].append(series)
    found = ((result.id, _metric_history(result, by_case[result.id], runs)) for result in wanted)
    return {id: each for id, each in found if each is not None}


def _metric_history(
    result: CaseResult, every: Iterable[HistorySeries], runs: Mapping[int, HistoryRun]
) -> MetricHistory | None:
    """Return the values of the first finding's metric that the history has."""
    series = {(each.output, each.metric): each for each in every}
    for finding in _judged(result):
        one = series.get((finding.output, finding.metric))
        values = () if one is None else tuple(_values(one, runs))[-MAX_EARLIER_RUNS:]
        if values:
            return MetricHistory(finding.output, finding.metric, values, _limit(finding, result))
    return None


def _values(series: HistorySeries, runs: Mapping[int, HistoryRun]) -> Iterator[EarlierValue]:
    for point in series.points:
        if point.run in runs:
            run = runs[point.run]
            yield EarlierValue(run.commit, run.started, point.value)


def _judged(result: CaseResult) -> list[Finding]:
    """Return the findings on a metric of an output, worst first."""
    return [finding for finding in result.verdict.findings if finding.metric and finding.output]


def _limit(finding: Finding, result: CaseResult) -> float | None:
    """Return the value beyond which the metric fails: the bound, or the baseline's value times the allowed growth."""
    if not limits_ratio(finding):
        return finding.limit
    metric = metric_named(finding.metric, result.outcome.described)
    ratio = _allowed_ratio(finding, metric, result)
    if ratio is None or finding.baseline is None or metric.scale != "linear":
        # The allowed ratio of other scales, such as decibels, is not a factor of the value.
        return None
    return finding.baseline * ratio


def _allowed_ratio(finding: Finding, metric: Metric, result: CaseResult) -> float | None:
    """Return the largest ratio to the baseline that the project, the rule and noise allow; None if it is unknown."""
    tolerance = result.tolerances.get(finding.output)
    growth = None if tolerance is None else tolerance.regression.get(finding.metric)
    if growth is not None:
        return allowed_ratio(metric, growth)
    # Noise is a ratio above 1, so it limits positive values whose smaller ones are better.
    is_size = metric.better == "lower" and (finding.baseline or 0) > 0
    if not is_size or finding.limit is None:
        return None
    noise = 1.0 if finding.floor is None else finding.floor
    return max(noise, finding.limit) if isfinite(noise) else None
