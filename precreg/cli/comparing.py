"""What `precreg compare` does once its options are understood. Apart from compare.py, so that nothing loads in vain."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import click

from precreg.cli.options import Outputs, Raw, Sides
from precreg.cli.progress import shown_pairs
from precreg.cli.selecting import find_project
from precreg.comparison.places import RawFormat
from precreg.comparison.session import Work, finished, plan
from precreg.comparison.sharing import all_compared
from precreg.comparison.terminal import render
from precreg.environment.environment import limit_blas_threads
from precreg.environment.processors import processors
from precreg.errors import UserError
from precreg.storage.report_stored import encoded, write_stored
from precreg.storage.writing import replace_file, writing
from precreg.subject.failure import encodable
from precreg.types.records import ComparedPair, ComparisonRecord, ComparisonSettings

STDOUT = Path("-")


def compare_and_report(
    project: Path | None,
    sides: Sides,
    raw: Raw,
    outputs: Outputs,
    *,
    benchmark: Path | None,
    rtol: float | None,
    atol: float | None,
    standard: str | None,
    bounds: dict[str, float],
    analyzers: tuple[str, ...],
    mapping: Path | None,
    select: tuple[str, ...],
    worst: int,
    jobs: int | None,
) -> int:
    """Compare, write what was asked for, print the summary, and return the exit code."""
    limit_blas_threads()
    limits = {"standard": standard, "rtol": rtol, "atol": atol, **bounds}
    settings = ComparisonSettings(
        actual=_text(sides.actual),
        reference=_text(sides.reference),
        role="golden" if sides.golden else "reference",
        benchmark=None if benchmark is None else _text(benchmark),
        mapping=None if mapping is None else _text(mapping),
        select=tuple(map(encodable, select)),
        project=None if project is None else _text(find_project(project)),
        limits={name: limit for name, limit in limits.items() if limit is not None},
        raw=_said(raw),
        worst=worst,
        analyzers=analyzers,
    )
    _make_folders(outputs)
    started, began = datetime.now(UTC).isoformat(timespec="seconds"), perf_counter()
    own = RawFormat(raw.dtype, raw.shape, raw.byte_order)
    work = _planned(settings, own, own._replace(dtype=raw.reference_dtype or raw.dtype))
    pairs = _compared(work, processors() if jobs is None else jobs)
    record = finished(settings, work, pairs, started=started, duration_s=perf_counter() - began)
    _write(record, outputs)
    return record.exit_code


def _text(path: Path) -> str:
    return encodable(path.as_posix())


def _said(raw: Raw) -> dict[str, str]:
    shape = None if raw.shape is None else "x".join(map(str, raw.shape))
    said = {"dtype": raw.dtype, "reference_dtype": raw.reference_dtype, "shape": shape}
    named = {name: text for name, text in said.items() if text is not None}
    return named | ({"byte_order": raw.byte_order} if raw.byte_order != "little" else {})


def _make_folders(outputs: Outputs) -> None:
    """Make the folders of what will be written: that this cannot be done should be known before the work."""
    if outputs.json is not None and outputs.json == outputs.report:
        raise UserError("bad-value", f"expected two files but got --json and --report {outputs.json}")
    for path in outputs:
        if path is not None and not path.name:
            raise UserError("not-writable", "expected a file to write but got a folder, or no name", file=str(path))
        if path not in (None, STDOUT):
            with writing(str(path)):
                path.parent.mkdir(parents=True, exist_ok=True)


def _planned(settings: ComparisonSettings, raw: RawFormat, raw_reference: RawFormat) -> Work:
    try:
        return plan(settings, raw, raw_reference)
    except KeyboardInterrupt:
        click.echo("interrupted before any pair was compared", err=True)
        sys.exit(130)


def _compared(work: Work, jobs: int) -> list[ComparedPair]:
    done: list[ComparedPair] = []
    try:
        for pair in shown_pairs(all_compared(work.pairs, work.terms, jobs), len(work.pairs)):
            done.append(pair)  # one by one: what is done is told where the rest is given up
    except KeyboardInterrupt:
        click.echo(f"interrupted: {len(done)} of {len(work.pairs)} pairs were compared", err=True)
        sys.exit(130)
    return done


def _write(record: ComparisonRecord, outputs: Outputs) -> None:
    """Write the files, and then the summary: to stderr where the record itself goes to stdout."""
    if outputs.report is not None:
        from precreg.comparison.html import comparison_html

        with writing(str(outputs.report)):
            replace_file(outputs.report, comparison_html(record).encode())
    if outputs.json not in (None, STDOUT):
        write_stored(record, outputs.json)
    written = [path for path in outputs if path is not None and path != STDOUT]
    beside = outputs.json == STDOUT
    if beside:
        click.echo(encoded(record), nl=False)
    colour = (sys.stderr if beside else sys.stdout).isatty()
    click.echo(render(record, colour=colour, written=written), nl=False, err=beside)
