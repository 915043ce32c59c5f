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
from precreg.errors import UserError, nearest

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
    "baseline": CommandEntry("baseline", "Review proposals: review, diff, accept, reject, prune, checksum, list."),
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
    "report": CommandEntry("report", "Make the reports again from run records, and merge shards."),
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
            context.fail(f"expected a command but got {name!r}{nearest(name, COMMANDS)}")
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        """Exit with 1 for a finding alone: a user's mistake, a full disk and a bug of precreg exit with 2."""
        try:
            return super().invoke(context)
        except UserError as mistake:
            click.echo(str(mistake), err=True)
        except KeyboardInterrupt:
            name = context.invoked_subcommand
            goes_on = f"; precreg {name} --resume goes on" if name in ("run", "bisect") else ""
            click.echo(f"interrupted{goes_on}", err=True)
            sys.exit(130)  # as shells report a process that SIGINT ended: 128 + 2
        except OSError as problem:
            click.echo(str(UserError("operating-system", str(problem))), err=True)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise  # click prints these itself, and chooses the exit code
        except Exception:
            from traceback import format_exc

            click.echo(
                format_exc() + "error: this is a bug of precreg; please report it with the lines above", err=True
            )
        sys.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="precreg %(version)s")
@click.option("--project", type=click.Path(path_type=Path), help="A folder that has suites/; found from here upward.")
@click.pass_context
def precreg(context: click.Context, project: Path | None) -> None:
    """Report whether a change made numerical code less precise.

    Exit codes: 0 nothing is worse; 1 something is proven worse; 2 something could not be judged.
    """
    context.obj = project
