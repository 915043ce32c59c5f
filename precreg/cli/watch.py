"""Which options watch a trace, stop and store it, and how is a stored one shown again?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from precreg.cli.trace_output import TraceOutput, trace_output_options

if TYPE_CHECKING:
    from precreg.shadow import Listener, Listeners, Recorder
    from precreg.types import Operation, Trace, WatchedValue

_OPTIONS = (
    click.option(
        "--watch",
        "watches",
        multiple=True,
        metavar="NAME[0:64]",
        help="Print these elements of an operation, variable, FILE:LINE, module, probe or output, each time.",
    ),
    click.option(
        "--break",
        "breaks",
        multiple=True,
        metavar="WHERE",
        help="Stop in pdb at an operation, FILE:LINE, nan, inf, or a condition: 'error > 4 ulp'.",
    ),
    click.option(
        "--detail",
        type=click.IntRange(0, 3),
        default=2,
        show_default=True,
        help="0: outputs; 1: total errors; 2: own errors and shares; 3: elements, printed at once.",
    ),
    click.option("--lanes", metavar="0:8", help="The elements of the last axis that a watch without its own prints."),
    click.option("--save", type=click.Path(path_type=Path), metavar="FILE", help="Store the trace, for trace show."),
)


class WatchOptions:
    """Watch, stop and store one trace: `recorder` sees its operations, and `finish` takes the trace itself.

    `save` is the file of --save.
    """

    def __init__(
        self, detail: int, watches: Sequence[str], breaks: Sequence[str], lanes: str | None, save: Path | None
    ) -> None:
        self._texts = (detail, watches, breaks, lanes)
        self.save = save
        self._listeners: Listeners | None = None
        # A trace redirects stdout while the subject runs, so that its prints do not mix with the report. Nothing joins
        # JSON on stdout.
        is_json = click.get_current_context().params.get("json") == Path("-")
        self._output = sys.stderr if is_json else sys.stdout

    def recorder(self, *others: Listener) -> Recorder:
        """Return the recorder that the watches, the breakpoints and others listen to. Raises UserError: bad-watch."""
        # Late, because this imports numpy, which takes the number of its threads from variables then.
        from precreg.shadow import Listeners, read_watch_request

        request = read_watch_request(*self._texts)
        self._listeners = Listeners(request, self._print_value, _announce, others)
        return self._listeners.recorder

    def finish(self, trace: Trace) -> Trace:
        """Return the trace with its watched values, store it, and print watches that never matched to stderr.

        Raises:
            UserError: not-writable.
        """
        from precreg.report import describe_unmatched
        from precreg.shadow import write_trace

        assert self._listeners is not None
        watched = self._listeners.add_to(trace)
        for pattern in watched.unmatched:
            click.echo(describe_unmatched(pattern), err=True)
        if self.save is not None:
            write_trace(watched, self.save)
        return watched

    def _print_value(self, value: WatchedValue) -> None:
        from precreg.report import render_watched_value

        click.echo(render_watched_value(value), file=self._output)


def watch_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --watch, --break, --detail, --lanes and --save; the command gets `watching`."""

    @wraps(command)
    def with_watch_options(
        *given: Any,
        watches: tuple[str, ...],
        breaks: tuple[str, ...],
        detail: int,
        lanes: str | None,
        save: Path | None,
        **others: Any,
    ) -> None:
        command(*given, watching=WatchOptions(detail, watches, breaks, lanes, save), **others)

    for option in reversed(_OPTIONS):
        with_watch_options = option(with_watch_options)
    return with_watch_options


# The debugger writes to the same stream.
def _announce(text: str, operation: Operation, names: tuple[str, ...]) -> None:
    from precreg.report import render_breakpoint

    click.echo(render_breakpoint(text, operation, names))


class TraceOrShow(click.Command):
    """Trace a case, or show a stored trace if the first word is `show`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command that the arguments name."""
        if args[:1] == ["show"]:
            return trace_show_command.make_context(f"{info_name} show", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@trace_output_options
def trace_show_command(file: Path, shown: TraceOutput) -> None:
    """Show a stored trace again, as precreg trace --save FILE wrote it. Nothing of the project is needed."""
    from precreg.report import describe_unmatched, render_watched_value
    from precreg.shadow import read_trace

    trace = read_trace(file)
    for value in trace.watched:
        click.echo(render_watched_value(value), err=shown.json == Path("-"))
    shown.show(trace)
    for pattern in trace.unmatched:
        click.echo(describe_unmatched(pattern), err=True)
