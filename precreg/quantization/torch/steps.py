"""Which errors do fake quantizers have at the steps of a quantization-aware training?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import torch
from torch import nn
from torch.ao.quantization import FakeQuantizeBase

from precreg.errors import UserError
from precreg.storage import replace_file
from precreg.types import (
    FakeQuantizerEvent,
    FakeQuantizerEventKind,
    FakeQuantizerRole,
    FakeQuantizerStep,
    QuantizationStepsRecord,
)

# Weights whose codes are followed at every step: a share of 1 % has a standard error of 0.16 %.
FOLLOWED = 4096
_WEIGHT = "weight_fake_quant"


class _Followed:
    """The codes of some weights, the directions of their last moves, and the moves since the last sampled step."""

    def __init__(self, elements: int, device: Any) -> None:
        step = -(-elements // FOLLOWED)
        self.places = torch.arange(0, elements, step, device=device)
        self._codes: Any = None
        self._directions = torch.zeros(len(self.places), device=device)
        self.clear()

    def clear(self) -> None:
        """Forget the moves up to here."""
        self._moved = torch.zeros_like(self._directions, dtype=torch.bool)
        self._turned = torch.zeros_like(self._directions, dtype=torch.bool)

    def add(self, codes: Any) -> None:
        """Take the codes of one step."""
        if self._codes is not None:
            moves = torch.sign(codes - self._codes)
            has_moved = moves != 0
            self._moved |= has_moved
            self._turned |= has_moved & (moves == -self._directions)
            self._directions = torch.where(has_moved, moves, self._directions)
        self._codes = codes

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return how many weights are followed, have moved, and have moved back."""
        return len(self.places), int(self._moved.sum()), int(self._turned.sum())


class _Parameters(NamedTuple):
    """Hold the scale and the zero point of a call, in a shape to broadcast, and the ends of the codes."""

    scale: Any
    zero_point: Any
    lowest: int
    highest: int


class QuantizationObserver:
    """Measure the fake quantizers of a model at every Nth step of its optimizer, in the first call of the step.

    Results and gradients keep their bits. It starts and stops with a `with` block, or with its methods.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        *,
        every: int = 10,
        keep: int = 100_000,
        render: Callable[[QuantizationStepsRecord], str],
        render_text: Callable[[QuantizationStepsRecord], str],
    ) -> None:
        """Take a model with fake quantizers, and the optimizer whose steps count.

        Raises UserError: bad-value for a model without fake quantizers, for other things, and for numbers below 1.
        """
        for name, value in (("every", every), ("keep", keep)):
            if type(value) is not int or value < 1:
                raise UserError(
                    "bad-value",
                    f"expected a whole number from 1 but got {name}={value!r}",
                    hint=f"write a number: precreg.observe_quantization(model, optimizer, {name}=100)",
                )
        self._model, self._optimizer, self._every, self._render = model, optimizer, every, render
        self._render_text = render_text
        self._quantizers = _find_quantizers(model)
        if not hasattr(optimizer, "register_step_post_hook"):
            raise UserError(
                "bad-value",
                f"expected an optimizer of torch but got {type(optimizer).__name__}",
                hint="give the optimizer whose step() trains the model: torch.optim.SGD(model.parameters(), 0.01)",
            )
        self._figures: deque[FakeQuantizerStep] = deque(maxlen=keep)
        self._followed: dict[str, _Followed] = {}
        self._events: dict[tuple[str, str], FakeQuantizerEvent] = {}
        self._called: set[str] = set()
        self._ran: set[str] = set()
        self._step = self._dropped = 0
        self._handles: list[Any] = []

    def start(self) -> Self:
        """Begin to count the steps of the optimizer, and to sample them."""
        if not self._handles:
            self._handles = [self._optimizer.register_step_post_hook(lambda *_: self._end_step())]
            for name, module in self._quantizers.items():
                self._handles.append(module.register_forward_hook(self._hook(name)))
        return self

    def stop(self) -> None:
        """Leave the model and the optimizer as they were."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def __enter__(self) -> Self:
        """Start, and return the observer."""
        return self.start()

    def __exit__(self, *exception: object) -> None:
        """Stop."""
        self.stop()

    def _hook(self, name: str) -> Callable[[Any, Any, Any], None]:
        def note(module: Any, arguments: Any, result: Any) -> None:
            # Evaluations between the steps are no part of the training.
            if name not in self._called and self._model.training:
                self._called.add(name)
                with torch.no_grad():
                    self._note_call(name, module, arguments[0].detach(), result.detach())

        return note

    def _end_step(self) -> None:
        self._step += 1
        self._called.clear()

    def _note_call(self, name: str, module: Any, values: Any, result: Any) -> None:
        is_sampled = self._step % self._every == 0
        is_weight = _role(name) == "weight"
        if not (is_sampled or is_weight) or not values.numel():
            return
        self._ran.add(name)
        if not int(module.fake_quant_enabled[0]):
            if is_sampled:
                self._note("disabled", name)
            return
        parameters = _parameters(module, values)
        if is_weight:
            self._follow(name, values, parameters)
        if not is_sampled:
            return
        bad = int(values.numel() - torch.isfinite(values).sum())
        if bad:
            self._note("non_finite", name, f"{bad:,} of {values.numel():,}")
            return
        if len(self._figures) == self._figures.maxlen:
            self._dropped += 1
        self._figures.append(self._measure(name, values, result, parameters))

    def _follow(self, name: str, values: Any, parameters: _Parameters) -> None:
        if name not in self._followed:
            self._followed[name] = _Followed(values.numel(), values.device)
            left_out = values.numel() - len(self._followed[name].places)
            if left_out:
                self._note("sampled_codes", name, f"{left_out:,} of {values.numel():,}")
        followed = self._followed[name]
        scale, zero = (each.expand(values.shape).reshape(-1)[followed.places] for each in parameters[:2])
        codes = torch.round(values.reshape(-1)[followed.places] / scale) + zero
        followed.add(codes.clamp(parameters.lowest, parameters.highest))

    def _measure(self, name: str, values: Any, result: Any, parameters: _Parameters) -> FakeQuantizerStep:
        scale, zero, lowest, highest = parameters
        wide, scale = values.double(), scale.double()
        # torch computes codes in float32, with the inverse of the scale.
        codes = torch.round(values * (1.0 / parameters.scale)).double() + zero
        kept = codes.clamp(lowest, highest)
        errors = result.double() - wide
        signal = float(wide.square().sum())
        followed = self._followed.get(name)
        counts = (0, 0, 0) if followed is None else followed.counts
        if followed is not None:
            followed.clear()
        return FakeQuantizerStep(
            self._step,
            name,
            _role(name),
            float(scale.min()),
            float(scale.max()),
            values.numel(),
            int((codes != kept).sum()),
            float((errors / scale).square().mean().sqrt()),
            float(errors.square().sum() / signal) ** 0.5 if signal > 0.0 else None,
            *counts,
        )

    def _note(self, kind: FakeQuantizerEventKind, name: str, detail: str = "") -> None:
        found = self._events.get((kind, name))
        if found is None:
            self._events[kind, name] = FakeQuantizerEvent(kind, name, self._step, 1, detail)
        else:
            self._events[kind, name] = msgspec.structs.replace(found, times=found.times + 1)

    @property
    def record(self) -> QuantizationStepsRecord:
        """Return everything that the observer has kept so far."""
        from precreg import __version__

        absent = [FakeQuantizerEvent("never_ran", name, 0) for name in self._quantizers if name not in self._ran]
        return QuantizationStepsRecord(
            precreg=__version__,
            model=type(self._model).__name__,
            every=self._every,
            steps=self._step,
            quantizers=tuple(self._quantizers),
            figures=tuple(self._figures),
            dropped=self._dropped,
            events=(*self._events.values(), *absent),
        )

    def __str__(self) -> str:
        """Return the last figures of each fake quantizer as a table, the largest error first."""
        return self._render_text(self.record)

    def write_json(self, path: str | Path) -> None:
        """Write the record as JSON."""
        replace_file(Path(path), msgspec.json.encode(self.record) + b"\n")

    def write_html(self, path: str | Path) -> None:
        """Write a page with a heat map of the errors by fake quantizer and step."""
        replace_file(Path(path), self._render(self.record).encode())


def _find_quantizers(model: Any) -> dict[str, Any]:
    if not isinstance(model, nn.Module):
        raise UserError(
            "bad-value",
            f"expected a torch.nn.Module but got {type(model).__name__}",
            hint="give the model that torch.ao.quantization.prepare_qat returned",
        )
    found = {name: each for name, each in model.named_modules() if isinstance(each, FakeQuantizeBase)}
    if not found:
        raise UserError(
            "bad-value",
            f"expected fake quantizers of torch.ao.quantization but {type(model).__name__} has none",
            hint="insert them: model = torch.ao.quantization.prepare_qat(model.train())",
        )
    return found


def _role(name: str) -> FakeQuantizerRole:
    is_weight = name.rpartition(".")[2] == _WEIGHT or ".parametrizations." in f".{name}"
    return "weight" if is_weight else "activation"


def _parameters(module: Any, values: Any) -> _Parameters:
    observer = getattr(module, "activation_post_process", module)
    shape = [1] * values.ndim
    if module.scale.numel() > 1:
        shape[module.ch_axis] = -1
    scale, zero = (each.detach().reshape(shape) for each in (module.scale, module.zero_point))
    return _Parameters(scale, zero, int(observer.quant_min), int(observer.quant_max))
