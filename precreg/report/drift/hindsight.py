"""Write the changes of a whole history for a terminal, and as hindsight.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from precreg.history.drift import HindsightChange, HindsightOutput, HindsightRecord
from precreg.report.describe import strip_controls
from precreg.report.layout import format_columns
from precreg.storage import replace_file, report_write_errors
from precreg.types import format_distinct, format_number

HINDSIGHT_FILE = "hindsight.json"
# A log stays readable with so many outputs and changes; hindsight.json has all of them.
MAX_HINDSIGHT_OUTPUTS = 50
MAX_HINDSIGHT_ROWS = 40
# Every date of a run is in UTC, and its first 10 characters are the day.
HINDSIGHT_DAY = 10


class HindsightRow(NamedTuple):
    """Hold one change as text; an empty field has nothing to show."""

    run: str
    date: str
    change: str
    metric: str
    before: str
    after: str
    ratio: str
    commits: str


def describe_hindsight_change(change: HindsightChange) -> str:
    """Write one change in one sentence."""
    before, after = format_distinct([change.before, change.after])
    numbers = f"{before} -> {after}{'' if change.ratio is None else f', {format_number(change.ratio)} times'}"
    direction = "regressed" if change.worse else "improved"
    first = change.change.first_bad
    where = f"with a step at run {first}" if change.kind == "step" else f"on a slope from run {first} to {change.until}"
    also = f"; also {', '.join(change.also)}" if change.also else ""
    return f"{change.metric} {direction} {where}: {numbers}{also}"


def hindsight_row(change: HindsightChange) -> HindsightRow:
    """Describe one change in the columns of the table."""
    before, after = format_distinct([change.before, change.after])
    first = change.change.first_bad
    others = f" (and {len(change.also)} more)" if change.also else ""
    return HindsightRow(
        str(first) if change.until is None else f"{first} to {change.until}",
        change.started[:HINDSIGHT_DAY],
        f"{'regressed' if change.worse else 'improved'}, {change.kind}",
        change.metric + others,
        before,
        after,
        "" if change.ratio is None else format_number(change.ratio),
        change.change.commits,
    )


def render_hindsight(record: HindsightRecord, reports: Sequence[Path] = (), width: int | None = None) -> str:
    """Write the changes of each output as a table, and count them."""
    first, last = record.runs[0].number, record.runs[-1].number
    count = "1 run" if len(record.runs) == 1 else f"{len(record.runs)} runs"
    paragraphs = [[f"precreg {record.precreg}: environment {record.environment}, {count}, {first} to {last}"]]
    paragraphs += [_output_lines(found, width) for found in record.results[:MAX_HINDSIGHT_OUTPUTS]]
    if len(record.results) > MAX_HINDSIGHT_OUTPUTS:
        paragraphs.append([f"... and {len(record.results) - MAX_HINDSIGHT_OUTPUTS} more outputs in {HINDSIGHT_FILE}"])
    ending = [f"changes   {describe_hindsight_counts(record)}"]
    if reports:
        ending.append(f"reports   {'  '.join(path.as_posix() for path in reports)}")
    return strip_controls("\n\n".join("\n".join(lines) for lines in [*paragraphs, ending])) + "\n"


def describe_hindsight_counts(record: HindsightRecord) -> str:
    """Count the regressions and improvements, and the series in which they were searched."""
    changes = [change for found in record.results for change in found.changes]
    worse = sum(change.worse for change in changes)
    gains = len(changes) - worse
    names = [f"{worse} regression{'' if worse == 1 else 's'}", f"{gains} improvement{'' if gains == 1 else 's'}"]
    return f"{' and '.join(names)} in {record.series} series"


def _output_lines(found: HindsightOutput, width: int | None) -> list[str]:
    inner = None if width is None else width - 2
    rows = [hindsight_row(change) for change in found.changes]
    return [
        f"{found.case}   {found.output}",
        *("  " + line for line in format_columns(HindsightRow._fields, rows, MAX_HINDSIGHT_ROWS, inner)),
    ]


def write_hindsight(record: HindsightRecord, folder: Path) -> list[Path]:
    """Write hindsight.json into an existing folder, each change with its sentence. Raises UserError: not-writable."""
    plain = msgspec.to_builtins(record)
    for written, found in zip(plain["results"], record.results, strict=True):
        for of_change, change in zip(written["changes"], found.changes, strict=True):
            of_change["message"] = describe_hindsight_change(change)
    path = folder / HINDSIGHT_FILE
    with report_write_errors(str(path)):
        replace_file(path, msgspec.json.encode(plain) + b"\n")
    return [path]
