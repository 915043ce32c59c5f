"""What does a rewrite make of one operation of torch?

Each function takes an execution of an operator of ATen and options, and returns another result, in the dtype of the
operator's own result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

# A cast to another dtype, as `tensor.to` and autocast make it.
CAST = "aten._to_copy.default"

_PRODUCTS = ("aten.mm.default", "aten.bmm.default", "aten.addmm.default")


class TorchExecution(NamedTuple):
    """Hold one execution of an operator, and the operators that made recent results, by the identity of the tensor."""

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    origins: Mapping[int, TorchExecution]

    @property
    def name(self) -> str:
        """Return the name of the overload, such as "aten.mm.default"."""
        return str(self.func)

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result, of other arguments if there are any."""
        return self.func(*(args or self.args), **{**self.kwargs, **kwargs})

    def with_argument(self, at: int, value: Any) -> tuple[Any, ...]:
        """Return the arguments with another one at a position."""
        return (*self.args[:at], value, *self.args[at + 1 :])


AlterTorch = Callable[..., Any]


def _each(result: Any, change: Callable[[Any], Any]) -> Any:
    """Change a tensor, or the first tensor of several results: the others are statistics of it."""
    if isinstance(result, tuple | list):
        first = change(result[0]) if _is_floating(result[0]) else result[0]
        return type(result)([first, *result[1:]])
    return change(result) if _is_floating(result) else result


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def through(tensor: Any, format: str) -> Any:
    """Pass a tensor through a narrower dtype."""
    return tensor.to(getattr(torch, format)).to(tensor.dtype)


def tensor_result_through(executed: TorchExecution, *, format: str) -> Any:
    """Pass the result through a narrower dtype."""
    return _each(executed.compute(), lambda each: through(each, format))


def tensor_operand_through(executed: TorchExecution, *, operand: int, format: str) -> Any:
    """Pass one operand through a narrower dtype."""
    return executed.compute(*executed.with_argument(operand, through(executed.args[operand], format)))


def tensor_exact(executed: TorchExecution) -> Any:
    """Compute in float64, and round the result once to the dtype that it has."""
    result = executed.compute()
    wide = executed.func(
        *(_widened(each) for each in executed.args), **{name: _widened(each) for name, each in executed.kwargs.items()}
    )
    if isinstance(result, tuple | list):
        parts = [new.to(old.dtype) if _is_floating(old) else old for new, old in zip(wide, result, strict=True)]
        return type(result)(parts)
    return wide.to(result.dtype) if _is_floating(result) else result


def _widened(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_widened, value))
    if _is_floating(value):
        return value.double()
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


def tensor_without_rounding(executed: TorchExecution) -> Any:
    """Return the operand of a conversion in its wider dtype."""
    return executed.args[0].clone()


def other_argument(executed: TorchExecution, *, operand: int, value: Any) -> Any:
    """Compute with another value of one argument."""
    return executed.compute(*executed.with_argument(operand, value))


def other_option(executed: TorchExecution, *, option: str, value: Any) -> Any:
    """Compute with another value of one named argument."""
    return executed.compute(**{option: value})


def tensor_only_operand(executed: TorchExecution, *, operand: int) -> Any:
    """Return one operand in place of the result."""
    result = executed.compute()
    return executed.args[operand].to(result.dtype).expand_as(result).clone()


def tensor_operand_twice(executed: TorchExecution, *, operand: int) -> Any:
    """Apply the operation to its result and one of its operands once more."""
    return executed.compute(*executed.with_argument(1 - operand, executed.compute()))


def tensor_exchanged_operands(executed: TorchExecution) -> Any:
    """Exchange both operands."""
    result = executed.compute()
    exchanged = executed.compute(executed.args[1], executed.args[0], *executed.args[2:])
    return exchanged if exchanged.shape == result.shape else result


def tensor_by_reciprocal(executed: TorchExecution) -> Any:
    """Multiply by a rounded reciprocal in place of dividing."""
    dividend, divisor = executed.args[:2]
    result = executed.compute()
    inverse = torch.reciprocal(torch.as_tensor(divisor, dtype=result.dtype))
    return (dividend * inverse).to(result.dtype)


def swapped_order(executed: TorchExecution) -> Any:
    """Compute (a / b) c as (a c) / b, and (a b) / c as a (b / c)."""
    first, second = executed.args[:2]
    if "mul" in executed.name:
        for operand, other in ((first, second), (second, first)):
            made = executed.origins.get(id(operand))
            if made is not None and "div" in made.name:
                return (made.args[0] * other) / made.args[1]
    made = executed.origins.get(id(first))
    if "div" in executed.name and made is not None and "mul" in made.name:
        return made.args[0] * (made.args[1] / second)
    return executed.compute()


def tensor_transposed_operand(executed: TorchExecution, *, operand: int) -> Any:
    """Exchange the last two axes of one operand."""
    return executed.compute(*executed.with_argument(operand, executed.args[operand].transpose(-1, -2)))


def tensor_scaled_result(executed: TorchExecution, *, factor: float) -> Any:
    """Multiply the result by a constant."""
    return _each(executed.compute(), lambda each: each * factor)


def tensor_shifted(executed: TorchExecution, *, axis: int, by: int) -> Any:
    """Move the elements of the result along an axis."""
    return _each(executed.compute(), lambda each: torch.roll(each, by, axis))


def tensor_result_tail(executed: TorchExecution, *, block: int, way: str) -> Any:
    """Alter the elements beyond the last full block along the last axis (see `tail_altered` for numpy)."""
    return _each(executed.compute(), lambda each: _tail(each, block, way))


def _tail(tensor: Any, block: int, way: str) -> Any:
    rest = tensor.shape[-1] % block
    start = tensor.shape[-1] - rest
    altered = tensor.clone()
    if way == "early":
        altered[..., start:] = tensor[..., start - 1 : -1]
    elif way == "zero":
        altered[..., start:] = 0
    elif way == "stale":
        altered[..., start:] = tensor[..., start - block : start - block + rest]
    else:
        altered[..., start:] = tensor[..., start - 1 : start]
    return altered


def is_product(name: str) -> bool:
    """Return whether an operator multiplies matrices."""
    return name in _PRODUCTS


def tensor_summed_in_blocks(executed: TorchExecution, *, block: int, format: str = "") -> Any:
    """Multiply blocks of the shared axis, and add their products one after another, maybe in a narrower dtype."""
    at = 1 if "addmm" in executed.name else 0
    first, second = executed.args[at : at + 2]
    result = executed.compute()
    multiply = torch.bmm if first.ndim == 3 else torch.mm
    starts = range(0, first.shape[-1], block)
    parts = (multiply(first[..., k : k + block], second[..., k : k + block, :]) for k in starts)
    total = next(parts)
    for part in parts:
        total = through(total + part, format) if format else total + part
    return (total if at == 0 else executed.args[0] + total).to(result.dtype)


def reversed_sum(executed: TorchExecution) -> Any:
    """Add the terms of a product or a sum from the last to the first."""
    if is_product(executed.name):
        at = 1 if "addmm" in executed.name else 0
        first, second = executed.args[at : at + 2]
        return executed.compute(*executed.args[:at], first.flip(-1), second.flip(-2))
    return executed.compute(executed.args[0].flip(-1), *executed.args[1:])
