"""Which share of an output's error does each node explain?

One pass over the windows from the last to the first: each runs again from the values that it needed, and each node
passes the gradients at its outputs on to its inputs. The share of a node is the inner product of the gradient at its
output and its own error, in the direction of the output's error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.shadow.onnx.exact import ExactNodes, NotShadowedError
from precreg.shadow.onnx.program import Program
from precreg.shadow.onnx.values import is_real, to_wide
from precreg.shadow.recorder import Recorder
from precreg.shadow.sizes import MASK_LIMIT

# Gradients by output of the model, and by name of the value.
Adjoints = dict[str, dict[str, NDArray[Any]]]


class ShareLedger:
    """The values that windows share, and from them the shares of all nodes."""

    def __init__(self, program: Program, exact: ExactNodes, recorder: Recorder, dtype: np.dtype[Any]) -> None:
        self._program, self._exact, self._recorder, self._dtype = program, exact, recorder, dtype
        self._entries: dict[int, dict[str, Any]] = {}
        self._made = {name for node in program.nodes for name in node.proto.output if name}
        self._numbers: dict[int, int] = {}

    def keep(self, window: range, values: dict[str, Any]) -> None:
        """Keep the values that a window needs from those before it. They are the run's own, and no copies."""
        self._entries[window.start] = values

    def kept(self) -> list[Any]:
        """Return the values that are kept for the second pass."""
        return [value for values in self._entries.values() for value in values.values()]

    @np.errstate(all="ignore")
    def settle(
        self, errors: Mapping[str, NDArray[Any]], makers: Mapping[str, int], whole: Mapping[str, Any] | None
    ) -> dict[str, float]:
        """Add the shares of all operations to the recorder, and return their sums by output.

        `errors` are those of the outputs, and `makers` the numbers of the operations by the names of their results.
        `whole` has all values of the run, if windows do not give them.
        """
        adjoints: Adjoints = {}
        shares: dict[str, dict[int, float]] = {}
        for name, error in errors.items():
            size = float(np.sqrt(np.sum(np.square(error))))
            if np.isfinite(size) and size > 0.0:
                adjoints[name], shares[name] = {name: error / size**2}, {}
        for window in reversed(self._program.windows) if adjoints else ():
            values = self._entries.pop(window.start)
            values = {**values, **(self._program.run(window, values) if whole is None else whole)}
            for place in reversed(window):
                self._settle_node(place, values, adjoints, shares, makers)
        for name, found in shares.items():
            self._recorder.set_shares(name, found)
        return {name: sum(found.values()) for name, found in shares.items()}

    def _settle_node(
        self,
        place: int,
        values: Mapping[str, Any],
        adjoints: Adjoints,
        shares: dict[str, dict[int, float]],
        makers: Mapping[str, int],
    ) -> None:
        node = self._program.nodes[place]
        names = [*node.proto.output]
        reached = {output: [own.pop(name, None) for name in names] for output, own in adjoints.items()}
        reached = {output: each for output, each in reached.items() if any(g is not None for g in each)}
        if not reached:
            return
        given = {name: self._program.value(name, values) for name in node.reads}
        actual = [values.get(name) for name in names]
        number = makers[next(name for name in names if name)]
        if self._exact.note(place, given, actual) in ("created", "random"):
            return
        self._pass_on(place, given, actual, reached, adjoints, shares, number)

    def _pass_on(
        self,
        place: int,
        given: Mapping[str, Any],
        actual: Sequence[Any],
        reached: Mapping[str, Sequence[NDArray[Any] | None]],
        adjoints: Adjoints,
        shares: dict[str, dict[int, float]],
        number: int,
    ) -> None:
        node = self._program.nodes[place]
        of = [name for name in node.reads if name in self._made and is_real(given[name])]
        wide = {name: to_wide(value, self._dtype) for name, value in given.items()}
        try:
            pulled = self._exact.pull_back(place, wide, actual, of)
            own: Sequence[Any] = [each.value for each in pulled.outputs]
        except NotShadowedError as error:
            pulled = None
            if of:
                self._recorder.note_event("shares_cut", node.operator, node.site, detail=str(error)[:200])
            own = self._own_without_gradient(place, wide, actual)
        is_moved = self._exact.note(place, given, actual) == "moved"
        for output, gradients in reached.items():
            if own and not is_moved:
                shares[output][number] = self._share(actual, own, gradients)
            for name, gradient in (pulled.back(gradients, of) if pulled is not None else {}).items():
                at = adjoints[output]
                at[name] = at[name] + gradient if name in at else gradient

    def _own_without_gradient(self, place: int, wide: Mapping[str, Any], actual: Sequence[Any]) -> Sequence[Any]:
        try:
            return self._exact.compute(place, wide, actual)
        except NotShadowedError:
            return ()

    def _share(self, actual: Sequence[Any], own: Sequence[Any], gradients: Sequence[NDArray[Any] | None]) -> float:
        total = 0.0
        for value, exact, gradient in zip(actual, own, gradients, strict=False):
            if gradient is not None and exact is not None and is_real(value):
                wide = np.asarray(value).astype(self._dtype)
                counts = np.isfinite(wide) & np.isfinite(exact) & ~(np.abs(exact) > MASK_LIMIT)
                total += float(np.sum(np.where(counts, (wide - exact) * gradient, 0.0)))
        return total
