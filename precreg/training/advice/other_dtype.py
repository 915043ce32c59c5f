"""How does code that names float16 compute in bfloat16?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# A view takes bits as they are.
_BITS = {torch.Tensor.view, torch.Tensor.view_as}


class _Replacement(TorchFunctionMode):  # type: ignore[misc]
    """Replace float16 in the arguments of functions of torch."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func in _BITS:
            return func(*args, **named)
        if func is torch.Tensor.half:
            return args[0].to(torch.bfloat16)
        return func(*map(_replace, args), **{name: _replace(value) for name, value in named.items()})


def _replace(value: Any) -> Any:
    return torch.bfloat16 if isinstance(value, torch.dtype) and value == torch.float16 else value


@contextmanager
def bfloat16_for_float16() -> Iterator[None]:
    """Compute in bfloat16 inside where code names float16, also in autocast."""
    usual = torch.autocast.__init__

    def begin(self: Any, device_type: str, dtype: Any = None, *arguments: Any, **named: Any) -> None:
        usual(self, device_type, _replace(dtype), *arguments, **named)

    torch.autocast.__init__ = begin
    try:
        with _Replacement():
            yield
    finally:
        torch.autocast.__init__ = usual
