"""Which remedy does precreg add to an error that torch raises in a call?"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from precreg.subject.torch.specification import WIDENED


@contextmanager
def advised(
    spec: Mapping[str, Any], function: Any, inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> Iterator[None]:
    """Add a note with a remedy to an exception of a call inside, if its cause is plain."""
    try:
        yield
    # Any code of a module may fail in any way.
    except Exception as error:
        if advice := _advice(spec, function, inputs, params, error):
            error.add_note(advice)
        raise


def _advice(
    spec: Mapping[str, Any], function: Any, inputs: Mapping[str, Any], params: Mapping[str, Any], error: Exception
) -> str:
    names = (*inputs, *params)
    takes = _parameters(function)
    if isinstance(error, TypeError) and takes is not None and not _binds(takes, names):
        given = ", ".join(takes.parameters) or "no arguments"
        return f"{spec['torch']} takes {given}, but gets {', '.join(names)} by name"
    if WIDENED in spec:
        return "this is the default reference, the subject's code in float64; if it has no such form, name a reference:"
    if isinstance(function, torch.nn.Module):
        of_inputs, of_weights = _floats(inputs.values()), _floats(function.parameters())
        if of_weights and of_inputs - of_weights and "autocast" not in spec:
            wanted = sorted(of_inputs)[0]
            return (
                f"inputs are {' and '.join(sorted(of_inputs))}, weights are {' and '.join(sorted(of_weights))}: "
                f"write dtype: {wanted} beside torch: {spec['torch']}"
            )
    return ""


def _parameters(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    # Functions of torch itself mostly have no signature.
    except (TypeError, ValueError):
        return None


def _binds(signature: inspect.Signature, names: tuple[str, ...]) -> bool:
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError:
        return False
    return True


def _floats(tensors: Any) -> set[str]:
    return {str(each.dtype).removeprefix("torch.") for each in tensors if each.is_floating_point()}
