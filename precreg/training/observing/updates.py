"""Which updates did a step of an optimizer intend, and which of them did the weights' formats lose?

The intended update is the same step in float64, from the same weights, gradients and state: the twin. It exists
for the optimizers of torch. For an optimizer that treats each element alone, the twin has the measured elements only.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from precreg.training.observing.tensors import sample, spacing_of
from precreg.types import UpdateFigures

# Each element of a weight depends on its own gradient and state alone.
_ELEMENTWISE = frozenset(
    {*("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD")}
)
# The twin of LBFGS would call the user's closure, and SparseAdam takes sparse gradients, which are not measured.
_WITHOUT_TWIN = frozenset({"LBFGS", "SparseAdam"})
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Weights(NamedTuple):
    """Hold the measured elements of a weight before an update, and the intended weight in float64.

    Without an intended weight, `has_gradient` marks the elements with a finite gradient other than zero.
    """

    before: Any
    intended: Any | None
    has_gradient: Any | None


def twin_problem(optimizer: Any) -> str:
    """Return why an optimizer has no float64 twin; empty if it has one."""
    kind = type(optimizer)
    # Another class may keep tensors outside of its state, which a step of the twin would change.
    if not kind.__module__.startswith("torch.optim."):
        return f"{kind.__name__} is not of torch.optim"
    return f"{kind.__name__} has no twin" if kind.__name__ in _WITHOUT_TWIN else ""


def updates_each_alone(optimizer: Any) -> bool:
    """Return whether an optimizer treats each element of a weight alone."""
    return type(optimizer).__name__ in _ELEMENTWISE


def weights_before(
    optimizer: Any, named: Mapping[str, Any], limit: int | None, *, has_twin: bool
) -> dict[str, Weights]:
    """Return the measured elements of the weights before a step, and the step's result in float64."""
    sizes = limit if updates_each_alone(optimizer) else None
    intended = _twin_step(optimizer, {id(each) for each in named.values()}, sizes) if has_twin else {}
    found = {}
    for name, parameter in named.items():
        after, before = intended.get(id(parameter)), sample(parameter, limit).clone()
        if after is None:
            gradient = sample(parameter.grad, limit)
            found[name] = Weights(before, None, (gradient != 0) & gradient.isfinite())
        else:
            found[name] = Weights(before, sample(after, limit if sizes is None else None), None)
    return found


def _twin_step(optimizer: Any, wanted: set[int], limit: int | None) -> dict[int, Any]:
    """Run the step on float64 copies, and return the copies of the weights by the weights' identity."""
    twin = copy.copy(optimizer)
    state: dict[Any, Any] = {}
    copies: dict[int, Any] = {}
    # Gradients of a fused optimizer still have the scale of the scaler.
    scale = getattr(optimizer, "grad_scale", None)
    groups = []
    for group in optimizer.param_groups:
        mine = []
        for parameter in group["params"]:
            if id(parameter) not in wanted:
                continue
            wide = torch.nn.Parameter(_widened(parameter, limit, parameter.shape))
            gradient = _widened(parameter.grad, limit, parameter.shape)
            wide.grad = gradient if scale is None else gradient / scale.double()
            known = optimizer.state.get(parameter, {})
            state[wide] = {key: _widened(value, limit, parameter.shape) for key, value in known.items()}
            copies[id(parameter)] = wide
            mine.append(wide)
        settings = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in group.items()}
        switches = {key: None for key in ("foreach", "fused") if key in settings}
        groups.append({**settings, **switches, "params": mine})
    twin.__dict__ = {**optimizer.__dict__, "param_groups": groups, "state": _states(optimizer, state)}
    for name in ("grad_scale", "found_inf"):
        twin.__dict__.pop(name, None)
    # The hooks of torch are around the step that a user calls, and have nothing to see here.
    step = type(twin).step
    with torch.no_grad():
        getattr(step, "__wrapped__", step)(twin)
    return {key: each.detach() for key, each in copies.items()}


def _states(optimizer: Any, state: Mapping[Any, Any]) -> Any:
    """Return the states of the twin in a dict that makes new ones, as the optimizer's does."""
    found = copy.copy(optimizer.state)
    found.clear()
    found.update({key: value for key, value in state.items() if value})
    return found


def _widened(value: Any, limit: int | None, shape: Any) -> Any:
    """Return a float64 copy of a tensor, of its measured elements if it has the shape of the parameter."""
    if not isinstance(value, torch.Tensor):
        return copy.copy(value)
    taken = value.detach() if limit is None or value.shape != shape else sample(value, limit)
    return taken.to(torch.float64, copy=True) if taken.is_floating_point() else taken.clone()


def update_figures(weights: Weights, parameter: Any, limit: int | None) -> UpdateFigures:
    """Compare a weight after a step with the one before it, bit by bit, and with the intended one."""
    after, before = sample(parameter, limit), weights.before
    bits = _INTEGERS[after.element_size()]
    is_same = after.contiguous().view(bits) == before.view(bits)
    wide = before.double()
    moved = after.double() - wide
    size = float(torch.linalg.vector_norm(wide))
    common = {
        "elements": parameter.numel(),
        "measured": before.numel(),
        "relative": float(torch.linalg.vector_norm(moved)) / size if size > 0 else None,
    }
    if weights.intended is None:
        wanted = weights.has_gradient
        assert wanted is not None
        return UpdateFigures(**common, intended=int(wanted.sum()), lost=int((wanted & is_same).sum()), has_twin=False)
    change = weights.intended - wide
    # A NaN keeps its bits, but nothing was to be updated there.
    wanted = (change != 0) & change.isfinite()
    count = int(wanted.count_nonzero())
    sizes = (change / spacing_of(before)).abs_()
    # A choice of elements takes longer than all the rest, and mostly all are intended.
    sizes = sizes if count == sizes.numel() else sizes[wanted]
    ulps = torch.stack([sizes.median(), *sizes.aminmax()]).tolist() if count else [None] * 3
    return UpdateFigures(
        **common,
        intended=count,
        lost=int((wanted & is_same).count_nonzero()),
        has_twin=True,
        median_ulp=ulps[0],
        least_ulp=ulps[1],
        greatest_ulp=ulps[2],
        intended_relative=float(torch.linalg.vector_norm(change)) / size if size > 0 else None,
    )
