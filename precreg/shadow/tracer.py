"""How is a function called under the engines, and which errors do its outputs have?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.shadow.engine import Engine
from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.sizes import error_size
from precreg.subject import is_tensor, output_leaves, tensor_to_array
from precreg.types import TracedOutput

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic


class Tracer:
    """Observe one call of a subject: record its operations, and keep the shadows and errors of its outputs.

    `outputs` and `shadows` are by output, in the order of the outputs.
    """

    def __init__(self, recorder: Recorder, *, shares: bool = True) -> None:
        self.recorder = recorder
        self.outputs: tuple[TracedOutput, ...] = ()
        self.shadows: dict[str, NDArray[Any]] = {}
        self._shares = shares and recorder.detail >= Detail.OWN
        self._module: object = None

    def watch_module(self, module: object) -> None:
        """Learn the names of the layers of a module of torch that is called next."""
        self._module = module

    def call(
        self,
        function: Callable[..., object],
        arguments: Sequence[object],
        named: Mapping[str, object],
        arithmetic: Arithmetic | None = None,
    ) -> dict[str, Any]:
        """Return the outputs of a call by name, with the bits of a plain call."""
        with ExitStack() as stack:
            engines = [stack.enter_context(engine) for engine in self._engines(arithmetic)]
            given = [_through(engines, Engine.wrap, value) for value in arguments]
            by_name = {name: _through(engines, Engine.wrap, value) for name, value in named.items()}
            leaves = dict(output_leaves(function(*given, **by_name)))
            self._keep_outputs(engines, leaves)
            return {name: _through(engines, Engine.unwrap, leaf) for name, leaf in leaves.items()}

    def _engines(self, arithmetic: Arithmetic | None) -> list[Engine]:
        from precreg.shadow.numpy import NumpyEngine

        engines: list[Engine] = [NumpyEngine(self.recorder, arithmetic)]
        # A function that computes with torch has imported it before it is called.
        if "torch" in sys.modules:
            from precreg.shadow.torch import TorchEngine

            engines.append(TorchEngine(self.recorder, self._module))
        return engines

    def _keep_outputs(self, engines: Sequence[Engine], leaves: Mapping[str, Any]) -> None:
        sums: dict[str, float] = {}
        for engine in engines if self._shares else ():
            for output, shares in engine.shares(leaves).items():
                self.recorder.set_shares(output, shares)
                sums[output] = sums.get(output, 0.0) + sum(shares.values())
        found = []
        for name, leaf in leaves.items():
            shadow = next((each for engine in engines if (each := engine.shadow_of(leaf)) is not None), None)
            actual = _host_array(name, _through(engines, Engine.unwrap, leaf))
            rounding = None if shadow is None else error_size(actual, shadow, elements=True)
            if shadow is not None:
                self.shadows[name] = shadow
            found.append(
                TracedOutput(
                    name=name,
                    dtype=dtype_name(actual.dtype),
                    shape=actual.shape,
                    rounding=rounding,
                    sum_of_shares=sums.get(name),
                )
            )
        self.outputs = tuple(found)


def _through(engines: Sequence[Engine], method: Callable[[Engine, Any], Any], value: Any) -> Any:
    for engine in engines:
        value = getattr(engine, method.__name__)(value)
    return value


def _host_array(name: str, value: Any) -> NDArray[Any]:
    return tensor_to_array(value, f"output {name}", "bad-outputs") if is_tensor(value) else np.asarray(value)
