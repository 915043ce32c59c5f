"""From which layer on do stored tensors of another machine have errors that this run does not explain?

Each stored tensor is compared with this run's shadow as soon as its layer has run, so that memory holds one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.shadow.ledger import unit_of
from precreg.shadow.sizes import error_size
from precreg.types import DumpComparison, DumpedLayer

# Two machines that compute one model in one dtype add up in different orders: their errors against the exact values
# differ by less than this factor (tests/shadow/test_dumps.py).
_EXPLAINED = 4.0
# msprobe's names of the results of modules: Module.layers.3.norm.LayerNorm.forward.0.output.0.
_MSPROBE = re.compile(r"(?:Module|Cell)\.(.+)\.\w+\.forward\.(\d+)\.output\.(\d+)")


class StoredTensor(NamedTuple):
    """A stored tensor: its place as messages show it, and the function that reads it."""

    shown: str
    load: Callable[[], NDArray[Any]]


class DumpReader:
    """Compare stored tensors with the values of a trace, by name, in the order of execution.

    A name is the path of a module, the name of a node, of a probe or of an output. A slash counts as a dot.
    """

    def __init__(self, folder: str, stored: Mapping[str, StoredTensor]) -> None:
        self._folder = folder
        self._waiting = {_plain_name(name): (name, tensor) for name, tensor in stored.items()}
        self._layers: list[DumpedLayer] = []
        self._only_traced: list[str] = []
        self._other_shapes: list[str] = []

    def take(self, names: Sequence[str], load: Callable[[], tuple[NDArray[Any], NDArray[Any] | None]]) -> None:
        """Compare a value that has one of these names; `load` returns it with its shadow, on the host."""
        name = next((each for each in names if each in self._waiting), None)
        if name is None:
            self._only_traced += names[:1]
            return
        given, tensor = self._waiting.pop(name)
        (actual, shadow), dumped = load(), tensor.load()
        if shadow is None or dumped.size != actual.size:
            self._other_shapes.append(given)
            return
        dumped = dumped.reshape(actual.shape)
        there, here = error_size(dumped, shadow), error_size(actual, shadow)
        limit = _EXPLAINED * max(here.relative, unit_of(dtype_name(dumped.dtype)))
        self._layers.append(DumpedLayer(given, tensor.shown, there, here, not there.relative <= limit))

    def finish(self) -> DumpComparison:
        """Return all comparisons, and the names without a counterpart."""
        return DumpComparison(
            folder=self._folder,
            layers=tuple(self._layers),
            only_dumped=tuple(name for name, _ in self._waiting.values()),
            only_traced=tuple(dict.fromkeys(self._only_traced)),
            other_shapes=tuple(self._other_shapes),
        )


def _plain_name(name: str) -> str:
    """Return the name under which a trace has a stored tensor: LAYER, or LAYER.CALL.OUTPUT of msprobe's."""
    found = _MSPROBE.fullmatch(name.rpartition("/")[2].rpartition(":")[2])
    return ".".join(found.groups()) if found else re.sub(r"[/:]", ".", name)


def layer_names(layer: str, call: int, output: str, place: int) -> list[str]:
    """Return the names that a stored output of a layer may have: by layer, call and output.

    `output` is the name of the output, and `place` its number; both count from 0 in dumps of msprobe.
    """
    last = "" if output == "out" else f".{output}"
    plain = [f"{layer}{last}"] if call == 0 else []
    return [*plain, f"{layer}.{call}{last}", f"{layer}.{call}.{place}"]


def first_unexplained(layers: Iterable[DumpedLayer]) -> DumpedLayer | None:
    """Return the first layer whose stored error this run does not explain; None if there is none."""
    return next((layer for layer in layers if layer.unexplained), None)
