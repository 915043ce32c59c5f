"""Which weights does a file hold, and do they fit a module?

A .safetensors file is read by precreg's own reader, and a .pt file by torch's reader for weights only, which runs no
code of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from precreg.errors import UserError
from precreg.storage import find_safetensors, resolve_inside
from precreg.subject.call import Call
from precreg.subject.tensors import array_to_tensor

# Names under which training scripts save the weights beside other things.
_NESTED = ("state_dict", "model_state_dict", "model")
# More names make no readable message.
_SHOWN = 3
# The words of torch for a class or function that a file of weights may not name.
_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")


def load_weights(module: Any, name: str, call: Call) -> None:
    """Copy the weights of a file into a module; `name` is the path beside the suite.

    Raises:
        UserError: bad-weights, for a file that cannot be read or does not fit; bad-safetensors-file, outside-project.
    """
    path = resolve_inside(call.project, (call.directory / name).relative_to(call.project).as_posix())
    weights = _read_safetensors(path, name) if name.endswith(".safetensors") else _read_pt(path, name)
    own = module.state_dict()
    missing = [key for key in own if key not in weights]
    unexpected = [key for key in weights if key not in own]
    differing = [
        f"{key} {tuple(weights[key].shape)} for {tuple(own[key].shape)}"
        for key in own
        if key in weights and isinstance(own[key], torch.Tensor) and weights[key].shape != own[key].shape
    ]
    # torch would drop the imaginary parts.
    halved = [key for key in own if key in weights and weights[key].is_complex() and not own[key].is_complex()]
    faults = [
        f"{text} {_first(keys)}"
        for text, keys in (
            ("lacks", missing),
            ("has unknown", unexpected),
            ("has other shapes:", differing),
            ("has complex numbers for", halved),
        )
        if keys
    ]
    if faults:
        raise UserError(
            "bad-weights", f"expected the weights of {type(module).__name__} but {name} {'; '.join(faults)}"
        )
    module.load_state_dict(weights)


def _first(keys: list[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more


def _read_safetensors(path: Path, name: str) -> dict[str, Any]:
    return {
        key: array_to_tensor(stored.load(), f"{name}:{key}") for key, stored in find_safetensors(path, name).items()
    }


def _read_pt(path: Path, name: str) -> dict[str, Any]:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        # torch's own text advises to load the file without this protection.
        found = _GLOBAL.search(str(error))
        objects = f"objects of {found[1]}" if found else "objects"
        expected = f"expected weights alone but {name} holds {objects} whose loading would run code"
        advice = "write it again with torch.save(module.state_dict(), FILE), or as .safetensors"
        raise UserError("bad-weights", f"{expected}; {advice}") from error
    # A damaged file fails in many ways.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())[:200]
        raise UserError("bad-weights", f"expected a file that torch.save wrote but got {name}: {reason}") from error
    for key in _NESTED:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if not isinstance(loaded, Mapping) or not all(isinstance(each, torch.Tensor) for each in loaded.values()):
        raise UserError("bad-weights", f"expected tensors by name but {name} holds {type(loaded).__name__}")
    return {str(key): value for key, value in loaded.items()}
