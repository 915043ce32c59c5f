"""Which layers of a module do patterns name, and which names do their outputs have?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from precreg.errors import UserError, nearest
from precreg.subject.call import name_outputs

# More names make no readable message.
_SHOWN = 12
_WILDCARDS = frozenset("*?[")


class LayerCall(NamedTuple):
    """One call of a layer, and its outputs by name."""

    layer: str
    arrays: dict[str, Any]


def select_layers_that_match(module: Any, target: str, patterns: Sequence[str]) -> dict[str, Any]:
    """Return the layers of a module that match any pattern. Raises UserError: unknown-node."""
    named = {name: each for name, each in module.named_modules(remove_duplicate=False) if name}
    found: dict[str, Any] = {}
    for pattern in patterns:
        matched = [name for name in named if _matches(name, pattern)]
        if not matched:
            raise unknown_layer(target, pattern, [*named])
        found |= {name: named[name] for name in matched}
    return found


def unknown_layer(target: str, pattern: str, names: Sequence[str]) -> UserError:
    """Make the error for a pattern that matches none of the layers with these names."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    known = ", ".join(names[:_SHOWN]) + more
    return UserError(
        "unknown-node", f"expected a layer of {target} ({known}) but got layer={pattern}{nearest(pattern, names)}"
    )


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) if _WILDCARDS & set(pattern) else name == pattern


def name_layer_outputs(
    target: str, patterns: Sequence[str], calls: Sequence[tuple[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return the tensors of calls of layers as arrays, with the names of `name_layer_calls`.

    Raises UserError: unknown-node, for a pattern whose layers do not run; bad-outputs.
    """
    named = [LayerCall(layer, name_outputs(tensors)) for layer, tensors in calls]
    require_layers_run(target, patterns, named)
    return name_layer_calls(named)


def require_layers_run(target: str, patterns: Sequence[str], calls: Sequence[LayerCall]) -> None:
    """Refuse a pattern whose layers do not run: a container of layers does not."""
    ran = list(dict.fromkeys(call.layer for call in calls))
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in ran):
            hint = ", ".join(ran[:_SHOWN]) or "none of those named"
            message = f"expected a layer of {target} that runs ({hint}) but layer={pattern} does not"
            raise UserError("unknown-node", f"{message}; try layer='{pattern}.*'")


def name_layer_calls(calls: Sequence[LayerCall]) -> dict[str, Any]:
    """Return the outputs of calls by name: the layer, the number of its call if it has several, the output's name."""
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
