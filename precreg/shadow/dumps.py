"""From which layer on do stored tensors of another machine have errors that this run does not explain?

Each stored tensor is compared with this run's shadow as soon as its layer has run, so that memory holds one at a time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.shadow.ledger import unit_of
from precreg.shadow.recorder import Observed
from precreg.shadow.sizes import error_size
from precreg.subject import is_tensor, output_leaves, tensor_to_array
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


class ValuesOnHost(Protocol):
    """Return values of a traced computation as arrays on the host, without a trace of this."""

    def plain_array(self, name: str, value: Any) -> NDArray[Any]:
        """Return a value in low precision."""

    def shadow_of(self, value: Any) -> NDArray[Any] | None:
        """Return the shadow of a value, if it is known."""


class DumpReader:
    """Compare stored tensors with the values of a trace, by name, in the order of execution.

    A name is the path of a module, the name of a node, of a probe or of an output. A slash counts as a dot. A reader
    listens to a recorder for nodes, probes and outputs, and `layers_read` shows it the modules of torch.
    """

    def __init__(self, folder: str, stored: Mapping[str, StoredTensor]) -> None:
        self._folder = folder
        self._stored = {_plain_name(name): (name, tensor) for name, tensor in stored.items()}
        self._layers: dict[str, DumpedLayer | None] = {}
        self._only_traced: dict[str, None] = {}

    def see(self, observed: Observed) -> None:
        """Compare a probe, or the result of a node. The last node of a module has the result of the module."""
        operation = observed.operation
        if operation.note == "probe":
            self._take_values([operation.name], observed.actual, observed.exact)
        elif operation.engine == "onnx" and operation.site.module:
            self._layers.pop(operation.site.module, None)
            self._take_values([operation.site.module], observed.actual, observed.exact)

    def see_output(self, name: str, actual: NDArray[Any], exact: NDArray[Any] | None) -> None:
        """Compare an output."""
        self._take_values([name], actual, exact)

    def _take_values(self, names: Sequence[str], actual: Any, exact: Any) -> None:
        self.take(names, lambda: (_on_host(actual), None if exact is None else _on_host(exact)))

    def take(self, names: Sequence[str], load: Callable[[], tuple[NDArray[Any], NDArray[Any] | None]]) -> None:
        """Compare a value that has one of these names; `load` returns it with its shadow, on the host."""
        name = next((each for each in names if each in self._stored and each not in self._layers), None)
        if name is not None:
            self._layers[name] = self._compare(name, *load())
        elif not any(each in self._layers for each in names):
            self._only_traced |= dict.fromkeys(names[:1])

    def _compare(self, name: str, actual: NDArray[Any], shadow: NDArray[Any] | None) -> DumpedLayer | None:
        """Return the errors of a stored tensor and of this run; None for another number of elements."""
        given, tensor = self._stored[name]
        dumped = tensor.load()
        if shadow is None or dumped.size != actual.size:
            return None
        there, here = error_size(dumped.reshape(actual.shape), shadow), error_size(actual, shadow)
        limit = _EXPLAINED * max(here.relative, unit_of(dtype_name(dumped.dtype)))
        return DumpedLayer(given, tensor.shown, there, here, not there.relative <= limit)

    @contextmanager
    def layers_read(self, module: Any, values: ValuesOnHost) -> Iterator[None]:
        """Compare the outputs of the layers of a module of torch as they are computed inside; None has no layers."""
        calls: Counter[str] = Counter()

        def note(layer: str, _module: Any, _inputs: Any, output: Any) -> None:
            for place, (name, leaf) in enumerate(output_leaves(output)):
                names = layer_names(layer, calls[layer], name, place)
                self.take(names, partial(_both_values, values, layer, leaf))
            calls[layer] += 1

        named = module.named_modules(remove_duplicate=False) if hasattr(module, "named_modules") else ()
        handles = [each.register_forward_hook(partial(note, name)) for name, each in named if name]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def finish(self) -> DumpComparison:
        """Return all comparisons, and the names without a counterpart."""
        names = {plain: given for plain, (given, _) in self._stored.items()}
        return DumpComparison(
            folder=self._folder,
            layers=tuple(layer for layer in self._layers.values() if layer is not None),
            only_dumped=tuple(given for plain, given in names.items() if plain not in self._layers),
            only_traced=tuple(self._only_traced),
            other_shapes=tuple(names[plain] for plain, layer in self._layers.items() if layer is None),
        )


def _both_values(values: ValuesOnHost, name: str, leaf: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    return values.plain_array(name, leaf), values.shadow_of(leaf)


def _on_host(value: Any) -> NDArray[Any]:
    return tensor_to_array(value, "a value") if is_tensor(value) else np.asarray(value)


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
