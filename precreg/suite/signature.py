"""Do the inputs and params of a suite fit the arguments of its Python functions?

The source shows the arguments, and no code runs. Uncertain arguments are not checked: decorated
functions, classes, functions of installed packages, names that are bound twice.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from precreg.errors import UserError, nearest, nearest_name
from precreg.storage import parse_module
from precreg.suite.computations import bound_names, find_module, search_path
from precreg.suite.load import Suite
from precreg.suite.recorded import RecordedPoint


class FunctionArguments(NamedTuple):
    """Hold the arguments of a function, and the line of its definition."""

    every: tuple[str, ...]
    required: tuple[str, ...]
    takes_others: bool
    line: int
    shown: str


def require_arguments(suite: Suite, project: Path, points: Iterable[RecordedPoint]) -> None:
    """Refuse inputs and params that a Python function of the suite does not take, and arguments without a value.

    Raises:
        UserError: bad-arguments.
    """
    checked: set[tuple[str, str]] = set()
    oracle = "golden" if suite.file.golden is not None else "reference"
    for point in points:
        for key, computed in (("subject", point.subject), (oracle, point.oracle), ("benchmark", point.benchmark)):
            if computed is None or computed.kind != "python" or (key, computed.spec) in checked:
                continue
            checked.add((key, computed.spec))
            _check(suite, project, key, computed.spec)


def _check(suite: Suite, project: Path, key: str, target: str) -> None:
    module, _, function = target.partition(":")
    path = find_module(module, search_path(project, suite.directory))
    known = None if path is None else function_arguments(path, path.stat().st_mtime_ns).get(function)
    if path is None or known is None:
        return
    shown = f"{known.shown} in {path.relative_to(project).as_posix()}:{known.line}"
    given = (*suite.file.inputs, *suite.file.params)
    for section, names in (("inputs", suite.file.inputs), ("params", suite.file.params)):
        unknown = [name for name in names if name not in known.every and not known.takes_others]
        if unknown:
            raise _unknown_argument(suite, (section, unknown[0]), f"{key} {shown}", known, given)
    missing = [name for name in known.required if name not in given]
    if missing:
        message = f"expected a value of {missing[0]} for {key} {shown} but inputs: and params: lack it"
        hint = f"add {missing[0]}: to inputs: or params:, or give the argument a default: {missing[0]}=0"
        raise suite.source.error("bad-arguments", message, key, hint=hint)


def _unknown_argument(
    suite: Suite, place: tuple[str, str], function: str, known: FunctionArguments, given: Collection[str]
) -> UserError:
    section, name = place
    message = f"expected an argument of {function} but got {name} in {section}:{nearest(name, known.every)}"
    free = [each for each in known.every if each not in given]
    # A misspelt name leaves an argument without a value; a single one is meant, however it is spelt.
    near = nearest_name(name, free) or (free[0] if len(free) == 1 and free[0] in known.required else None)
    hint = f"write {near}: in place of {name}:" if near else f"remove {name}: from {section}:, or add the argument"
    return suite.source.error("bad-arguments", message, section, name, hint=hint)


@lru_cache(maxsize=256)
def function_arguments(path: Path, modified_ns: int) -> dict[str, FunctionArguments]:
    """Return the arguments of the functions at the top level of a module, as far as its source shows them for certain.

    `modified_ns` is a part of the cache's key, so that a changed file is read again.
    """
    tree = parse_module(path.read_bytes())
    if tree is None:
        return {}
    bound = Counter(bound_names(tree))
    if "*" in bound or "__getattr__" in bound:
        return {}
    plain = (each for each in tree.body if isinstance(each, ast.FunctionDef) and not each.decorator_list)
    return {each.name: _arguments(each) for each in plain if bound[each.name] == 1}


def _arguments(function: ast.FunctionDef) -> FunctionArguments:
    given = function.args
    by_place = [each.arg for each in (*given.posonlyargs, *given.args)]
    required = by_place[: len(by_place) - len(given.defaults)]
    required += [each.arg for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is None]
    every = (*by_place, *(each.arg for each in given.kwonlyargs))
    return FunctionArguments(
        every,
        tuple(required),
        given.kwarg is not None,
        function.lineno,
        f"{function.name}({ast.unparse(given)})",
    )
