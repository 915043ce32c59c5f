"""When is torch imported, and which case does the import belong to?"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from precreg.subject.call import Call, Outputs
from precreg.subject.health import KIND_IMPORT, note_use, watch_import
from precreg.subject.surroundings import SettingsRestored

_IMPORT = (KIND_IMPORT, "torch")
_COMPUTATION = "precreg.subject.torch.computation"


def run_torch(spec: dict[str, Any], call: Call) -> Outputs:
    """Compute a specification of torch, and time the call alone.

    Raises CaseFailed where the hardware is absent, UserError (bad-outputs, bad-weights, unsupported-dtype,
    out-of-memory, missing-module, missing-function), and the subject's own exceptions.
    """
    if _COMPUTATION not in sys.modules:
        # Before the module space of the suite is entered: torch must not find the project's modules.
        with watch_import(_IMPORT), SettingsRestored():
            import_module(_COMPUTATION)
    from precreg.subject.torch.computation import compute_torch

    note_use(_IMPORT)
    return compute_torch(spec, call)
