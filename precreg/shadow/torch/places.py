"""Which line of the user's code, which module and which phase does an operation belong to?

A backward operation belongs to the line and the module of the forward operation whose derivative it computes. torch
numbers the nodes of its graph of derivatives, and forward operations note the number of their node.
"""

from __future__ import annotations

import linecache
import os
import sys
from typing import Any, NamedTuple, Self

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from precreg.arithmetic import user_frame
from precreg.shadow.recorder import Recorder
from precreg.shadow.site import user_site
from precreg.types import Phase, Site

# The frames of torch that start a backward pass, and a function of torch.compile.
_BACKWARD = (os.path.join("torch", "autograd", "graph.py"), "_engine_run_backward")
_COMPILED = (os.path.join("torch", "_dynamo", "eval_frame.py"), "compile_wrapper")


class Place(NamedTuple):
    """The site and the phase of an operation, and the site of the compiled region that it runs in, if it does."""

    site: Site
    phase: Phase
    compiled: Site | None = None


class OperationPlaces:
    """Follow the modules and optimizers that run, inside a `with` block, and find the place of each operation."""

    def __init__(self, recorder: Recorder, module: object = None) -> None:
        self._recorder = recorder
        self._names: dict[int, str] = {}
        self._modules: list[Any] = []
        self._path: list[str] = []
        self._stepping = 0
        self._forward: dict[int, Site] = {}
        self._hooks: list[Any] = []
        if isinstance(module, torch.nn.Module):
            self._learn(module, "")

    def __enter__(self) -> Self:
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
            register_optimizer_step_pre_hook(self._enter_step),
            register_optimizer_step_post_hook(self._leave_step),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._modules.clear()

    def _learn(self, module: Any, root: str) -> None:
        """Give the layers of a module their names. The module itself stays alive, so that its identity is its own."""
        self._modules.append(module)
        for name, each in module.named_modules():
            self._names.setdefault(id(each), ".".join(filter(None, (root, name))))

    def _enter_module(self, module: Any, _inputs: Any) -> None:
        if id(module) not in self._names:
            self._learn(module, ".".join(filter(None, (self._path[-1] if self._path else "", type(module).__name__))))
        self._path.append(self._names[id(module)])

    # A hook that returned a value would replace the output of the module.
    def _leave_module(self, _module: Any, _inputs: Any, _output: Any) -> None:
        if self._path:
            self._path.pop()

    def _enter_step(self, *_: Any) -> None:
        self._stepping += 1

    def _leave_step(self, *_: Any) -> None:
        self._stepping -= 1

    def note_node(self) -> None:
        """Note the place of an operation that needs no record."""
        if torch.is_grad_enabled() and torch._C._current_autograd_node() is None:
            self.find()

    def find(self) -> Place:
        """Return the place of the operation that torch dispatches now."""
        node = torch._C._current_autograd_node()
        frame = user_frame(2)
        if node is not None and _has_frame(_BACKWARD, until=frame):
            found = self._forward.get(node._sequence_nr())
            return Place(found if found is not None else user_site("", 2), "backward")
        site = user_site(self._path[-1] if self._path else "", 2)
        if node is None and torch.is_grad_enabled():
            # The first operation of a node is its own: views and detached copies follow.
            self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, site)
        phase = self._recorder.phase
        if node is not None:
            phase = "backward"
        elif self._stepping > 0:
            phase = "optimizer"
        return Place(site, phase, compiled_region())


def compiled_region() -> Site | None:
    """Return the line that called a compiled function which runs now."""
    frame = _frame_of(_COMPILED)
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Site(file, line, linecache.getline(file, line).strip())


def _has_frame(wanted: tuple[str, str], until: Any) -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None and frame is not until:
        if frame.f_code.co_name == wanted[1] and frame.f_code.co_filename.endswith(wanted[0]):
            return True
        frame = frame.f_back
    return False


def _frame_of(wanted: tuple[str, str]) -> Any:
    """Return the user's frame that called the wanted one, from the innermost."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == wanted[1] and frame.f_code.co_filename.endswith(wanted[0]):
            return frame.f_back
        frame = frame.f_back
    return None
