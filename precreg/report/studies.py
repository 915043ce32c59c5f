"""Which tables and drawings show the studies of a run: error growth, and precision against speed?

Speed is the subject's own time in that run on that machine. Precision is the error against the reference. Only the
notes on use and risk are written by hand. report.html draws a panel for each series, with its points and the two laws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log10
from typing import Any, NamedTuple

from precreg.measure import METRICS, metric_ratio
from precreg.report.charts import (
    DrawingBox,
    LogScale,
    log_range,
    svg_drawing,
    svg_element,
    svg_line,
    svg_text,
    svg_title,
)
from precreg.report.error_growth import (
    GrowthPoint,
    GrowthSeries,
    MeasuredOutput,
    compare_laws,
    growth_series,
    growth_slope,
    measured_outputs,
    other_parameters,
    results_of_suite,
    series_name,
)
from precreg.types import (
    SHARE_DIGITS,
    CaseResult,
    Growth,
    Note,
    RunRecord,
    Status,
    Study,
    TradeOff,
    format_duration,
    format_number,
)

# A mean varies less from input to input than a maximum.
TRADE_OFF_METRIC = "mean_abs_error"


class TradeOffRow(NamedTuple):
    """Hold one output of one case beside the plain case, the reference implementation of the same operator.

    `time_ratio` and `error_ratio` are multiples of the plain case; None if not measured, or if the plain case has no
    error. `same_bits` is True if the outputs of all seeds are bit-identical to the plain case. `failure` is the reason
    why nothing was measured.
    """

    case: str
    of: str
    value: str
    plain: bool
    note: Note
    duration_s: float | None = None
    time_ratio: float | None = None
    error: float | None = None
    error_ratio: float | None = None
    mean_ulp: float | None = None
    match_ratio: float | None = None
    rtol: float | None = None
    same_bits: bool = False
    failure: str = ""


def trade_off_rows(study: TradeOff, suite: str, results: Iterable[CaseResult]) -> list[TradeOffRow]:
    """Return a row for each case and output: the plain case of each combination first, then the others by name."""
    found = results_of_suite(suite, results)
    # The name of a single output is noise in every row, so it appears only if there are several.
    several = len({one.output for result in found for one in measured_outputs(result)}) > 1
    plain = {
        (other_parameters(result, study.over), one.output): one
        for result in found
        if result.parameters[study.over] == study.plain
        for one in measured_outputs(result)
    }
    made = [row for result in found for row in _of_case(study, result, plain, several)]
    # The plain case is the unit of all ratios below it, so it comes first in its group.
    return sorted(made, key=lambda row: (row.of, not row.plain, row.value))


def _of_case(
    study: TradeOff, result: CaseResult, plain: dict[tuple[str, str], MeasuredOutput], several: bool
) -> Iterable[TradeOffRow]:
    value, parameters = result.parameters[study.over], other_parameters(result, study.over)
    note = study.notes.get(value, Note())
    empty = TradeOffRow(result.id, parameters, value, value == study.plain, note, failure=result.verdict.message)
    measured = measured_outputs(result)
    # A failed case keeps its row: a variant that disappears from the table looks as if nobody tried it.
    if not measured:
        yield empty
    for one in measured:
        name = series_name(parameters, one.output, of_several=several)
        yield _compare_with_plain(empty._replace(of=name, failure=""), one, plain.get((parameters, one.output)))


def _compare_with_plain(row: TradeOffRow, one: MeasuredOutput, plain: MeasuredOutput | None) -> TradeOffRow:
    execution = one.result.outcome.execution
    error = one.mean(TRADE_OFF_METRIC)
    row = row._replace(
        # A subject of recorded files has no time, which is stored as 0.
        duration_s=execution.duration_s or None,
        error=error,
        mean_ulp=one.mean("mean_ulp"),
        match_ratio=one.mean("match_ratio"),
        rtol=one.result.tolerances[one.output].rtol.limit if one.output in one.result.tolerances else None,
    )
    if plain is None:
        return row
    other = plain.result.outcome.execution
    return row._replace(
        time_ratio=execution.duration_s / other.duration_s if execution.duration_s and other.duration_s else None,
        error_ratio=metric_ratio(METRICS[TRADE_OFF_METRIC], error, plain.mean(TRADE_OFF_METRIC)),
        # Digests, because equal errors do not prove equal bits.
        same_bits=execution.outputs.get(one.output) == other.outputs.get(one.output),
    )


# These columns are sentences of the suite, and hold no measurement.
NOTE_FIELDS = ("use", "risk")


class StudyTable(NamedTuple):
    """Hold one study of one suite in words; `series` are the series to draw, none for a trade-off.

    `columns` and `rows` leave out columns without any text.
    """

    suite: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remark: str
    series: tuple[GrowthSeries, ...] = ()
    over: str = ""
    metric: str = ""

    def measured(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows without the suite's own sentences, for which a terminal has no room."""
        kept = [at for at, name in enumerate(self.columns) if name not in NOTE_FIELDS]
        return [self.columns[at] for at in kept], [[row[at] for at in kept] for row in self.rows]


def describe_studies(record: RunRecord) -> list[StudyTable]:
    """Describe every study of a run, apart from those whose cases were all skipped."""
    return [one for study in record.studies if not _is_skipped(study, record) for one in _of_study(study, record)]


def _is_skipped(study: Study, record: RunRecord) -> bool:
    results = results_of_suite(study.suite, record.results)
    return bool(results) and all(result.verdict.status is Status.SKIPPED for result in results)


def _of_study(study: Study, record: RunRecord) -> Iterator[StudyTable]:
    if study.growth is not None and (found := growth_series(study.growth, study.suite, record.results)):
        yield _growth(study.suite, study.growth, found)
    if study.trade_off is not None and (rows := trade_off_rows(study.trade_off, study.suite, record.results)):
        yield _trade_off(study.suite, study.trade_off, rows)


def _growth(suite: str, study: Growth, found: Sequence[GrowthSeries]) -> StudyTable:
    over, metric = study.over, study.metric
    columns = ("series", "e of one", "direction", over, "measured", "exp(n e)", "sqrt(n)", "nearer", "grows like")
    remark = (
        f"measured is {metric}, the size of d_n / d_0 - 1; the laws d_n = d_0*exp(n*e) and c*sqrt(n) are fitted to "
        f"{over} <= {study.fit_to}, with their values at the last point; direction: -1 all too small, 1 all too large"
    )
    rows = [_law_row(one) for one in found]
    return StudyTable(
        suite, f"error growth over {over}", *_without_empty(columns, rows), remark, tuple(found), over, metric
    )


def _law_row(one: GrowthSeries) -> tuple[str, ...]:
    last, verdict, slope = one.points[-1], compare_laws(one), growth_slope(one)
    e = "" if one.e is None else format_number(one.e, 3)
    laws = [format_number(one.grown(last.n), 3), format_number(one.walked(last.n), 3)] if verdict else ["", ""]
    law = "" if verdict is None else verdict.law
    power = "" if slope is None else f"n^{slope:.2f}"
    return (one.name, e, f"{last.direction:.2f}", str(last.n), format_number(last.error, 3), *laws, law, power)


def _trade_off(suite: str, study: TradeOff, found: Sequence[TradeOffRow]) -> StudyTable:
    columns = ("of", study.over, "time", "speed-up", "error", "error ratio", "mean ULP", "matches", *NOTE_FIELDS)
    remark = (
        "times are the subject's own of this run on this machine, the shortest of seeds and repeats; speed-up and "
        f"error ratio are against {study.over}={study.plain}, error is {TRADE_OFF_METRIC}"
    )
    rows = [_row(row) for row in found]
    return StudyTable(suite, f"precision against speed, by {study.over}", *_without_empty(columns, rows), remark)


def _row(row: TradeOffRow) -> tuple[str, ...]:
    if row.failure:
        # The failure fills the first column of figures, where the eye looks for them.
        return (row.of, row.value, f"not measured: {row.failure}", *[""] * 5, row.note.use, row.note.risk)
    return (
        row.of,
        row.value,
        "" if row.duration_s is None else format_duration(row.duration_s),
        "" if row.time_ratio is None else _speed_up(row.time_ratio, plain=row.plain),
        "" if row.error is None else format_number(row.error, 3),
        _error_ratio(row),
        "" if row.mean_ulp is None else format_number(row.mean_ulp, 3),
        _matches(row),
        row.note.use,
        row.note.risk,
    )


def _speed_up(time_ratio: float, *, plain: bool) -> str:
    """Write how many times faster than the plain case, or slower."""
    # A ratio below 1 reads like a gain at a glance, so slower variants say it in words.
    return "1" if plain else f"{format_number(1 / time_ratio, 3)}{'' if time_ratio < 1 else ' (not faster)'}"


def _error_ratio(row: TradeOffRow) -> str:
    if row.plain:
        return "1"
    if row.same_bits:
        return "1 (same bits)"
    return "" if row.error_ratio is None else format_number(row.error_ratio, 3)


def _matches(row: TradeOffRow) -> str:
    if row.match_ratio is None:
        return ""
    limit = "" if row.rtol is None else f" at rtol {row.rtol:g}"
    return f"{format_number(row.match_ratio, SHARE_DIGITS)}{limit}"


def _without_empty(
    columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    # A column may be empty for a whole study, such as times of recorded files. Without it the table fits a page.
    kept = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    return tuple(columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows)


GROWTH_BOX = DrawingBox(360, 250, 56, 20, 12, 44)
# The laws are smooth, so 48 segments look like a curve at this width.
CURVE_STEPS = 48
# Decades above the largest measured error. A law far off would otherwise flatten all points.
RANGE_MARGIN = 1.0


class Axes(NamedTuple):
    """Hold the scales that all panels share: operations across, relative error upward."""

    across: LogScale
    upward: LogScale


def growth_axes(found: Sequence[GrowthSeries]) -> Axes | None:
    """Return scales that contain every point; None if no error is above 0."""
    points = [point for one in found for point in one.points if point.error > 0]
    if not points:
        return None
    low, high = log_range([log10(point.error) for point in points])
    laws = [law(point.n) for one in found for point in one.points for law in (one.grown, one.walked)]
    # The laws belong into the picture, as far as the margin allows: their distance from the points is the result.
    high = min(max([high, *(log10(error) for error in laws if error > 0)]), high + RANGE_MARGIN)
    # All panels share both axes, so that a reader compares slopes between them.
    ends = log_range([log10(point.n) for one in found for point in one.points])
    return Axes(
        LogScale(*ends, GROWTH_BOX.left, GROWTH_BOX.east),
        LogScale(low - 0.1, high + 0.1, GROWTH_BOX.south, GROWTH_BOX.top),
    )


def draw_growth(one: GrowthSeries, shared: Axes, over: str, metric: str) -> str:
    """Draw a series: d_0 * exp(n * e) as a line, c * sqrt(n) dashed.

    Full points were fitted, hollow ones predicted.
    """
    return svg_drawing(
        GROWTH_BOX,
        describe_growth(one, over, metric),
        *_grid(shared, over, metric),
        # SVG draws in order, so points come last and stay visible on the curves.
        *_curve(one.walked, one, shared, "line-then"),
        *_curve(one.grown, one, shared, "line-now"),
        *(_dot(point, one, shared, over) for point in one.points if point.error > 0),
    )


def _grid(shared: Axes, over: str, metric: str) -> list[str]:
    parts = [
        svg_line(GROWTH_BOX.left, GROWTH_BOX.south, GROWTH_BOX.east, GROWTH_BOX.south, "edge"),
        svg_line(GROWTH_BOX.left, GROWTH_BOX.top, GROWTH_BOX.left, GROWTH_BOX.south, "edge"),
    ]
    for tick in shared.upward.ticks():
        y = shared.upward.at(tick.at)
        parts += [
            svg_line(GROWTH_BOX.left, y, GROWTH_BOX.east, y),
            svg_text(tick.text, GROWTH_BOX.left - 6, y + 4, "end"),
        ]
    for tick in shared.across.ticks():
        x = shared.across.at(tick.at)
        parts += [
            svg_line(x, GROWTH_BOX.south, x, GROWTH_BOX.south + 4, "edge"),
            svg_text(tick.text, x, GROWTH_BOX.south + 16),
        ]
    parts.append(svg_text(over, (GROWTH_BOX.left + GROWTH_BOX.east) / 2, GROWTH_BOX.height - 8))
    return [*parts, svg_text(metric, 4, GROWTH_BOX.top - 3, "start")]


def _curve(law: Callable[[float], float], one: GrowthSeries, shared: Axes, class_: str) -> list[str]:
    """Draw a law from the first point to the last, clipped to the axes."""
    first, last = log10(one.points[0].n), log10(one.points[-1].n)
    places = [first + (last - first) * step / CURVE_STEPS for step in range(CURVE_STEPS + 1)]
    errors = [(place, law(10**place)) for place in places]
    inside = [
        (place, log10(error))
        for place, error in errors
        if error > 0 and shared.upward.low <= log10(error) <= shared.upward.high
    ]
    if len(inside) < 2:
        return []
    points = " ".join(f"{shared.across.at(x):.1f},{shared.upward.at(y):.1f}" for x, y in inside)
    return [svg_element("polyline", class_=class_, points=points)]


def _dot(point: GrowthPoint, one: GrowthSeries, shared: Axes, over: str) -> str:
    class_ = "dot" if point.n <= one.fit_to else "dot foretold"
    x, y = shared.across.at(log10(point.n)), shared.upward.at(log10(point.error))
    return svg_element("circle", svg_title(f"{over} {point.n}: {point.error:.4g}"), class_=class_, cx=x, cy=y, r=3.5)


def describe_growth(one: GrowthSeries, over: str, metric: str) -> str:
    """Write one sentence that describes a panel."""
    first, last = one.points[0], one.points[-1]
    sentence = (
        f"{metric} of {one.name or 'all cases'}: {format_number(first.error, 3)} at {over} {first.n}, "
        f"{format_number(last.error, 3)} at {over} {last.n}"
    )
    verdict = compare_laws(one)
    if verdict is None:
        return sentence
    factors = f"exp(n e) is off by a factor of {verdict.grown:.3g}, sqrt(n) of {verdict.walked:.3g}"
    return f"{sentence}; at worst the law {factors}"


# More panels cannot be compared at a glance; the table has every series.
MAX_DRAWN_STUDIES = 24
MAX_STUDY_ROWS = 500


def studies_for_html(record: RunRecord) -> list[dict[str, Any]]:
    """Return the values of the template for every study: the table, and a drawing for each series."""
    return [_shown(one) for one in describe_studies(record)]


def _shown(one: StudyTable) -> dict[str, Any]:
    return {
        "study": one,
        "panels": _panels(one),
        "rows": one.rows[:MAX_STUDY_ROWS],
        "beyond": max(0, len(one.series) - MAX_DRAWN_STUDIES),
        "left_out": max(0, len(one.rows) - MAX_STUDY_ROWS),
    }


def _panels(one: StudyTable) -> list[dict[str, Any]]:
    shared = growth_axes(one.series) if one.series else None
    if shared is None:
        return []
    from markupsafe import Markup

    return [
        {"name": series.name or "all cases", "svg": Markup(draw_growth(series, shared, one.over, one.metric))}
        for series in one.series[:MAX_DRAWN_STUDIES]
    ]
