"""How does a module run with some of its layers quantized?

A layer is quantized in place: its weights are exchanged for one run, and its call is wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.ao.quantization import disable_observer

from precreg.errors import UserError
from precreg.quantization.model import LayerFacts, LayerSums, ModelResults
from precreg.subject import output_leaves
from precreg.types import QuantizationEvent

Action = Callable[[], None]
# The leaf of a module's results that is measured, if there are several and one has this name.
LOGITS = "logits"
_NEW_LINE = "\n"


class QuantizedLayer(NamedTuple):
    """Hold a layer of a module, with the actions that quantize its weights and undo it.

    `activation` quantizes its inputs or its results, as `facts.activation_role` says; None if they stay float.
    """

    facts: LayerFacts
    module: Any
    quantize: Action
    restore: Action
    activation: Callable[[Any], Any] | None


class TorchModel:
    """Run a module on batches with some layers quantized. The module is in evaluation mode, and precreg's own."""

    def __init__(
        self,
        module: Any,
        layers: Sequence[QuantizedLayer],
        batches: Sequence[Any],
        events: Sequence[QuantizationEvent],
    ) -> None:
        """Take the float module, and its layers in the order in which they run."""
        self.module, self.parts, self.batches, self._events = module, layers, batches, events

    @property
    def layers(self) -> Sequence[LayerFacts]:
        """Return the layers in the order in which they run."""
        return [each.facts for each in self.parts]

    @property
    def events(self) -> Sequence[QuantizationEvent]:
        """Return the facts that weaken the figures."""
        return self._events

    def run(self, weights: Set[str], activations: Set[str]) -> ModelResults:
        """Return the results with the weights and the activations of the named layers quantized."""
        sums: dict[str, LayerSums] = {}
        with ExitStack() as stack:
            for layer in self.parts:
                name = layer.facts.name
                if name in weights or name in activations:
                    choice = (name in weights, name in activations)
                    stack.enter_context(_quantized(layer, *choice, sums))
            outputs = run_batches(self.module, self.batches)
        return ModelResults(tuple(outputs), sums)


@contextmanager
def _quantized(
    layer: QuantizedLayer, with_weight: bool, with_activation: bool, sums: dict[str, LayerSums]
) -> Iterator[None]:
    original = layer.module.forward
    name = layer.facts.name

    def forward(*arguments: Any, **named: Any) -> Any:
        result = call_with_activation(layer, original, arguments, named, with_activation=with_activation)
        layer.restore()
        exact = original(*arguments, **named)
        if with_weight:
            layer.quantize()
        _add(sums, name, exact, result)
        return result

    # On the instance, so that hooks of the module still run around it.
    layer.module.forward = forward
    if with_weight:
        layer.quantize()
    try:
        yield
    finally:
        layer.restore()
        del layer.module.forward


def call_with_activation(
    layer: QuantizedLayer,
    original: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
    *,
    with_activation: bool,
) -> Any:
    """Return the results of a layer's own call, with its activations quantized or not."""
    activation = layer.activation if with_activation else None
    role, count = layer.facts.activation_role, inputs_of(layer.module)
    if activation is not None and role == "input":
        arguments = (*(_changed(each, activation) for each in arguments[:count]), *arguments[count:])
    result = original(*arguments, **named)
    return _changed(result, activation) if activation is not None and role == "output" else result


def call_quantized(
    carrier: QuantizedLayer,
    layer: QuantizedLayer,
    original: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
) -> Any:
    """Return the results of `carrier` with the weights and activations of `layer` quantized, a part of it or itself."""
    layer.quantize()
    try:
        return call_with_activation(carrier, original, arguments, named, with_activation=layer is carrier)
    finally:
        layer.restore()


def inputs_of(module: Any) -> int:
    """Return how many arguments of a layer are activations: attention has queries, keys and values."""
    return 3 if isinstance(module, torch.nn.MultiheadAttention) else 1


def _changed(value: Any, activation: Callable[[Any], Any]) -> Any:
    is_number = isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()
    return activation(value) if is_number else value


def _add(sums: dict[str, LayerSums], name: str, exact: Any, result: Any) -> None:
    pairs: Any = zip(output_leaves(exact), output_leaves(result), strict=True)
    for (_, e), (_, q) in pairs:
        if isinstance(e, torch.Tensor) and e.is_floating_point():
            wide = e.double()
            signal, noise = float(wide.square().sum()), float((q.double() - wide).square().sum())
            before = sums.get(name, LayerSums(0.0, 0.0))
            sums[name] = LayerSums(before.signal + signal, before.noise + noise)


def run_batches(module: Any, batches: Sequence[Any]) -> list[Any]:
    """Return the results of a module as arrays, one for each batch; errors of the module name the batch.

    Raises UserError: bad-input if the module refuses a batch, bad-outputs for results without a floating tensor.
    """
    with without_fused_attention(), torch.no_grad():
        return [_result_array(call_module(module, batch, number)) for number, batch in enumerate(batches)]


@contextmanager
def without_fused_attention() -> Iterator[None]:
    """Keep the fused kernel of an encoder layer away, which would pass by the layers inside it."""
    was_fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_fast)


def call_module(module: Any, batch: Any, number: int) -> Any:
    """Return the results of a module for one batch. Raises UserError: bad-input if the module refuses it."""
    try:
        if isinstance(batch, Mapping):
            return module(**batch)
        return module(*batch) if isinstance(batch, tuple) else module(batch)
    except UserError:
        raise
    # A module raises what it likes for an input that does not fit.
    except Exception as problem:
        shapes = describe_batch(batch)
        raise UserError(
            "bad-input",
            f"expected inputs that {type(module).__name__} takes but got batch {number}: {shapes}"
            f"\n  {type(problem).__name__}: {str(problem).partition(_NEW_LINE)[0]}",
            detail=f"{type(problem).__name__}: {problem}",
            hint=_input_hint(batch),
        ) from problem


def _input_hint(batch: Any) -> str:
    if isinstance(batch, tuple) and len(batch) > 1:
        return "a tuple has the model's arguments; leave targets out: data = [inputs for inputs, targets in loader]"
    return "give the batches the shape of the model's inputs: data = [torch.randn(8, 3, 32, 32)]"


def describe_batch(batch: Any) -> str:
    """Return the dtypes and shapes of a batch."""
    named = batch.items() if isinstance(batch, Mapping) else enumerate(batch if isinstance(batch, tuple) else (batch,))
    parts = [
        f"{name}: {str(each.dtype).removeprefix('torch.')} {tuple(each.shape)}"
        if isinstance(each, torch.Tensor)
        else f"{name}: {type(each).__name__}"
        for name, each in named
    ]
    return ", ".join(parts)


def _result_array(result: Any) -> Any:
    return measured_leaf(result).detach().to("cpu", torch.float64).numpy().copy()


def measured_leaf(result: Any) -> Any:
    """Return the tensor of a model's results that is measured. Raises UserError: bad-outputs if there is none."""
    leaves = [
        (name, each)
        for name, each in output_leaves(result)
        if isinstance(each, torch.Tensor) and each.is_floating_point()
    ]
    if not leaves:
        message = f"expected a floating tensor among the model's results but got {type(result).__name__}"
        raise UserError("bad-outputs", message, hint="return the scores of the model as a tensor")
    return dict(leaves).get(LOGITS, leaves[0][1])


def to_array(tensor: Any) -> Any:
    """Return a tensor's numbers in float32, or in float64 if it has them."""
    wide = tensor.detach().to("cpu")
    wide = wide if wide.dtype == torch.float64 else wide.float()
    return np.ascontiguousarray(wide.numpy())


def run_quantized(module: Any, batches: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of a quantized module itself; a copy, because observers would learn from the batches."""
    own = deepcopy(module).eval()
    own.apply(disable_observer)
    return tuple(run_batches(own, batches))
