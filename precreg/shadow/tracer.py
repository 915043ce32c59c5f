"""How is a function called under the engines, and which errors do its outputs have?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.shadow.dumps import DumpReader
from precreg.shadow.engines import RunningEngines
from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.sizes import error_size, value_range
from precreg.subject import output_leaves
from precreg.types import ErrorSize, Site, TracedOutput

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic


class Tracer:
    """Observe one call of a subject: record its operations, and keep the shadows and errors of its outputs.

    `outputs` and `shadows` are by output, in the order of the outputs.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        shares: bool = True,
        wide: str | None = None,
        dumps: DumpReader | None = None,
        jitter: bool = False,
    ) -> None:
        self.recorder, self._jitter = recorder, jitter
        self._dumps = dumps
        # The dtype of the shadows: as given, or as the engine chose it.
        self.shadow, self._wide = wide or "float64", wide
        self.outputs: tuple[TracedOutput, ...] = ()
        self.shadows: dict[str, NDArray[Any]] = {}
        self._shares = shares and recorder.detail >= Detail.OWN
        self._module: object = None

    def watch_module(self, module: object) -> None:
        """Learn the names of the layers of a module of torch that is called next."""
        self._module = module

    def note_rounded_weights(self, module: str, dtype: str, changed: int, elements: int) -> None:
        """Record that the shadow takes weights that were rounded before the call."""
        self.recorder.note_event("rounded_weights", dtype, Site(module=module), changed, elements)

    def call(
        self,
        function: Callable[..., object],
        arguments: Sequence[object],
        named: Mapping[str, object],
        arithmetic: Arithmetic | None = None,
    ) -> dict[str, Any]:
        """Return the outputs of a call by name, with the bits of a plain call."""
        with RunningEngines(
            self.recorder, self._module, arithmetic, self._wide, shares=self._shares, jitter=self._jitter
        ) as engines:
            given = [engines.wrap(value) for value in arguments]
            by_name = {name: engines.wrap(value) for name, value in named.items()}
            with nullcontext() if self._dumps is None else self._dumps.layers_read(self._module, engines):
                leaves = dict(output_leaves(function(*given, **by_name)))
            self.keep_outputs(engines, leaves)
            self.shadow = engines.shadow_dtype
            return {name: engines.unwrap(leaf) for name, leaf in leaves.items()}

    def keep_outputs(self, engines: RunningEngines, leaves: Mapping[str, Any]) -> None:
        """Keep the errors and shadows of outputs, and show them to the listeners."""
        sums = engines.shares(leaves) if self._shares else {}
        found = []
        for name, leaf in leaves.items():
            shadow = engines.shadow_of(leaf)
            actual = engines.plain_array(name, leaf)
            rounding = None if shadow is None else error_size(actual, shadow, elements=True)
            if shadow is not None:
                self.shadows[name] = shadow
            self.recorder.show_output(name, actual, shadow)
            found.append(
                TracedOutput(
                    name=name,
                    dtype=dtype_name(actual.dtype),
                    shape=actual.shape,
                    rounding=rounding,
                    sum_of_shares=sums.get(name),
                    bound=self._bound(name, rounding),
                    range=value_range(actual),
                )
            )
        self.outputs = tuple(found)

    def _bound(self, name: str, rounding: ErrorSize | None) -> float | None:
        """Return the largest possible error of an output, relative as its rounding error is."""
        times = self.recorder.output_bounds.get(name)
        return None if times is None or rounding is None else times * rounding.relative
