"""What are the figures of one sampled step: its layers' activations, gradients and updated weights?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten_with_path

from precreg.shadow.monitor.figures import error_of_tensors, tensor_figures
from precreg.shadow.monitor.lockstep import Lockstep, Note
from precreg.shadow.torch import Twins, is_shadowed, twin_dtype
from precreg.types import ErrorSize, LayerFigures, MonitoredStep

if TYPE_CHECKING:
    from collections.abc import Iterator

# A layer inside of a loop of the forward pass may run thousands of times.
MAX_CALLS = 16


class Hook:
    """Call a function from a module of torch. A copy of the module, or a file of it, has a hook that does nothing."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> None:
        """Return None, because torch takes any other value for a new input or output."""
        self._function(*arguments)

    def __deepcopy__(self, memo: object) -> Callable[..., None]:
        """Leave the monitor out of a copy of the module."""
        return idle_hook

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the monitor out of a file of the module."""
        return getattr, (idle_hook, "__call__")


def idle_hook(*arguments: Any) -> None:
    """Do nothing."""


class SampledStep:
    """Watch one step: `end` returns its figures, and is called when the step is over."""

    def __init__(self, number: int, layers: Mapping[str, Any], note: Note, over: Callable[[], None]) -> None:
        self.number = number
        self.lockstep = Lockstep(note)
        self._layers, self._note, self._over = layers, note, over
        self._parameters = {name: dict(each.named_parameters()) for name, each in layers.items()}
        self._found: dict[tuple[str, str, int, str], LayerFigures] = {}
        self._calls = dict.fromkeys(layers, 0)
        self._running: list[tuple[str, Twins | None]] = []
        self._trained = {
            name: {id(each) for each in given.values() if each.requires_grad}
            for name, given in self._parameters.items()
        }
        # The parameters whose gradients a layer still waits for.
        self._awaited = {name: set(trained) for name, trained in self._trained.items()}
        self._has_backward = False
        self._handles: list[Any] = []
        self._started = perf_counter()

    def begin(self, own: set[int]) -> None:
        """Start the shadow. An optimizer of any of the parameters `own`, by identity, ends the step."""
        for name, layer in self._layers.items():
            self._handles += [
                layer.register_forward_pre_hook(Hook(lambda *_, name=name: self._enter_layer(name))),
                layer.register_forward_hook(
                    Hook(lambda _module, _inputs, output, name=name: self._leave_layer(name, output)), always_call=True
                ),
            ]
        for each in {id(one): one for given in self._parameters.values() for one in given.values()}.values():
            if each.requires_grad:
                self._handles.append(each.register_post_accumulate_grad_hook(Hook(self._see_gradient)))

        def after_update(optimizer: Any, *_: Any) -> None:
            if any(id(each) in own for group in optimizer.param_groups for each in group["params"]):
                self._over()

        self._handles.append(register_optimizer_step_post_hook(after_update))
        self.lockstep.__enter__()

    def end(self) -> MonitoredStep:
        """Measure the weights, and return the figures of the step. The caller then leaves the lockstep."""
        with self._paused():
            for name, awaited in self._awaited.items():
                # The gradients of a layer some of whose parameters had no part in the result.
                if 0 < len(awaited) < len(self._trained[name]):
                    self._measure_gradients(name)
                self._measure_weights(name)
        for handle in self._handles:
            handle.remove()
        duration_s = perf_counter() - self._started
        return MonitoredStep(self.number, duration_s, self._has_backward, tuple(self._found.values()))

    def _enter_layer(self, name: str) -> None:
        if _is_in_backward():
            # A checkpoint computes its layers again.
            return
        if self.lockstep.is_elsewhere():
            self._note("other_thread", name, "")
            return
        twins = Twins() if self._calls[name] < MAX_CALLS else None
        self._running.append((name, twins))
        if twins is not None:
            self.lockstep.layer_twins.append(twins)

    def _leave_layer(self, name: str, output: object) -> None:
        is_unseen = _is_in_backward() or self.lockstep.is_elsewhere()
        if is_unseen or not any(name == entered for entered, _ in self._running):
            return
        while True:
            # An exception leaves the layers inside without their hooks.
            entered, twins = self._running.pop()
            if twins is not None:
                self.lockstep.layer_twins.remove(twins)
            if entered == name:
                break
        call = self._calls[name]
        self._calls[name] += 1
        if twins is None:
            self._note("calls_left_out", name, "")
            return
        found = _tensors(output)
        if any(torch._C._functorch.is_functorch_wrapped_tensor(tensor) for _, tensor in found):
            self._note("transformed", name, "")
            return
        with self._paused():
            for path, tensor in found:
                self._keep(name, "activation", [tensor], call=call, output=path, twins=twins)

    def _see_gradient(self, parameter: Any) -> None:
        self._has_backward = True
        for name, awaited in self._awaited.items():
            if id(parameter) in self._trained[name]:
                awaited.discard(id(parameter))
                if not awaited:
                    self._measure_gradients(name)
                    # A second backward pass adds to them.
                    awaited |= self._trained[name]

    def _measure_gradients(self, name: str) -> None:
        found = [each.grad for each in self._parameters[name].values() if each.grad is not None]
        with self._paused():
            self._keep(name, "gradient", found)

    def _measure_weights(self, name: str) -> None:
        updated = [each for each in self._parameters[name].values() if self.lockstep.step_twins.has(each)]
        if updated:
            self._keep(name, "weight", updated)

    def _keep(
        self, name: str, role: Any, tensors: list[Any], *, call: int = 0, output: str = "", twins: Twins | None = None
    ) -> None:
        known = [each for each in tensors if is_shadowed(each)]
        if not known:
            return
        step = self.lockstep.step_twins
        own = None if twins is None else error_of_tensors([(each, twins.of(each)) for each in known])
        total: ErrorSize | None = error_of_tensors([(each, step.of(each)) for each in known])
        if all(each.dtype == twin_dtype(each.dtype) for each in known):
            self._note("same_precision", name, str(known[0].dtype).removeprefix("torch."))
            own, total = _unless_zero(own), _unless_zero(total)
        self._found[role, name, call, output] = LayerFigures(
            layer=name,
            role=role,
            dtype=str(known[0].dtype).removeprefix("torch."),
            figures=tensor_figures(known),
            call=call,
            output=output,
            own=own,
            total=total,
        )

    @contextmanager
    def _paused(self) -> Iterator[None]:
        before, self.lockstep.is_paused = self.lockstep.is_paused, True
        try:
            # Modes take twice as long as the kernels of a small tensor, although this one only passes them on.
            with torch.no_grad(), _disable_current_modes():
                yield
        finally:
            self.lockstep.is_paused = before


def _unless_zero(size: ErrorSize | None) -> ErrorSize | None:
    """Return None for an error that float64 cannot show in float64; an error of narrower operations is one."""
    return None if size is None or size.relative == 0.0 else size


def _is_in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


def _tensors(output: object) -> list[tuple[str, Any]]:
    """Return the tensors of a layer's output by their path; one tensor alone has an empty path."""
    leaves, _ = tree_flatten_with_path(output)
    return [(".".join(_key(each) for each in path), leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]


def _key(part: Any) -> str:
    return str(next(getattr(part, name) for name in ("key", "idx", "name") if hasattr(part, name)))
