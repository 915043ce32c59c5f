"""Which form of measuring serves: they give the same tally, and differ in speed and in what one can read."""

from __future__ import annotations

import os
from collections.abc import Callable

from precreg.errors import UserError
from precreg.measure import numpy_form, plain
from precreg.measure.pairing import Array
from precreg.measure.tally import Rules, Tally

Form = Callable[[Array, Array, int, tuple[int, ...], Rules], Tally]

FORMS: dict[str, Form] = {"numpy": numpy_form.tally, "plain": plain.tally}
"""Every form by the name that the variable PRECREG_FORM has for it."""


def form() -> Form:
    """Return the form that serves: the one that PRECREG_FORM names, else the fastest.

    Raises UserError (bad-value) for a name that is none.
    """
    name = os.environ.get("PRECREG_FORM") or "numpy"
    if name not in FORMS:
        raise UserError("bad-value", f"expected one of {', '.join(FORMS)} but got PRECREG_FORM={name}")
    return FORMS[name]
