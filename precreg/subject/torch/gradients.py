"""Which gradients does a backward pass give, and how are those of many parameters grouped?

The gradients belong to sum(output * cotangent). The cotangents are fixed numbers that every format of torch holds
exactly, so that a float64 reference computes the same sum. A plain sum would hide faults: that of a softmax is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import torch

from precreg.errors import UserError
from precreg.subject.call import output_leaves

# Three significant bits, as many as float8_e5m2 has, and no zero, which would hide an element.
_COTANGENTS = np.array([sign * number / 4 for number in range(1, 8) for sign in (1, -1)])


class Group(NamedTuple):
    """The name of an output, and the parameters whose gradients it joins, in the order of the module."""

    output: str
    parameters: tuple[str, ...]


def gradient_groups(module: Any) -> tuple[Group, ...]:
    """Return the groups of a module's trainable parameters: matrices and vectors, by dtype if they have several.

    Biases and scales form a group of their own: beside a million weights a wrong bias would vanish.
    """
    trained = {name: each for name, each in module.named_parameters() if each.requires_grad}
    groups: dict[tuple[str, str], list[str]] = {}
    for name, each in trained.items():
        shape = "matrices" if each.ndim > 1 else "vectors"
        groups.setdefault((shape, str(each.dtype).removeprefix("torch.")), []).append(name)
    several = {shape for shape, _ in groups if sum(shape == other for other, _ in groups) > 1}
    return tuple(
        Group(f"grad.{shape}.{dtype}" if shape in several else f"grad.{shape}", tuple(names))
        for (shape, dtype), names in groups.items()
    )


def cotangent(name: str, tensor: Any) -> Any:
    """Return the factors of an output: the same numbers for a name and a shape, in the output's dtype."""
    # The words of a Philox generator are the same with every version of numpy.
    key = int.from_bytes(sha256(name.encode()).digest()[:16], "little")
    words = np.random.Philox(key=key).random_raw(tensor.numel())
    factors = _COTANGENTS[words % np.uint64(len(_COTANGENTS))].reshape(tuple(tensor.shape))
    return torch.from_numpy(factors).to(device=tensor.device, dtype=tensor.dtype)


def backward(returned: object, inputs: Mapping[str, Any], module: Any, groups: tuple[Group, ...]) -> dict[str, Any]:
    """Return the gradients of the inputs that require one and of the groups of parameters, by output.

    An input or parameter that no output depends on has zeros.

    Raises:
        UserError: bad-outputs, if no output has a gradient.
    """
    outputs = {name: each for name, each in output_leaves(returned) if getattr(each, "requires_grad", False)}
    if not outputs:
        message = "expected an output that depends on the inputs or parameters but got none that requires a gradient"
        raise UserError("bad-outputs", f"{message}; remove gradients, or detach() and no_grad() in the subject")
    parameters = dict(module.named_parameters()) if groups else {}
    wanted = {f"grad.{name}": each for name, each in inputs.items() if each.requires_grad}
    named = [name for group in groups for name in group.parameters]
    factors = [cotangent(name, each) for name, each in outputs.items()]
    leaves = [*wanted.values(), *(parameters[name] for name in named)]
    found = iter(torch.autograd.grad([*outputs.values()], leaves, factors, allow_unused=True, materialize_grads=True))
    gradients = {name: next(found) for name in wanted}
    for group in groups:
        gradients[group.output] = torch.cat([next(found).to_dense().reshape(-1) for _ in group.parameters])
    return gradients
