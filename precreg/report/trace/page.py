"""How does a browser show a trace, and how does a program read it?

The page is one file without a network: the answer, the course of the errors, heat maps, and tables that sort. Nothing
in a trace can become markup or code. The template escapes, data is JSON without <, > and &, and the script sets text
only. The page's own policy runs only the script whose digest it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import isfinite
from typing import Any, NamedTuple

import msgspec

from precreg.report.charts import (
    MAX_CURVES,
    Course,
    CoursePoint,
    Curve,
    NameMap,
    draw_course,
    draw_name_map,
)
from precreg.report.html_data import json_for_script
from precreg.report.template import page_script, page_style, render_template
from precreg.report.trace.rows import (
    Cell,
    ErrorUnit,
    error_text,
    main_output,
    operation_columns,
    share_text,
    short_files,
    unit_name,
)
from precreg.report.trace.sentences import (
    answer_trace,
    describe_coverage,
    describe_event,
    describe_output,
    describe_size_of_ulp,
    describe_trust,
    legend_of,
    trace_warnings,
)
from precreg.report.trace.terminal import NO_MODULE, group_name, groups_by_share, trace_groups, trace_groups_of
from precreg.shadow import (
    TraceGroup,
    coverage_of,
    encode_trace,
    find_first_loss,
    is_formula_dominant,
    leading_to,
    unit_of,
)
from precreg.types import DumpComparison, Operation, Trace

# A row of the table takes about 150 bytes of the page.
MAX_HTML_OPERATIONS = 20_000
MAX_HTML_EVENTS = 500
# The heat map joins rows beyond its own limit. The table of groups has all of them.
_STYLES = ("report.css", "trace.css")


def trace_json(trace: Trace) -> bytes:
    """Return a trace as one line of JSON, with the answer in words and the coverage beside the facts.

    `precreg trace show` reads it as it reads a stored trace. Infinities are the text "inf", because JSON has none.
    """
    loss = find_first_loss(trace)
    plain = msgspec.json.decode(encode_trace(trace)) | {
        "answer": answer_trace(trace),
        "first_loss": None if loss is None else loss._asdict() | {"operation": loss.operation.number},
        "coverage": coverage_of(trace)._asdict(),
        "warnings": trace_warnings(trace),
    }
    return msgspec.json.encode(plain) + b"\n"


def render_trace_html(trace: Trace, unit: ErrorUnit = "ulp") -> str:
    """Lay out a trace as one HTML document."""
    return render_template("trace.html.j2", _page(trace, unit))


def _page(trace: Trace, unit: ErrorUnit) -> dict[str, Any]:
    from markupsafe import Markup

    course = course_of(trace, unit)
    tables = [_group_table(trace, unit), _operation_table(trace, unit)] if trace.operations else []
    if trace.dumps is not None and trace.dumps.layers:
        tables.insert(0, _dump_table(trace.dumps, trace, unit))
    is_formula = any(is_formula_dominant(output, trace.oracle) for output in trace.outputs)
    return {
        "trace": trace,
        "answer": answer_trace(trace, unit),
        "tone": "loss" if is_formula or find_first_loss(trace) is not None else "calm",
        "trust": describe_trust(trace),
        "warnings": trace_warnings(trace),
        "outputs": [describe_output(output, trace, unit) for output in trace.outputs],
        "coverage": describe_coverage(trace),
        "events": [describe_event(event) for event in trace.events[:MAX_HTML_EVENTS]],
        "course": Markup(draw_course(course)) if trace.operations else "",
        "curves": [f"total error{f' towards {curve.name}' if curve.name else ''}" for curve in course.curves],
        "scale": f"log axis; {describe_size_of_ulp(trace) if unit == 'ulp' else 'relative errors'}",
        "curves_beyond": max(0, len(trace.outputs) - MAX_CURVES),
        "maps": [(name, Markup(draw_name_map(found)), caption) for name, found, caption in _maps(trace, unit)],
        "tables": [table.about() for table in tables],
        "data": Markup(json_for_script({"tables": [table.data() for table in tables]})),
        "style": page_style(*_STYLES),
        **page_script("trace.js"),
    }


def course_of(trace: Trace, unit: ErrorUnit = "ulp") -> Course:
    """Return the picture of a trace; operations of every dtype share one axis and one unit."""
    points = {each.number: _point(each, _factor(trace, unit)) for each in trace.operations}
    changes = [
        (number, name)
        for (number, name), before in zip(_phases(trace)[1:], _phases(trace), strict=False)
        if name != before[1]
    ]
    loss = find_first_loss(trace)
    return Course(
        tuple(points.values()),
        tuple(_curves(trace, points)),
        changes,
        None if loss is None else points[loss.operation.number],
        (("1 ULP", unit_of(trace.dtype) * _factor(trace, unit)),),
    )


def _factor(trace: Trace, unit: ErrorUnit) -> float:
    """Return the number of units in a relative error of 1."""
    return 1 / unit_of(trace.dtype) if unit == "ulp" else 1.0


def _point(operation: Operation, factor: float) -> CoursePoint:
    own, total = operation.own, operation.total
    return CoursePoint(
        operation.number,
        None if own is None or operation.note in ("created", "moved") else own.relative * factor,
        None if total is None else total.relative * factor,
        _point_label(operation),
    )


def _point_label(operation: Operation) -> str:
    site = operation.site
    where = site.module or (f"{site.file}:{site.line}" if site.file else "")
    return f"{operation.number} {operation.name}{f' {where}' if where else ''}"


def _phases(trace: Trace) -> list[tuple[int, str]]:
    """Return the first operation of each phase, or of each training step if there are several."""
    names = [
        each.phase
        if each.step is None
        else f"step {each.step}" + ("" if each.phase == "forward" else f", {each.phase}")
        for each in trace.operations
    ]
    numbered = zip(names, (each.number for each in trace.operations), strict=True)
    starts = [(next(group)[1], name) for name, group in groupby(numbered, key=lambda pair: pair[0])]
    # More labels than that would cover each other.
    return starts[:: -(-len(starts) // 12)] if starts else []


def _curves(trace: Trace, points: dict[int, CoursePoint]) -> list[Curve]:
    """Return one curve for each output: the operations on the way to it."""
    outputs = sorted(trace.outputs, key=lambda each: -(each.rounding.relative if each.rounding else 0.0))[:MAX_CURVES]
    shared = [each.name for each in outputs if any(each.name in one.shares for one in trace.operations)]
    if len(shared) < 2:
        return [Curve("", _stretches(trace.operations, points))]
    ways = {each.name: [one.number for one in leading_to(trace, each)] for each in outputs if each.name in shared}
    # Outputs of one way would cover each other.
    joined: dict[tuple[int, ...], list[str]] = {}
    for name, numbers in ways.items():
        joined.setdefault(tuple(numbers), []).append(name)
    by_number = {each.number: each for each in trace.operations}
    return [
        Curve(" and ".join(names), _stretches([by_number[number] for number in numbers], points))
        for numbers, names in joined.items()
    ]


def _stretches(operations: Sequence[Operation], points: dict[int, CoursePoint]) -> list[list[CoursePoint]]:
    # A line from the forward to the backward pass would show errors between them.
    phases = groupby(operations, key=lambda each: (each.step, each.phase))
    return [[points[each.number] for each in stretch] for _, stretch in phases]


def _maps(trace: Trace, unit: ErrorUnit) -> list[tuple[str, NameMap, str]]:
    word, groups = trace_groups(trace)
    if len(groups) < 2:
        return []
    files = short_files(trace)
    names = [_map_name(group, word, files) for group in groups]
    output = main_output(trace)
    key = output.name if output is not None else ""
    columns = ["largest own", "largest total", *(["share in %"] if any(key in each.shares for each in groups) else [])]
    factor = _factor(trace, unit)
    values = [
        [group.own * factor, group.total * factor, _percent(group.shares.get(key))][: len(columns)] for group in groups
    ]
    caption = f"errors: {unit_name(trace, unit)}; each column has a colour scale of its own, logarithmic"
    found = [(f"{word.capitalize()}s by metric", NameMap(names, columns, values, f"{word}s by metric", True), caption)]
    return [*found, *_step_map(trace, unit, groups, names)]


def _percent(share: float | None) -> float | None:
    # A tenth of a percent is noise (share_text), and round() of a small negative number is -0.0.
    return None if share is None else round(100 * share, 1) + 0.0


def _step_map(
    trace: Trace, unit: ErrorUnit, groups: Sequence[TraceGroup], names: Sequence[str]
) -> list[tuple[str, NameMap, str]]:
    steps = sorted({each.step for each in trace.operations if each.step is not None})
    if len(steps) < 2:
        return []
    word, _ = trace_groups(trace)
    worst: dict[tuple[str, int], float] = {}
    for step in steps:
        of_step = [each for each in trace.operations if each.step == step]
        for group in trace_groups_of(of_step, word):
            worst[group.key, step] = group.total * _factor(trace, unit)
    values = [[worst.get((group.key, step)) for step in steps] for group in groups]
    caption = f"largest total error in {unit_name(trace, unit)}, colours on a log scale"
    found = NameMap(names, [str(step) for step in steps], values, f"largest total error of {word}s by training step")
    return [(f"{word.capitalize()}s by training step", found, caption)]


def _map_name(group: TraceGroup, word: str, files: Mapping[str, str]) -> str:
    if word == "module" or not group.site.file:
        return group.key or NO_MODULE
    return f"{files[group.site.file]}:{group.site.line}"


class _PageTable(NamedTuple):
    """Hold one sortable table: columns as (name, kind), and rows of cells."""

    id: str
    title: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str]

    def about(self) -> dict[str, Any]:
        return {"id": self.id, "title": self.title, "notes": self.notes}

    def data(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "columns": [{"name": name, "kind": kind} for name, kind in self.columns],
            "rows": [[_plain(cell) for cell in row] for row in self.rows],
        }


def _plain(cell: Cell) -> Any:
    """Return a text, or a text with the number that sorts it; JSON has no infinity."""
    if cell.number is None:
        return cell.text
    # Four digits sort as well as all, and keep the page small.
    return [cell.text, float(f"{cell.number:.4g}") if isfinite(cell.number) else "inf"]


def _group_table(trace: Trace, unit: ErrorUnit) -> _PageTable:
    word, groups = trace_groups(trace)
    files = short_files(trace)
    outputs = [output.name for output in trace.outputs if any(output.name in each.shares for each in groups)]
    shares = [f"share of {name}" if len(outputs) > 1 else "share" for name in outputs]
    columns = [*shares, "largest own", "largest total", "operations"]
    # A narrow screen must show the name without scrolling.
    rows = [
        [
            Cell(group_name(group, word, files)),
            *(Cell(share_text(group.shares.get(name)), group.shares.get(name)) for name in outputs),
            Cell(error_text(group.own, trace, unit), group.own),
            Cell(error_text(group.total, trace, unit), group.total),
            Cell(f"{group.operations:,}", group.operations),
        ]
        for group in groups_by_share(groups, trace)
    ]
    named = [(word, "place"), *((name, "number") for name in columns)]
    return _PageTable("groups", f"By {word}", named, rows, [f"errors: {unit_name(trace, unit)}"])


def _dump_table(dumps: DumpComparison, trace: Trace, unit: ErrorUnit) -> _PageTable:
    columns = [("tensor", "place"), ("there", "number"), ("here", "number"), ("explained", "text"), ("file", "place")]
    rows = [
        [
            Cell(layer.name),
            Cell(error_text(layer.dumped.relative, trace, unit), layer.dumped.relative),
            Cell(error_text(layer.here.relative, trace, unit), layer.here.relative),
            Cell("no" if layer.unexplained else "yes"),
            Cell(layer.file),
        ]
        for layer in dumps.layers
    ]
    return _PageTable("dumps", f"Tensors of {dumps.folder}", columns, rows, [f"errors: {unit_name(trace, unit)}"])


def _operation_table(trace: Trace, unit: ErrorUnit) -> _PageTable:
    kept = trace.operations[:MAX_HTML_OPERATIONS]
    found = {column.name: column for column in operation_columns(trace, kept, unit)}
    # A wide table must show the name and the place of an operation without scrolling.
    columns = [found.pop(name) for name in ("no.", "operation", "place")] + list(found.values())
    kinds = [
        (each.name, "number" if each.is_number else "place" if each.name == "place" else "text") for each in columns
    ]
    rows = [[column.cell(each) for column in columns] for each in kept]
    beyond = len(trace.operations) - len(kept)
    notes = [
        describe_size_of_ulp(trace) if unit == "ulp" else "errors are relative",
        *legend_of([each.name for each in columns]),
        *([f"the JSON of the trace has {beyond:,} more operations"] if beyond else []),
    ]
    return _PageTable("operations", "All operations, in order", kinds, rows, notes)
