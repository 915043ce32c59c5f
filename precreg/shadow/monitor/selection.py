"""Which layers of a module does a monitor watch, and which modules can it not watch?"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch

from precreg.errors import UserError
from precreg.subject.torch import unknown_layer


def select_layers(model: Any, patterns: Sequence[str] | None) -> dict[str, Any]:
    """Return the layers whose names match any pattern, in the module's order; without patterns, the innermost ones.

    Raises UserError: unknown-node for a pattern that matches no layer, or only containers that never run.
    """
    named = {name: each for name, each in model.named_modules() if name}
    running = {name: each for name, each in named.items() if _has_forward(each)}
    if patterns is None:
        innermost = {name: each for name, each in running.items() if not any(True for _ in each.children())}
        return innermost or {"": model}
    if isinstance(patterns, str) or not all(isinstance(each, str) for each in patterns) or not patterns:
        raise UserError(
            "bad-value",
            f"expected a list of patterns such as ['layer4.*'] but got layers={patterns!r}",
            hint="write a list: precreg.monitor(model, layers=['layer4.*'])",
        )
    for pattern in patterns:
        _require_match(model, pattern, named, running)
    return {name: each for name, each in running.items() if any(fnmatchcase(name, one) for one in patterns)}


def _has_forward(module: Any) -> bool:
    # A container such as ModuleList leaves forward() as it is in Module, which raises.
    return type(module).forward is not torch.nn.Module.forward


def _require_match(model: Any, pattern: str, named: dict[str, Any], running: dict[str, Any]) -> None:
    if any(fnmatchcase(name, pattern) for name in running):
        return
    kind = type(model).__name__
    if any(fnmatchcase(name, pattern) for name in named):
        message = f"expected a layer of {kind} that runs but layer={pattern} is a container; try '{pattern}.*'"
        raise UserError("unknown-node", message)
    raise unknown_layer(kind, pattern, [*running])


def require_watchable(model: Any, call: str = "precreg.monitor(model)") -> None:
    """Refuse a value whose operations a monitor cannot see. Raises UserError: bad-value.

    `call` is the call of the user, which the message shows.
    """
    if not isinstance(model, torch.nn.Module):
        raise UserError(
            "bad-value",
            f"expected a torch.nn.Module but got model of type {type(model).__name__}",
            hint=f"give the module itself: model = torch.nn.Linear(8, 4), then {call}",
        )
    parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    for name, each in model.named_modules():
        place = f"layer {name}" if name else type(model).__name__
        if isinstance(each, parallel):
            advice = "use model.module on one process"
            raise _unwatchable(place, f"it runs copies in other threads or processes; {advice}", call)
        # A compiled module keeps the original one, or the compiled call.
        if hasattr(each, "_orig_mod") or getattr(each, "_compiled_call_impl", None) is not None:
            raise _unwatchable(place, "it is compiled, and would run operation by operation", call)
        if isinstance(each, torch.jit.ScriptModule):
            raise _unwatchable(place, "it is a ScriptModule, which runs outside of Python", call)


def _unwatchable(place: str, reason: str, call: str) -> UserError:
    return UserError(
        "bad-value",
        f"expected a module that runs its operations in Python but {place}: {reason}",
        hint=f"use the module before it is compiled or wrapped: {call}, then torch.compile(model)",
    )
