"""Which files does `precreg compare` compare, with which tolerances, and where does it write?"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import click

from precreg.cli.console import color_option, has_colour, is_quiet, quiet_option, terminal_width
from precreg.cli.options import CompareOutputs, CompareSides, RawOptions, dask_options, project_of_option
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.comparison import ComparisonWork
    from precreg.run import ClusterPlace, ClusterRequest
    from precreg.types import ComparedPair, ComparisonRecord, ComparisonSettings


# Stands for standard output in --json and --report.
STDOUT = Path("-")

_PATH = click.Path(path_type=Path)


class SidePath(click.ParamType[Path | str]):
    """Convert the path of a side: a Path, or the text of a URL, whose slashes a Path would join."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        """Return a Path, or a URL as it is written."""
        from precreg.storage import is_url

        return value if isinstance(value, str) and is_url(value) else Path(value)


SIDE_PATH = SidePath()

# Few enough that their own collections take no time, and many enough that freezing takes none.
_PAIRS_TO_FREEZE = 256


def parse_shape(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Return the lengths of `4x64` or `4,64`. Raises UserError (bad-value)."""
    if text is None:
        return None
    # numpy arrays have at most 32 axes before version 2, and lengths below 2**63.
    if not re.fullmatch(r"[0-9]{1,18}([,x][0-9]{1,18}){0,31}", text):
        raise UserError(
            "bad-value",
            f"expected lengths such as 4x64 or 4,64 but got shape={text}",
            hint="write the lengths with x between: --shape 4x64",
        )
    return tuple(map(int, re.split("[,x]", text)))


def _bounds(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    return dict(map(_read_bound, texts))


def _read_bound(text: str) -> tuple[str, float]:
    # No name of a metric contains an equals sign, so the first one separates.
    metric, _, limit = text.partition("=")
    try:
        return metric.strip(), float(limit)
    except ValueError:
        raise UserError(
            "bad-value",
            f"expected METRIC=LIMIT, such as max_ulp=4, but got bound={text}",
            hint="write a metric, = and a number: --bound max_ulp=4",
        ) from None


@click.command("compare")
@click.argument("paths", nargs=-1, type=SIDE_PATH, metavar="[ACTUAL] [REFERENCE]")
@click.option("--actual", type=SIDE_PATH, metavar="PATH", help="ACTUAL, by its name.")
@click.option(
    "--reference", type=SIDE_PATH, metavar="PATH", help="REFERENCE, by its name: computed in higher precision."
)
@click.option(
    "--golden", type=SIDE_PATH, metavar="PATH", help="In place of REFERENCE: must have the actual's dtype, too."
)
@click.option("--benchmark", type=SIDE_PATH, metavar="PATH", help="Another implementation's output, measured, too.")
@click.option("--regression", is_flag=True, help="Fail where ACTUAL is worse than the benchmark beyond noise.")
@click.option("--rtol", type=float, help="Every element: |a-r| <= atol + rtol*|r|.")
@click.option("--atol", type=float, help="Every element: |a-r| <= atol + rtol*|r|.")
@click.option("--standard", metavar="NAME", help="A named standard (docs/standards.md) in place of the defaults.")
@click.option("--bound", "bounds", multiple=True, metavar="METRIC=LIMIT", callback=_bounds, help="Limit one metric.")
@click.option(
    "--analyzer", "analyzers", multiple=True, metavar="NAME", help="An installed analyzer that measures, too."
)
@click.option("--dtype", metavar="NAME", help="Of raw .bin files.")
@click.option("--reference-dtype", metavar="NAME", help="Of raw .bin files of the reference, if it differs.")
@click.option("--shape", metavar="4x64", callback=parse_shape, help="Of raw .bin files; by default the other side's.")
@click.option("--byte-order", type=click.Choice(["little", "big"]), default="little", help="Of raw .bin files.")
@click.option("--mapping", type=_PATH, metavar="FILE", help="YAML: names of actual arrays to names of references.")
@click.option("--order", type=_PATH, metavar="FILE", help="Order of execution: names, dump.json or a model (.onnx).")
@click.option(
    "--select",
    multiple=True,
    metavar="PATTERN",
    help="Only arrays that match: a name, a part of one, or wildcards * ? [].",
)
@click.option("--worst", type=click.IntRange(0, 100_000), default=100, help="Positions to store of each pair.")
@click.option("--json", type=_PATH, metavar="FILE", help="Write the record; - writes it to stdout.")
@click.option("--report", type=_PATH, metavar="FILE", help="Write a page of HTML.")
@click.option("--jobs", "-j", type=click.IntRange(0), help="Processes for many pairs; 0 uses this process.")
@dask_options
@color_option
@quiet_option(", and a line for each failing pair before the exit line")
@click.pass_obj
def compare_command(
    project: Path | None,
    /,
    paths: tuple[Path | str, ...],
    actual: Path | str | None,
    reference: Path | str | None,
    golden: Path | str | None,
    json: Path | None,
    report: Path | None,
    dtype: str | None,
    reference_dtype: str | None,
    shape: tuple[int, ...] | None,
    byte_order: Literal["little", "big"],
    **others: Any,
) -> None:
    """Compare stored arrays with references: files, archives of arrays, or folders, matched by name.

    URLs of object stores, s3://BUCKET/PREFIX and gs://BUCKET/PREFIX, are files and folders too (extra precreg[stores]).

    Formats: .npy, .npz, .safetensors, and raw .bin with --dtype and --shape. Tolerances are the shipped defaults, then
    suites/tolerances.yaml of the project in `precreg --project FOLDER compare`.

    Exit codes: 1 a pair fails; 2 a pair could not be judged, or nothing was compared; 0 otherwise.
    """
    sides = parse_sides(list(paths), actual, reference, golden)
    raw = RawOptions(dtype, reference_dtype, shape, byte_order)
    sys.exit(compare_and_report(project, sides, raw, CompareOutputs(json, report), **others))


def parse_sides(
    paths: list[Path | str], actual: Path | str | None, reference: Path | str | None, golden: Path | str | None
) -> CompareSides:
    """Take ACTUAL and REFERENCE from the options, and missing sides from the arguments in order.

    Raises UserError (not-comparable) unless each side is given once.
    """
    # A golden needs the actual's dtype, a reference more precision: one oracle cannot be both.
    if reference is not None and golden is not None:
        raise UserError("not-comparable", "expected --reference or --golden but got both")
    other = reference if golden is None else golden
    # Options first and arguments after them, so that `compare --golden G A` needs no fixed order.
    given = {"ACTUAL": actual, "REFERENCE": other}
    for name in given:
        if given[name] is None and paths:
            given[name] = paths.pop(0)
    if paths:
        raise UserError("not-comparable", f"expected one ACTUAL and one REFERENCE but got {paths[0]} besides")
    if given["ACTUAL"] is None or given["REFERENCE"] is None:
        missing = next(name for name, path in given.items() if path is None)
        raise UserError("not-comparable", f"expected an ACTUAL and a REFERENCE but got no {missing}")
    return CompareSides(given["ACTUAL"], given["REFERENCE"], golden is not None)


def compare_and_report(
    project: Path | None,
    sides: CompareSides,
    raw: RawOptions,
    outputs: CompareOutputs,
    *,
    benchmark: Path | str | None,
    regression: bool,
    rtol: float | None,
    atol: float | None,
    standard: str | None,
    bounds: dict[str, float],
    analyzers: tuple[str, ...],
    mapping: Path | None,
    order: Path | None,
    select: tuple[str, ...],
    worst: int,
    **workers: Any,
) -> int:
    """Compare, write the record and the page, print the summary, and return the exit code; `workers` are options."""
    from precreg.environment import limit_blas_threads
    from precreg.subject import escape_surrogates
    from precreg.types import ComparisonSettings

    limit_blas_threads()  # before anything imports numpy, which reads the number of threads once
    # Everything that decides about the result: the record alone can repeat the comparison.
    settings = ComparisonSettings(
        actual=_text(sides.actual),
        reference=_text(sides.reference),
        role="golden" if sides.golden else "reference",
        benchmark=None if benchmark is None else _text(benchmark),
        mapping=None if mapping is None else _text(mapping),
        select=tuple(map(escape_surrogates, select)),
        project=None if project is None else _text(project_of_option(project)),
        limits={**_limits(standard, rtol, atol), **bounds},
        raw=_raw_settings(raw),
        worst=worst,
        analyzers=analyzers,
        regression=regression,
        order=None if order is None else _text(order),
    )
    _make_folders(outputs)
    record = _compare(settings, raw, details=any(outputs), **workers)
    _write(record, outputs)
    return record.exit_code


def _compare(
    settings: ComparisonSettings,
    raw: RawOptions,
    jobs: int | None,
    cluster: ClusterRequest | None = None,
    *,
    details: bool,
) -> ComparisonRecord:
    from precreg.comparison import finish_comparison
    from precreg.environment import count_processors

    started, began = datetime.now(UTC).isoformat(timespec="seconds"), perf_counter()
    jobs = count_processors() if jobs is None else jobs
    if cluster is None and jobs > 1 and _has_many_files(Path(settings.actual)):
        from precreg.run import start_fork_server

        start_fork_server()  # first, because it starts while the folders are read
    # Without a record and a page, nobody sees the positions and groups of the pairs that pass.
    work = _plan(settings, raw, details=details)
    with _opened(cluster, settings) as place:
        pairs = _compare_with_progress(work, jobs, place)
    return finish_comparison(settings, work, pairs, started=started, duration_s=perf_counter() - began)


@contextmanager
def _opened(request: ClusterRequest | None, settings: ComparisonSettings) -> Iterator[ClusterPlace | None]:
    """Yield the cluster of a request, whose workers have to see the paths; None without a request."""
    if request is None:
        yield None
        return
    from precreg.environment import detect_environment
    from precreg.report import describe_cluster_warning
    from precreg.run import open_cluster

    sides = (settings.actual, settings.reference, settings.benchmark)
    seen = request._replace(paths=tuple(str(Path(side).absolute()) for side in sides if side is not None))
    with open_cluster(seen, None, detect_environment()) as cluster:
        yield cluster
        for warning in cluster.warnings():
            click.echo(f"precreg: {describe_cluster_warning(warning)}", err=True)


def _has_many_files(path: Path) -> bool:
    """Return whether a folder has so many files that processes will share them; False for any other path."""
    from precreg.comparison import MIN_PAIRS_TO_SHARE

    try:
        with os.scandir(path) as files:
            return sum(1 for _ in islice(files, MIN_PAIRS_TO_SHARE)) == MIN_PAIRS_TO_SHARE
    # Reading the sides reports the mistake.
    except (OSError, ValueError):
        return False


def _limits(standard: str | None, rtol: float | None, atol: float | None) -> dict[str, str | float]:
    given = {"standard": standard, "rtol": rtol, "atol": atol}
    return {name: limit for name, limit in given.items() if limit is not None}


def _text(path: Path | str) -> str:
    from precreg.subject import escape_surrogates

    # Records are the same on every system, and JSON cannot store surrogates.
    return escape_surrogates(path.as_posix() if isinstance(path, Path) else path)


def _raw_settings(raw: RawOptions) -> dict[str, str]:
    """Return the options that were given, as records store them."""
    shape = None if raw.shape is None else "x".join(map(str, raw.shape))
    given = {"dtype": raw.dtype, "reference_dtype": raw.reference_dtype, "shape": shape}
    named = {name: text for name, text in given.items() if text is not None}
    # The default is left out, so that records of other formats have no raw settings.
    return named | ({"byte_order": raw.byte_order} if raw.byte_order != "little" else {})


def _make_folders(outputs: CompareOutputs) -> None:
    """Make the folders of the output files now: a mistake in a path should not wait for the end of the work."""
    from precreg.storage import report_write_errors

    # The second write would replace the first without a word, also for two times standard output.
    if outputs.json is not None and outputs.json == outputs.report:
        raise UserError(
            "bad-value",
            f"expected two files but got --json and --report {outputs.json}",
            hint="name two files: --json compare.json --report compare.html",
        )
    for path in outputs:
        if path is not None and not path.name:
            raise UserError("not-writable", "expected a file to write but got a folder, or no name", file=str(path))
        if path not in (None, STDOUT):
            with report_write_errors(str(path)):
                path.parent.mkdir(parents=True, exist_ok=True)


def _plan(settings: ComparisonSettings, raw: RawOptions, *, details: bool) -> ComparisonWork:
    from precreg.comparison import RawFormat, plan_comparison

    own = RawFormat(raw.dtype, raw.shape, raw.byte_order)
    try:
        return plan_comparison(settings, own, own._replace(dtype=raw.reference_dtype or raw.dtype), details=details)
    # As shells report a process that SIGINT ended: 128 + 2.
    except KeyboardInterrupt:
        click.echo("interrupted before any pair was compared", err=True)
        sys.exit(130)


def _compare_with_progress(work: ComparisonWork, jobs: int, cluster: ClusterPlace | None) -> list[ComparedPair]:
    from precreg.cli.console import show_pair_progress
    from precreg.comparison import compare_pairs

    done: list[ComparedPair] = []
    try:
        for pair in show_pair_progress(compare_pairs(work.pairs, work.terms, jobs, cluster), len(work.pairs)):
            done.append(pair)  # one by one: an interrupt reports their number
            # Pairs live to the end. The collector would look at all of them again and again, for half of the time that
            # this process takes (10,000 pairs, -j 2).
            if len(done) % _PAIRS_TO_FREEZE == 0:
                gc.freeze()
    except KeyboardInterrupt:
        click.echo(f"interrupted: {len(done)} of {len(work.pairs)} pairs were compared", err=True)
        sys.exit(130)
    return done


def _write(record: ComparisonRecord, outputs: CompareOutputs) -> None:
    """Write the files, then print the summary: to stderr if the record goes to stdout."""
    from precreg.comparison import render_comparison_terminal
    from precreg.storage import encode_record, replace_file, report_write_errors, write_json_record

    if outputs.report is not None:
        from precreg.comparison import render_comparison_html

        with report_write_errors(str(outputs.report)):
            replace_file(outputs.report, render_comparison_html(record).encode())
    if outputs.json not in (None, STDOUT):
        write_json_record(record, outputs.json)
    written = [path for path in outputs if path is not None and path != STDOUT]
    to_stderr = outputs.json == STDOUT
    if to_stderr:
        click.echo(encode_record(record), nl=False)
    # stdout has only JSON then, so that a pipe can parse it.
    stream = sys.stderr if to_stderr else sys.stdout
    colour, width = has_colour(stream), terminal_width(stream)
    text = render_comparison_terminal(record, colour=colour, written=written, width=width, quiet=is_quiet())
    click.echo(text, nl=False, err=to_stderr)
