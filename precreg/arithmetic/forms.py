"""Which form of rounding and adding serves: numpy's or the compiled core's. They give the same bits."""

from __future__ import annotations

import os
from types import ModuleType

from precreg.errors import UserError

_native: ModuleType | None = None

_UNMET = None

try:
    from precreg.arithmetic import native as _built
except ImportError:
    pass
else:
    _native = _built
    _ASKED = os.environ.get("PRECREG_ISA")
    _UNMET = _ASKED if _ASKED not in (None, "", _built.INSTRUCTION_SET) else None


FASTEST = "numpy" if _native is None else "native"

_NAMES = ("numpy", "plain") if _native is None else ("numpy", "plain", "native")
"""What PRECREG_FORM may name: `plain` is a form of measuring, beside which numpy rounds and adds."""


def native() -> ModuleType | None:
    """Return the module of the compiled core where that serves: where it was built, unless PRECREG_FORM names another.

    Raises UserError (bad-value) for a name that is none, or that of a form which was not built; and where the core
    serves, for a PRECREG_ISA that names none of its instruction sets, or one that the processor lacks.
    """
    name = os.environ.get("PRECREG_FORM") or FASTEST
    if name not in _NAMES:
        raise UserError("bad-value", f"expected one of {', '.join(_NAMES)} but got PRECREG_FORM={name}")
    if name != "native":
        return None
    if _UNMET:
        expected = "an instruction set of this processor (generic; avx2, avx512 on some)"
        raise UserError("bad-value", f"expected {expected} but got PRECREG_ISA={_UNMET}")
    return _native
