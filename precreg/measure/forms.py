"""Which form of measuring serves: they give the same tally, and differ in speed and in what one can read."""

from __future__ import annotations

import os
from collections.abc import Callable

from precreg.errors import UserError
from precreg.measure.numpy_form import tally_numpy
from precreg.measure.pairing import Array
from precreg.measure.plain import tally_reference
from precreg.measure.tally import MeasureRules, Tally

Backend = Callable[[Array, Array, int, tuple[int, ...], MeasureRules], Tally]


BACKENDS: dict[str, Backend] = {"numpy": tally_numpy, "plain": tally_reference}
"""Every form there is here by the name that the variable PRECREG_FORM has for it; `native` where it was built."""


try:
    from precreg.measure.native import MEASURE_INSTRUCTION_SET, tally_native
except ImportError:
    FASTEST, _UNMET = "numpy", None
else:
    BACKENDS["native"] = tally_native
    FASTEST = "native"
    _ASKED = os.environ.get("PRECREG_ISA")
    _UNMET = _ASKED if _ASKED not in (None, "", MEASURE_INSTRUCTION_SET) else None


def select_backend() -> Backend:
    """Return the form that serves: the one that PRECREG_FORM names, else the fastest.

    Raises UserError (bad-value) for a name that is none, or that of a form which was not built; and where the core
    serves, for a PRECREG_ISA that names none of its instruction sets, or one that the processor lacks.
    """
    name = os.environ.get("PRECREG_FORM") or FASTEST
    if name not in BACKENDS:
        raise UserError("bad-value", f"expected one of {', '.join(BACKENDS)} but got PRECREG_FORM={name}")
    if _UNMET and name == "native":
        expected = "an instruction set of this processor (generic; avx2, avx512 on some)"
        raise UserError("bad-value", f"expected {expected} but got PRECREG_ISA={_UNMET}")
    return BACKENDS[name]
