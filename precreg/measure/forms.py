"""Which backend measures? All give the same tally; they differ in speed and readability."""

from __future__ import annotations

import os
from collections.abc import Callable

from precreg.errors import UserError
from precreg.measure.numpy_form import tally_numpy
from precreg.measure.pairing import Array
from precreg.measure.plain import tally_reference
from precreg.measure.tally import MeasureRules, Tally

Backend = Callable[[Array, Array, int, tuple[int, ...], MeasureRules], Tally]

# The backends that this installation has, by their names in the variable PRECREG_FORM. `native` is the compiled core.
BACKENDS: dict[str, Backend] = {"numpy": tally_numpy, "plain": tally_reference}

try:
    from precreg.measure.native import MEASURE_INSTRUCTION_SET, tally_native
except ImportError:
    FASTEST, _UNMET = "numpy", None
else:
    BACKENDS["native"] = tally_native
    FASTEST = "native"
    _ASKED = os.environ.get("PRECREG_ISA")
    # An instruction set in PRECREG_ISA that the core does not run on here.
    _UNMET = _ASKED if _ASKED not in (None, "", MEASURE_INSTRUCTION_SET) else None


def select_backend() -> Backend:
    """Return the backend that PRECREG_FORM names, or else the fastest one.

    Raises UserError (bad-value) if PRECREG_FORM names no backend or one that was not built, and if PRECREG_ISA names
    an instruction set that the core or the processor lacks.
    """
    name = os.environ.get("PRECREG_FORM") or FASTEST
    if name not in BACKENDS:
        raise UserError("bad-value", f"expected one of {', '.join(BACKENDS)} but got PRECREG_FORM={name}")
    if _UNMET and name == "native":
        expected = "an instruction set of this processor (generic; avx2, avx512 on some)"
        raise UserError("bad-value", f"expected {expected} but got PRECREG_ISA={_UNMET}")
    return BACKENDS[name]
