"""Which facts beside the verdict explain a case: where its code is, and which values it had at earlier runs?

Cases that passed get none of them, and lose their maps of errors: people look at the others, and records stay small.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.measure import metric_named
from precreg.report.describe import limits_ratio, sort_results
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


def add_context(record: RunRecord, cases: Sequence[Case], project: Path) -> RunRecord:
    """Return the record with the lines of subjects and the earlier values of the results that people look at."""
    by_id = {case.id: case for case in cases}
    results = [_add_subject(result, by_id.get(result.id), project) for result in record.results]
    return _add_histories(replace(record, results=tuple(results)), project, os.environ)


def needs_context(result: CaseResult) -> bool:
    """Return whether people look at a result: it failed, was not judged, or improved."""
    status, reason = result.verdict.status, result.verdict.reason
    return status in (Status.FAILED, Status.ERROR) or reason is Reason.IMPROVED


def _add_subject(result: CaseResult, case: Case | None, project: Path) -> CaseResult:
    if not needs_context(result):
        return replace(result, outcome=_without_maps(result.outcome))
    place = None if case is None else subject_place(case, project)
    return result if place is None else replace(result, subject=place)


def _without_maps(outcome: Outcome) -> Outcome:
    if all(each.error_map is UNSET for each in outcome.comparisons):
        return outcome
    return replace(outcome, comparisons=tuple(replace(each, error_map=UNSET) for each in outcome.comparisons))


def subject_place(case: Case, project: Path) -> Location | None:
    """Return the line of the project that defines the subject of a case: a function, a class or a file.

    Return None for a subject that no file of the project defines.
    """
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
        return (
            None
            if found is None
            else Location(_relative(found, project), _line_of(found, function, found.stat().st_mtime_ns))
        )
    for folder in search_path(project, case.directory):
        if (folder / target).is_file() and (folder / target).is_relative_to(project):
            return Location(_relative(folder / target, project))
    return None


def _relative(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix()


@lru_cache(maxsize=1024)
def _line_of(path: Path, function: str, _modified_ns: int) -> int:
    """Return the line of a function, a class or a method; 0 if the source does not show it.

    The time of the last change is a part of the cache's key, so that a changed file is read again.
    """
    tree: ast.AST | None = parse_module(path.read_bytes())
    line = 0
    for name in function.split("."):
        tree = None if tree is None else _definition(tree, name)
        line = getattr(tree, "lineno", line) if tree is not None else line
    return line


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
