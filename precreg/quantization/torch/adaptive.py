"""How does a module run with a format for each layer that follows the layer's error?

Inputs and weights of a layer are rounded to its format before each call. At every Nth step the same inputs also pass
through the exact layer, and the relative error of the result moves the layer on its ladder of formats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from precreg.errors import UserError, nearest
from precreg.quantization.arrays import quantize_values
from precreg.quantization.codes import codes_named, make_quantizer
from precreg.quantization.ladder import Move, Position, Rules, next_move
from precreg.quantization.torch.layers import to_array
from precreg.quantization.torch.simulated import choose_layers, weight_axis, weight_names
from precreg.storage import replace_file
from precreg.types import AdaptiveLayer, AdaptiveRecord, FormatChange, Quantizer

# The formats that torch rounds to by a cast, with the bits of a number.
CAST_BITS = {"float16": 16, "bfloat16": 16, "float32": 32}
_KEPT_CHANGES = 10_000


class Rung:
    """Round tensors to one format: by a cast, or with one scale for inputs and one for each channel of weights."""

    def __init__(self, name: str) -> None:
        """Check the name. Raises UserError: unknown-format."""
        self.name = name
        self._quantizer: Quantizer | None = None
        if name not in CAST_BITS:
            self._quantizer = make_quantizer(name, dynamic=True)
        self.bits = CAST_BITS.get(name) or codes_named(name).bits

    def round(self, values: Tensor, channels: int | None) -> Tensor:
        """Return detached values rounded, in their own dtype; `channels` is the axis with a scale each."""
        if self._quantizer is None:
            return values.to(getattr(torch, self.name)).to(values.dtype)
        if not bool(torch.isfinite(values).all()):
            return torch.full_like(values, float("nan"))
        return _with_scale(values, self._quantizer, channels)


def _with_scale(values: Tensor, quantizer: Quantizer, channels: int | None) -> Tensor:
    if not values.numel():
        return values
    if channels is not None:
        quantizer = msgspec.structs.replace(quantizer, granularity="channel", axis=channels)
    array = quantize_values(to_array(values), quantizer).values
    return torch.from_numpy(np.ascontiguousarray(array)).to(values.device, values.dtype)


class _RoundedWeight(NamedTuple):
    """Hold the rounded form of a weight, and the values that it is of."""

    rung: str
    exact: Tensor
    rounded: Tensor


class _Layer:
    """Hold one layer on its ladder."""

    def __init__(self, name: str, module: nn.Module, rules: Rules) -> None:
        self.name, self.module, self.rules = name, module, rules
        self.position = Position(0)
        self.steps: dict[int, int] = {}
        self.samples = self.over_budget = self.unmet = 0
        self.worst = 0.0
        self._weights: dict[str, _RoundedWeight] = {}

    def run(self, rung: Rung, inputs: tuple[Any, ...]) -> Any:
        """Return the result of the layer on rounded inputs, with rounded weights."""
        own = {name: self.module._parameters[name] for name in weight_names(self.module)}
        try:
            for name, parameter in own.items():
                rounded = _straight_through(parameter, self._round_weight(name, parameter.detach(), rung))
                self.module._parameters[name] = rounded
            return type(self.module).forward(self.module, *(_rounded(each, rung) for each in inputs))
        finally:
            self.module._parameters.update(own)

    def _round_weight(self, name: str, exact: Tensor, rung: Rung) -> Tensor:
        # Most calls of a trained module find the weights as they were. Values are compared, because a version of a
        # tensor does not count changes of its `data`.
        kept = self._weights.get(name)
        if kept is not None and kept.rung == rung.name and torch.equal(kept.exact, exact):
            return kept.rounded
        rounded = rung.round(exact, weight_axis(self.module))
        self._weights[name] = _RoundedWeight(rung.name, exact.clone(), rounded)
        return rounded

    def sample(self, ladder: Sequence[Rung], inputs: tuple[Any, ...]) -> Move:
        """Measure the layer in its format, and in others as the rules need them."""
        with torch.no_grad():
            exact = type(self.module).forward(self.module, *inputs)
            move = next_move(
                self.position,
                len(ladder) - 1,
                self.rules,
                lambda rung: _relative_error(self.run(ladder[rung], inputs), exact),
            )
        self.samples += 1
        self.over_budget += move.error > self.rules.budget
        self.unmet += move.is_unmet
        self.worst = max(self.worst, move.error)
        return move


def _rounded(value: Any, rung: Rung) -> Any:
    is_rounded = isinstance(value, Tensor) and value.is_floating_point()
    return _straight_through(value, rung.round(value.detach(), None)) if is_rounded else value


def _straight_through(exact: Tensor, rounded: Tensor) -> Tensor:
    """Return rounded values whose gradient goes to the exact ones unchanged."""
    return rounded if not exact.requires_grad else exact + (rounded - exact).detach()


def _relative_error(result: Tensor, exact: Tensor) -> float:
    """Return the norm of the errors over the norm of the exact result; of zeros, 0.0 or inf."""
    wide = exact.double()
    error, size = float(torch.linalg.vector_norm(result.double() - wide)), float(torch.linalg.vector_norm(wide))
    if size == 0.0:
        return 0.0 if error == 0.0 else float("inf")
    return error / size


class AdaptivePrecision:
    """Run the layers of a module in formats that follow their errors; docs/adaptive.md has examples."""

    def __init__(
        self,
        model: Any,
        budget: float | Mapping[str, float],
        formats: Sequence[str],
        layers: Sequence[str],
        every: int,
        patience: int,
        margin: float,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise UserError(
                "bad-value",
                f"expected a torch.nn.Module but got model of type {type(model).__name__}",
                hint="give the module itself: adapt(torch.nn.Linear(8, 4), budget=0.01)",
            )
        for name, value in (("every", every), ("patience", patience)):
            if type(value) is not int or value < 1:
                raise UserError(
                    "bad-value", f"expected a whole number from 1 but got {name}={value!r}", hint=f"write {name}=5"
                )
        if not 0 < margin <= 1:
            raise UserError(
                "bad-value", f"expected a margin in (0, 1] but got margin={margin!r}", hint="write margin=0.5"
            )
        self._model, self._every, self._patience, self._margin = model, every, patience, margin
        self._ladder = read_ladder(formats)
        chosen = [pair for pair in choose_layers(model, layers) if not hasattr(pair[1], "parametrizations")]
        budgets = read_budgets(budget, [name for name, _ in chosen])
        self._layers = [_Layer(name, each, Rules(budgets[name], margin, patience)) for name, each in chosen]
        self._steps = self._samples = self._dropped = 0
        self._changes: deque[FormatChange] = deque(maxlen=_KEPT_CHANGES)
        self._handles: list[Any] = []

    def start(self) -> Self:
        """Begin to round, from the narrowest format or from where each layer was."""
        if not self._handles:
            self._handles = [self._model.register_forward_pre_hook(lambda *_: self._begin_step(), prepend=True)]
            for layer in self._layers:
                layer.module.forward = self._forward_of(layer)
        return self

    def stop(self) -> None:
        """Leave the module as it was."""
        for handle in self._handles:
            handle.remove()
        for layer in self._layers if self._handles else ():
            del layer.module.forward
        self._handles = []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _begin_step(self) -> None:
        self._steps += 1
        self._samples += self._is_sampled()

    def _is_sampled(self) -> bool:
        return (self._steps - 1) % self._every == 0

    def _forward_of(self, layer: _Layer) -> Any:
        def forward(*inputs: Any) -> Any:
            if self._is_sampled():
                self._move(layer, inputs)
            rung = layer.position.rung
            layer.steps[rung] = layer.steps.get(rung, 0) + 1
            return layer.run(self._ladder[rung], inputs)

        return forward

    def _move(self, layer: _Layer, inputs: tuple[Any, ...]) -> None:
        move = layer.sample(self._ladder, inputs)
        before, after = (self._ladder[each].name for each in (layer.position.rung, move.position.rung))
        layer.position = move.position
        if move.reason is not None:
            self._dropped += len(self._changes) == _KEPT_CHANGES
            self._changes.append(
                FormatChange(self._steps - 1, layer.name, before, after, move.reason, move.error, move.new_error)
            )

    @property
    def formats(self) -> dict[str, str]:
        """Return the present format of each layer."""
        return {layer.name: self._ladder[layer.position.rung].name for layer in self._layers}

    @property
    def record(self) -> AdaptiveRecord:
        """Return everything that was kept so far."""
        runs = [(self._ladder[rung].bits, count) for layer in self._layers for rung, count in layer.steps.items()]
        total = sum(count for _, count in runs)
        return AdaptiveRecord(
            model=type(self._model).__name__,
            formats=tuple(each.name for each in self._ladder),
            every=self._every,
            patience=self._patience,
            margin=self._margin,
            steps=self._steps,
            samples=self._samples,
            mean_bits=sum(bits * count for bits, count in runs) / total if total else 0.0,
            layers=tuple(self._layer_record(layer) for layer in self._layers),
            changes=tuple(self._changes),
            dropped=self._dropped,
        )

    def _layer_record(self, layer: _Layer) -> AdaptiveLayer:
        return AdaptiveLayer(
            layer.name,
            self._ladder[layer.position.rung].name,
            layer.rules.budget,
            {self._ladder[rung].name: count for rung, count in sorted(layer.steps.items())},
            layer.samples,
            layer.over_budget,
            layer.unmet,
            layer.worst,
        )

    def write_json(self, path: str | Path) -> None:
        """Write the record as JSON. An infinite error is null there."""
        replace_file(Path(path), msgspec.json.format(msgspec.json.encode(self.record), indent=1) + b"\n")


def read_ladder(formats: Sequence[str]) -> list[Rung]:
    """Return the rungs of a ladder. Raises UserError: bad-value, unknown-format."""
    if isinstance(formats, str) or len(formats) < 2:
        raise UserError(
            "bad-value",
            f"expected two formats or more, the narrowest first, but got formats={formats!r}",
            hint='write formats=("int8", "bfloat16", "float32")',
        )
    rungs = [Rung(name) for name in formats]
    for before, after in pairwise(rungs):
        if before.bits > after.bits or before.name == after.name:
            raise UserError(
                "bad-value",
                f"expected formats from the narrowest to the widest but got {before.name} before {after.name}",
                hint='write formats=("int8", "bfloat16", "float32")',
            )
    return rungs


def read_budgets(budget: float | Mapping[str, float], layers: Sequence[str]) -> dict[str, float]:
    """Return the budget of each layer; of several patterns that match it, the last one applies.

    Raises UserError: bad-value for budgets that are not positive, and for layers without one; unknown-node.
    """
    of_pattern = {"*": budget} if isinstance(budget, int | float) else dict(budget)
    for pattern, value in of_pattern.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise UserError(
                "bad-value", f"expected a positive relative error but got budget={value!r}", hint="write budget=0.01"
            )
        if not any(fnmatchcase(name, pattern) for name in layers):
            message = f"expected a layer with weights but got budget={pattern}{nearest(pattern, layers)}"
            raise UserError("unknown-node", message, hint=f"write budget={{{layers[0]!r}: 0.01}}")
    found = {name: value for pattern, value in of_pattern.items() for name in layers if fnmatchcase(name, pattern)}
    missing = [name for name in layers if name not in found]
    if missing:
        raise UserError(
            "bad-value",
            f"expected a budget for each layer but {missing[0]} has none",
            hint='write one for all others first: budget={"*": 0.01, ...}',
        )
    return found
