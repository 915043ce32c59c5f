"""Which steps of a module does a monitor sample, and which figures does it keep of them?

A step begins with a forward pass of the module. A sampled step ends with the update of the module's weights, with the
forward pass if no gradient can follow, or with the next step.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from types import FrameType
from typing import Any, Self

import msgspec
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from precreg.errors import UserError
from precreg.shadow.monitor.error_map import ErrorMap, MonitorMetric, map_errors
from precreg.shadow.monitor.lockstep import Lockstep
from precreg.shadow.monitor.sampling import Hook, SampledStep
from precreg.shadow.monitor.selection import require_watchable, select_layers
from precreg.storage import replace_file
from precreg.types import (
    MonitoredStep,
    MonitorEvent,
    MonitorEventKind,
    MonitorOverhead,
    MonitorRecord,
    TensorRole,
)

# Durations behind the medians of the overhead, and events of one name and reason.
_KEPT_DURATIONS = 1000
_KEPT_EVENTS = 500

# The frame of torch that calls a hook of a forward pass, seen from a method of the monitor.
_TORCH_FRAME = 4


class Monitor:
    """Measure the layers of a module at every Nth step; docs/monitor.md has examples.

    Results of the module keep their bits. The monitor starts and stops with a `with` block, or with its methods.
    """

    def __init__(
        self,
        model: Any,
        layers: Sequence[str] | None,
        every: int,
        keep: int,
        render: Callable[[MonitorRecord], str],
    ) -> None:
        require_watchable(model)
        for name, value in (("every", every), ("keep", keep)):
            if type(value) is not int or value < 1:
                raise UserError(
                    "bad-value",
                    f"expected a whole number of steps from 1 but got {name}={value!r}",
                    hint=f"write a number: precreg.monitor(model, {name}=100)",
                )
        self._model, self._every, self._render = model, every, render
        self._layers = select_layers(model, layers)
        self._steps: deque[MonitoredStep] = deque(maxlen=keep)
        self._events: dict[tuple[str, str, str], MonitorEvent] = {}
        self._durations = {True: deque[float](maxlen=_KEPT_DURATIONS), False: deque[float](maxlen=_KEPT_DURATIONS)}
        self._counts = {True: 0, False: 0}
        self._begun = self._dropped = 0
        self._sample: SampledStep | None = None
        self._is_alone = True
        self._lingering: list[Lockstep] = []
        self._forward: tuple[FrameType, ...] = ()
        self._last: tuple[bool, float] | None = None
        self._handles: list[Any] = []

    def start(self) -> Self:
        """Begin to count and sample the steps of the module."""
        if not self._handles:
            me = weakref.ref(self)

            def call(method: str, *arguments: Any) -> None:
                if (monitor := me()) is not None:
                    getattr(monitor, method)(*arguments)

            before = Hook(lambda *_: call("_begin_forward"))
            after = Hook(lambda _module, _inputs, output: call("_end_forward", output))
            self._handles = [
                self._model.register_forward_pre_hook(before, prepend=True),
                self._model.register_forward_hook(after, always_call=True),
            ]
        return self

    def stop(self) -> None:
        """End a sampled step that still runs, and leave the module as it was."""
        self._end_sample()
        for handle in self._handles:
            handle.remove()
        self._handles, self._last, self._forward = [], None, ()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _begin_forward(self) -> None:
        if self._is_inside_forward():
            return
        # torch calls the hooks of a pass from one of these frames, those after an exception from the outer one.
        inner = sys._getframe(_TORCH_FRAME)
        self._forward = tuple(filter(None, (inner, inner.f_back)))
        self._end_sample()
        now = perf_counter()
        if self._last is not None:
            was_sampled, started = self._last
            self._durations[was_sampled].append(now - started)
            self._counts[was_sampled] += 1
        number, self._begun = self._begun, self._begun + 1
        is_sampled = number % self._every == 0
        self._last = (is_sampled, now)
        if is_sampled:
            self._is_alone = _get_current_dispatch_mode() is None
            self._sample = SampledStep(number, self._layers, self._note, self._end_sample)
            self._sample.begin({id(each) for each in self._model.parameters()})

    def _is_inside_forward(self) -> bool:
        """Return whether a forward pass of the module runs already: a module may call itself."""
        # An interrupted pass ends without its hook, so the stack of calls decides.
        frame: FrameType | None = sys._getframe(_TORCH_FRAME) if self._forward else None
        while frame is not None and frame is not self._forward[0]:
            frame = frame.f_back
        return frame is not None

    def _end_forward(self, output: object) -> None:
        if sys._getframe(_TORCH_FRAME) not in self._forward:
            return
        self._forward = ()
        if self._sample is None:
            return
        tensors = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor)]
        if output is None:
            self._note("interrupted", type(self._model).__name__, "")
        if not self._is_alone:
            # The other mode ends before this one would, and modes end in the order of a stack.
            self._note("forward_only", type(self._model).__name__, "")
        if not self._is_alone or not any(each.requires_grad for each in tensors):
            self._end_sample()

    def _end_sample(self) -> None:
        self._lingering = [each for each in self._lingering if not each.leave()]
        if self._sample is None:
            return
        sample, self._sample = self._sample, None
        if len(self._steps) == self._steps.maxlen:
            self._dropped += 1
        self._steps.append(sample.end())
        if not sample.lockstep.leave():
            self._lingering.append(sample.lockstep)
            self._note("other_thread", type(self._model).__name__, "")

    def _note(self, kind: MonitorEventKind, name: str, detail: str) -> None:
        key = (kind, name, detail)
        found = self._events.get(key)
        if found is not None:
            self._events[key] = msgspec.structs.replace(found, times=found.times + 1)
        elif len(self._events) < _KEPT_EVENTS:
            self._events[key] = MonitorEvent(kind, name, self._begun - 1, 1, detail)

    @property
    def overhead(self) -> MonitorOverhead:
        """Return the measured cost, from the beginning of each step to the beginning of the next."""
        sampled, others = (median(self._durations[each]) if self._durations[each] else None for each in (True, False))
        share = None
        if sampled is not None and others:
            share = self._counts[True] * (sampled - others) / (sum(self._counts.values()) * others)
        return MonitorOverhead(self._counts[True], self._counts[False], sampled, others, share)

    @property
    def record(self) -> MonitorRecord:
        """Return everything that the monitor has kept so far."""
        return MonitorRecord(
            model=type(self._model).__name__,
            layers=tuple(self._layers),
            every=self._every,
            begun=self._begun,
            dropped=self._dropped,
            steps=tuple(self._steps),
            events=tuple(self._events.values()),
            overhead=self.overhead,
        )

    def error_map(self, metric: MonitorMetric = "own", role: TensorRole = "activation") -> ErrorMap:
        """Return a metric of the layers at the sampled steps; of several calls or outputs, the largest size."""
        return map_errors(self.record, metric, role)

    def write_html(self, path: str | Path) -> None:
        """Write the heat maps and tables as one page. Raises OSError."""
        replace_file(Path(path), self._render(self.record).encode())

    def write_json(self, path: str | Path) -> None:
        """Write the record as JSON. Raises OSError."""
        replace_file(Path(path), msgspec.json.format(msgspec.json.encode(self.record), indent=1))
