"""Which values leave the sight of torch's dispatch: as arrays, lists, memory, or into other threads?"""

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
from precreg.shadow.torch.twins import Twins, is_shadowed
from precreg.types import EventKind, Site

# Methods of tensors that hand their memory out, by the name that the user wrote.
_HAND_OUT = ("data_ptr", "__dlpack__", "tolist")
_PRECREG = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep


class EventNotes(Protocol):
    """Take the events of a computation, as a recorder does."""

    def note_event(
        self, kind: EventKind, name: str, site: Site, changed: int = 0, elements: int = 0, detail: str = ""
    ) -> None:
        """Add an event."""


class Exits:
    """Watch these ways out inside a `with` block. An array that becomes an output has the tensor's shadow."""

    def __init__(self, recorder: EventNotes, twins: Twins) -> None:
        self._recorder, self._twins = recorder, twins
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
        return self

    def __exit__(self, *exception: object) -> None:
        while self._replaced:
            owner, name, usual = self._replaced.pop()
            # Tensors inherit most methods.
            delattr(owner, name) if usual is None else setattr(owner, name, usual)
        for _, tensor, site in self._arrays.values():
            self._recorder.note_event("cut", "numpy", site, elements=tensor.numel())
        self._arrays.clear()

    def _replace(self, owner: Any, name: str, watch: Callable[..., Any]) -> None:
        usual = getattr(owner, name)

        def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            return watch(name, usual, self, args, kwargs)

        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, watched)

    def _loses(self, tensor: Any, libraries: tuple[str, ...]) -> bool:
        """Return whether a tensor loses a shadow here, and no library's own code asks for it."""
        asks = sys._getframe(3).f_code.co_filename
        if threading.current_thread() is not self._thread or asks.startswith(libraries):
            return False
        if not is_shadowed(tensor):
            return False
        with _disable_current_modes():
            return self._twins.differs(tensor)

    def _to_array(self, _name: str, usual: Any, tensor: Any, args: Any, kwargs: Any) -> Any:
        array = usual(tensor, *args, **kwargs)
        # numpy.asarray(tensor) arrives here through torch.
        if self._loses(tensor, (_PRECREG,)):
            self._arrays.setdefault(id(array), (array, tensor.detach(), user_site(depth=3)))
        return array

    def _out(self, name: str, usual: Any, tensor: Any, args: Any, kwargs: Any) -> Any:
        if self._loses(tensor, (_PRECREG, _TORCH)):
            self._recorder.note_event("cut", name, user_site(depth=3), elements=tensor.numel())
        return usual(tensor, *args, **kwargs)

    def _start(self, _name: str, usual: Any, thread: Any, args: Any, kwargs: Any) -> Any:
        if threading.current_thread() is self._thread:
            self._recorder.note_event("untraced", "thread", user_site(depth=3))
        return usual(thread, *args, **kwargs)

    def tensor_of(self, value: object) -> Any:
        """Return the tensor whose memory an array is, and take the array as an output; None for any other value."""
        found = self._arrays.get(id(value)) if isinstance(value, np.ndarray) else None
        if found is None or found[0] is not value:
            return None
        del self._arrays[id(value)]
        return found[1]
