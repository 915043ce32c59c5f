"""Which methods does the engine of a front end have?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from numpy.typing import NDArray


class Engine(Protocol):
    """Compute shadows beside the arrays of one front end, inside a `with` block, and record each operation.

    The low-precision values keep the bits of a plain run. An engine never raises for a bad value, and treats no value
    as exact without a note or an event.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def wrap(self, value: Any) -> Any:
        """Return an input in the form that the engine sees; values of other front ends come back unchanged."""

    def unwrap(self, value: Any) -> Any:
        """Return the plain array or tensor of a result; other values come back unchanged."""

    def shadow_of(self, value: Any) -> NDArray[Any] | None:
        """Return the shadow of a result, on the host; None if the engine does not know the value."""

    def shares(self, outputs: Mapping[str, Any]) -> dict[str, dict[int, float]]:
        """Return, for each output, the shares of its error by the number of the operation.

        A share is the inner product of the gradient at an operation's result and its own error, over the norm of the
        output's error, in the direction of that error. All shares of an output add up to about 1.
        """
