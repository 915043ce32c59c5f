"""What happens to gradients, scales, clippings and updates while a recipe runs?

A probe sees the optimizer's steps, the scaler and torch's clipping. It changes no number of the training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch.nn.utils import clip_grad

from precreg.storage import Array
from precreg.training.recipe import Recipe

_NARROW = (torch.float16, torch.bfloat16)


class _ScaledGradients(NamedTuple):
    """The gradients of one step, unscaled, for the sweep of loss scales."""

    step: int
    scale: float
    arrays: Mapping[str, Array]
    formats: Mapping[str, str]


class RunCounts:
    """Count what one run does. The fields have the meaning of `RerunFigures`."""

    def __init__(self) -> None:
        self.updates = self.nonfinite_steps = self.nonfinite = self.gradients = self.zeros = 0
        self.updated = self.lost = self.zero_moments = self.clippings = self.scaled_clippings = 0
        self.accumulation_error: float | None = None
        # By parameter: weights with a nonzero gradient, and those that kept their value; gradients, and zeros.
        self.updates_of: dict[str, list[int]] = {}
        self.zeros_of: dict[str, list[int]] = {}
        # And gradients before unscaling and clipping, also of skipped steps, and those that are NaN or infinite.
        self.nonfinite_of: dict[str, list[int]] = {}
        # The global norm of the unscaled gradients of the first update, before clipping.
        self.first_norm: float | None = None


class Probe:
    """Watch a recipe: `watched()` installs the hooks, and `counts` has what they saw."""

    def __init__(self, recipe: Recipe, names: Mapping[int, str], sweep: Any = None) -> None:
        """Prepare for a recipe. `names` gives the names of parameters by id; `sweep` takes unscaled gradients."""
        self.recipe, self.counts = recipe, RunCounts()
        self._names, self._sweep = names, sweep
        self._before: list[tuple[str, Any, Any]] = []
        self._sums: dict[int, Any] = {}
        self._is_ready = False
        self.is_unscaled = False
        # Called before torch clips gradients that still have a scale.
        self.before_scaled_clip: Callable[[], None] | None = None
        # Float32 copies of narrow weights: they have the gradients, which a user's step clips by the narrow weights.
        self.masters: Mapping[Any, Any] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Install the hooks, and remove them at the end."""
        with ExitStack() as stack:
            optimizer = self.recipe.optimizer
            for handle in (
                optimizer.register_step_pre_hook(lambda *_: self._before_step()),
                optimizer.register_step_post_hook(lambda *_: self._after_step()),
            ):
                stack.callback(handle.remove)
            if self.recipe.accumulate > 1:
                for parameter in self._parameters():
                    if parameter.dtype in _NARROW and parameter.requires_grad:
                        stack.callback(parameter.register_hook(self._adder(parameter)).remove)
            stack.enter_context(self._watched_scaler())
            stack.enter_context(self._watched_clipping())
            yield

    @property
    def scale(self) -> float:
        """The present loss scale; 1.0 without scaling."""
        scaler = self.recipe.scaler
        return float(scaler.get_scale()) if scaler is not None and scaler.is_enabled() else 1.0

    def _parameters(self) -> list[Any]:
        return [each for group in self.recipe.optimizer.param_groups for each in group["params"]]

    def _named(self) -> Iterator[tuple[str, Any]]:
        for place, parameter in enumerate(self._parameters()):
            if parameter.grad is not None:
                yield self._names.get(id(parameter), f"parameter {place}"), parameter

    @contextmanager
    def _watched_scaler(self) -> Iterator[None]:
        scaler = self.recipe.scaler
        if scaler is None or not scaler.is_enabled():
            yield
            return
        unscale, update = scaler.unscale_, scaler.update

        def watched_unscale(optimizer: Any) -> Any:
            self.note_gradients()
            found = unscale(optimizer)
            self.is_unscaled = True
            return found

        def watched_update(*arguments: Any, **named: Any) -> Any:
            self._is_ready = self.is_unscaled = False
            return update(*arguments, **named)

        scaler.unscale_, scaler.update = watched_unscale, watched_update
        try:
            yield
        finally:
            del scaler.unscale_, scaler.update

    @contextmanager
    def _watched_clipping(self) -> Iterator[None]:
        # clip_grad_norm_ finds this function in its module, also where the user's module imported it by name.
        usual, usual_clip = clip_grad._get_total_norm, clip_grad._clip_grads_with_norm_

        def clip_masters(parameters: Any, *arguments: Any, **named: Any) -> Any:
            given = [parameters] if isinstance(parameters, torch.Tensor) else parameters
            return usual_clip([self.masters.get(each, each) for each in given], *arguments, **named)

        def watched_norm(gradients: Any, *arguments: Any, **named: Any) -> Any:
            self.note_gradients()
            self.counts.clippings += 1
            if self.scale != 1.0 and not self.is_unscaled:
                if self.before_scaled_clip is not None:
                    self.before_scaled_clip()
                else:
                    self.counts.scaled_clippings += 1
            of_masters = [each.grad for each in self.masters.values() if each.grad is not None]
            return usual(gradients or of_masters, *arguments, **named)

        clip_grad._get_total_norm, clip_grad._clip_grads_with_norm_ = watched_norm, clip_masters
        try:
            yield
        finally:
            clip_grad._get_total_norm, clip_grad._clip_grads_with_norm_ = usual, usual_clip

    def _adder(self, parameter: Any) -> Callable[[Any], None]:
        def add(gradient: Any) -> None:
            key = id(parameter)
            wide = gradient.detach().float()
            self._sums[key] = self._sums[key] + wide if key in self._sums else wide

        return add

    def note_gradients(self) -> None:
        """Count the gradients of an update, once: before unscaling, clipping and the step, the first of them."""
        if self._is_ready:
            return
        self._is_ready = True
        scale, counts, nonfinite, square = self.scale, self.counts, 0, 0.0
        wrong = total = 0.0
        for name, parameter in self._named():
            gradient = parameter.grad.detach()
            bad = gradient.numel() - int(torch.isfinite(gradient).sum())
            nonfinite += bad
            found = counts.nonfinite_of.setdefault(name, [0, 0])
            found[0] += gradient.numel()
            found[1] += bad
            square += float(gradient.double().square().sum())
            if (exact := self._sums.get(id(parameter))) is not None:
                wrong += float((gradient.float() - exact).double().square().sum())
                total += float(exact.double().square().sum())
        self._sums.clear()
        if total > 0.0:
            counts.accumulation_error = max(counts.accumulation_error or 0.0, (wrong / total) ** 0.5)
        counts.nonfinite += nonfinite
        counts.nonfinite_steps += nonfinite > 0
        if counts.first_norm is None:
            counts.first_norm = square**0.5 / scale
        if self._sweep is not None:
            arrays = {name: (each.grad.detach().double() / scale).cpu().numpy() for name, each in self._named()}
            self._sweep.add(_ScaledGradients(counts.updates, 1.0, arrays, {}))

    def _before_step(self) -> None:
        self.note_gradients()
        self._before = [(name, each, each.detach().clone()) for name, each in self._named() if each.is_floating_point()]
        for name, parameter, _ in self._before:
            found = self.counts.zeros_of.setdefault(name, [0, 0])
            found[0] += parameter.grad.numel()
            found[1] += int((parameter.grad == 0).sum())

    def _after_step(self) -> None:
        counts = self.counts
        counts.updates += 1
        for name, parameter, before in self._before:
            has_gradient = (parameter.grad != 0) & torch.isfinite(parameter.grad)
            found = counts.updates_of.setdefault(name, [0, 0])
            found[0] += int(has_gradient.sum())
            found[1] += int((has_gradient & (parameter.detach() == before)).sum())
            moments = self.recipe.optimizer.state.get(parameter, {}).get("exp_avg_sq")
            if moments is not None:
                counts.zero_moments += int((has_gradient & (moments == 0)).sum())
        self._before = []
        self._is_ready = self.is_unscaled = False

    def close(self) -> RunCounts:
        """Return the counts with their sums over the parameters."""
        counts = self.counts
        counts.gradients = sum(total for total, _ in counts.zeros_of.values())
        counts.zeros = sum(zeros for _, zeros in counts.zeros_of.values())
        counts.updated = sum(total for total, _ in counts.updates_of.values())
        counts.lost = sum(lost for _, lost in counts.updates_of.values())
        return counts
