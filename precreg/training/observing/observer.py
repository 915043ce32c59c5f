"""Which steps of a training does an observer sample, and which facts does it keep of every step?

A step ends with the update of the optimizer. With a scaler, which may skip that update, it ends with the update of the
scaler.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Self

import msgspec
import torch
from torch.nn.utils import clip_grad

from precreg.arithmetic import format_named
from precreg.errors import UserError
from precreg.shadow.monitor import require_watchable, select_layers
from precreg.storage import replace_file
from precreg.training.gradients import StepGradients
from precreg.training.observing.noise import NoiseOfBatches, NoiseOfSteps
from precreg.training.observing.sampled_step import NoiseSums, SampledTraining, Watched, short_reason
from precreg.training.observing.tensors import is_measurable
from precreg.types import (
    ClippedStep,
    MonitorOverhead,
    NonfinitePhase,
    ScalerPoint,
    StepLoss,
    TrainingEvent,
    TrainingEventKind,
    TrainingRecord,
    TrainingStep,
)

# Losses, scales and clippings, which every step has; durations behind the medians of the overhead; and events.
_KEPT_POINTS = 100_000
_KEPT_DURATIONS = 1000
_KEPT_EVENTS = 500
_MIN_DURATIONS = 2


class TrainingObserver:
    """Measure gradients and updates of a training at every Nth step; docs/training.md has examples.

    No bit of the training changes. The observer starts and stops with a `with` block, or with its methods.
    """

    def __init__(
        self,
        watched: Watched,
        model: Any,
        scaler: Any,
        every: int,
        keep: int,
        render: Callable[[TrainingRecord], str] | None,
        render_text: Callable[[TrainingRecord], str] | None = None,
    ) -> None:
        self._watched, self._model, self._scaler = watched, model, scaler
        self._every, self._render, self._render_text = every, render, render_text
        self._steps: deque[TrainingStep] = deque(maxlen=keep)
        self._losses: deque[tuple[int, Any]] = deque(maxlen=_KEPT_POINTS)
        self._scales: deque[ScalerPoint] = deque(maxlen=_KEPT_POINTS)
        self._clips: deque[tuple[int, Any, float, float, bool]] = deque(maxlen=_KEPT_POINTS)
        self._events: dict[tuple[str, str, str, str], TrainingEvent] = {}
        self._durations = {True: deque[float](maxlen=_KEPT_DURATIONS), False: deque[float](maxlen=_KEPT_DURATIONS)}
        self._counts = {True: 0, False: 0}
        self._noise = NoiseSums(NoiseOfBatches(), NoiseOfSteps())
        self._number = self._ended = self._dropped = self._points = 0
        self._sample: SampledTraining | None = None
        self._loss: Any = None
        self._started: float | None = None
        self._was_updated = self._is_unscaled = False
        # Called with the unscaled gradients of each sampled step.
        self.listeners: list[Callable[[StepGradients], None]] = []
        self._running = ExitStack()
        self._is_running = False

    def start(self) -> Self:
        """Begin to count and sample the steps of the optimizer."""
        if self._is_running:
            return self
        self._is_running = True
        me, optimizer = weakref.ref(self), self._watched.optimizer

        def before(_optimizer: Any, arguments: Any, named: Any) -> None:
            if (observer := me()) is not None:
                # The optimizer itself is the first argument.
                given = [*arguments[1:], named.get("closure")]
                has_closure = any(each is not None for each in given)
                observer._guard(lambda: observer._before_update(has_closure=has_closure))

        def after(*_: Any) -> None:
            if (observer := me()) is not None:
                observer._guard(observer._after_update)
                if observer._scaler is None:
                    observer._guard(observer._end_step)

        for handle in (optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)):
            self._running.callback(handle.remove)
        self._watch_clipping(me)
        if self._scaler is not None:
            self._watch_scaler(me)
        self._begin_step()
        return self

    def stop(self) -> None:
        """Leave the model, the optimizer, the scaler and torch as they were. A step that has not ended is not kept."""
        if self._sample is not None:
            self._sample.close()
        self._sample, self._started, self._is_running = None, None, False
        self._running.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def note_loss(self, loss: Any) -> None:
        """Note the loss of the present step: a number, or a tensor of one element. A scaler reports its loss itself.

        Raises UserError: bad-value for anything else.
        """
        self._loss = _checked_loss(loss)
        if self._sample is not None:
            self._sample.see_loss(float(self._loss))

    def note_finished_loss(self, loss: float) -> None:
        """Note the loss of the step that has just ended, unless its scaler or the user noted it."""
        last = self._number - 1
        if self._losses and self._losses[-1][0] == last:
            return
        self._losses.append((last, loss))
        self._points += 1
        if not isfinite(loss) and last % self._every == 0:
            self._add_event(TrainingEvent(kind="nonfinite", step=last, phase="loss"))
        elif self._steps and self._steps[-1].step == last:
            self._steps[-1] = msgspec.structs.replace(self._steps[-1], loss=loss)

    def note_event(self, kind: TrainingEventKind, name: str, phase: NonfinitePhase = "", detail: str = "") -> None:
        """Note an event of the present step; equal ones count."""
        self._add_event(TrainingEvent(kind=kind, step=self._number, name=name, phase=phase, detail=detail))

    def _add_event(self, event: TrainingEvent) -> None:
        key = (event.kind, event.name, event.phase, event.detail)
        known = self._events.get(key)
        if known is not None:
            self._events[key] = msgspec.structs.replace(known, times=known.times + 1)
        elif len(self._events) < _KEPT_EVENTS:
            self._events[key] = event

    def _guard(self, observe: Callable[[], None]) -> None:
        """Run a part of the observer inside the user's step, which goes on if it fails: an event has the error."""
        try:
            observe()
        except UserError:
            # A mistake in the arguments of a listener, which the user has to know.
            raise
        except Exception as error:
            self.note_event("failed", type(error).__name__, detail=short_reason(error))
            if self._sample is not None:
                self._sample.close()
            # Its figures would be incomplete.
            self._sample = None

    @property
    def scale(self) -> float:
        """The loss scale of the present step; 1.0 without scaling."""
        return float(self._scaler.get_scale()) if self._scaler is not None else 1.0

    def _begin_step(self) -> None:
        self._was_updated = self._is_unscaled = False
        self._loss = None
        self._started = perf_counter()
        if self._number % self._every == 0:
            self._sample = SampledTraining(self._number, self._watched, self._noise, self.note_event)
            self._sample.begin(lambda: self.scale)

    def _measure_gradients(self) -> None:
        if self._sample is None:
            return
        scale = 1.0 if self._is_unscaled else self.scale
        with torch.no_grad():
            if self._sample.measure_gradients(scale) and self.listeners:
                self._tell_listeners(self._sample, scale)

    def _tell_listeners(self, sample: SampledTraining, scale: float) -> None:
        arrays, formats = {}, {}
        for name, parameter in self._watched.parameters.items():
            if parameter.grad is not None and is_measurable(parameter.grad):
                arrays[name] = (parameter.grad.detach().double() / scale).cpu().numpy()
                formats[name] = sample.format_of(parameter)
        step = StepGradients(self._number, _number(self._loss), self.scale, arrays, formats)
        for listener in self.listeners:
            listener(step)

    def _before_update(self, *, has_closure: bool) -> None:
        if self._sample is None:
            return
        with torch.no_grad():
            if not has_closure:
                self._measure_gradients()
            self._sample.before_update(has_closure=has_closure)

    def _after_update(self) -> None:
        found_inf = getattr(self._watched.optimizer, "found_inf", None)
        self._was_updated = found_inf is None or not bool(found_inf)
        if self._sample is not None:
            with torch.no_grad():
                self._measure_gradients()  # of a closure, which has now run
                if self._was_updated:
                    self._sample.after_update()

    def _end_step(self) -> None:
        is_sampled = self._sample is not None
        self._guard(self._keep_step)
        if self._started is not None:
            self._durations[is_sampled].append(perf_counter() - self._started)
            self._counts[is_sampled] += 1
        self._sample = None
        self._number += 1
        self._begin_step()

    def _keep_step(self) -> None:
        if self._loss is not None:
            self._losses.append((self._number, self._loss))
            self._points += 1
        if self._sample is None:
            return
        scale, loss = self.scale, _number(self._loss)
        kept = self._sample.end(_finite(loss), scale, is_skipped=not self._was_updated)
        if len(self._steps) == self._steps.maxlen:
            self._dropped += 1
        self._steps.append(kept)

    def _watch_scaler(self, me: Callable[[], TrainingObserver | None]) -> None:
        # These functions do not keep the observer alive: the scaler may outlive it.
        scaler = self._scaler
        unscale, update, scale = scaler.unscale_, scaler.update, scaler.scale

        def watched_unscale(optimizer: Any) -> Any:
            observer = me()
            is_mine = observer is not None and optimizer is observer._watched.optimizer
            if observer is not None and is_mine:
                observer._guard(observer._measure_gradients)
            found = unscale(optimizer)
            if observer is not None and is_mine:
                observer._is_unscaled = True
            return found

        def watched_update(*arguments: Any, **named: Any) -> Any:
            if (observer := me()) is not None:
                observer._guard(observer._end_scaled_step)
            return update(*arguments, **named)

        def watched_scale(outputs: Any) -> Any:
            if (observer := me()) is not None:
                observer._guard(lambda: observer._add_loss(outputs))
            return scale(outputs)

        def state_without_observer() -> Any:
            # Copies and files of the scaler take its state from here.
            kind: Any = type(scaler)
            state = kind.__getstate__(scaler)
            return {key: value for key, value in state.items() if key not in watched}

        watched = {
            "unscale_": watched_unscale,
            "update": watched_update,
            "scale": watched_scale,
            "__getstate__": state_without_observer,
        }
        for name, function in watched.items():
            setattr(scaler, name, function)
            self._running.callback(scaler.__dict__.pop, name, None)

    def _add_loss(self, outputs: Any) -> None:
        if isinstance(outputs, torch.Tensor) and outputs.numel() == 1:
            self.note_loss(outputs if self._loss is None else self._loss + outputs.detach())

    def _end_scaled_step(self) -> None:
        self._scales.append(ScalerPoint(self._number, self.scale, not self._was_updated))
        self._measure_gradients()
        self._end_step()

    def _watch_clipping(self, me: Callable[[], TrainingObserver | None]) -> None:
        # clip_grad_norm_ finds this function in its module, also where the user's module imported it by name.
        usual = clip_grad._clip_grads_with_norm_

        def clip(parameters: Any, max_norm: float, total_norm: Any, *arguments: Any, **named: Any) -> Any:
            if (observer := me()) is not None and observer._is_running:
                observer._guard(lambda: observer._see_clipping(float(max_norm), total_norm))
            return usual(parameters, max_norm, total_norm, *arguments, **named)

        def restore() -> None:
            # Another observer that started later has put its own in place, and calls this one, which then does nothing.
            if clip_grad._clip_grads_with_norm_ is clip:
                clip_grad._clip_grads_with_norm_ = usual

        clip_grad._clip_grads_with_norm_ = clip
        self._running.callback(restore)

    def _see_clipping(self, limit: float, norm: Any) -> None:
        self._measure_gradients()
        scale = self.scale
        is_scaled = scale != 1.0 and not self._is_unscaled
        self._clips.append((self._number, norm.detach().clone(), limit, scale if is_scaled else 1.0, is_scaled))

    @property
    def is_updated(self) -> bool:
        """Return whether the optimizer has updated its weights in a step that has not ended: scaler.update ends it."""
        return self._was_updated

    @property
    def overhead(self) -> MonitorOverhead:
        """The additional time of the sampled steps over the time of all steps without an observer."""
        sampled, others = self._counts[True], self._counts[False]
        medians = {key: median(each) if each else None for key, each in self._durations.items()}
        share = None
        sampled_s, others_s = medians[True], medians[False]
        if sampled_s is not None and others_s is not None and min(sampled, others) >= _MIN_DURATIONS and others_s > 0:
            share = sampled * (sampled_s - others_s) / ((sampled + others) * others_s)
        return MonitorOverhead(sampled, others, sampled_s, others_s, share)

    @property
    def record(self) -> TrainingRecord:
        """Everything that was kept so far."""
        by_steps = tuple(self._noise.batches.result()) or tuple(self._noise.steps.result())
        return TrainingRecord(
            model=type(self._model).__name__,
            optimizer=type(self._watched.optimizer).__name__,
            every=self._every,
            begun=self._number,
            dropped=self._dropped,
            steps=tuple(self._steps),
            losses=tuple(StepLoss(step, _finite(_number(loss))) for step, loss in self._losses),
            scales=tuple(self._scales),
            clips=tuple(
                ClippedStep(step, float(norm), limit, scale, scaled) for step, norm, limit, scale, scaled in self._clips
            ),
            points_dropped=max(self._points - len(self._losses), 0),
            noise=by_steps,
            events=(*self._events.values(), *self._bad_between_samples(), *self._missing_gradients()),
            overhead=self.overhead,
        )

    def _bad_between_samples(self) -> Iterator[TrainingEvent]:
        """Yield an event for losses and norms that are not finite, of steps that were not sampled."""
        # A scaler overflows on purpose, and skips the step.
        skipped = {point.step for point in self._scales if point.is_skipped}
        norms = [(step, norm) for step, norm, *_ in self._clips if step not in skipped]
        places: tuple[tuple[NonfinitePhase, Iterable[tuple[int, Any]]], ...]
        places = (("loss", self._losses), ("gradient", norms))
        for phase, points in places:
            steps = [step for step, value in points if step % self._every and not isfinite(float(value))]
            if steps:
                yield TrainingEvent(kind="not_located", step=steps[0], phase=phase, times=len(steps))

    def _missing_gradients(self) -> list[TrainingEvent]:
        if not self._steps:
            return []
        seen = {each.parameter for step in self._steps for each in step.parameters}
        given = {id(each) for group in self._watched.optimizer.param_groups for each in group["params"]}
        sparse = {name for kind, name, *_ in self._events if kind == "sparse"}
        return [
            TrainingEvent(kind="no_gradient", step=self._steps[0].step, name=name, times=len(self._steps))
            for name, each in self._watched.parameters.items()
            if id(each) in given and name not in seen and name not in sparse
        ]

    def __str__(self) -> str:
        """Return the answer, the table of gradients and updates, and the events, as `precreg training` prints them."""
        return repr(self) if self._render_text is None else self._render_text(self.record)

    def write_html(self, path: str | Path) -> None:
        """Write the heat maps and tables as one page. Raises OSError."""
        assert self._render is not None, "precreg.observe gives the page"
        replace_file(Path(path), self._render(self.record).encode())

    def write_json(self, path: str | Path) -> None:
        """Write the record as JSON. Raises OSError."""
        replace_file(Path(path), msgspec.json.format(msgspec.json.encode(self.record), indent=1))


def _checked_loss(loss: Any) -> Any:
    if isinstance(loss, torch.Tensor):
        if loss.numel() == 1 and not loss.is_complex():
            return loss.detach().clone()
        got = f"a tensor of {loss.dtype} and shape {tuple(loss.shape)}"
    else:
        try:
            return float(loss)
        except (TypeError, ValueError):
            got = f"{loss!r} of type {type(loss).__name__}"
    raise UserError(
        "bad-value",
        f"expected a loss of one element but got {got:.100}",
        hint="note the mean: observer.note_loss(losses.mean())",
    )


def _number(loss: Any) -> float | None:
    return None if loss is None else float(loss)


def _finite(loss: float | None) -> float | None:
    return loss if loss is not None and isfinite(loss) else None


def watch_training(model: Any, optimizer: Any, elements: int | None, format: str | None) -> tuple[Watched, list[str]]:
    """Return what an observer watches, and the names that it gives to tensors that the model does not name.

    Raises UserError: bad-value for a model, an optimizer or a count that is none; unknown-format.
    """
    require_watchable(model, "precreg.observe(model, optimizer)")
    if isinstance(optimizer, list | tuple):
        raise UserError(
            "bad-value",
            f"expected one optimizer but got {len(optimizer)}",
            hint="observe each optimizer with an observer of its own: observe(model, optimizers[0])",
        )
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UserError(
            "bad-value",
            f"expected a torch.optim.Optimizer but got optimizer of type {type(optimizer).__name__}",
            hint="give the optimizer itself: observe(model, torch.optim.SGD(model.parameters(), lr=0.1))",
        )
    of_model = dict(model.named_parameters())
    named: Mapping[str, Any] = {name: each for name, each in of_model.items() if each.requires_grad}
    known = {id(each) for each in of_model.values()}
    given = [each for group in optimizer.param_groups for each in group["params"]]
    unnamed = {f"unnamed.{place}": each for place, each in enumerate(given) if id(each) not in known}
    every = {**named, **unnamed}
    found = None if format is None else format_named(format)
    return Watched(select_layers(model, None), every, optimizer, elements, found), list(unnamed)


def start_observer(
    model: Any,
    optimizer: Any,
    scaler: Any,
    *,
    every: int,
    keep: int,
    elements: int | None,
    format: str | None = None,
    render: Callable[[TrainingRecord], str] | None = None,
    render_text: Callable[[TrainingRecord], str] | None = None,
) -> TrainingObserver:
    """Return an observer that has not started; `precreg.observe` describes the arguments.

    Raises UserError: bad-value for a wrong argument; unknown-format.
    """
    for name, value in (("every", every), ("keep", keep), ("elements", elements)):
        if value is None and name == "elements":
            continue
        if type(value) is not int or value < 1:
            raise UserError(
                "bad-value",
                f"expected a whole number from 1 but got {name}={value!r}",
                hint=f"write a number: precreg.observe(model, optimizer, {name}=100)",
            )
    if scaler is not None and not hasattr(scaler, "unscale_"):
        raise UserError(
            "bad-value",
            f"expected a torch.amp.GradScaler but got scaler of type {type(scaler).__name__}",
            hint="give the scaler, or none: precreg.observe(model, optimizer, torch.amp.GradScaler('cpu'))",
        )
    watched, unnamed = watch_training(model, optimizer, elements, format)
    is_scaled = scaler is not None and scaler.is_enabled()
    observer = TrainingObserver(watched, model, scaler if is_scaled else None, every, keep, render, render_text)
    for name in unnamed:
        observer.note_event("unnamed", name)
    return observer
