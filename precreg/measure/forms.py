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
"""Every form there is here by the name that the variable PRECREG_FORM has for it; `native` where it was built."""

try:
    from precreg.measure import native
except ImportError:
    FASTEST = "numpy"
else:
    FORMS["native"] = native.tally
    FASTEST = "native"


def form() -> Form:
    """Return the form that serves: the one that PRECREG_FORM names, else the fastest.

    Raises UserError (bad-value) for a name that is none, or that of a form which was not built.
    """
    name = os.environ.get("PRECREG_FORM") or FASTEST
    if name not in FORMS:
        raise UserError("bad-value", f"expected one of {', '.join(FORMS)} but got PRECREG_FORM={name}")
    return FORMS[name]
