"""How do shadows travel beside tensors of torch?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from numpy.typing import NDArray

from precreg.shadow.recorder import Recorder


class TorchEngine:
    """Compute shadows beside tensors; a module gives the names of layers."""

    def __init__(self, recorder: Recorder, module: object = None) -> None:
        self._recorder, self._module = recorder, module

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def wrap(self, value: Any) -> Any:
        """Return a tensor as it is: the engine learns of it at its first operation."""
        return value

    def unwrap(self, value: Any) -> Any:
        """Return a tensor as it is."""
        return value

    def shadow_of(self, value: Any) -> NDArray[Any] | None:
        """Return the shadow of a tensor."""
        return None

    def shares(self, outputs: Mapping[str, Any]) -> dict[str, dict[int, float]]:
        """Return the shares of each output's error by the number of the operation."""
        return {}
