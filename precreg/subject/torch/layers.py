"""Which outputs do the layers of a module give, in the order in which they run?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import torch

from precreg.errors import UserError, nearest
from precreg.subject.call import Call, name_outputs
from precreg.subject.torch.computation import run_prepared

# More names make no readable message.
_SHOWN = 12
_WILDCARDS = frozenset("*?[")


class LayerCall(NamedTuple):
    """One call of a layer, and its outputs by name."""

    layer: str
    arrays: dict[str, Any]


def run_layers(spec: dict[str, Any], call: Call, patterns: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the outputs of the layers that match the patterns, in the order of execution, and those of the module.

    An output has the name of its layer. A layer that runs several times has its calls counted from 0, and one that
    returns several tensors has their names after its own.

    Raises UserError: unknown-node, for a pattern that no layer matches, or whose layers do not run; bad-value for a
    function; and as `run_torch` does.
    """
    with run_prepared(spec, call) as (module, compute):
        if not isinstance(module, torch.nn.Module):
            raise UserError("bad-value", f"expected a module beside layers but {spec['torch']} is a function")
        layers = _matching(module, spec["torch"], patterns)
        with _recorded(layers) as calls:
            outputs = compute().arrays
    _require_run(spec["torch"], patterns, calls)
    return _name_calls(calls), outputs


def _matching(module: Any, target: str, patterns: Sequence[str]) -> dict[str, Any]:
    named = {name: each for name, each in module.named_modules(remove_duplicate=False) if name}
    found: dict[str, Any] = {}
    for pattern in patterns:
        matched = [name for name in named if _matches(name, pattern)]
        if not matched:
            more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
            known = ", ".join([*named][:_SHOWN]) + more
            message = f"expected a layer of {target} ({known}) but got layer={pattern}{nearest(pattern, named)}"
            raise UserError("unknown-node", message)
        found |= {name: named[name] for name in matched}
    return found


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) if _WILDCARDS & set(pattern) else name == pattern


@contextmanager
def _recorded(layers: dict[str, Any]) -> Iterator[list[LayerCall]]:
    """Note the outputs of layers as they are computed: a later layer may overwrite them in place."""
    calls: list[LayerCall] = []

    def note(name: str, _module: Any, _inputs: Any, output: Any) -> None:
        calls.append(LayerCall(name, name_outputs(output)))

    handles = [layer.register_forward_hook(partial(note, name)) for name, layer in layers.items()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _require_run(target: str, patterns: Sequence[str], calls: Sequence[LayerCall]) -> None:
    """Refuse a pattern whose layers do not run: a container of layers does not."""
    ran = list(dict.fromkeys(call.layer for call in calls))
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in ran):
            hint = ", ".join(ran[:_SHOWN]) or "none of those named"
            message = f"expected a layer of {target} that runs ({hint}) but layer={pattern} does not"
            raise UserError("unknown-node", f"{message}; try layer='{pattern}.*'")


def _name_calls(calls: Sequence[LayerCall]) -> dict[str, Any]:
    times = {call.layer: sum(call.layer == other.layer for other in calls) for call in calls}
    counted = dict.fromkeys(times, 0)
    arrays: dict[str, Any] = {}
    for layer, outputs in calls:
        place = layer if times[layer] == 1 else f"{layer}.{counted[layer]}"
        counted[layer] += 1
        is_one = [*outputs] == ["out"]
        named = {place if is_one else f"{place}.{name}": each for name, each in outputs.items()}
        # The second output of a layer may have the name of a layer inside it.
        if twice := arrays.keys() & named.keys():
            message = f"expected layers whose outputs have names of their own but got two of name={min(twice)}"
            raise UserError("bad-outputs", f"{message}; export {layer} alone")
        arrays |= named
    return arrays
