"""How does a module that names narrow dtypes in its code compute in float64?

The default reference is the subject's own code. Where that casts to a narrower format, or makes tensors of one, the
reference uses float64 instead. Otherwise a loss in the code would be in the reference, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from precreg.subject.tensors import TORCH_FLOATS

_WIDE = {getattr(torch, name): torch.float64 for name in TORCH_FLOATS if hasattr(torch, name)}
_WIDE |= {torch.complex32: torch.complex128, torch.complex64: torch.complex128}
# Methods whose name is a dtype.
_CASTS = {torch.Tensor.half, torch.Tensor.bfloat16, torch.Tensor.float}
# A view takes bits as they are.
_BITS = {torch.Tensor.view, torch.Tensor.view_as}
# float64 numbers would be others: the generators give float32 its own.
_RANDOM = {torch.randn, torch.rand, torch.normal}


class _Widening(TorchFunctionMode):  # type: ignore[misc]
    """Replace narrow dtypes in the arguments of functions of torch."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in _BITS:
            return func(*args, **(kwargs or {}))
        if func in _CASTS:
            return args[0].to(torch.complex128 if args[0].is_complex() else torch.float64)
        if func in _RANDOM:
            return _widen_result(func(*args, **{"dtype": torch.float32, **(kwargs or {})}))
        wide = {name: _WIDE.get(value, value) if _is_dtype(value) else value for name, value in (kwargs or {}).items()}
        return func(*(_WIDE.get(value, value) if _is_dtype(value) else value for value in args), **wide)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, torch.dtype)


def _widen_result(tensor: Any) -> Any:
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


@contextmanager
def widened() -> Iterator[None]:
    """Compute in float64 inside, whatever dtypes the code names. Restores the default dtype."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widening():
            yield
    finally:
        torch.set_default_dtype(usual)


def widen_module(module: Any) -> Any:
    """Return the module with its floating numbers in float64, and its complex ones in complex128."""
    # float8 has no conversion within Module.double.
    return module._apply(lambda tensor: tensor.to(_WIDE.get(tensor.dtype, tensor.dtype)))
