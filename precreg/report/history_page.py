"""How does a history read as one page: which cases and suites changed, when, and in which environments?

The page opens without a network and stays below 5 MB. Cases worth a look come first and have all of their runs. Later
ones have a choice of their runs, and the page says how many. Nothing in a history can become markup or code.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from precreg.history import HistoryPoint, HistoryRun, changed_facts
from precreg.history.drift import (
    CaseTrend,
    HindsightChange,
    SuiteTrend,
    TrendLine,
    TrendsRecord,
    case_loss,
    is_failing,
    suite_of,
)
from precreg.measure import METRICS
from precreg.report.describe import count_cases, strip_controls
from precreg.report.drift import HINDSIGHT_DAY, describe_hindsight_change
from precreg.report.html import PageWords
from precreg.report.html_data import PageDetails, PageTexts, json_for_script, packed_json
from precreg.report.page_words import DEFAULT_LANGUAGE, HISTORY_CATALOGUES, Language
from precreg.report.template import page_script, page_style, render_template
from precreg.storage import replace_file, report_write_errors
from precreg.types import format_number

# Limits the rows and the drawings, so that the page stays below 5 MB. Drawings take at most MAX_DRAWN_BYTES of it.
MAX_PAGE_BYTES = 4_700_000
MAX_DRAWN_BYTES = 3_300_000
# Cases in the first half of the drawings have every run; later ones have so many of them.
MAX_SAMPLED_RUNS = 40
# Beyond so many cases a browser needs seconds for the table's data.
MAX_TREND_ROWS = 20_000
MAX_TOP_CHANGES = 30
MAX_TOP_SUITES = 100
MAX_ENVIRONMENT_CHANGES = 50
# Lines of other outputs and metrics beyond these are in precreg drift --hindsight.
MAX_LINES = 12
# Four digits: a drawing shows three at most.
_DIGITS = 4
# The class of a state in report.css.
_TONES = {"failing": "failed", "regressed": "proposed", "improved": "passed", "steady": "skipped"}


class PageSample(NamedTuple):
    """Count the cases that the page draws with all runs, with a choice of runs, and without a drawing or a row."""

    whole: int
    sampled: int
    undrawn: int
    left_out: int


def render_history_html(record: TrendsRecord, language: Language = DEFAULT_LANGUAGE) -> str:
    """Lay out the history as one HTML document; its switch has the other languages, too."""
    return render_template("history.html.j2", _page(record, language))


def write_history_page(record: TrendsRecord, path: Path, language: Language = DEFAULT_LANGUAGE) -> None:
    """Write the page in one step. Raises UserError: not-writable."""
    text = render_history_html(record, language)
    with report_write_errors(str(path)):
        replace_file(path, text.encode())


def describe_history_page(record: TrendsRecord) -> str:
    """Count changes, series, cases, runs and environments in one line."""
    parts = [
        f"{describe_trend_counts(record)} in {_count(record.series, 'series', 'series')}",
        count_cases(len(record.cases)),
        _count(len(record.runs), "run", "runs"),
        _count(len(record.environments), "environment", "environments"),
    ]
    return strip_controls(", ".join(parts))


def describe_trend_counts(record: TrendsRecord) -> str:
    """Count the regressions and the improvements of all lines."""
    changes = Counter(change.worse for trend in record.cases for _, change in _changes(trend))
    gains = _count(changes[False], "improvement", "improvements")
    return f"{_count(changes[True], 'regression', 'regressions')} and {gains}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _page(record: TrendsRecord, language: Language) -> dict[str, Any]:

    shown = record.cases[:MAX_TREND_ROWS]
    places = {run.number: place for place, run in enumerate(record.runs)}
    kinds = Counter(trend_kind(trend) for trend in shown)
    suites = _suite_rows(record)
    changes = list(islice(_top_changes(record), MAX_TOP_CHANGES + 1))
    data = json_for_script(_data(record, shown, places))
    # Base64 adds a third to the packed bytes.
    room = min(MAX_DRAWN_BYTES, max(0, MAX_PAGE_BYTES - len(data.encode()))) * 3 // 4
    details, sample = _details(record, shown, places, room)
    return {
        "record": record,
        **PageWords(language, PageTexts(), HISTORY_CATALOGUES).names(),
        "story": _story(record),
        "counts": describe_trend_counts(record),
        "first": record.runs[0].started[:HINDSIGHT_DAY],
        "last": record.runs[-1].started[:HINDSIGHT_DAY],
        "changes": changes[:MAX_TOP_CHANGES],
        "more_changes": len(changes) > MAX_TOP_CHANGES,
        "suites": suites[:MAX_TOP_SUITES],
        "suites_left_out": max(0, len(suites) - MAX_TOP_SUITES),
        "suite_names": sorted({suite_of(trend.case) for trend in shown}),
        "environments": [_environment(label, record.runs) for label in record.environments],
        "kinds": [(kind, tone) for kind, tone in _TONES.items() if kinds[kind]],
        "sample": sample,
        "sampled_runs": MAX_SAMPLED_RUNS,
        "style": page_style("report.css", "run.css", "case.css", "history.css"),
        **page_script("page.js", "table.js", "case.js", "history.js"),
        "data": data,
        "details": details,
    }


def trend_kind(trend: CaseTrend) -> str:
    """Return the state of a case: failing at its newest run, or by its latest change, or steady."""
    if is_failing(trend):
        return "failing"
    latest = max((change for _, change in _changes(trend)), key=lambda change: change.started, default=None)
    if latest is None:
        return "steady"
    return "regressed" if latest.worse else "improved"


def _changes(trend: CaseTrend) -> Iterator[tuple[TrendLine, HindsightChange]]:
    """Yield each change once: other metrics of an output may share it."""
    seen: set[tuple[str, str, HindsightChange]] = set()
    for line in trend.lines:
        for change in line.changes:
            if (key := (line.environment, line.output, change)) not in seen:
                seen.add(key)
                yield line, change


def _worst_change(trend: CaseTrend) -> tuple[TrendLine, HindsightChange] | None:
    """Return the largest regression; the latest improvement without one."""
    changes = list(_changes(trend))
    worse = [pair for pair in changes if pair[1].worse]
    if worse:
        return max(worse, key=lambda pair: pair[1].ratio or inf)
    return max(changes, key=lambda pair: pair[1].started, default=None)


def _story(record: TrendsRecord) -> dict[str, str]:
    """Return the sentence of the page, around the link to the worst case."""
    worst = next((trend for trend in record.cases if _worst_change(trend) is not None), None)
    counts = describe_trend_counts(record)
    found = None if worst is None else _worst_change(worst)
    if worst is None or found is None:
        return {"before": f"No change in {_count(len(record.runs), 'run', 'runs')}", "case": "", "after": ""}
    return {"before": f"{counts}; the largest: ", "case": worst.case, "after": f" {_change_text(*found, record)}"}


def _change_text(line: TrendLine, change: HindsightChange, record: TrendsRecord) -> str:
    environment = f" ({line.environment})" if len(record.environments) > 1 else ""
    return f"{line.output}: {describe_hindsight_change(change)}{environment}"


def _top_changes(record: TrendsRecord) -> Iterator[dict[str, Any]]:
    """Yield the changes of the cases, worst case first, and of a case the worst change first."""
    for trend in record.cases:
        for line, change in sorted(_changes(trend), key=lambda pair: _by_size(pair[1])):
            yield {
                "case": trend.case,
                "worse": change.worse,
                "day": change.started[:HINDSIGHT_DAY],
                "run": change.change.first_bad,
                "environment": line.environment,
                "message": f"{line.output}: {describe_hindsight_change(change)}",
                "commits": change.change.commits,
                "facts": ", ".join(change.change.environment),
            }


def _by_size(change: HindsightChange) -> tuple[bool, float]:
    """Order changes: regressions by their ratio, the largest first; then improvements, the smallest first."""
    return not change.worse, -(change.ratio or inf) if change.worse else change.ratio or 0.0


def _environment(label: str, runs: Sequence[HistoryRun]) -> dict[str, Any]:
    """Describe one environment: its runs and the changes of its facts."""
    own = [run for run in runs if run.environment == label]
    changes = [
        {
            "run": after.number,
            "day": after.started[:HINDSIGHT_DAY],
            "facts": ", ".join(f"{name} {was} -> {now}" for name, was, now in sorted(changed_facts(before, after))),
        }
        for before, after in pairwise(own)
        if before.fingerprint != after.fingerprint
    ]
    return {
        "label": label,
        "runs": len(own),
        "first": own[0].started[:HINDSIGHT_DAY],
        "last": own[-1].started[:HINDSIGHT_DAY],
        "count": len(changes),
        "changes": changes[::-1][:MAX_ENVIRONMENT_CHANGES],
    }


def _suite_rows(record: TrendsRecord) -> list[dict[str, Any]]:
    """Describe the suites: those with the most failures of now first, then those with the most regressions."""
    failing: Counter[str] = Counter()
    worse: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    for trend in record.cases:
        suite = suite_of(trend.case)
        cases[suite] += 1
        failing[suite] += is_failing(trend)
        worse[suite] += any(change.worse for _, change in _changes(trend))
    growth: dict[str, list[float]] = {suite: [] for suite in cases}
    for suite_trend in record.suites:
        growth[suite_trend.suite] += [*suite_trend.growth.values()][-1:]
    rows = [
        {
            "suite": suite,
            "cases": count,
            "failing": failing[suite],
            "regressed": worse[suite],
            "growth": format_number(max(growth[suite]), 3) if growth[suite] else "",
        }
        for suite, count in cases.items()
    ]
    return sorted(rows, key=lambda row: (-row["failing"], -row["regressed"], row["suite"]))


def _data(record: TrendsRecord, shown: Sequence[CaseTrend], places: Mapping[int, int]) -> dict[str, Any]:
    """Return the runs, and the rows of the table; texts that many rows share are stored once."""
    texts: dict[str, int] = {}
    labels = {label: place for place, label in enumerate(record.environments)}
    rows = [_row(trend, record, texts, labels, places) for trend in shown]
    return {
        "runs": list(_runs(record.runs, labels)),
        "environments": record.environments,
        "suites": {each["suite"]: each["cases"] for each in _suite_rows(record)},
        "rows": rows,
        "texts": list(texts),
        "glossary": _glossary(shown),
        "words": HISTORY_CATALOGUES,
    }


def _runs(runs: Sequence[HistoryRun], labels: Mapping[str, int]) -> Iterator[list[Any]]:
    """Describe each run; the last text lists the facts that differ from the run before in its environment."""
    before: dict[str, HistoryRun] = {}
    for run in runs:
        last = before.get(run.environment)
        differs = last is not None and last.fingerprint != run.fingerprint
        facts = sorted(changed_facts(last, run)) if last is not None and differs else []
        text = ", ".join(f"{name} {was} -> {now}" for name, was, now in facts)
        # A fingerprint may differ by facts that the run does not list.
        note = (text or "fingerprint") if differs else ""
        commit = f"{run.commit[:8] or 'no commit'}{' and changes' if run.dirty else ''}"
        yield [run.number, run.started, commit, run.branch, labels[run.environment], note]
        before[run.environment] = run


def _row(
    trend: CaseTrend,
    record: TrendsRecord,
    texts: dict[str, int],
    labels: Mapping[str, int],
    places: Mapping[int, int],
) -> list[Any]:
    """Describe a case: id, state, environments, message, the run of its change, the size of its loss."""

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    folder, slash, name = trend.case.rpartition("/")
    found, loss = _worst_change(trend), case_loss(trend)
    kind = trend_kind(trend)
    failing = sorted({reason for reason in trend.latest.values()}) if kind == "failing" else []
    message = "; ".join([*failing, *([_change_text(*found, record)] if found else [])])
    return [
        [place(folder + slash), name],
        place(kind),
        [labels[label] for label in sorted(trend.latest)],
        place(message),
        None if found is None else places[found[1].change.first_bad],
        # JSON has no infinity.
        None if loss == inf else float(format_number(loss, 3)),
    ]


def _glossary(shown: Iterable[CaseTrend]) -> dict[str, str]:
    names = sorted({line.metric for trend in shown for line in trend.lines})
    return {name: METRICS[name].formula for name in names if name in METRICS}


def _details(
    record: TrendsRecord, shown: Sequence[CaseTrend], places: Mapping[int, int], room: int
) -> tuple[PageDetails, PageSample]:
    """Pack the lines of the cases in their order, and of the first suites, into `room` bytes.

    Count the cases by their share of runs, too.
    """
    labels = {label: place for place, label in enumerate(record.environments)}
    packer = zlib.compressobj(6)
    first = {row["suite"] for row in _suite_rows(record)[:MAX_TOP_SUITES]}
    suites: dict[str, list[Any]] = {name: [] for name in first}
    for suite in record.suites:
        if suite.suite in first:
            suites[suite.suite].append(_suite_line(suite, labels, places))
    packed = len(packer.compress(msgspec.json.encode(suites)))
    kept: list[msgspec.Raw] = []
    whole = 0
    for trend in shown:
        is_whole = packed <= room / 2
        encoded = msgspec.json.encode(_case(trend, labels, places, None if is_whole else MAX_SAMPLED_RUNS))
        packed += len(packer.compress(encoded))
        if packed > room:
            break
        whole += is_whole
        kept.append(msgspec.Raw(encoded))
    sample = PageSample(whole, len(kept) - whole, len(shown) - len(kept), len(record.cases) - len(shown))
    return PageDetails(packed_json({"cases": kept, "suites": suites}), True, {}), sample


def _suite_line(suite: SuiteTrend, labels: Mapping[str, int], places: Mapping[int, int]) -> list[Any]:
    """Describe a suite in one environment: the environment, its growth, its failures, and the cases at each run."""
    points = [HistoryPoint(run, suite.growth.get(run), None) for run in suite.ran]
    at, values = _corners(points, places)
    failed = [[places[run], number, suite.ran[run]] for run, number in suite.failed.items()]
    return [labels[suite.environment], at, values, failed]


def _case(trend: CaseTrend, labels: Mapping[str, int], places: Mapping[int, int], most: int | None) -> dict[str, Any]:
    """Describe a case for its panel; with `most`, each line has about so many points."""
    return {
        "lines": [_line(line, labels, places, most) for line in trend.lines[:MAX_LINES]],
        "more": max(0, len(trend.lines) - MAX_LINES),
        "changes": [
            [
                places[change.change.first_bad],
                labels[line.environment],
                line.output,
                change.worse,
                describe_hindsight_change(change),
                change.change.commits,
                ", ".join(change.change.environment),
            ]
            for line, change in _changes(trend)
        ],
        "failures": [
            [labels[label], [[places[run], reason] for run, reason in found.items()]]
            for label, found in trend.failures.items()
        ],
        "latest": [[labels[label], reason] for label, reason in trend.latest.items()],
        "sampled": most is not None and any(len(line.points) > most for line in trend.lines),
    }


def _line(line: TrendLine, labels: Mapping[str, int], places: Mapping[int, int], most: int | None) -> list[Any]:
    """Describe one line: output, metric, environment, runs and values, runs and accepted values, runs of changes."""
    marked = {change.change.first_bad for change in line.changes}
    points = line.points if most is None else _sampled(line.points, most, marked)
    at, values = _corners(points, places)
    accepted = [HistoryPoint(point.run, point.accepted, None) for point in points]
    accepted_at, levels = _corners(accepted, places) if any(each.value is not None for each in accepted) else ([], [])
    changes = [[places[change.change.first_bad], change.worse] for change in line.changes]
    return [line.output, line.metric, labels[line.environment], at, values, accepted_at, levels, changes]


def _corners(points: Sequence[HistoryPoint], places: Mapping[int, int]) -> tuple[list[int], list[float | None]]:
    """Return places and values without the points inside a stretch of equal values, which a straight line draws."""
    at: list[int] = []
    values: list[float | None] = []
    for number, point in enumerate(points):
        inner = 0 < number < len(points) - 1
        if inner and points[number - 1].value == point.value == points[number + 1].value:
            continue
        at.append(places[point.run])
        values.append(_short(point.value))
    return at, values


def _short(value: float | None) -> float | None:
    # JSON has no infinity and no NaN.
    return None if value is None or not isfinite(value) else float(f"{value:.{_DIGITS}g}")


def _sampled(points: Sequence[HistoryPoint], most: int, marked: Iterable[int]) -> list[HistoryPoint]:
    """Return the smallest and the largest value of each stretch of runs, the ends, and the points around changes."""
    if len(points) <= most:
        return [*points]
    kept = {0, len(points) - 1}
    places = {point.run: place for place, point in enumerate(points)}
    for run in marked:
        kept |= {places[run] - 1, places[run]} if run in places else set()
    stretches = most // 2
    for part in range(stretches):
        inside = range(part * len(points) // stretches, (part + 1) * len(points) // stretches)
        measured = [place for place in inside if points[place].value is not None]
        # A stretch without a value keeps one point, which shows the gap.
        ends = [min, max] if measured else []
        kept |= {end(measured, key=lambda place: points[place].value or 0.0) for end in ends} or {inside[0]}
    return [points[place] for place in sorted(kept) if place >= 0]
