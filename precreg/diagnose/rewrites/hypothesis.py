"""What does a hypothesis alter: operations at a place, the inputs, the params or the outputs?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic.devices import Arithmetic
from precreg.arithmetic.faults import ArithmeticLayer
from precreg.diagnose.places import PlaceKey
from precreg.run import Arrays
from precreg.storage import Array
from precreg.types import RewriteTarget

Params = dict[str, Any]
Options = dict[str, float | str]


class Executed(NamedTuple):
    """Hold one execution of an operation: a method of a ufunc, another function of numpy, or a cast to `dtype`."""

    inner: Arithmetic
    function: Callable[..., Any] | None
    method: str
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    dtype: np.dtype[Any] | None = None

    def compute(self, *inputs: Any) -> Array:
        """Return the result of the operation, of other operands if there are any."""
        given = inputs or self.inputs
        if self.function is None:
            assert self.dtype is not None
            return self.inner.cast(np.asarray(given[0]), self.dtype)
        if isinstance(self.function, np.ufunc):
            return np.asarray(self.inner.ufunc(self.function, self.method, tuple(given), self.options))
        return np.asarray(self.inner.contraction(self.function, tuple(given), self.options))

    def compute_at(self, *inputs: Any) -> None:
        """Run the method `at`, which writes into its first operand."""
        assert isinstance(self.function, np.ufunc)
        self.inner.ufunc(self.function, self.method, inputs, self.options)

    def with_operand(self, at: int, value: Any) -> tuple[Any, ...]:
        """Return the operands with another one at a position."""
        return (*self.inputs[:at], value, *self.inputs[at + 1 :])


# Returns the altered result of an execution.
Alter = Callable[[Executed], Any]


class AlteredOperation(ArithmeticLayer):
    """Compute operations by a function of their execution: all of them, or one by its number."""

    def __init__(self, inner: Arithmetic, alter: Alter, only: int | None = None) -> None:
        super().__init__(inner)
        self._always, self._only, self._count = alter, only, 0

    def _alter(self, executed: Executed) -> Any:
        number, self._count = self._count, self._count + 1
        return self._always(executed) if self._only in (None, number) else executed.compute()

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the altered result of a method of a ufunc."""
        return self._alter(Executed(self.inner, function, method, inputs, options))

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the altered result of a compiled function."""
        return self._alter(Executed(self.inner, function, "", inputs, options))

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Return the altered result of a conversion."""
        return np.asarray(self._alter(Executed(self.inner, None, "", (values,), {}, dtype)))


class Hypothesis(NamedTuple):
    """Hold a rewrite with its options, and the place that it alters: operations by their keys, or a named array.

    `rank` orders hypotheses: lower ones are tried first. One of the functions alters: a `layer` of numpy's
    operations, `alter` for an operator of torch, or a function of inputs, params or outputs.
    """

    rewrite: str
    options: Options
    target: RewriteTarget
    rank: int
    keys: tuple[PlaceKey, ...] = ()
    name: str = ""
    layer: Callable[[Arithmetic], ArithmeticLayer] | None = None
    alter: Callable[[Any], Any] | None = None
    inputs: Callable[[Arrays], Arrays] | None = None
    params: Callable[[Params], Params] | None = None
    outputs: Callable[[Arrays], Arrays] | None = None
    # A number whose value a search may fit, and a function that returns this hypothesis with another number.
    number: float | None = None
    refit: Callable[[float], Hypothesis] | None = None

    def identity(self) -> tuple[Any, ...]:
        """Return a key that is the same for an equal hypothesis in another process."""
        return (self.rewrite, tuple(sorted(self.options.items())), self.target, self.name, self.keys)
