"""The options that select cases, the same for every command that takes a selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from precreg.types import TIERS

F = TypeVar("F", bound=Callable[..., object])

_OPTIONS = (
    click.argument("patterns", nargs=-1, metavar="[PATTERN]..."),
    click.option("--tier", "--level", "tiers", multiple=True, type=click.Choice(TIERS), help="Only this tier."),
    click.option("--suite", "suites", multiple=True, metavar="NAME", help="Only this suite."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag."),
    click.option("--changed-since", metavar="REVISION", help="Only cases whose files differ from this git revision."),
)


def selection_options(command: F) -> F:
    """Add PATTERN..., --tier, --suite, --tag and --changed-since to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
