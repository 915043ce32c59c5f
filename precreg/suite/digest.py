"""The definition digest: what a case computes, so that a baseline of something else is never compared with it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from precreg.types.types import Computation, Role

VERSION = "1"
"""Part of the digest: raised when the rules below change, so that no old baseline matches by accident."""


def definition_digest(
    subject: Computation,
    oracle: Computation,
    role: Role,
    inputs: dict[str, dict[str, Any]],
    params: dict[str, Any],
    device: str | None = None,
) -> str:
    """Return VERSION, a colon and 32 hex digits over everything that decides what is computed.

    Not in it: tolerance, budget, tags, seeds, repeats, names of the suite and the case, and the code itself. The order
    of keys does not matter. In inputs 1 and 1.0 are one number, because a distribution reads both as float; in
    params they are two, because Python code can tell them apart. A device counts by its name, and only where one is
    named.
    """
    content: dict[str, Any] = {
        "subject": [subject.kind, subject.spec],
        role: [oracle.kind, oracle.spec],
        "inputs": {name: _one_spelling(options) for name, options in inputs.items()},
        "params": params,
    }
    if device is not None:
        content["device"] = device
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"{VERSION}:{sha256(text.encode()).hexdigest()[:32]}"


def _one_spelling(value: Any) -> Any:
    """Turn whole floats into integers, everywhere: 1.0 and 1 then have one spelling. -0.0 is no integer."""
    if isinstance(value, float) and value.is_integer() and str(value) != "-0.0":
        return int(value)
    if isinstance(value, dict):
        return {key: _one_spelling(item) for key, item in value.items()}
    return [_one_spelling(item) for item in value] if isinstance(value, list | tuple) else value
