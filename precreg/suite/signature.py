"""Do the inputs and params of a suite fit the arguments of its Python functions and its modules of torch?

The source shows the arguments, and no code runs. Nothing is checked if the source leaves a doubt: decorated functions,
functions of installed packages, names that are bound twice, and classes other than direct children of `nn.Module`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from precreg.errors import UserError, nearest, nearest_name
from precreg.storage import parse_module
from precreg.suite.computations import count_bindings, find_module, may_have_others, search_path
from precreg.suite.load import Suite
from precreg.suite.recorded import RecordedPoint
from precreg.types import Computation

# The bases of a class whose `forward` is what a call runs.
_MODULE_BASES = (["nn.Module"], ["torch.nn.Module"], ["Module"])


class FunctionArguments(NamedTuple):
    """Hold the arguments of a function, its name, and its definition."""

    every: tuple[str, ...]
    required: tuple[str, ...]
    takes_others: bool
    name: str
    source: ast.FunctionDef

    @property
    def line(self) -> int:
        """Return the line of the definition."""
        return self.source.lineno

    @property
    def shown(self) -> str:
        """Return the definition as an error shows it, which few functions need."""
        return f"{self.name}({ast.unparse(self.source.args)})"


def require_arguments(suite: Suite, project: Path, points: Iterable[RecordedPoint]) -> None:
    """Refuse inputs and params that a Python function of the suite does not take, and arguments without a value.

    Raises:
        UserError: bad-arguments.
    """
    checked: set[tuple[str, str]] = set()
    oracle = "golden" if suite.file.golden is not None else "reference"
    for point in points:
        for key, computed in (("subject", point.subject), (oracle, point.oracle), ("benchmark", point.benchmark)):
            target = None if computed is None else _target(computed)
            if computed is None or target is None or (key, target) in checked:
                continue
            checked.add((key, target))
            module, _, function = target.partition(":")
            path = find_module(module, search_path(project, suite.directory))
            known = None if path is None else _called(computed, path, function)
            if path is not None and known is not None:
                _check(suite, key, known, f"{path.relative_to(project).as_posix()}:{known.line}")


def _target(computed: Computation) -> str | None:
    """Return the `module:name` of a computation in Python or torch, else None."""
    if computed.kind == "python":
        return str(computed.spec)
    return str(computed.spec["torch"]) if computed.kind == "torch" else None


def _called(computed: Computation, path: Path, name: str) -> FunctionArguments | None:
    """Return the arguments of the function that a case calls, or None if they are not certain."""
    functions = function_arguments(path, path.stat().st_mtime_ns)
    known = functions.get(name)
    if computed.kind == "python":
        return known
    # A function with `arguments:`, or one that needs no argument, may make a module.
    may_make_module = known is None or not known.required or "arguments" in computed.spec
    return functions.get(f"{name}.forward") if may_make_module else known


def _check(suite: Suite, key: str, known: FunctionArguments, place: str) -> None:
    given = (*suite.file.inputs, *suite.file.params)
    for section, names in (("inputs", suite.file.inputs), ("params", suite.file.params)):
        unknown = [name for name in names if name not in known.every and not known.takes_others]
        if unknown:
            raise _unknown_argument(suite, (section, unknown[0]), f"{key} {known.shown} in {place}", known, given)
    missing = [name for name in known.required if name not in given]
    if missing:
        message = f"expected a value of {missing[0]} for {key} {known.shown} in {place} but inputs: and params: lack it"
        hint = f"add {missing[0]}: to inputs: or params:, or give the argument a default: {missing[0]}=0"
        raise suite.source.error("bad-arguments", message, key, hint=hint)


def _unknown_argument(
    suite: Suite, place: tuple[str, str], function: str, known: FunctionArguments, given: Collection[str]
) -> UserError:
    section, name = place
    message = f"expected an argument of {function} but got {name} in {section}:{nearest(name, known.every)}"
    free = [each for each in known.every if each not in given]
    # A misspelt name leaves a required argument without a value; a single one is meant, however it is spelt.
    required = [each for each in free if each in known.required]
    near = nearest_name(name, free) or (required[0] if len(required) == 1 else None)
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
    bound = count_bindings(tree)
    if may_have_others(bound):
        return {}
    known: dict[str, FunctionArguments] = {}
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and not each.decorator_list and bound[each.name] == 1:
            known[each.name] = _arguments(each, each.name, 0)
        elif isinstance(each, ast.ClassDef) and bound[each.name] == 1 and (method := _forward(each)):
            known[f"{each.name}.forward"] = _arguments(method, f"{each.name}.forward", 1)
    return known


def _forward(module: ast.ClassDef) -> ast.FunctionDef | None:
    """Return the method that a call of a module runs, if its class shows it for certain."""
    methods = [each for each in module.body if getattr(each, "name", "") in ("forward", "__call__")]
    bases = [ast.unparse(base) for base in module.bases]
    if module.decorator_list or module.keywords or bases not in _MODULE_BASES or len(methods) != 1:
        return None
    (method,) = methods
    certain = isinstance(method, ast.FunctionDef) and method.name == "forward" and not method.decorator_list
    return method if isinstance(method, ast.FunctionDef) and certain else None


def _arguments(function: ast.FunctionDef, name: str, bound: int) -> FunctionArguments:
    """Return the arguments of a function, apart from the first `bound` ones, such as `self`."""
    given = function.args
    by_place = [each.arg for each in (*given.posonlyargs, *given.args)]
    required = by_place[bound : len(by_place) - len(given.defaults)]
    required += [each.arg for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is None]
    every = (*by_place[bound:], *(each.arg for each in given.kwonlyargs))
    return FunctionArguments(every, tuple(required), given.kwarg is not None, name, function)
