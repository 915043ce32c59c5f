"""How does a terminal show a trace: the answer first, then sites or modules, then all operations?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from precreg.report.describe import strip_controls
from precreg.report.layout import format_columns
from precreg.report.trace.rows import (
    ErrorUnit,
    TraceColumn,
    error_text,
    main_output,
    operation_columns,
    share_text,
    short_files,
    short_site,
    unit_name,
)
from precreg.report.trace.sentences import (
    answer_trace,
    describe_coverage,
    describe_event,
    describe_output,
    describe_trust,
    legend_of,
    trace_warnings,
)
from precreg.shadow import TraceGroup, group_by_module, group_by_site, rank_by_share
from precreg.types import Operation, SiteTotals, Trace

TRACE_WIDTH = 120
# A terminal shows the top of each list, and --all everything.
MAX_RANKED = 5
MAX_GROUPS = 20
# Smaller shares would read 0.0 %.
MIN_SHARE = 0.0005
# Operations between the calls of modules.
NO_MODULE = "no module"
MAX_EVENTS = 10
MAX_DUMPED = 12
# A narrow terminal leaves these columns out, in this order.
_LESS_IMPORTANT = ("largest", "shape", "inherited", "amplified", "dtype", "max ULP")
# Room for "kernels.py:41 `scores =".
MIN_PLACE = 24


def render_trace_terminal(
    trace: Trace, *, unit: ErrorUnit = "ulp", every: bool = False, width: int = TRACE_WIDTH
) -> str:
    """Return the text of a trace for a terminal; `every` adds all operations, and `width` cuts long places."""
    lines = [*_answer(trace, unit), *_dumped(trace, unit, every, width)]
    lines += [*_ranked(trace, unit, width), *_grouped(trace, unit, every, width)]
    if every and trace.operations:
        lines += ["", *_operations("all operations, in order", trace.operations, trace, unit, width)]
    return strip_controls("\n".join([*lines, *_trust(trace, every)]))


def _answer(trace: Trace, unit: ErrorUnit) -> Iterator[str]:
    facts = ", ".join(f"{name} {value}" for name, value in trace.facts.items())
    yield f"{trace.case}  seed {trace.seed}  {trace.dtype}{f'  {facts}' if facts else ''}"
    yield ""
    yield from answer_trace(trace, unit)
    yield from (describe_output(output, trace, unit) for output in trace.outputs)


def _trust(trace: Trace, every: bool) -> Iterator[str]:
    yield ""
    yield describe_coverage(trace)
    yield describe_trust(trace)
    events = trace.events if every else trace.events[:MAX_EVENTS]
    yield from map(describe_event, events)
    if len(events) < len(trace.events):
        yield f"and {len(trace.events) - len(events):,} more events: --all shows them"
    yield from (f"warning: {warning}" for warning in trace_warnings(trace))


def _ranked(trace: Trace, unit: ErrorUnit, width: int) -> Iterator[str]:
    output = main_output(trace)
    if output is None:
        return
    ranked = rank_by_share(trace, output.name)[:MAX_RANKED]
    # The first is shown however small it is.
    ranked = ranked[:1] + [each for each in ranked[1:] if abs(each.shares[output.name]) >= MIN_SHARE]
    if ranked:
        yield ""
        yield from _operations(f"largest shares of the error of {output.name}", ranked, trace, unit, width)


def _operations(
    title: str, operations: Sequence[Operation], trace: Trace, unit: ErrorUnit, width: int
) -> Iterator[str]:
    columns = operation_columns(trace, operations, unit)
    rows = [[column.cell(each).text for column in columns] for each in operations]
    names = [column.name for column in columns]
    left_out = _columns_beyond(names, rows, width)
    kept = [at for at, name in enumerate(names) if name not in left_out]
    yield f"{title}, errors {'in ' if unit == 'ulp' else ''}{unit_name(trace, unit)}"
    yield from _table([columns[at] for at in kept], [[row[at] for at in kept] for row in rows], width)
    yield from (f"  {meaning}" for meaning in legend_of([names[at] for at in kept]))
    if unit == "tolerance" and not any(name.startswith("tolerance") for name in names):
        yield "  no parts of a tolerance: no output has a share and an elementwise tolerance above 0"
    if left_out:
        yield f"  not shown at this width: {', '.join(left_out)}"


def _columns_beyond(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the columns to leave out, the least important first, until the place has room for a file and a line."""
    cells = [names, *rows]
    # format_columns puts two spaces between columns.
    widths = dict(zip(names, (max(map(len, column)) + 2 for column in zip(*cells, strict=True)), strict=True))
    left_out: list[str] = []
    for name in _LESS_IMPORTANT:
        if sum(widths.values()) - widths["place"] + MIN_PLACE <= width:
            break
        if name in widths:
            left_out.append(name)
            del widths[name]
    return left_out


def _table(columns: Sequence[TraceColumn], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Arrange rows in columns, numbers to the right; the last column is cut at the width of the terminal."""
    cells = [[column.name for column in columns], *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = [[_aligned(*each) for each in zip(line, widths, columns, strict=True)] for line in cells]
    return [_cut(line, width) for line in format_columns(padded[0], padded[1:], len(rows))]


def _aligned(text: str, width: int, column: TraceColumn) -> str:
    return text.rjust(width) if column.is_number else text


def _dumped(trace: Trace, unit: ErrorUnit, every: bool, width: int) -> Iterator[str]:
    """Yield the tensors of a folder beside this run's, up to the first ones that this run does not explain."""
    layers = trace.dumps.layers if trace.dumps is not None else ()
    if not layers:
        return
    first = next((at for at, layer in enumerate(layers) if layer.unexplained), 0)
    # A reader compares the first bad layer with those before it.
    start = 0 if every else max(0, first - MAX_DUMPED // 2)
    shown = layers[start : None if every else start + MAX_DUMPED]
    rows = [
        [
            error_text(layer.dumped.relative, trace, unit).rjust(8),
            error_text(layer.here.relative, trace, unit).rjust(8),
            "no" if layer.unexplained else "yes",
            layer.name,
        ]
        for layer in shown
    ]
    yield ""
    yield f"stored tensors in order, total errors {'in ' if unit == 'ulp' else ''}{unit_name(trace, unit)}"
    names = ["there".rjust(8), "here".rjust(8), "explained", "tensor"]
    yield from (_cut(line, width) for line in format_columns(names, rows, len(rows)))
    if len(shown) < len(layers):
        yield f"and {len(layers) - len(shown):,} more: --all shows them"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _grouped(trace: Trace, unit: ErrorUnit, every: bool, width: int) -> Iterator[str]:
    name, groups = trace_groups(trace)
    # One group would repeat the operations above.
    if len(groups) < 2:
        return
    output = main_output(trace)
    key = output.name if output is not None else ""
    ordered = groups_by_share(groups, trace)[: None if every else MAX_GROUPS]
    columns: list[tuple[str, Callable[[TraceGroup], str]]] = [
        ("share", lambda each: share_text(each.shares.get(key))),
        ("own", lambda each: error_text(each.own, trace, unit)),
        ("total", lambda each: error_text(each.total, trace, unit)),
        ("operations", lambda each: f"{each.operations:,}"),
    ]
    if not any(each.shares for each in groups):
        columns = columns[1:]
    names, files = [heading for heading, _ in columns], short_files(trace)
    rows = [[*(cell(each) for _, cell in columns), group_name(each, name, files)] for each in ordered]
    widths = [max(map(len, column)) for column in zip(names, *(row[:-1] for row in rows), strict=True)]
    lines = [[*map(str.rjust, row[:-1], widths), row[-1]] for row in ([*names, name], *rows)]
    yield ""
    shares = f"share of the error of {key}, " if names[0] == "share" else ""
    yield f"by {name}, {shares}largest own and total error {'in ' if unit == 'ulp' else ''}{unit_name(trace, unit)}"
    yield from (_cut(line, width) for line in format_columns(lines[0], lines[1:], len(rows)))
    if len(ordered) < len(groups):
        yield f"and {len(groups) - len(ordered):,} more: --all shows them"


def trace_groups(trace: Trace) -> tuple[str, list[TraceGroup]]:
    """Group a trace by modules if it has any, else by lines; return the word for a group, and the groups.

    Operations that a stored trace leaves out count in their groups.
    """
    sites = [*(each.site for each in trace.operations), *(each.site for each in trace.left_out_sites)]
    word = "module" if any(site.module for site in sites) else "line"
    groups = {group.key: group for group in trace_groups_of(trace.operations, word)}
    for left_out in trace.left_out_sites:
        added = _group_left_out(left_out, word)
        groups[added.key] = _joined_groups(groups[added.key], added) if added.key in groups else added
    return word, list(groups.values())


def _group_left_out(left_out: SiteTotals, word: str) -> TraceGroup:
    site = left_out.site
    key = site.module if word == "module" or not site.file else f"{site.file}:{site.line}"
    return TraceGroup(key, site, left_out.operations, left_out.own, left_out.total, left_out.shares, 0)


def _joined_groups(one: TraceGroup, other: TraceGroup) -> TraceGroup:
    shares = {name: one.shares.get(name, 0.0) + other.shares.get(name, 0.0) for name in {**one.shares, **other.shares}}
    return one._replace(
        operations=one.operations + other.operations,
        own=max(one.own, other.own),
        total=max(one.total, other.total),
        shares=shares,
    )


def groups_by_share(groups: Sequence[TraceGroup], trace: Trace) -> list[TraceGroup]:
    """Sort groups by the absolute share of the main output's error, the largest first."""
    output = main_output(trace)
    key = output.name if output is not None else ""
    return sorted(groups, key=lambda each: -abs(each.shares.get(key, 0.0)))


def trace_groups_of(operations: Sequence[Operation], word: str) -> list[TraceGroup]:
    """Group operations by modules or by lines."""
    return group_by_module(operations) if word == "module" else group_by_site(operations)


def group_name(group: TraceGroup, word: str, files: Mapping[str, str]) -> str:
    """Write the module of a group, or its line with its code."""
    return (group.key or NO_MODULE) if word == "module" else short_site(group.site, files)
