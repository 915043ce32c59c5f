"""Which other orders do three factors or terms have?

`a (b c)` and `b (a c)` are orders of `(a b) c`. A layer recognises the inner operation by the bits of its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from precreg.arithmetic.devices import Arithmetic
from precreg.arithmetic.faults import RememberingLayer

# The forms that one operation can have: which of the inner operands goes first.
FORMS = (0, 1)


class Reassociated(RememberingLayer):
    """Compute sums and products of three operands in another order, and quotients by one divisor or by two.

    `form` chooses the inner operand that is combined last.
    """

    def __init__(self, inner: Arithmetic, *, form: int) -> None:
        super().__init__(inner, frozenset({np.add, np.multiply, np.divide}))
        self._form = form

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute in another order if an operand is the result of such an operation."""
        if method != "__call__" or options or function not in self._remembered:
            return super().ufunc(function, method, inputs, options)
        if function is np.divide:
            return self._divided(*inputs)
        for at, operand in enumerate(inputs):
            if found := self.origin(operand, function):
                last, first = found[self._form], found[1 - self._form]
                return self.apply(function, last, self.apply(function, first, inputs[1 - at]))
        return self.computed(function, inputs)

    def _divided(self, dividend: Any, divisor: Any) -> Any:
        """Compute a / (b c) as (a / b) / c, and (a / b) / c as a / (b c)."""
        if factors := self.origin(divisor, np.multiply):
            first, last = factors[self._form], factors[1 - self._form]
            return self.apply(np.divide, self.apply(np.divide, dividend, first), last)
        if quotient := self.origin(dividend, np.divide):
            return self.apply(np.divide, quotient[0], self.apply(np.multiply, quotient[1], divisor))
        return self.computed(np.divide, (dividend, divisor))
