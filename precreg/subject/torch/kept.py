"""How do some modules of a network compute in a wider dtype than the others?

Weights are first rounded to the dtype of the network, and widened then: so the reference stays as it is. Values that
enter a wider module are widened, and its results are rounded to the dtype of the module around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from precreg.errors import UserError
from precreg.subject.torch.layer_names import select_layers_that_match
from precreg.subject.torch.specification import OWN_SUFFIX

_BITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}


def keep_modules(module: Any, spec: Mapping[str, Any]) -> Any:
    """Return the module after its modules of `keep_in` hold wider weights and convert what enters and leaves them.

    Raises UserError: unknown-node, for a name that no module has; bad-value for a module that two dtypes name.
    """
    wide = _wide_modules(module, spec)
    # A module that autocast computes has its weights in float32.
    narrow = getattr(torch, spec.get("dtype", "float32"))
    named = dict(module.named_modules(remove_duplicate=False))
    _widen_weights(named, wide, {id(each) for name, each in named.items() if name not in wide})
    device = spec.get("on", "cpu").partition(":")[0]
    autocast = (device, getattr(torch, spec["autocast"])) if "autocast" in spec else None
    for name, each in named.items():
        caller, is_wide = _caller(name, named), name in wide
        inner, outer = wide.get(name, narrow), narrow if caller is None else wide.get(caller, narrow)
        if is_wide != (caller in wide) or inner != outer:
            boundary = _Boundary(inner, outer, autocast, is_wide)
            each.register_forward_pre_hook(boundary.enter, with_kwargs=True)
            each.register_forward_hook(boundary.leave, always_call=True)
    return module


def _wide_modules(module: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dtypes of the wider modules by name; the name of the module itself is empty."""
    found: dict[str, Any] = {}
    for dtype, patterns in spec["keep_in"].items():
        for pattern in patterns:
            for name in _names_of(module, spec["torch"], pattern):
                if found.setdefault(name, getattr(torch, dtype)) != getattr(torch, dtype):
                    message = f"expected one dtype for each module of keep_in but got two for {name or OWN_SUFFIX}"
                    raise UserError(
                        "bad-value",
                        message,
                        hint=f"name the module under one dtype: keep_in: {{float32: [{name or OWN_SUFFIX}]}}",
                    )
    return found


def _names_of(module: Any, target: str, pattern: str) -> list[str]:
    is_own = pattern.endswith(OWN_SUFFIX)
    path = pattern.removesuffix(OWN_SUFFIX)
    matched = list(select_layers_that_match(module, target, [path])) if path else [""]
    if is_own:
        return matched
    every = [name for name, _ in module.named_modules(remove_duplicate=False)]
    return [name for name in every if any(name == each or name.startswith(f"{each}.") for each in matched)]


def _caller(name: str, named: Mapping[str, Any]) -> str | None:
    """Return the name of the module whose code calls a module: containers such as ModuleList have no code."""
    while name:
        name = name.rpartition(".")[0]
        if type(named[name]).forward is not torch.nn.Module.forward:
            return name
    return None


def _widen_weights(named: Mapping[str, Any], wide: Mapping[str, Any], narrow: set[int]) -> None:
    shared = {id(weight) for each in named.values() if id(each) in narrow for weight in each._parameters.values()}
    for name, dtype in wide.items():
        module = named[name]
        for key, weight in module._parameters.items():
            if weight is None or not weight.is_floating_point():
                continue
            if id(weight) in shared:
                # A weight that a narrower module uses, too, stays narrow there.
                setattr(module, key, torch.nn.Parameter(weight.data.to(dtype), weight.requires_grad))
            else:
                weight.data = weight.data.to(dtype)
        for key, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                module._buffers[key] = buffer.to(dtype)


class _Boundary:
    """Convert values that enter and leave a module whose caller computes in another dtype. Hooks of one module."""

    def __init__(self, inner: Any, outer: Any, autocast: tuple[str, Any] | None, is_wide: bool) -> None:
        self._inner, self._outer, self._autocast, self._is_wide = inner, outer, autocast, is_wide
        self._entered: list[Any] = []

    def enter(self, _module: Any, arguments: Any, named: Any) -> tuple[Any, Any]:
        """Return the arguments in the module's dtype. Autocast is on in narrow modules alone."""
        if self._autocast is not None:
            device, dtype = self._autocast
            context = torch.autocast(device, dtype=dtype, enabled=not self._is_wide)
            context.__enter__()
            self._entered.append(context)
        convert = _Conversion(self._outer, self._inner)
        return tree_map(convert, arguments), tree_map(convert, named)

    def leave(self, _module: Any, _arguments: Any, output: Any) -> Any:
        """Return the output in the caller's dtype; it is None after an error."""
        if self._entered:
            self._entered.pop().__exit__(None, None, None)
        return tree_map(_Conversion(self._inner, self._outer), output)


class _Conversion(NamedTuple):
    """Convert floating tensors: narrower ones up, or tensors of the source's dtype down."""

    source: Any
    target: Any

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype not in _BITS:
            return value
        is_up = _BITS.get(self.target, 0) >= _BITS.get(self.source, 0)
        fits = _BITS[value.dtype] < _BITS.get(self.target, 0) if is_up else value.dtype == self.source
        return value.to(self.target) if fits else value


def own_weights(module: Any) -> dict[str, int]:
    """Return the number of floating elements of the weights and buffers that each module holds itself, by name."""
    return {
        name: sum(
            each.numel()
            for each in (*module._parameters.values(), *module._buffers.values())
            if each is not None and each.is_floating_point()
        )
        for name, module in module.named_modules(remove_duplicate=False)
    }
