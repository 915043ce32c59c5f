"""How is a subject compiled, outside of the measured time and without traces of the cases before it?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch

from precreg.subject.call import Call
from precreg.subject.health import KIND_IMPORT, watch_import

# The computation that the compiler has in memory.
_last = ""


def begin_compilation(spec: Mapping[str, Any], call: Call) -> bool:
    """Return whether a computation still has to be compiled; if so, the compiler forgets all others.

    Otherwise it would take another shape for a sign to compile for any shape, so that the bits of a case would depend
    on the cases before it.
    """
    global _last
    shapes = [[name, str(array.dtype), array.shape, array.strides] for name, array in call.inputs.items()]
    key = json.dumps([spec, shapes, call.params, str(call.directory)], default=str)
    if key == _last:
        return False
    with watch_import((KIND_IMPORT, "torch")):
        import torch._dynamo
        import torch._inductor.config
    # In this process: its pool of processes would outlive the case.
    torch._inductor.config.compile_threads = 1
    torch._dynamo.reset()
    _last = key
    return True


def compiled(function: Callable[..., Any], spec: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function as torch.compile makes it; it is compiled at its first call."""
    options = spec["compile"] if isinstance(spec["compile"], dict) else {}
    result: Callable[..., Any] = torch.compile(function, **options)
    return result
