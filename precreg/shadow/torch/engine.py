"""How do shadows travel beside tensors of torch?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch.utils._python_dispatch import _disable_current_modes

from precreg.shadow.recorder import Recorder
from precreg.shadow.torch.dispatch import ShadowMode
from precreg.shadow.torch.exits import ArrayShadows, Exits
from precreg.shadow.torch.places import OperationPlaces
from precreg.shadow.torch.rules import Jitter
from precreg.shadow.torch.twins import Twins, is_shadowed, may_be_long, twin_dtype
from precreg.subject import is_tensor, tensor_to_array

# Each output takes one pass back through all operations.
MAX_OUTPUTS = 8


class TorchEngine:
    """Compute shadows beside tensors; a module gives the names of layers, and another engine the shadows of arrays.

    With `jitter` the shadow rounds in another way, at random.
    """

    def __init__(
        self,
        recorder: Recorder,
        module: object = None,
        *,
        shares: bool = True,
        arrays: ArrayShadows | None = None,
        jitter: bool = False,
    ) -> None:
        self._recorder = recorder
        self._places = OperationPlaces(recorder, module)
        self._mode = ShadowMode(recorder, self._places, shares=shares, jitter=Jitter() if jitter else None)
        self._exits = Exits(recorder, self._mode.twins, arrays)
        self._stack = ExitStack()

    @property
    def twins(self) -> Twins:
        """Return the shadows of the tensors that are alive."""
        return self._mode.twins

    @property
    def has_run(self) -> bool:
        """Return whether torch computed on floating numbers."""
        return self._mode.has_run

    @property
    def shadow_dtype(self) -> str:
        """Return the name of the dtype of shadows: of the least precise ones."""
        return "longdouble" if self._mode.has_long and not self._mode.has_short else "float64"

    def __enter__(self) -> Self:
        self._stack.enter_context(self._places)
        self._stack.enter_context(self._exits)
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
        """Return the shadow of a tensor, or of an array that has its memory.

        That of float64 is longdouble; None where one of its operations has no such form.
        """
        tensor = self._exits.tensor_of(value)
        value = value if tensor is None else tensor
        if not is_tensor(value) or not is_shadowed(value) or self.twins.is_unknown([value]):
            return None
        if self.twins.is_unmeasured(value):
            return None
        if may_be_long(value) and (self.twins.is_long(value) or not self.twins.has(value)):
            return np.array(self.twins.long_of(value))
        if value.dtype == twin_dtype(value.dtype) and not self.twins.has(value):
            return None
        with _disable_current_modes():
            return tensor_to_array(self.twins.of(value), "shadow")

    def shares(self, outputs: Mapping[str, Any]) -> dict[str, dict[int, float]]:
        """Return the shares of each output's error by the number of the operation, for the first MAX_OUTPUTS."""
        tape = self._mode.tape
        if tape is None:
            return {}
        tensors = {name: self._exits.output_of(each) for name, each in outputs.items()}
        known = {name: each for name, each in tensors.items() if is_shadowed(each) and self.twins.has(each)}
        known = {name: each for name, each in known.items() if not self.twins.is_unknown([each])}
        found = {}
        with _disable_current_modes():
            for name, output in islice(known.items(), MAX_OUTPUTS):
                shares, cuts = tape.attribute(output, self.twins.error_of(output))
                found[name] = shares
                for number, reason in cuts.items():
                    operation = self._recorder.operations[number - 1]
                    self._recorder.note_event("shares_cut", operation.name, operation.site, detail=reason)
        return found
