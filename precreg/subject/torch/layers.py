"""Which outputs do the layers of a module give, in the order in which they run?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from precreg.errors import UserError
from precreg.subject.call import Call, name_outputs
from precreg.subject.torch.computation import run_prepared
from precreg.subject.torch.layer_names import (
    LayerCall,
    name_layer_calls,
    require_layers_run,
    select_layers_that_match,
)


def run_layers(spec: dict[str, Any], call: Call, patterns: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the outputs of the layers that match the patterns, in the order of execution, and the module's outputs.

    An output has the name of its layer. A layer that runs several times has its calls counted from 0, and one that
    returns several tensors has their names after its own.

    Raises UserError: unknown-node, for a pattern that no layer matches, or whose layers do not run; bad-value for a
    function; and as `run_torch` does.
    """
    with run_prepared(spec, call) as (module, compute):
        if not isinstance(module, torch.nn.Module):
            raise UserError(
                "bad-value",
                f"expected a module beside layers but {spec['torch']} is a function",
                hint="name a module: precreg export mylib:Net --layer 'layer4.*', or leave out the layers",
            )
        layers = select_layers_that_match(module, spec["torch"], patterns)
        with _recorded(layers) as calls:
            outputs = compute().arrays
    require_layers_run(spec["torch"], patterns, calls)
    return name_layer_calls(calls), outputs


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
