"""Which commands does `precreg` have?

Each command's module is imported only when the command is called, so that starting costs almost nothing.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from precreg import __version__
from precreg.cli.console import color_option, colour_of_variables, show_report, start_clock
from precreg.errors import UserError, name_hint, nearest, nearest_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# click's name of it: the shell sets it to ask for words.
COMPLETION_VARIABLE = "_PRECREG_COMPLETE"


class CommandEntry(NamedTuple):
    """Hold the module of a command in this package, and its line in `precreg --help`."""

    module: str
    help: str


# In the order of --help. The function of a command is NAME_command in its module.
COMMANDS = {
    "init": CommandEntry("init", "Begin: write a suite for a function, its baseline, a pipeline and a hook."),
    "run": CommandEntry("run", "Run the cases, judge them against tolerances and baselines, and write reports."),
    "list": CommandEntry("cases", "Show the cases."),
    "explain": CommandEntry("cases", "Show where every setting of one case comes from."),
    "trace": CommandEntry("trace", "Show where a case loses precision: operation by operation, beside a shadow."),
    "diagnose": CommandEntry("diagnose", "Find the cause of a case's errors: hypotheses are executed, not guessed."),
    "bisect": CommandEntry("bisect", "Find the commit, release or setting that made a case worse, and prove it."),
    "search": CommandEntry("search", "Search the inputs of a case with the largest errors, within declared ranges."),
    "reduce": CommandEntry(
        "reduce", "Find the fewest operations of a failing case that still fail; write their suite."
    ),
    "training": CommandEntry(
        "training", "Measure the losses of a training: gradients, updates, loss scales, clipping."
    ),
    "divergence": CommandEntry(
        "divergence", "Line up two runs of one training step by step: is it chaos or a loss of precision?"
    ),
    "quantization": CommandEntry("quantization", "Show what each quantized layer of a model costs."),
    "baseline": CommandEntry("baseline", "Review proposals: review, diff, accept, reject, prune, list, migrate."),
    "allow": CommandEntry("allow", "Permit changes of acceptance criteria, in baselines/allow.yaml, for a reason."),
    "hook": CommandEntry("hook", "Check cases before a push: install, uninstall, run."),
    "capture": CommandEntry("capture", "Run a program, record the calls of a function, and write them as a suite."),
    "export": CommandEntry("export", "Call a model on stored arrays, and write its nodes."),
    "compare": CommandEntry(
        "compare", "Compare stored arrays with references: files, archives, or folders matched by name."
    ),
    "visualize": CommandEntry(
        "visualize", "Draw one comparison: histogram, cumulative curve, heat map, largest and mean error."
    ),
    "bits": CommandEntry("bits", "Show a number in a format: its bits, its neighbours and its rounding error."),
    "report": CommandEntry("report", "Make the reports again from run records, merge shards, compare runs."),
    "compare_with_baseline": CommandEntry(
        "report", "Compare two runs: cases that fail now, or are significantly worse."
    ),
    "history": CommandEntry("history", "Store runs over time: add, list, export, import, prune."),
    "drift": CommandEntry("drift", "Find metrics that drift from their baselines, an anchor, or recent runs."),
    "power": CommandEntry("report", "Show the smallest loss that each case would detect, from its baseline."),
    "faults": CommandEntry("quality", "Plant known faults in some cases, and show which of them the gate detects."),
    "selftest": CommandEntry("quality", "Plant known faults in all cases: detection and false-alarm rates per tier."),
    "calibrate": CommandEntry("quality", "Measure each case's noise, and check its bounds against it."),
    "doctor": CommandEntry("doctor", "Check this installation: backends, versions, project, git and history."),
    "schema": CommandEntry("cases", "Print the JSON Schema of a suite file, for editors."),
}


class _Commands(click.Group):
    """List names and help of all commands without importing one."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"precreg.cli.{COMMANDS[name].module}"), f"{name}_command")
        if COMPLETION_VARIABLE in os.environ:
            from precreg.cli.completion import add_completion

            add_completion(command)
        return command

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        # click would import every command for its help.
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=each.help) for name, each in COMMANDS.items() if name.startswith(incomplete)]
        # Options of the group itself.
        return [*found, *click.Command.shell_complete(self, context, incomplete)]

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        # click would import every command for its help.
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if name not in COMMANDS:
            if context.resilient_parsing:  # a completion, which has no place for an error
                return None, None, arguments
            message = f"expected a command but got {name!r}{nearest(name, COMMANDS)}"
            click.echo(context.get_usage(), err=True)
            near = name_hint(name, COMMANDS, f"{context.command_path} ")
            raise UserError(
                "bad-option", message, hint=f"{near or 'precreg run judges all cases'}; precreg --help lists all"
            )
        return super().resolve_command(context, arguments)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Print mistakes in the options before the command as those after it."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as mistake:
            if _is_request_for_help(mistake):
                raise
            _print_usage_error(mistake)
        sys.exit(2)

    def invoke(self, context: click.Context) -> Any:
        """Exit with 1 for a finding alone: a user's mistake, a full disk and a bug of precreg exit with 2."""
        try:
            return super().invoke(context)
        except UserError as mistake:
            show_report(f"{mistake}\n", err=True)
        except click.UsageError as mistake:
            if _is_request_for_help(mistake):
                raise
            _print_usage_error(mistake)
        except KeyboardInterrupt:
            name = context.invoked_subcommand
            goes_on = f"; precreg {name} --resume goes on" if name in ("run", "bisect") else ""
            click.echo(f"interrupted{goes_on}", err=True)
            sys.exit(130)  # as shells report a process that SIGINT ended: 128 + 2
        except OSError as problem:
            show_report(f"{UserError('operating-system', str(problem))}\n", err=True)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise  # click prints these itself, and chooses the exit code
        except Exception:
            from traceback import format_exc

            click.echo(
                format_exc() + "error: this is a bug of precreg; please report it with the lines above", err=True
            )
        sys.exit(2)


def _is_request_for_help(mistake: click.UsageError) -> bool:
    """Return whether a group was called without a command: click prints its help. click has the class since 8.2."""
    return type(mistake).__name__ == "NoArgsIsHelpError"


def _print_usage_error(mistake: click.UsageError) -> None:
    """Print the usage of the command, and a mistake in its arguments as every other error of a user."""
    command = mistake.ctx.command_path if mistake.ctx else "precreg"
    write = _what_to_write(mistake)
    hint = f"{write}{'; ' if write else ''}{command} --help lists its options"
    if mistake.ctx:
        click.echo(mistake.ctx.get_usage(), err=True)
    show_report(f"{UserError('bad-option', mistake.format_message().rstrip('.'), hint=hint)}\n", err=True)


def _what_to_write(mistake: click.UsageError) -> str:
    """Return the nearest option or command, or an example of an option's value; an empty text where none is known."""
    if isinstance(mistake, click.BadParameter):
        return _value_example(mistake.param) if isinstance(mistake.param, click.Option) else ""
    command = mistake.ctx.command if mistake.ctx else None
    if isinstance(mistake, click.NoSuchOption) and command:
        options = [name for option in command.params for name in (*option.opts, *option.secondary_opts)]
        near = nearest_name(mistake.option_name, [name for name in options if name.startswith("--")])
        return f"write {near} in place of {mistake.option_name}" if near else ""
    # click has this attribute since version 8.4.
    name = getattr(mistake, "command_name", "")
    if name and mistake.ctx and isinstance(command, click.Group):
        return name_hint(name, command.list_commands(mistake.ctx), f"{mistake.ctx.command_path} ")
    return ""


def _value_example(option: click.Option) -> str:
    kind, name = option.type, next((each for each in option.opts if each.startswith("--")), option.opts[0])
    if isinstance(kind, click.Choice):
        return f"write {name} {kind.choices[0]}"
    # The ends of a range may be outside of it, or mean something special, as 0 processes do.
    if isinstance(kind, click.IntRange | click.FloatRange):
        return f"write {name} {max(1, kind.min or 0) if kind.max is None or kind.max >= 1 else kind.max / 2:g}"
    return f"write {name} 1" if kind in (click.INT, click.FLOAT) else ""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="precreg %(version)s")
@click.option("--project", type=click.Path(path_type=Path), help="A folder that has suites/; found from here upward.")
@color_option
@click.pass_context
def precreg(context: click.Context, project: Path | None) -> None:
    """Report whether a change made numerical code less precise.

    Exit codes: 0 nothing is worse; 1 something is proven worse; 2 something could not be judged.
    """
    context.obj = project
    if context.color is None:
        context.color = colour_of_variables()
    start_clock(context)
