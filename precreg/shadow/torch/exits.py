"""Which values leave the sight of torch's dispatch, or come into it: arrays, lists, memory, other threads?"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from precreg.shadow.site import user_site
from precreg.shadow.torch.twins import Twins, array_of, is_shadowed, may_be_long, upcast
from precreg.types import EventKind, Site

# Methods of tensors that hand their memory out, by the name that the user wrote.
_HAND_OUT = ("data_ptr", "__dlpack__", "tolist")
# Functions of torch that make tensors of arrays.
_TAKE_IN = ("from_numpy", "as_tensor", "tensor", "asarray", "from_dlpack")
_PRECREG = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep


class EventNotes(Protocol):
    """Take the events of a computation, as a recorder does."""

    def note_event(
        self, kind: EventKind, name: str, site: Site, changed: int = 0, elements: int = 0, detail: str = ""
    ) -> None:
        """Add an event."""


class ArrayShadows(Protocol):
    """Know the shadows of arrays, as the engine of numpy does."""

    def take(self, array: Any, shadow: Any) -> Any:
        """Return an array of another engine as a watched one, which shares the memory of its shadow if it can."""

    def exact_of(self, array: Any) -> Any:
        """Return the shadow of an array, as a view if it has one in float64; None if the engine does not know it."""

    def is_foreign(self, array: Any) -> bool:
        """Return whether code without a trace computed an array."""


class Exits:
    """Watch these ways out inside a `with` block. An array that becomes an output has the tensor's shadow.

    With `arrays` shadows go along, from tensors into arrays and back.
    """

    def __init__(self, recorder: EventNotes, twins: Twins, arrays: ArrayShadows | None = None) -> None:
        self._recorder, self._twins, self._engine = recorder, twins, arrays
        self._thread = threading.current_thread()
        self._replaced: list[tuple[Any, str, Any]] = []
        # Arrays share the memory of their tensors, which stay alive here.
        self._arrays: dict[int, tuple[Any, Any, Site]] = {}

    def __enter__(self) -> Self:
        self._thread = threading.current_thread()
        self._replace(torch.Tensor, "numpy", self._to_array)
        for name in _HAND_OUT:
            self._replace(torch.Tensor, name, self._out)
        self._replace(threading.Thread, "start", self._start)
        for name in _TAKE_IN if self._engine is not None else ():
            self._replace(torch, name, self._take_in)
        return self

    def __exit__(self, *exception: object) -> None:
        while self._replaced:
            owner, name, usual = self._replaced.pop()
            # Tensors inherit most methods.
            delattr(owner, name) if usual is None else setattr(owner, name, usual)
        for _, tensor, site in self._arrays.values():
            kind: EventKind = "cut" if self._engine is None else "shares_cut"
            self._recorder.note_event(kind, "numpy", site, elements=tensor.numel())
        self._arrays.clear()

    def _replace(self, owner: Any, name: str, watch: Callable[..., Any]) -> None:
        usual = getattr(owner, name)

        def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            return watch(name, usual, self, args, kwargs)

        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, watched)

    def _is_asked(self, libraries: tuple[str, ...]) -> bool:
        """Return whether the traced thread asks, and no library's own code."""
        asks = sys._getframe(3).f_code.co_filename
        return threading.current_thread() is self._thread and not asks.startswith(libraries)

    def _loses(self, tensor: Any) -> bool:
        """Return whether a tensor's values differ from its shadow, which it loses here."""
        if not is_shadowed(tensor):
            return False
        with _disable_current_modes():
            return self._twins.differs(tensor)

    def _to_array(self, _name: str, usual: Any, tensor: Any, args: Any, kwargs: Any) -> Any:
        array = usual(tensor, *args, **kwargs)
        # numpy.asarray(tensor) arrives here through torch.
        if not is_shadowed(tensor) or not self._is_asked((_PRECREG,)):
            return array
        if self._engine is not None and self._twins.is_unmeasured(tensor):
            count = tensor.numel()
            self._recorder.note_event("untraced", "numpy", user_site(depth=3), count, count, "plain array")
            return array
        loses = self._loses(tensor)
        if self._engine is not None:
            with _disable_current_modes():
                # Both shadows have one memory, so that a write to either is seen by both.
                self._twins.share(tensor)
                array = self._engine.take(array, self._twins.memory_of(tensor.detach()))
        if loses:
            self._arrays.setdefault(id(array), (array, tensor.detach(), user_site(depth=3)))
        return array

    def _take_in(self, name: str, usual: Any, value: Any, args: Any, kwargs: Any) -> Any:
        if self._engine is None or not isinstance(value, np.ndarray) or not self._is_asked((_PRECREG,)):
            return usual(value, *args, **kwargs)
        # The engine of numpy takes an export of memory for a way out, which it is not if the tensor gets the shadow.
        given = np.ndarray.view(value, np.ndarray) if name == "from_dlpack" else value
        tensor = usual(given, *args, **kwargs)
        if is_shadowed(tensor) and value.dtype.kind in "fc":
            with _disable_current_modes():
                self._give_twin(name, value, tensor)
        return tensor

    def _give_twin(self, name: str, array: Any, tensor: Any) -> None:
        """Give the tensor of an array the array's shadow; note an array that no engine knows."""
        assert self._engine is not None
        site, count = user_site(depth=4), tensor.numel()
        exact = self._engine.exact_of(array)
        if exact is None:
            self._recorder.note_event("untraced", name, site, count, count, "plain array")
            if self._engine.is_foreign(array):
                self._twins.mark_unknown(tensor)
            return
        if exact.dtype == np.longdouble and may_be_long(tensor):
            if not np.array_equal(exact, array_of(tensor), equal_nan=True):
                self._twins.make_long(tensor)[...] = exact
                self._recorder.note_event("shares_cut", name, site, elements=count)
            return
        shadow = torch.from_numpy(exact.astype(exact.dtype.str.replace("f16", "f8").replace("c32", "c16"), copy=False))
        if not torch.equal(shadow, upcast(tensor)):
            self._twins.put(tensor, shadow, set())
            self._recorder.note_event("shares_cut", name, site, elements=count)

    def _out(self, name: str, usual: Any, tensor: Any, args: Any, kwargs: Any) -> Any:
        if self._is_asked((_PRECREG, _TORCH)) and self._loses(tensor):
            self._recorder.note_event("cut", name, user_site(depth=3), elements=tensor.numel())
        return usual(tensor, *args, **kwargs)

    def _start(self, _name: str, usual: Any, thread: Any, args: Any, kwargs: Any) -> Any:
        if threading.current_thread() is self._thread:
            self._recorder.note_event("untraced", "thread", user_site(depth=3))
        return usual(thread, *args, **kwargs)

    def output_of(self, value: object) -> Any:
        """Return the tensor of an array that is an output; any other value unchanged."""
        tensor = self.tensor_of(value) if self._engine is not None else None
        return value if tensor is None else tensor

    def tensor_of(self, value: object) -> Any:
        """Return the tensor whose memory an array is, and take the array as an output; None for any other value."""
        found = self._arrays.get(id(value)) if isinstance(value, np.ndarray) else None
        if found is None or found[0] is not value:
            return None
        del self._arrays[id(value)]
        return found[1]
