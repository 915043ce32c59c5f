"""Which words does the shell propose after Tab: commands, case ids, suites, tags, standards, dtypes and metrics?

click asks for the words in a process of its own (docs/install.md). No other call of precreg imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.suite import Suite

# More ids than this fill a terminal: then the words are TIER/SUITE/, which match all of its cases.
MAX_IDS = 50


def add_completion(command: click.Command) -> None:
    """Give the words of this module to the arguments and options of a command, and of its subcommands."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            add_completion(each)
    for parameter in command.params:
        words = _WORDS.get(parameter.name or "")
        # A choice knows its words.
        if words is not None and not isinstance(parameter.type, click.Choice):
            parameter.shell_complete = partial(_complete, words)  # type: ignore[method-assign]


def _complete(
    words: Callable[[Path | None, str], Iterable[str]], context: click.Context, incomplete: str
) -> list[CompletionItem]:
    # The shell has no place for an error: a broken suite or an absent project gives no words.
    try:
        project = context.find_root().params.get("project")
        found = words(project, incomplete)
        return [CompletionItem(word) for word in found if word.startswith(incomplete)]
    except (UserError, OSError):
        return []


def _cases(project: Path | None, incomplete: str) -> Iterable[str]:
    """Return the ids that begin with the text, or TIER/SUITE/ where they are many."""
    ids = [case for case in _ids(project) if case.startswith(incomplete)]
    if len(ids) <= MAX_IDS:
        return ids
    return dict.fromkeys(f"{case.rpartition('/')[0]}/" for case in ids)


def _ids(project: Path | None) -> list[str]:
    from precreg.storage import find_project
    from precreg.suite import project_cases

    return [case.id for case in project_cases(find_project(project or Path.cwd())).listed]


def _suites(project: Path | None, _incomplete: str) -> Iterable[str]:
    return dict.fromkeys(suite.file.suite for suite in _loaded(project))


def _tags(project: Path | None, _incomplete: str) -> Iterable[str]:
    return sorted({tag for suite in _loaded(project) for tag in suite.file.tags})


def _loaded(project: Path | None) -> list[Suite]:
    from precreg.storage import find_project
    from precreg.suite import load_suites

    return load_suites(find_project(project or Path.cwd()))


def _standards(_project: Path | None, _incomplete: str) -> Iterable[str]:
    from precreg.tolerance import STANDARDS

    return STANDARDS


def _dtypes(_project: Path | None, _incomplete: str) -> Iterable[str]:
    from precreg.arithmetic import DTYPE_NAMES

    return DTYPE_NAMES


def _metrics(_project: Path | None, incomplete: str) -> Iterable[str]:
    """Return the metrics as METRIC=, which a limit follows."""
    from precreg.measure import METRICS

    return (f"{name}=" for name in METRICS)


def _metric_names(_project: Path | None, _incomplete: str) -> Iterable[str]:
    from precreg.measure import METRICS

    return METRICS


def _targets(project: Path | None, incomplete: str) -> Iterable[str]:
    """Return the functions of the modules in a project as module:function, and its ONNX models."""
    import ast

    from precreg.storage import parse_module

    folder = project or Path.cwd()
    files = [*folder.glob("*.py"), *folder.glob("*/*.py"), *folder.glob("src/*/*.py")]
    for path in sorted(files):
        tree = parse_module(path.read_bytes())
        module = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for node in [] if tree is None else tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield f"{module}:{node.name}"
    yield from (path.relative_to(folder).as_posix() for path in sorted(folder.glob("**/*.onnx")))


# By the name of a parameter, which means the same in every command.
_WORDS: dict[str, Callable[[Path | None, str], Iterable[str]]] = {
    "patterns": _cases,
    "pattern": _cases,
    "suites": _suites,
    "tags": _tags,
    "standard": _standards,
    "dtype": _dtypes,
    "reference_dtype": _dtypes,
    "bounds": _metrics,
    "metric": _metric_names,
    "target": _targets,
}
