"""When is torch imported, and which case does the import belong to?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from precreg.subject.call import Call, Outputs
from precreg.subject.health import KIND_IMPORT, note_use, watch_import
from precreg.subject.module_space import enter_module_space, leave_module_space
from precreg.subject.python import find_function
from precreg.subject.surroundings import SettingsRestored, SurroundingsRestored

_IMPORT = (KIND_IMPORT, "torch")
_COMPUTATION = "precreg.subject.torch.computation"


def run_torch(spec: dict[str, Any], call: Call) -> Outputs:
    """Compute a specification of torch, and time the call alone.

    Raises CaseFailed where the hardware is absent, UserError (bad-outputs, bad-weights, unsupported-dtype,
    out-of-memory, missing-module, missing-function), and the subject's own exceptions.
    """
    _import_torch()
    from precreg.subject.torch.computation import compute_torch

    return compute_torch(spec, call)


def run_torch_layers(
    spec: dict[str, Any], call: Call, patterns: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the outputs of the layers of a module by name, in the order of execution, and the module's own outputs.

    Raises as `run_torch` does, and UserError: unknown-node.
    """
    _import_torch()
    from precreg.subject.torch.layers import run_layers

    return run_layers(spec, call, patterns)


def weights_by_module(spec: dict[str, Any], call: Call) -> dict[str, int]:
    """Return the number of floating weights that each module of a specification holds itself; none for a function.

    Raises as `run_torch` does.
    """
    _import_torch()
    from precreg.subject.torch.computation import run_prepared
    from precreg.subject.torch.kept import own_weights

    with run_prepared(spec, call) as (module, _):
        return own_weights(module) if hasattr(module, "named_modules") else {}


def is_torch_module(target: str, call: Call) -> bool:
    """Return whether `module:name` names a module of torch or a class of them; its import may bring torch, or not.

    Raises UserError (missing-module, missing-function), and the exceptions of the import.
    """
    space = enter_module_space(call.directory, call.project)
    try:
        with SurroundingsRestored():
            found = find_function(target, space)
    finally:
        leave_module_space()
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    if module is None:
        return False
    return isinstance(found, module) or (isinstance(found, type) and issubclass(found, module))


def _import_torch() -> None:
    if _COMPUTATION not in sys.modules:
        # Before the module space of the suite is entered: torch must not find the project's modules.
        with watch_import(_IMPORT), SettingsRestored():
            import_module(_COMPUTATION)
    note_use(_IMPORT)
