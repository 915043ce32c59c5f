"""Which outputs of a model does a case return, and what are their names?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError, nearest
from precreg.subject.onnx.tensors import measured_array


def chosen_outputs(spec: Mapping[str, Any], every: Sequence[str], nodes: Sequence[str], model: str) -> list[str]:
    """Return the outputs of a specification: inner tensors in the order of execution, then the model's outputs.

    Raises UserError: unknown-node.
    """
    own = [name for name in every if name not in nodes]
    chosen = spec.get("outputs")
    for name in chosen or ():
        if name not in every:
            message = f"expected outputs of the model ({', '.join(own)}) but got outputs={name}{nearest(name, every)}"
            raise UserError("unknown-node", message, file=model)
    return [*nodes, *(name for name in own if chosen is None or name in chosen)]


def name_values(values: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Name the arrays in values of ONNX: y of a tensor, y.0 and y.1 of a sequence, nothing of an absent optional.

    Raises UserError: bad-outputs, for strings.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in values.items():
        if isinstance(value, list):
            arrays |= name_values({f"{name}.{place}": item for place, item in enumerate(value)})
        elif isinstance(value, dict):
            arrays |= name_values({f"{name}.{key}": item for key, item in value.items()})
        elif value is not None:
            arrays[name] = _measured(name, np.asarray(value))
    return arrays


def _measured(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind in "OUS":
        message = f"expected an output of numbers but {name} has strings"
        raise UserError("bad-outputs", f"{message}; name the others by outputs:, or use a folder of node tests")
    return measured_array(array)
