"""Which placeholders may the texts of a command have, and which values take their places?

A placeholder is `{name}` or `{group.name}`. A doubled brace is a literal one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from precreg.errors import UserError, nearest

# Groups have names that the suite chooses; the other placeholders are the folders and the interpreter of this run.
INPUTS, OUTPUTS, PARAMS = "inputs", "outputs", "params"
GROUPS = (INPUTS, OUTPUTS, PARAMS)
FOLDER, SUITE, PROJECT, BUILD, SOURCES, PYTHON = "folder", "suite", "project", "build", "sources", "python"

_PIECE = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}]*)\}|[{}]")


def placeholders(text: str) -> Iterator[str]:
    """Yield the names in braces. Raises UserError (unknown-placeholder) for a single brace."""
    for piece in _PIECE.finditer(text):
        if piece["name"] is not None:
            yield piece["name"]
        elif piece[0] in "{}":
            message = f"expected {piece[0] * 2} for a literal brace but got {text}"
            raise UserError("unknown-placeholder", message)


def check_placeholders(text: str, known: Collection[str]) -> None:
    """Check the placeholders of a text; a group has any names. Raises UserError: unknown-placeholder."""
    for name in placeholders(text):
        group, dot, member = name.partition(".")
        is_known = name in known and name not in GROUPS
        if not is_known and not (dot and member and group in GROUPS and group in known):
            shown = ", ".join(f"{{{each}.NAME}}" if each in GROUPS else f"{{{each}}}" for each in known)
            spelt = [each for each in known if each not in GROUPS]
            near = nearest(name, [*spelt, *(f"{each}.{member}" for each in known if each in GROUPS)])
            raise UserError("unknown-placeholder", f"expected one of {shown} but got {{{name}}}{near}")


def members(texts: Collection[str], group: str) -> tuple[str, ...]:
    """Return the names of a group that texts use, each once, in their order."""
    used = (name.partition(".") for text in texts for name in placeholders(text))
    return tuple(dict.fromkeys(name for found, dot, name in used if dot and found == group))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the values of its placeholders. Raises UserError: unknown-placeholder."""

    def value(piece: re.Match[str]) -> str:
        name = piece["name"]
        if name is None:
            return piece[0][0]
        if name not in values:
            group = name.partition(".")[0]
            known = sorted(each for each in values if each.partition(".")[0] == group)
            expected = f"one of {', '.join(known)}" if known else f"no {{{group}.NAME}} in a suite without {group}"
            message = f"expected {expected} but got {{{name}}}{nearest(name, known)}"
            raise UserError("unknown-placeholder", message)
        return values[name]

    return _PIECE.sub(value, text)


def write_param(name: str, value: Any) -> str:
    """Write a param as an argument: text as it is, numbers so that reading gives the same bits, other values as JSON.

    Raises:
        UserError: bad-value, for a param without a value.
    """
    if value is None:
        raise UserError(
            "bad-value",
            f"expected a value to pass to the program but got {name}: null in params",
            hint=f"give it a value: params: {{{name}: 0}}, or remove {{{name}}} from the command",
        )
    if isinstance(value, str):
        return value
    # The shortest decimal number that gives the same float64 again.
    return repr(value) if isinstance(value, float) else json.dumps(value)
