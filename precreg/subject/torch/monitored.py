"""Which outputs do the monitored layers of a module give, and how large are their own errors?

The own error of a layer is its result against the same layer in float64 on the same low-precision inputs. It has the
errors of no layer before it, so that it stays as it is if another layer gets worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from precreg.errors import UserError
from precreg.subject.call import output_leaves
from precreg.subject.torch.layer_names import name_layer_outputs, select_layers_that_match
from precreg.subject.torch.specification import WIDENED
from precreg.subject.torch.widening import widen_module, widened

# The prefixes of the outputs: the results of layers, and their own errors.
LAYER_OUTPUT, OWN_OUTPUT = "layer.", "own."


class _Entered(NamedTuple):
    """The inputs of a layer, before it runs: it may change them in place."""

    arguments: tuple[Any, ...]
    named: dict[str, Any]
    random: Any


def layer_outputs(spec: dict[str, Any], module: Any, compute: Callable[[], object]) -> dict[str, Any]:
    """Return the results and the own errors of a module's layers that a specification monitors, by output.

    `compute` calls the module. An own error is float32, in units of the root mean square of the layer's exact result.

    Raises UserError: unknown-node for a pattern without a layer that runs; bad-value for a layer that draws random
    numbers.
    """
    layers = select_layers_that_match(module, spec["torch"], spec["monitor"])
    with _observed(spec, layers) as (results, errors):
        compute()
    patterns = spec["monitor"]
    named = name_layer_outputs(spec["torch"], patterns, results)
    of_errors = name_layer_outputs(spec["torch"], patterns, errors)
    return {f"{LAYER_OUTPUT}{name}": each for name, each in named.items()} | {
        f"{OWN_OUTPUT}{name}": each for name, each in of_errors.items()
    }


Calls = list[tuple[str, dict[str, Any]]]


@contextmanager
def _observed(spec: dict[str, Any], layers: dict[str, Any]) -> Iterator[tuple[Calls, Calls]]:
    results: Calls = []
    errors: Calls = []
    entered: list[_Entered] = []
    # A copy of a layer has its hooks, too.
    is_exact = [False]

    def before(_module: Any, arguments: Any, named: Any) -> None:
        if not is_exact[0]:
            entered.append(_Entered(_wide(arguments), _wide(named), torch.get_rng_state()))

    def after(name: str) -> Callable[..., None]:
        def note(module: Any, _arguments: Any, _named: Any, output: Any) -> None:
            if is_exact[0]:
                return
            given = entered.pop()
            low = {key: each.detach().clone() for key, each in _floating(output)}
            is_exact[0] = True
            try:
                exact = low if WIDENED in spec else _exact(spec, name, module, given)
            finally:
                is_exact[0] = False
            results.append((name, low))
            errors.append((name, {key: _own_errors(spec, each, exact[key]) for key, each in low.items()}))

        return note

    handles = [each.register_forward_pre_hook(before, with_kwargs=True) for each in layers.values()]
    handles += [each.register_forward_hook(after(name), with_kwargs=True) for name, each in layers.items()]
    try:
        yield results, errors
    finally:
        for handle in handles:
            handle.remove()


def _exact(spec: dict[str, Any], name: str, module: Any, given: _Entered) -> dict[str, Any]:
    """Return the outputs of a layer in float64; the generators of random numbers stay as they are."""
    if not torch.equal(torch.get_rng_state(), given.random):
        message = f"expected layers of {spec['torch']} that draw no random numbers but got monitor={name}"
        raise UserError(
            "bad-value",
            f"{message}, whose exact result would be of other draws",
            hint="name the other layers: monitor: ['layer4.*'], or write mode: eval",
        )
    # The layer as it is now: running statistics are its own already, as the low-precision result used the batch's.
    wide = widen_module(deepcopy(module))
    with torch.no_grad(), torch.autocast(_device_type(module), enabled=False), widened():
        return dict(_floating(wide(*given.arguments, **given.named)))


def _device_type(module: Any) -> str:
    return next((each.device.type for each in module.parameters()), "cpu")


def _wide(values: Any) -> Any:
    return tree_map(_wide_copy, values)


def _wide_copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return deepcopy(value)
    if value.is_complex():
        return value.detach().to(torch.complex128, copy=True)
    return value.detach().to(torch.float64, copy=True) if value.is_floating_point() else value.detach().clone()


def _floating(output: object) -> Iterator[tuple[str, Any]]:
    for name, each in output_leaves(output):
        if isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex()):
            yield name, each


def _own_errors(spec: dict[str, Any], low: Any, exact: Any) -> Any:
    """Return the errors over the root mean square of the exact values; equal infinities and NaN have none.

    They are float32, which has their size to seven digits, so that the zeros of a reference in float64 are wider.
    """
    if WIDENED in spec:
        return torch.zeros_like(low)
    wide = low.to(exact.dtype)
    is_same = (wide == exact) | (wide.isnan() & exact.isnan())
    sizes = torch.where(exact.isfinite(), exact.abs(), 0.0)
    scale = sizes.square().mean().sqrt() if sizes.numel() else sizes.sum()
    errors = torch.where(is_same, 0.0, wide - exact) / torch.where(scale > 0.0, scale, 1.0)
    return errors.to(torch.complex64 if errors.is_complex() else torch.float32)
