"""How do shadows travel beside numpy arrays?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from precreg.shadow.recorder import Recorder

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic


class NumpyEngine:
    """Compute shadows beside numpy arrays; an arithmetic computes the low-precision operations, if there is one."""

    def __init__(self, recorder: Recorder, arithmetic: Arithmetic | None = None) -> None:
        self._recorder, self._arithmetic = recorder, arithmetic

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def wrap(self, value: Any) -> Any:
        """Return an array as one whose operations are watched."""
        return value

    def unwrap(self, value: Any) -> Any:
        """Return the plain array of a watched one."""
        return value

    def shadow_of(self, value: Any) -> NDArray[Any] | None:
        """Return the shadow of an array."""
        return None

    def shares(self, outputs: Mapping[str, Any]) -> dict[str, dict[int, float]]:
        """Return the shares of each output's error by the number of the operation."""
        return {}
