"""Which function of which program does `precreg capture` record, and where does the suite go?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.suite.capture import Capture


@click.command("capture", context_settings={"ignore_unknown_options": True})
@click.argument("target", metavar="MODULE:FUNCTION")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--name", metavar="NAME", help="The name of the suite; by default the function's.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Keep at most so many calls.")
@click.option(
    "--max-bytes", type=click.IntRange(min=1), default=64 << 20, show_default=True, help="Keep at most so many bytes."
)
@click.option(
    "--oracle",
    type=click.Choice(["reference", "golden"]),
    default="reference",
    show_default=True,
    help="Compare with the function in higher precision, or with the program's own outputs.",
)
@click.option("--force", is_flag=True, help="Replace a suite of this name.")
@click.pass_obj
def capture_command(
    project: Path | None,
    /,
    target: str,
    command: tuple[str, ...],
    name: str | None,
    limit: int,
    max_bytes: int,
    oracle: Literal["reference", "golden"],
    force: bool,
) -> None:
    """Run a Python program, record the calls of one of its functions, and write them as a suite.

    The program's output and exit code are its own. Example: precreg capture kernels:softmax -- python train.py
    """
    from precreg.suite.capture import Capture, require_free_suite

    module, _, function = target.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
        raise UserError(
            "bad-value",
            f"expected module:function but got {target!r}",
            hint="write a colon before the function: precreg capture mylib.norms:layer_norm -- python app.py",
        )
    capture = Capture(target, name=name, limit=limit, max_bytes=max_bytes, project=project, oracle=oracle, force=force)
    # Before the program runs, which may take long.
    require_free_suite(capture.project, capture.name, force=force)
    code = _run(capture, command)
    report = capture.finish()
    # A program that succeeded without a suite is a failure for the user.
    sys.exit(code or (0 if report is not None else 2))


def _run(capture: Capture, command: tuple[str, ...]) -> int:
    """Run the program with the hook, and return its exit code, or a shell's code if a signal ended it."""
    from precreg.suite.capture import captured_environment

    capture.spool.mkdir(mode=0o700)
    variables = captured_environment(str(capture.target), capture.spool, capture.limit, capture.max_bytes)
    try:
        with subprocess.Popen(command, env=variables) as program:
            while True:
                try:
                    code = program.wait()
                    break
                except KeyboardInterrupt:
                    # The terminal interrupts the program, too. Its calls so far make a suite.
                    continue
    except OSError as problem:
        message = f"expected a command that starts but {command[0]} does not: {problem.strerror}"
        raise UserError(
            "bad-value", message, hint="write a command that a shell finds: precreg capture mylib:f -- python app.py"
        ) from problem
    return code if code >= 0 else 128 - code
