"""Which arguments of a live call are arrays, and which are parameters of a suite?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import DTYPE_NAMES, dtype_name
from precreg.errors import UserError
from precreg.subject import is_tensor, name_outputs, tensor_to_array
from precreg.suite.capture.calls import CapturedCall


class UncapturedCall(Exception):  # noqa: N818  (an event: the call goes on, and precreg counts it)
    """End the recording of one call for a reason that is counted."""


def read_call(function: Callable[..., Any], positional: tuple[Any, ...], named: Mapping[str, Any]) -> CapturedCall:
    """Return the arguments of a call by name, arrays as copies. Raises UncapturedCall."""
    inputs: dict[str, NDArray[Any]] = {}
    params: dict[str, Any] = {}
    for name, value in _arguments(function, positional, named).items():
        array = as_array(value)
        if array is not None:
            inputs[name] = array
        else:
            params[name] = _parameter(name, value)
    return CapturedCall(inputs, params)


def has_tensors(positional: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Return whether an argument is a tensor of torch."""
    return any(map(is_tensor, (*positional, *named.values())))


def recorded_outputs(returned: Any) -> dict[str, NDArray[Any]]:
    """Return the outputs of a call by name, as a subject names them. Raises UncapturedCall."""
    try:
        outputs = name_outputs(returned)
    except UserError as error:
        raise UncapturedCall(error.message) from None
    return {name: _storable(array) for name, array in outputs.items()}


def _arguments(function: Callable[..., Any], positional: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(function, np.ufunc):
        # A ufunc knows no names. A suite gives it its inputs by position.
        return {**{f"x{place}": value for place, value in enumerate(positional)}, **named}
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*positional, **named)
    except (TypeError, ValueError) as error:
        raise UncapturedCall(f"its arguments have no names: {error}") from None
    given = {*bound.arguments}
    # With the defaults, calls that give an argument and calls that do not make one suite.
    bound.apply_defaults()
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        elif name not in given and (kind is inspect.Parameter.VAR_POSITIONAL or _plain(value) is _NOTHING):
            continue
        elif kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise UncapturedCall(f"argument {name} has a position alone, and a suite gives arguments by name")
        else:
            found[name] = value
    return found


def as_array(value: Any) -> NDArray[Any] | None:
    """Return an array, a number of numpy or a tensor as a copy of numpy's; None for another value.

    Raises UncapturedCall for an array that no suite can store.
    """
    tensor = _tensor_as_array(value)
    if tensor is not None:
        return tensor
    if not isinstance(value, np.ndarray | np.generic) or isinstance(value, np.ma.MaskedArray):
        return None
    return _storable(np.array(value, order="C"))


def _storable(array: NDArray[Any]) -> NDArray[Any]:
    if dtype_name(array.dtype) not in DTYPE_NAMES:
        raise UncapturedCall(f"no suite has inputs of dtype={array.dtype}")
    # A file has the byte order of its machine, and so has an input.
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _tensor_as_array(value: Any) -> NDArray[Any] | None:
    if not is_tensor(value):
        return None
    # An input is given again as it was, and no suite has these.
    if value.is_quantized or "strided" not in str(value.layout):
        raise UncapturedCall("a tensor is quantized or sparse")
    if (name := str(value.dtype).removeprefix("torch.")) not in DTYPE_NAMES:
        raise UncapturedCall(f"no suite has inputs of dtype={value.dtype}")
    try:
        array = tensor_to_array(value, "a tensor")
    except UserError as error:
        raise UncapturedCall(error.message) from None
    if array.dtype.name != name:
        raise UncapturedCall(f"no suite has inputs of dtype={value.dtype}")
    return array


def _parameter(name: str, value: Any) -> Any:
    """Return a value as JSON and YAML can store it. Raises UncapturedCall for another one."""
    plain = _plain(value)
    if plain is _NOTHING:
        raise UncapturedCall(f"argument {name} is a {type(value).__name__}, which no suite can store")
    return plain


_NOTHING = object()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else _NOTHING
    if isinstance(value, str):
        # A text with $ in front would be a reference to a parameter.
        return _NOTHING if value.startswith("$") else value
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value]
        return _NOTHING if _NOTHING in items else items
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        pairs = {key: _plain(item) for key, item in value.items()}
        return _NOTHING if any(item is _NOTHING for item in pairs.values()) else pairs
    return _NOTHING
