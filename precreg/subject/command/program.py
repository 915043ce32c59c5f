"""Which file does the first word of a command name, and which folders do its placeholders?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from precreg.storage import resolve_inside
from precreg.subject.command.placeholders import PROJECT, PYTHON, SUITE
from precreg.subject.command.process import find_program, require_executable


def tree_values(directory: Path, project: Path) -> dict[str, str]:
    """Return the values of the placeholders that are the same for all calls of a suite."""
    return {SUITE: str(directory), PROJECT: str(project), PYTHON: sys.executable}


def locate_program(word: str, variables: Mapping[str, str], directory: Path, project: Path) -> str:
    """Return the path of a program: beside the suite if the word has a slash, or on PATH.

    Raises:
        UserError: missing-program, outside-project.
    """
    if word == sys.executable:
        return word
    if "/" not in word:
        return find_program(word, variables)
    path = resolve_inside(project, directory / word)
    require_executable(path, path.relative_to(project.resolve()).as_posix())
    return str(path)
