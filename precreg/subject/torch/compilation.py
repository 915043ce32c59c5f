"""How is a subject compiled, outside of the measured time and without traces of the cases before it?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
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

        _import_setuptools()
    # In this process: its pool of processes would outlive the case.
    torch._inductor.config.compile_threads = 1
    torch._dynamo.reset()
    _last = key
    return True


def _import_setuptools() -> None:
    """Import the package that the backend would import at the first compilation, and put the search path back."""
    # Newer releases put a folder of theirs on sys.path, which other cases would find.
    path = [*sys.path]
    with suppress(ImportError):
        import_module("setuptools")
    sys.path[:] = path


def compiled(function: Callable[..., Any], spec: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function as torch.compile makes it; it is compiled at its first call."""
    options = spec["compile"] if isinstance(spec["compile"], dict) else {}
    result: Callable[..., Any] = torch.compile(function, **options)
    return result


def compiler_facts(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the backend that compiles, and the mode if one is given; nothing for a subject that is not compiled."""
    if "compile" not in spec:
        return {}
    options = spec["compile"] if isinstance(spec["compile"], dict) else {}
    mode = f" {options['mode']}" if "mode" in options else ""
    return {"compile": f"{options.get('backend', 'inductor')}{mode}"}
