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

    def origin_of(self, operand: Any, name: str) -> tuple[Any, ...] | None:
        """Return both operands of the recent operator of a name that made an operand; None for others."""
        made = self.origins.get(id(operand))
        is_made = made is not None and f"aten.{name}." in made.name and not made.kwargs
        return made.args[:2] if made is not None and is_made else None

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
        *(_converted(each, torch.float64) for each in executed.args),
        **{name: _converted(each, torch.float64) for name, each in executed.kwargs.items()},
    )
    if isinstance(result, tuple | list):
        parts = [new.to(old.dtype) if _is_floating(old) else old for new, old in zip(wide, result, strict=True)]
        return type(result)(parts)
    return wide.to(result.dtype) if _is_floating(result) else result


def _converted(value: Any, dtype: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_converted(each, dtype) for each in value)
    if _is_floating(value):
        return value.to(dtype)
    return dtype if isinstance(value, torch.dtype) and value.is_floating_point else value


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


def swapped_order(executed: TorchExecution, *, factor: int) -> Any:
    """Compute (a / b) c as (a c) / b or a (c / b), and (a b) / c as a (b / c) or (a / c) b.

    `factor` is the form: 0 for the first one, 1 for the second one.
    """
    first, second = executed.args[:2]
    if "mul" in executed.name:
        for operand, other in ((first, second), (second, first)):
            made = executed.origin_of(operand, "div")
            if made is not None:
                return (made[0] * other) / made[1] if factor == 0 else made[0] * (other / made[1])
    made = executed.origin_of(first, "mul") if "div" in executed.name else None
    if made is None:
        return executed.compute()
    return made[0] * (made[1] / second) if factor == 0 else (made[0] / second) * made[1]


def tensor_reassociated(executed: TorchExecution, *, form: int) -> Any:
    """Compute sums and products of three operands in another order, and quotients by one divisor or by two.

    `form` chooses the inner operand that is combined last.
    """
    first, second = executed.args[:2]
    if "div" in executed.name:
        factors, quotient = executed.origin_of(second, "mul"), executed.origin_of(first, "div")
        if factors is not None:
            return first / factors[form] / factors[1 - form]
        return executed.compute() if quotient is None else quotient[0] / (quotient[1] * second)
    name = "mul" if "mul" in executed.name else "add"
    for operand, other in ((first, second), (second, first)):
        found = executed.origin_of(operand, name)
        if found is not None:
            inner = found[1 - form] * other if name == "mul" else found[1 - form] + other
            return found[form] * inner if name == "mul" else found[form] + inner
    return executed.compute()


def tensor_dropped_operand(executed: TorchExecution, *, operand: int) -> Any:
    """Leave an optional tensor out, such as a weight or a bias."""
    if is_linear(executed.name):
        return executed.compute(beta=0)
    return executed.compute(*executed.with_argument(operand, None))


def tensor_bias_twice(executed: TorchExecution, *, operand: int) -> Any:
    """Add a bias to the result once more."""
    return executed.compute() + executed.args[operand]


def tensor_unfused(executed: TorchExecution) -> Any:
    """Round a product of matrices to its dtype before its bias is added."""
    return executed.args[0] + torch.mm(*executed.args[1:3])


def tensor_computed_in(executed: TorchExecution, *, format: str) -> Any:
    """Convert all operands to a narrower dtype, compute in it, and return the result in its own dtype."""
    dtype = getattr(torch, format)
    result = executed.compute()
    narrow = executed.func(
        *(_converted(each, dtype) for each in executed.args),
        **{name: _converted(each, dtype) for name, each in executed.kwargs.items()},
    )
    if isinstance(result, tuple | list):
        parts = [new.to(old.dtype) if _is_floating(old) else old for new, old in zip(narrow, result, strict=True)]
        return type(result)(parts)
    return narrow.to(result.dtype) if _is_floating(result) else result


def tensor_other_function(executed: TorchExecution, *, function: str) -> Any:
    """Apply another function of torch to the operand."""
    return getattr(torch.ops.aten, function).default(executed.args[0])


def is_linear(name: str) -> bool:
    """Return whether an operator multiplies matrices and adds a bias, its first argument."""
    return name == "aten.addmm.default"


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
