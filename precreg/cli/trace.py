"""Where does a case lose precision? `precreg trace`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.options import config_option, project_of_option
from precreg.cli.trace_output import TraceOutput, trace_output_options
from precreg.cli.watch import TraceOrShow, WatchOptions, watch_options
from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    from precreg.shadow import DumpReader
    from precreg.types import Case, Trace


# The word for the version whose results are the baseline; a branch of this name is refs/heads/accepted.
_ACCEPTED = "accepted"


@click.command("trace", cls=TraceOrShow)
@click.argument("pattern", metavar="CASE")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Trace the inputs of this seed.")
@click.option("--output", metavar="NAME", help="Show this output alone; by default all of them.")
@click.option("--dtype", metavar="DTYPE", help="The dtype whose rounding is normal; by default the case's own.")
@click.option("--no-shares", "shares", is_flag=True, flag_value=False, default=True, help="Skip the backward pass.")
@click.option("--bounds", is_flag=True, help="Show the largest possible error of sums, products and roundings, too.")
@click.option("--environment", metavar="LABEL", help="The label of this environment, for tolerances.")
@click.option("--against", metavar="REVISION", help="Trace another version, too: the first operation whose error grew.")
@click.option(
    "--dumps",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Compare the tensors that another machine stored with this trace, layer by layer.",
)
@trace_output_options
@watch_options
@config_option
@click.pass_obj
def trace_command(
    given: Path | None,
    /,
    pattern: str,
    seed: int,
    output: str | None,
    dtype: str | None,
    shares: bool,
    bounds: bool,
    environment: str | None,
    against: str | None,
    dumps: Path | None,
    shown: TraceOutput,
    watching: WatchOptions,
) -> None:
    """Show the operation where a case first loses precision, and the share of the error that each one explains.

    CASE is a case's id, or a pattern that matches one case. The revision accepted is the version whose results are the
    case's baseline. Nothing is judged: the exit code is 0 if the case was
    traced. precreg trace show FILE shows a trace that --save stored; a case called show is unit/show.
    """
    from precreg.environment import detect_environment, limit_blas_threads

    _require_other_files({"--json": shown.json, "--report": shown.report, "--save": watching.save})
    limit_blas_threads()
    project = project_of_option(given)
    case = choose_case(project, pattern)
    from precreg.shadow import SketchListener, TraceSettings, trace_against, trace_case

    reader = None if dumps is None else _read_dumps(dumps)
    settings = TraceSettings(_known_dtype(dtype), shares, detect_environment(environment).chain, reader)
    commit = _accepted_commit(case, project, settings.chain) if against == _ACCEPTED else None
    sketches = [SketchListener()] if against is not None else []
    recorder = watching.recorder(*sketches, *([] if reader is None else [reader]))
    recorder.has_bounds = bounds
    trace = trace_case(case, project, seed, recorder, settings)
    if against is not None:
        trace = trace_against(case, project, trace, sketches[0].trace_of(trace.operations), against, settings, commit)
    trace = watching.finish(trace)
    shown.show(trace if output is None else _only_output(trace, output))


def _require_other_files(given: dict[str, Path | None]) -> None:
    """Refuse one file for two options, whose second text would replace the first. Raises UserError: bad-value."""
    found: dict[Path, str] = {}
    for option, path in given.items():
        if path is None or path == Path("-"):
            continue
        other = found.setdefault(path.resolve(), option)
        if other != option:
            raise UserError(
                "bad-value",
                f"expected a file of its own for {option} but {other} has it: {path}",
                hint=f"give each option a name of its own: {option} other-{path.name}",
            )


def choose_case(project: Path, pattern: str) -> Case:
    """Return the one case that a pattern matches. Raises UserError: nothing-selected, unknown-case for several."""
    from precreg.suite import Selection, find_cases, list_names

    cases = find_cases(project, Selection(patterns=(pattern,)))
    if len(cases) > 1:
        message = f"expected a pattern of one case but got {pattern=!s}"
        raise UserError("unknown-case", message + list_names([case.id for case in cases]))
    return cases[0]


def _accepted_commit(case: Case, project: Path, chain: tuple[str, ...]) -> str:
    """Return the commit whose code a case's baseline accepted. Raises UserError: no-accepted-version."""
    from precreg.baseline import Baselines, acceptance_commit
    from precreg.report import describe_no_version

    baseline = Baselines(project).lookup(case.baseline_id, chain)
    expected = f"expected the accepted version of {case.id} but"
    if baseline is None:
        raise UserError("no-accepted-version", f"{expected} it has no baseline")
    found = acceptance_commit(project, case.baseline_id, baseline.file)
    if isinstance(found, str):
        return found
    raise UserError("no-accepted-version", f"{expected} {describe_no_version(found)}")


def _read_dumps(folder: Path) -> DumpReader:
    """Return the reader of the stored tensors in a folder. Raises UserError: not-comparable for none."""
    from precreg.comparison import RawFormat, read_side
    from precreg.shadow import DumpReader, StoredTensor

    side = read_side(folder, RawFormat())
    if not side.arrays:
        raise UserError("not-comparable", f"expected stored tensors but there are none in dumps={folder}")
    stored = {name: StoredTensor(place.shown, place.load) for name, place in side.arrays.items()}
    return DumpReader(side.shown, stored)


def _known_dtype(name: str | None) -> str | None:
    """Return the dtype of --dtype. Raises UserError: unknown-dtype."""
    from precreg.arithmetic import COMPLEX_PARTS, FORMATS

    if name is None or name in FORMATS or name in COMPLEX_PARTS:
        return name
    message = f"expected a floating dtype but got dtype={name}{nearest(name, (*FORMATS, *COMPLEX_PARTS))}"
    raise UserError("unknown-dtype", message, hint="write --dtype bfloat16")


def _only_output(trace: Trace, name: str) -> Trace:
    """Return the trace with one output. Raises UserError: bad-value."""
    from precreg.shadow import only_output
    from precreg.suite import list_names

    names = [output.name for output in trace.outputs]
    if name not in names:
        message = f"expected an output of {trace.case} but got output={name}"
        raise UserError(
            "bad-value",
            message + list_names(names, nearest(name, names)),
            hint=f"write one of them: --output {next(iter(names), 'out')}",
        )
    return only_output(trace, name)
