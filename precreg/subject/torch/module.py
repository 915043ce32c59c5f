"""Which module or function does a specification name, with which weights, and in which state does each call find it?

A module is built once in a process. Each call gets a copy, so that neither running statistics nor caches of one call
reach another.
"""

from __future__ import annotations

import inspect
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch

from precreg.errors import UserError
from precreg.subject.call import Call
from precreg.subject.module_space import ModuleSpace
from precreg.subject.python import find_function
from precreg.subject.torch.gradients import Group, gradient_groups
from precreg.subject.torch.kept import keep_modules
from precreg.subject.torch.settings import seed_as_specified, settings_of
from precreg.subject.torch.specification import WIDENED
from precreg.subject.torch.weights import load_weights
from precreg.subject.torch.widening import widen_module

# Modules that stay in memory: enough for a suite's cases, not for a whole project.
_KEPT = 4


class Built(NamedTuple):
    """A function, or a module in the state before its first call, with the groups of its parameters' gradients."""

    function: Callable[..., Any]
    build: Callable[[], Any] | None = None
    groups: tuple[Group, ...] = ()
    # Returns the module before a dtype rounded its weights; None without one.
    unrounded: Callable[[], Any] | None = None

    def fresh(self) -> Any:
        """Return the function, or a module of its own for one call."""
        if self.build is None:
            return self.function
        try:
            return deepcopy(self.function)
        # Modules keep anything in their attributes, and torch copies no tensor that an operation made.
        except Exception:
            return self.build()


_built: OrderedDict[str, Built] = OrderedDict()


def built_module(spec: dict[str, Any], call: Call, space: ModuleSpace) -> Built:
    """Return the object of a specification; the names of the call's arguments distinguish functions and factories.

    Raises UserError: missing-module, missing-function, bad-outputs, bad-weights.
    """
    weights = call.directory / spec["weights"] if "weights" in spec else None
    key = json.dumps([spec, [*call.inputs], [*call.params], str(call.directory), str(call.project), _state(weights)])
    if key in _built:
        _built.move_to_end(key)
    else:
        _built[key] = _build(spec, call, space)
        while len(_built) > _KEPT:
            _built.popitem(last=False)
    return _built[key]


def rounded_weights(built: Built) -> tuple[int, int]:
    """Return how many weights and buffers of a module its dtype rounded to other numbers, and their count."""
    if built.unrounded is None:
        return 0, 0
    given, changed, elements = dict(_tensors(built.unrounded())), 0, 0
    for name, low in _tensors(built.function):
        if low.is_floating_point() and name in given:
            wide = given[name].double()
            changed += int(((low.double() != wide) & (wide == wide)).sum())
            elements += low.numel()
    return changed, elements


def _tensors(module: Any) -> Iterable[tuple[str, Any]]:
    return chain(module.named_parameters(), module.named_buffers())


def _state(weights: Path | None) -> list[int]:
    """Return numbers that change with a file."""
    facts = None if weights is None else os.stat(weights)
    return [] if facts is None else [facts.st_mtime_ns, facts.st_size, facts.st_ino]


def _build(spec: dict[str, Any], call: Call, space: ModuleSpace) -> Built:
    # A module that is made on import has the weights of this seed in every process.
    with settings_of({}):
        seed_as_specified(spec, 0)
        found = find_function(spec["torch"], space)
    if not isinstance(found, torch.nn.Module) and not _is_factory(found, spec, call):
        _require_no_options(spec)
        return Built(found)

    def unrounded() -> Any:
        with settings_of(spec):
            seed_as_specified(spec)
            return _finish(_make(found, spec), spec, call)

    def build() -> Any:
        module = unrounded().to(getattr(torch, spec["dtype"])) if "dtype" in spec else unrounded()
        return keep_modules(module, spec) if "keep_in" in spec else module

    module = build()
    groups = gradient_groups(module) if "parameters" in spec.get("gradients", ()) else ()
    if WIDENED not in spec:
        return Built(module, build, groups, unrounded if "dtype" in spec else None)
    return Built(widen_module(module), lambda: widen_module(build()), groups)


def _is_factory(found: Any, spec: dict[str, Any], call: Call) -> bool:
    """Return whether to call a function or class for a module: it says so, or it takes no inputs and may do without."""
    if isinstance(found, type) and issubclass(found, torch.nn.Module):
        return True
    return "arguments" in spec or (not _takes(found, (*call.inputs, *call.params)) and _takes(found, ()))


def _takes(function: Any, names: Iterable[str]) -> bool:
    try:
        inspect.signature(function).bind(**dict.fromkeys(names))
    except TypeError:
        return False
    # Functions of torch itself mostly have no signature.
    except ValueError:
        return True
    return True


def _require_no_options(spec: dict[str, Any]) -> None:
    """Refuse options of modules beside a function, which has neither weights nor parameters."""
    named: list[str] = [name for name in ("weights", "dtype", "mode", "monitor", "keep_in") if name in spec]
    if "parameters" in spec.get("gradients", ()):
        named.append("gradients: [parameters]")
    if named:
        message = f"expected a module beside {', '.join(named)} but {spec['torch']} is a function"
        raise UserError(
            "bad-value",
            message,
            hint=f"remove {named[0]}, or call a factory of a module: arguments: {{}}",
        )


def _make(found: Any, spec: dict[str, Any]) -> Any:
    """Return a module of the caller's own: made by a class or a factory, or a copy of one that exists."""
    if isinstance(found, torch.nn.Module):
        if "arguments" in spec:
            message = f"expected a class or a factory beside arguments but {spec['torch']} is a module already"
            raise UserError(
                "bad-value",
                message,
                hint="remove arguments:, or name the class: subject: {torch: 'net:Block', arguments: {size: 8}}",
            )
        return deepcopy(found)
    module = found(**spec.get("arguments", {}))
    if isinstance(module, torch.nn.Module):
        return module
    expected = f"expected {spec['torch']} to return a torch.nn.Module"
    raise UserError("bad-outputs", f"{expected}, as it takes no inputs, but got {type(module).__name__}")


def _finish(module: Any, spec: dict[str, Any], call: Call) -> Any:
    lazy = [
        name for name, each in module.named_parameters() if isinstance(each, torch.nn.parameter.UninitializedParameter)
    ]
    if lazy:
        advice = "give its layers their sizes, or call it once in a factory"
        raise UserError(
            "bad-value",
            f"expected weights but got {spec['torch']} with lazy {', '.join(lazy[:3])}; {advice}",
            hint="give the layers their sizes: torch.nn.Linear(8, 4) in place of torch.nn.LazyLinear(4)",
        )
    # On the CPU, so that every device has the same weights.
    module = module.to("cpu").train(spec.get("mode") == "train")
    if "weights" in spec:
        load_weights(module, spec["weights"], call)
    return module
