"""The group of commands; each is imported when it is called, so that starting costs next to nothing."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from precreg import __version__
from precreg.errors import UserError, nearest

COMMANDS: dict[str, str] = {
    "run": "Run the cases, judge them against tolerances and baselines, and write reports.",
    "list": "Show the cases.",
    "explain": "Show where every setting of one case comes from.",
    "baseline": "Review what runs propose: review, diff, accept, reject, prune, list.",
    "hook": "Check what is pushed before it is: install, uninstall, run.",
    "export": "Call a model on stored arrays, and write what its nodes give.",
    "compare": "Hold stored arrays against references: files, archives, or folders matched by name.",
    "visualize": "Draw one comparison: histogram, cumulative curve, heat map, largest and mean error.",
    "bits": "Show a number in a format: its bits, its neighbours, and what rounding did to it.",
    "report": "Make the reports again from run records; several shards become one.",
    "history": "Keep runs over time: add, list, export, import, prune.",
    "drift": "Tell whether metrics drift: against what was accepted, an anchor, and recent runs.",
    "power": "Tell the smallest loss of each case that would be caught, from what its baseline keeps.",
    "faults": "Plant known faults in some cases, and say which the gate catches.",
    "selftest": "Plant known faults in all cases: rates of detection and of false alarms, per tier.",
    "calibrate": "Measure each case's own noise: what its bounds are worth, and which would fit.",
    "doctor": "Say what works here: the measuring core, versions, project, git and history.",
    "schema": "Print the JSON Schema of a suite file, for editors.",
}


_MODULES = {
    "calibrate": "quality",
    "explain": "cases",
    "faults": "quality",
    "list": "cases",
    "power": "report",
    "schema": "cases",
    "selftest": "quality",
}
# Modules that hold several commands; every other command has the module of its name.


class _Commands(click.Group):
    """Names and help of all commands without importing one."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"precreg.cli.{_MODULES.get(name, name)}"), f"{name}_command")
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if name not in COMMANDS:
            context.fail(f"expected a command but got {name!r}{nearest(name, COMMANDS)}")
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        """Exit with 1 for nothing but a finding: a user's mistake, a full disk and a bug of ours are 2."""
        try:
            return super().invoke(context)
        except UserError as mistake:
            click.echo(str(mistake), err=True)
        except KeyboardInterrupt:
            goes_on = "; precreg run --resume goes on" if context.invoked_subcommand == "run" else ""
            click.echo(f"interrupted{goes_on}", err=True)
            sys.exit(130)
        except BrokenPipeError:
            sys.stderr.close()  # the reader has left, and Python would complain about it at exit
        except OSError as problem:
            click.echo(str(UserError("operating-system", str(problem))), err=True)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
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
    """Tell whether a change made numerical code less precise.

    Exit codes: 0 nothing is worse; 1 something is proven worse; 2 something could not be judged.
    """
    context.obj = project
