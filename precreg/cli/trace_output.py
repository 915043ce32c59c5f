"""Which options choose the form of a trace: its unit, all operations, JSON, and a page of HTML?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from precreg.cli.console import show_report, terminal_width

if TYPE_CHECKING:
    from precreg.report import ErrorUnit
    from precreg.types import Trace

_PATH = click.Path(path_type=Path)
_STDOUT = Path("-")
# A log has no width of its own. Places of operations fit into this one.
_LOG_WIDTH = 120

_OPTIONS = (
    click.option(
        "--unit",
        type=click.Choice(["ulp", "relative", "tolerance"]),
        default="ulp",
        show_default=True,
        help="ULP of the normal dtype, relative errors, or also parts of the output's tolerance.",
    ),
    click.option("--all", "-a", "every", is_flag=True, help="Show all operations, lines and events."),
    click.option("--json", type=_PATH, metavar="FILE", help="Write the trace as JSON; - writes it to stdout."),
    click.option("--report", type=_PATH, metavar="FILE", help="Write a page of HTML with pictures."),
)


class TraceOutput(NamedTuple):
    """Hold the chosen forms of a trace."""

    unit: ErrorUnit
    every: bool
    json: Path | None
    report: Path | None

    def show(self, trace: Trace) -> None:
        """Write the requested files, and print the trace; to stderr if its JSON goes to stdout.

        Raises:
            UserError: not-writable.
        """
        from precreg.report import render_trace_terminal

        self._write_files(trace)
        to_stderr = self.json == _STDOUT
        width = terminal_width(sys.stderr if to_stderr else sys.stdout) or get_terminal_size((_LOG_WIDTH, 24)).columns
        text = render_trace_terminal(trace, unit=self.unit, every=self.every, width=width)
        written = [str(path) for path in (self.json, self.report) if path not in (None, _STDOUT)]
        pointers = f"\nwritten: {', '.join(written)}" if written else ""
        show_report(f"{text}{pointers}\n", err=to_stderr)

    def _write_files(self, trace: Trace) -> None:
        from precreg.report import render_trace_html, trace_json
        from precreg.storage import replace_file, report_write_errors

        if self.report is not None:
            with report_write_errors(str(self.report)):
                replace_file(self.report, render_trace_html(trace, self.unit).encode())
        if self.json == _STDOUT:
            click.echo(trace_json(trace), nl=False)
        elif self.json is not None:
            with report_write_errors(str(self.json)):
                replace_file(self.json, trace_json(trace))


def trace_output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --unit, --all, --json and --report; the command gets `shown`, which prints and writes a trace."""

    @wraps(command)
    def with_trace_output(
        *given: Any, unit: ErrorUnit, every: bool, json: Path | None, report: Path | None, **others: Any
    ) -> None:
        command(*given, shown=TraceOutput(unit, every, json, report), **others)

    for option in reversed(_OPTIONS):
        with_trace_output = option(with_trace_output)
    return with_trace_output
