"""What are the figures of one sampled step: gradients of parameters and of layers' outputs, and updates?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, sqrt
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from precreg.arithmetic import FORMATS, Format
from precreg.shadow.monitor import Hook
from precreg.training.observing.noise import NoiseOfBatches, NoiseOfSteps
from precreg.training.observing.tensors import dtype_name_of, is_measurable, norm_of, scaled_sums
from precreg.training.observing.updates import Weights, twin_problem, update_figures, weights_before
from precreg.training.values import ValueSums
from precreg.types import (
    NonfinitePhase,
    OutputGradient,
    ParameterFigures,
    TrainingEventKind,
    TrainingStep,
    UpdateFigures,
    ValueFigures,
)

_LONGEST_DETAIL = 200
Note = Callable[[TrainingEventKind, str, NonfinitePhase, str], None]


class Watched(NamedTuple):
    """Hold what an observer watches: the innermost layers, the parameters by name, and the limit of a sample."""

    layers: Mapping[str, Any]
    parameters: Mapping[str, Any]
    optimizer: Any
    limit: int | None
    format: Format | None


class NoiseSums(NamedTuple):
    """Hold the noise of gradients so far, from micro-batches and from steps."""

    batches: NoiseOfBatches
    steps: NoiseOfSteps


class SampledTraining:
    """Watch one step: its hooks live until `end`."""

    def __init__(self, number: int, watched: Watched, noise: NoiseSums, note: Note) -> None:
        self.number = number
        self._watched, self._noise, self._note = watched, noise, note
        self._outputs: dict[str, tuple[ValueSums, str]] = {}
        self._narrow: dict[int, str] = {}
        self._autocast: str | None = None
        self._gradients: dict[str, ValueFigures] | None = None
        self._updates: dict[str, UpdateFigures] = {}
        self._before: dict[str, Weights] = {}
        self._has_bad_value = False
        self._scale_of_outputs = 1.0
        self._handles: list[Any] = []

    def _hook(self, function: Callable[..., None]) -> Hook:
        def guarded(*arguments: Any) -> None:
            try:
                function(*arguments)
            except Exception as error:
                # The training goes on without these figures.
                self._note("failed", type(error).__name__, "", short_reason(error))

        return Hook(guarded)

    def begin(self, scale: Callable[[], float]) -> None:
        """Install the hooks. `scale` returns the loss scale of the step."""
        for name, layer in self._watched.layers.items():
            leave = self._hook(
                lambda module, inputs, output, name=name: self._leave_layer(name, module, inputs, output, scale())
            )
            self._handles.append(layer.register_forward_hook(leave))
        for name, parameter in self._watched.parameters.items():
            if parameter.requires_grad:
                hook = self._hook(lambda gradient, name=name: self._see_batch(name, gradient))
                self._handles.append(parameter.register_hook(hook))

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _leave_layer(self, name: str, module: Any, inputs: Any, output: Any, scale: float) -> None:
        found = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor) and is_measurable(each)]
        if not found or not torch.is_grad_enabled():
            return
        kind = found[0].device.type
        if torch.is_autocast_enabled(kind):
            self._autocast = str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
        for parameter in module.parameters(recurse=False):
            self._narrow[id(parameter)] = dtype_name_of(found[0])
        if not self._has_bad_value and not all(map(_is_finite, found)):
            self._note_forward(name, module, inputs)
        for each in found:
            if each.requires_grad:
                each.register_hook(self._hook(lambda gradient: self._see_output(name, gradient, scale)))

    def _note_forward(self, name: str, module: Any, inputs: Any) -> None:
        self._has_bad_value = True
        for own, parameter in module.named_parameters(recurse=False):
            if not _is_finite(parameter):
                self._note("nonfinite", f"{name}.{own}" if name else own, "weight", "")
                return
        given = [each for each in tree_leaves(inputs) if isinstance(each, torch.Tensor) and each.is_floating_point()]
        is_made_here = all(map(_is_finite, given))
        self._note("nonfinite", name, "forward" if is_made_here else "input", "")

    def _see_output(self, name: str, gradient: Any, scale: float) -> None:
        if not is_measurable(gradient):
            return
        format = self._watched.format or FORMATS[dtype_name_of(gradient)]
        with torch.no_grad():
            sums, power = scaled_sums(gradient, format, self._watched.limit, scale)
        if (sums.nan or sums.inf) and not self._has_bad_value:
            self._has_bad_value = True
            self._note("nonfinite", name, "backward", "")
        self._scale_of_outputs = power
        known = self._outputs.get(name)
        self._outputs[name] = (sums if known is None else known[0].plus(sums), format.name)

    def _see_batch(self, name: str, gradient: Any) -> None:
        if is_measurable(gradient):
            norm = norm_of(gradient.detach())
            self._noise.batches.add_batch(name, norm * norm)

    def see_loss(self, loss: float) -> None:
        """Note a loss that is not finite, unless a layer's output was not finite before it."""
        if not isfinite(loss) and not self._has_bad_value:
            self._has_bad_value = True
            self._note("nonfinite", "", "loss", "")

    def measure_gradients(self, scale: float) -> bool:
        """Measure the gradients as the backward passes left them: before unscaling, clipping and the update.

        Return whether this was the first call of the step. Later ones do nothing.
        """
        if self._gradients is not None:
            return False
        found: dict[str, ValueFigures] = {}
        squares: dict[str, float] = {}
        limit = self._watched.limit
        for name, parameter in self._watched.parameters.items():
            gradient = parameter.grad
            if gradient is None:
                continue
            if not is_measurable(gradient):
                self._note("sparse", name, "", dtype_name_of(gradient))
                continue
            format = self._watched.format or FORMATS[self.format_of(parameter)]
            sums, power = scaled_sums(gradient, format, limit, scale)
            found[name], squares[name] = sums.figures(format.name, power), sums.all_squares
            if sums.measured < sums.elements:
                self._note("sampled", name, "", f"{sums.measured} of {sums.elements}")
            if (sums.nan or sums.inf) and not self._has_bad_value:
                self._has_bad_value = True
                self._note("nonfinite", name, "gradient", "")
        self._gradients = found
        was_split = self._noise.batches.end_step(squares)
        if not was_split:
            for name in found:
                self._noise.steps.add(name, self._watched.parameters[name].grad, scale, limit)
        return True

    def format_of(self, parameter: Any) -> str:
        """Return the format in which a gradient was computed: that of the layer's output under autocast."""
        own = dtype_name_of(parameter)
        found = self._narrow.get(id(parameter), self._autocast or own)
        return found if FORMATS[found].precision < FORMATS[own].precision else own

    def before_update(self, *, has_closure: bool) -> None:
        """Keep the weights before the optimizer's step, and the intended ones."""
        optimizer, limit = self._watched.optimizer, self._watched.limit
        given = {id(each) for group in optimizer.param_groups for each in group["params"]}
        named = {
            name: each
            for name, each in self._watched.parameters.items()
            if id(each) in given and each.grad is not None and is_measurable(each) and is_measurable(each.grad)
        }
        problem = "a closure computes the gradients" if has_closure else twin_problem(optimizer)
        if not problem:
            try:
                self._before = weights_before(optimizer, named, limit, has_twin=True)
            except (RuntimeError, TypeError, ValueError, AssertionError, KeyError) as error:
                # An optimizer that refuses float64 or a CPU form. The training's own step goes on.
                problem = f"{type(error).__name__}: {short_reason(error)}"
        if problem:
            self._note("no_twin", type(optimizer).__name__, "", problem)
            self._before = weights_before(optimizer, named, limit, has_twin=False)

    def after_update(self) -> None:
        """Compare the weights with those before the optimizer's step."""
        for name, before in self._before.items():
            parameter = self._watched.parameters[name]
            self._updates[name] = update_figures(before, parameter, self._watched.limit)
        self._before = {}

    def end(self, loss: float | None, scale: float, *, is_skipped: bool) -> TrainingStep:
        """Remove the hooks, and return the figures."""
        self.close()
        gradients = self._gradients or {}
        names = [name for name in self._watched.parameters if name in gradients or name in self._updates]
        norm = sqrt(sum(each.norm**2 for each in gradients.values()))
        has_bad = any(each.nan or each.inf for each in gradients.values())
        return TrainingStep(
            step=self.number,
            loss=loss,
            scale=scale,
            is_skipped=is_skipped,
            gradient_norm=norm if gradients and isfinite(norm) and not has_bad else None,
            parameters=tuple(self._figures_of(name, gradients) for name in names),
            outputs=tuple(
                OutputGradient(name, sums.figures(format, self._scale_of_outputs))
                for name, (sums, format) in self._outputs.items()
            ),
        )

    def _figures_of(self, name: str, gradients: Mapping[str, ValueFigures]) -> ParameterFigures:
        parameter = self._watched.parameters[name]
        return ParameterFigures(
            parameter=name,
            shape=tuple(parameter.shape),
            format=dtype_name_of(parameter),
            gradient=gradients.get(name),
            update=self._updates.get(name),
        )


def short_reason(error: Exception) -> str:
    """Return the first line of an error's message, which may be long."""
    return (str(error).splitlines() or [""])[0][:_LONGEST_DETAIL]


def _is_finite(tensor: Any) -> bool:
    # The sum of finite values is finite, unless they are huge.
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    detached = tensor.detach()
    if detached.element_size() == 1:
        # torch adds up no float8.
        detached = detached.to(wide)
    return bool(detached.sum(dtype=wide).isfinite()) or bool(detached.isfinite().all())
