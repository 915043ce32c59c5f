"""How far does each layer's quantization move the model's results, to first order?

The results move by J e, where e is the error of a layer's own results, and J their derivative by them. The squared
distance to the float results has no gradient at the float model, so its first-order estimate is zero. The estimate is
therefore |J e|^2, the Gauss-Newton form of its second order.

Signs v of the results, drawn at random, give it without J: the expectation of (v J e)^2 is |J e|^2, and v J is one
backward pass for all layers together. Each input has signs of its own, so that N inputs count as N draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import sqrt
from typing import Any, NamedTuple

import torch

from precreg.quantization.torch.layers import (
    QuantizedLayer,
    TorchModel,
    call_module,
    call_quantized,
    measured_leaf,
    without_fused_attention,
)
from precreg.subject import output_leaves

# The relative standard error of an estimate is about sqrt(2 / (probes * inputs)): 6 % for 32 inputs.
PROBES = 16


class _Call(NamedTuple):
    """Hold a layer's results of one call, as a part of the graph, and its errors in quantized form."""

    results: Any
    errors: Mapping[str, Any]


def estimate_first_order(model: TorchModel, probes: int = PROBES) -> dict[str, float]:
    """Return, by layer, the first-order estimate of the relative error of the results with this layer quantized.

    Layers without an estimate are left out: their results have no gradient to those of the model.
    """
    squares: dict[str, float] = {}
    signal = 0.0
    generator = torch.Generator().manual_seed(0)
    for number, batch in enumerate(model.batches):
        calls: list[_Call] = []
        with ExitStack() as stack:
            stack.enter_context(torch.enable_grad())
            stack.enter_context(without_fused_attention())
            for carrier, carried in _carriers(model.parts):
                stack.enter_context(_recorded(carrier, carried, calls))
            result = measured_leaf(call_module(model.module, batch, number))
        signal += float(result.detach().double().square().sum())
        if result.requires_grad:
            _add_probes(calls, result, probes, generator, squares)
    if signal == 0.0:
        return {}
    return {name: sqrt(found / probes / signal) for name, found in squares.items()}


def _carriers(layers: Sequence[QuantizedLayer]) -> Iterator[tuple[QuantizedLayer, list[QuantizedLayer]]]:
    """Yield each layer whose call shows errors, with the layers that it runs inside: attention has a last layer."""
    attention = {f"{each.facts.name}.out_proj": each for each in layers if _is_attention(each.module)}
    for layer in layers:
        if layer.facts.name not in attention:
            yield layer, [layer, *(each for each in layers if attention.get(each.facts.name) is layer)]


def _is_attention(module: Any) -> bool:
    return isinstance(module, torch.nn.MultiheadAttention)


@contextmanager
def _recorded(carrier: QuantizedLayer, carried: Sequence[QuantizedLayer], calls: list[_Call]) -> Iterator[None]:
    original = carrier.module.forward

    def forward(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        exact = _first_floating(result)
        if exact is None:
            return result
        with torch.no_grad():
            errors = {}
            for layer in carried:
                changed = call_quantized(carrier, layer, original, arguments, named)
                errors[layer.facts.name] = _first_floating(changed).double() - exact.detach().double()
        part = exact if exact.requires_grad else exact.detach().requires_grad_(True)
        calls.append(_Call(part, errors))
        # A copy: the model may change the results in place, as an activation does.
        return _with_first(result, exact, part.clone())

    carrier.module.forward = forward
    try:
        yield
    finally:
        del carrier.module.forward


def _first_floating(result: Any) -> Any:
    return next(
        (each for _, each in output_leaves(result) if isinstance(each, torch.Tensor) and each.is_floating_point()), None
    )


def _with_first(result: Any, exact: Any, part: Any) -> Any:
    if result is exact:
        return part
    return tuple(part if each is exact else each for each in result) if isinstance(result, tuple) else result


def _add_probes(calls: Sequence[_Call], result: Any, probes: int, generator: Any, squares: dict[str, float]) -> None:
    inputs = result.shape[0] if result.ndim else 1
    parts = [call.results for call in calls]
    for _ in range(probes):
        signs = torch.randint(0, 2, result.shape, generator=generator).to(result.device, result.dtype) * 2 - 1
        found = torch.autograd.grad(result, parts, signs, retain_graph=True, allow_unused=True)
        moved: dict[str, Any] = {}
        for call, gradient in zip(calls, found, strict=True):
            if gradient is None:
                continue
            for name, error in call.errors.items():
                products = gradient.double() * error
                # Only the first axis of the model's inputs separates independent signs.
                by_input = products.reshape(inputs, -1).sum(1) if products.shape[0] == inputs else products.sum()
                moved[name] = moved.get(name, 0.0) + by_input
        for name, each in moved.items():
            squares[name] = squares.get(name, 0.0) + float(each.square().sum())
