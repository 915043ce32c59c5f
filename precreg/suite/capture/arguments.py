"""Which arguments of a live call are arrays, and which are parameters of a suite?"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import DTYPE_NAMES, dtype_name
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
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(each, torch.Tensor) for each in (*positional, *named.values()))


def recorded_outputs(returned: Any) -> dict[str, NDArray[Any]]:
    """Return the outputs of a call by name, as a subject names them. Raises UncapturedCall."""
    if isinstance(returned, Mapping):
        named = {str(name): value for name, value in returned.items()}
    elif isinstance(returned, tuple | list):
        named = {str(place): value for place, value in enumerate(returned)}
    else:
        named = {"out": returned}
    outputs = {name: as_array(np.float64(v) if isinstance(v, float) else v) for name, v in named.items()}
    missing = [name for name, array in outputs.items() if array is None]
    if missing:
        raise UncapturedCall(f"output {missing[0]} is no array but {type(named[missing[0]]).__name__}")
    return {name: array for name, array in outputs.items() if array is not None}


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
    array = np.array(value, order="C")
    # A file has the byte order of its machine, and so has an input.
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if dtype_name(array.dtype) not in DTYPE_NAMES:
        raise UncapturedCall(f"no suite has inputs of dtype={array.dtype}")
    return array


def _tensor_as_array(value: Any) -> NDArray[Any] | None:
    # The program imported torch, if it has tensors.
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    tensor = value.detach().cpu()
    if tensor.is_quantized or tensor.layout != torch.strided:
        raise UncapturedCall("a tensor is quantized or sparse")
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    # numpy lacks bfloat16 and the float8 formats, so their bytes are taken.
    if hasattr(np, name) or name == "bool":
        same: NDArray[Any] = np.array(tensor.numpy(), order="C")
        return same
    if name not in DTYPE_NAMES:
        raise UncapturedCall(f"no suite has inputs of dtype={tensor.dtype}")
    import ml_dtypes

    own = np.dtype(getattr(ml_dtypes, name))
    words = {1: torch.uint8, 2: torch.int16}[own.itemsize]
    bits: NDArray[Any] = np.array(tensor.view(words).numpy(), order="C").view(own)
    return bits


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
