"""How do shadows travel beside tensors of torch?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Self

from numpy.typing import NDArray

from precreg.shadow.recorder import Recorder
from precreg.shadow.torch.dispatch import ShadowMode
from precreg.shadow.torch.places import Places
from precreg.shadow.torch.twins import Twins, is_shadowed, wide_dtype
from precreg.subject import is_tensor, tensor_to_array


class TorchEngine:
    """Compute shadows beside tensors; a module gives the names of layers."""

    def __init__(self, recorder: Recorder, module: object = None) -> None:
        self._places = Places(recorder, module)
        self._mode = ShadowMode(recorder, self._places)
        self._stack = ExitStack()

    @property
    def twins(self) -> Twins:
        """Return the shadows of the tensors that are alive."""
        return self._mode.twins

    def __enter__(self) -> Self:
        self._stack.enter_context(self._places)
        self._stack.enter_context(self._mode)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def wrap(self, value: Any) -> Any:
        """Return a tensor as it is: the engine learns of it at its first operation."""
        return value

    def unwrap(self, value: Any) -> Any:
        """Return a tensor as it is."""
        return value

    def shadow_of(self, value: Any) -> NDArray[Any] | None:
        """Return the shadow of a tensor; None for float64, if no error of other dtypes reached it."""
        if not is_tensor(value) or not is_shadowed(value):
            return None
        if value.dtype == wide_dtype(value.dtype) and not self.twins.has(value):
            return None
        return tensor_to_array(self.twins.of(value), "shadow")

    def shares(self, outputs: Mapping[str, Any]) -> dict[str, dict[int, float]]:
        """Return the shares of each output's error by the number of the operation."""
        return {}
