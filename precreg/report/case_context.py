"""Which command repeats a case, which links lead to its code, and which values did it have at earlier runs?"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from shlex import quote
from statistics import fmean
from typing import Any, NamedTuple
from urllib.parse import quote as quote_url
from urllib.parse import urlsplit

from msgspec import UNSET

from precreg.measure import metric_named
from precreg.report.causes import change_command
from precreg.report.pairs import describe_judge
from precreg.run import is_explainable
from precreg.types import (
    CaseResult,
    EarlierValue,
    Location,
    MetricHistory,
    RunRecord,
    SourceLinks,
    Status,
    format_number,
    is_test_defined,
)

_NO_LINKS = SourceLinks()


class CaseContext(NamedTuple):
    """The facts of a run that the panel of a case needs; the defaults fit a run outside a repository."""

    commit: str = ""
    folder: str = ""
    links: SourceLinks = _NO_LINKS
    against: str = ""
    pair: str = ""
    history_problem: str = ""


_OUTSIDE = CaseContext()


def context_of(record: RunRecord) -> CaseContext:
    """Return the facts of a run for the panels of its cases."""
    return CaseContext(
        "" if record.git is None else record.git.commit,
        record.folder,
        _NO_LINKS if record.links is UNSET else record.links,
        record.against,
        record.pair,
        "" if record.history_problem is UNSET else record.history_problem,
    )


def reproduce_command(result: CaseResult, context: CaseContext) -> str:
    """Return the command that runs a case again as this run did, from the root of the repository."""
    if is_test_defined(result.definition):
        path = f"{context.folder}/{result.source.file}" if context.folder else result.source.file
        return f"pytest {quote(path)}"
    # A run that names its commits repeats the verdict, and not the computation alone.
    judged = "".join(f" --{name} {quote(each)}" for name, each in _commits(context) if each)
    return f"{_program(context)} run{judged} {_pattern(result)}"


def search_commands(result: CaseResult, context: CaseContext) -> list[str]:
    """Return the commands that search the cause and the place of a loss; none for a case without a measured loss."""
    measured = any(finding.metric for finding in result.verdict.findings)
    if result.verdict.status is not Status.FAILED or not measured or is_test_defined(result.definition):
        return []
    if result.opaque is not UNSET:
        command = change_command(_pattern(result), result.opaque, _program(context))
        return [command] if command else []
    names = ["trace"] if result.diagnosis is not None else ["diagnose", "trace"]
    return [f"{_program(context)} {name} {_pattern(result)}" for name in names]


def look_command(result: CaseResult, context: CaseContext = _OUTSIDE) -> str:
    """Return the first command that looks into the errors of a case; empty if no command can find their cause."""
    if not is_explainable(result):
        return ""
    if result.opaque is not UNSET:
        return change_command(quote(result.id), result.opaque, _program(context))
    return f"{_program(context)} diagnose {quote(result.id)}"


def _program(context: CaseContext) -> str:
    return f"precreg --project {quote(context.folder)}" if context.folder else "precreg"


def _pattern(result: CaseResult) -> str:
    # The id is a pattern, and its own brackets and stars are no wildcards.
    return quote(glob.escape(result.id))


def _commits(context: CaseContext) -> Iterator[tuple[str, str]]:
    yield "against", context.against
    yield "pair", context.pair


def links_of(result: CaseResult, context: CaseContext) -> list[list[str]]:
    """Return label, text and URL of the suite line, the subject's line and the commit; a URL is empty if unknown."""
    places = [["test" if is_test_defined(result.definition) else "suite", result.source]]
    if isinstance(result.subject, Location):
        places.append(["subject", result.subject])
    found = [
        [str(label), str(place), _line_url(place, context)] for label, place in places if isinstance(place, Location)
    ]
    if context.commit:
        found.append(["commit", context.commit[:12], _commit_link(context.commit, context)])
    return found


def _line_url(place: Location, context: CaseContext) -> str:
    # A place in a package, such as a shipped standard, does not belong to the repository.
    if not context.commit or ":" in place.file:
        return ""
    path = f"{context.folder}/{place.file}" if context.folder else place.file
    return _filled(context.links.source, commit=context.commit, path=path, line=str(place.line or 1))


def _commit_link(commit: str, context: CaseContext) -> str:
    return _filled(context.links.commit, commit=commit) if commit else ""


def _filled(template: str, **values: str) -> str:
    """Return the URL of a template; empty unless its scheme is http or https, because records may be forged."""
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", quote_url(value))
    try:
        parts = urlsplit(template)
    except ValueError:
        return ""
    return template if parts.scheme in ("http", "https") and parts.netloc else ""


def environment_rows(result: CaseResult) -> list[list[str]]:
    """Return the difference between the environments of the baseline and of the run, in words; none without one."""
    baseline = result.baseline
    if baseline is None:
        return []
    if result.paired is not None and not result.paired.fell_back:
        return [["compared with", f"{describe_judge(result)}: the same environment"]]
    different = baseline.change or "nothing that is known to change bits"
    return [["baseline of", baseline.environment], ["different here", different]]


def history_of(result: CaseResult, context: CaseContext) -> dict[str, Any] | None:
    """Describe the earlier values of the metric that failed, with the first bad commit; None without a history.

    A history that could not be read has a `problem` alone.
    """
    history = result.history
    if not isinstance(history, MetricHistory) or not history.values:
        wanted = context.history_problem and any(finding.metric for finding in result.verdict.findings)
        return {"problem": context.history_problem} if wanted else None
    current = _current(result, history)
    first = first_bad_run(history, result)
    return {
        "problem": "",
        "title": f"{history.metric} of {history.output}",
        "values": [[each.commit[:12], each.started, each.value, _text(each.value)] for each in history.values],
        "current": current,
        "shown": _text(current),
        "limit": history.limit,
        "limitShown": "" if history.limit is None else format_number(history.limit),
        "first": first,
        "sentence": _first_bad_sentence(history, first, result),
        "url": "" if first is None else _commit_link(history.values[first].commit, context),
    }


def _text(value: float | None) -> str:
    return "no value" if value is None else format_number(value)


def _current(result: CaseResult, history: MetricHistory) -> float | None:
    own = (each.metrics for each in result.outcome.comparisons if each.output == history.output)
    known = [metrics[history.metric] for metrics in own if history.metric in metrics]
    return fmean(known) if known else None


def first_bad_run(history: MetricHistory, result: CaseResult) -> int | None:
    """Return the place of the first earlier run since which every value was beyond the limit.

    Return None if the last value was within the limit, or if no limit is known. Runs without a value belong to the
    values around them.
    """
    if history.limit is None:
        return None
    higher = metric_named(history.metric, result.outcome.described).better == "higher"
    first = None
    for place in range(len(history.values) - 1, -1, -1):
        value = history.values[place].value
        if value is None:
            continue
        if value >= history.limit if higher else value <= history.limit:
            break
        first = place
    return first


def _first_bad_sentence(history: MetricHistory, first: int | None, result: CaseResult) -> str:
    """Say since which run the metric is beyond its limit."""
    if history.limit is None or result.verdict.status is not Status.FAILED:
        return ""
    if first is None:
        runs = _count(history.values)
        return f"This run is the first beyond the limit: the last of {runs} before it was within."
    run = history.values[first]
    place = f"commit {run.commit[:12]}" if run.commit else "a run without a commit"
    when = run.started[:16].replace("T", " ")
    if first == 0:
        return f"Already beyond the limit at the first run shown: {place}, {when}."
    return f"First bad: {place}, {when}; {_count(history.values[first:])} since then, and this one."


def _count(runs: Sequence[EarlierValue]) -> str:
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
