"""How does a computation of torch run with its operations altered?

torch dispatches every operator of ATen to a mode, below autograd, so a module runs unchanged. Operators that write into
their arguments stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from precreg.arithmetic.devices import Arithmetic
from precreg.diagnose.locations import ErrorLocation
from precreg.diagnose.places import ComputedPlace, PlaceKey, place_key
from precreg.diagnose.rewrites import Hypothesis, Params
from precreg.diagnose.torch.alterations import TorchExecution
from precreg.diagnose.torch.rewrites import TorchPlace, torch_hypotheses
from precreg.run import Arrays
from precreg.shadow import Recorder
from precreg.shadow.torch import OperationPlaces
from precreg.subject import Observer

# Results whose operators are remembered: kernels use a quotient or a product within a few operators.
_REMEMBERED = 16


class TorchRewriting(NamedTuple):
    """Run a computation of torch with rewrites of its operators; `compute` calls it with an observer.

    torch.compile leaves functions alone while operators are rewritten. `plain` then runs the compiled form.
    """

    compute: Callable[[Arrays, Params, Observer], Arrays]
    plain: Callable[[Arrays, Params], Arrays] | None = None

    def record(self, inputs: Arrays, params: Params) -> tuple[Arrays, Mapping[PlaceKey, ComputedPlace]]:
        """Return the outputs and the places."""
        observer = _Rewriter(())
        return self.compute(inputs, params, observer), observer.places

    def run(self, inputs: Arrays, params: Params, hypotheses: Sequence[Hypothesis]) -> Arrays:
        """Return the outputs of altered operators."""
        return self.compute(inputs, params, _Rewriter(hypotheses))

    def hypotheses(
        self, places: Iterable[ComputedPlace], inputs: Arrays, locations: Sequence[ErrorLocation]
    ) -> list[Hypothesis]:
        """Return every rewrite of every place."""
        return operator_hypotheses(places)


@contextmanager
def operators_rewritten(hypotheses: Sequence[Hypothesis]) -> Iterator[dict[PlaceKey, TorchPlace]]:
    """Alter the operators of torch at the places of hypotheses inside; give all places, which grow meanwhile."""
    rewriter = _Rewriter(hypotheses)
    with rewriter.running():
        yield rewriter.places


def operator_hypotheses(places: Iterable[ComputedPlace]) -> list[Hypothesis]:
    """Return every rewrite of the places that are operators of torch."""
    return [each for place in places if isinstance(place, TorchPlace) for each in torch_hypotheses(place)]


class _Rewriter:
    """Observe the call of a subject: note its places, and alter operators at the places of hypotheses."""

    def __init__(self, hypotheses: Sequence[Hypothesis]) -> None:
        self.places: dict[PlaceKey, TorchPlace] = {}
        self._alter = {key: each.alter for each in hypotheses if each.alter is not None for key in each.keys}
        self._module: object = None

    def call(
        self,
        function: Callable[..., object],
        arguments: Sequence[object],
        named: Mapping[str, object],
        arithmetic: Arithmetic | None = None,
    ) -> object:
        """Return `function(*arguments, **named)` with altered operators."""
        with self.running():
            return function(*arguments, **named)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Alter operators inside."""
        with OperationPlaces(Recorder(), self._module) as places, _RewritingMode(places, self._alter, self.places):
            yield

    def watch_module(self, module: object) -> None:
        """Learn the names of the layers of a module that is called next."""
        self._module = module

    def note_rounded_weights(self, module: str, dtype: str, changed: int, elements: int) -> None:
        """Ignore weights that were rounded before the call."""


class _RewritingMode(TorchDispatchMode):  # type: ignore[misc]
    """Run each operator, altered at some places, and note the places of floating-point results."""

    def __init__(
        self, finder: OperationPlaces, alter: Mapping[PlaceKey, Callable[..., Any]], places: dict[PlaceKey, TorchPlace]
    ) -> None:
        super().__init__()
        self._finder, self._alter, self._places = finder, alter, places
        # The tensors stay alive with their executions, so that their identities are their own.
        self._origins: dict[int, TorchExecution] = {}
        self._kept: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        executed = TorchExecution(func, tuple(args), kwargs or {}, self._origins)
        if not _can_alter(executed):
            self._finder.note_node()
            return executed.compute()
        key = self._key(str(func))
        alter = self._alter.get(key)
        result = executed.compute() if alter is None else alter(executed)
        first = result[0] if isinstance(result, tuple | list) and result else result
        if isinstance(first, torch.Tensor) and first.is_floating_point():
            self._note(key, executed, first)
            self._remember(executed, first)
        return result

    def _key(self, name: str) -> PlaceKey:
        found = self._finder.find()
        site = found.site
        via = tuple((part, 0) for part in (site.module, found.phase if found.phase != "forward" else "") if part)
        if found.phase == "forward":
            spanned = place_key(name, 3)
            if spanned.file == site.file:
                return spanned._replace(via=via)
        return PlaceKey(site.file, site.line, 0, site.line, 0, name, via)

    def _note(self, key: PlaceKey, executed: TorchExecution, result: Any) -> None:
        known = self._places.get(key)
        if known is not None:
            self._places[key] = known._replace(executions=known.executions + 1)
            return
        module = next((name for name, _ in key.via), "")
        self._places[key] = TorchPlace(
            key,
            str(executed.func),
            str(result.dtype).removeprefix("torch."),
            tuple(result.shape),
            tuple(_described_argument(each) for each in executed.args),
            _options(executed),
            frozenset(at for at, each in enumerate(_arguments(executed)) if str(each.type) == "Optional[Tensor]"),
            tuple(each.name for each in _arguments(executed)),
            module,
        )

    def _remember(self, executed: TorchExecution, result: Any) -> None:
        if executed.name.startswith(("aten.mul.", "aten.div.", "aten.add.")):
            self._origins[id(result)] = executed
            self._kept.append(result)
            if len(self._kept) > _REMEMBERED:
                self._origins.pop(id(self._kept.pop(0)), None)


def _described_argument(value: Any) -> Any:
    """Return a number, text or truth value as it is, and dtype and shape of a tensor."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype).removeprefix("torch."), tuple(value.shape)
    return value


def _arguments(executed: TorchExecution) -> list[Any]:
    """Return the arguments that have a position in the schema of an operator."""
    return [each for each in executed.func._schema.arguments if not each.kwarg_only]


def _options(executed: TorchExecution) -> dict[str, Any]:
    """Return the arguments by name, with the defaults of those that the call left out."""
    left_out = executed.func._schema.arguments[len(executed.args) :]
    defaults = {each.name: each.default_value for each in left_out if each.has_default_value()}
    return {**defaults, **executed.kwargs}


def _can_alter(executed: TorchExecution) -> bool:
    """Return whether an operator computes a new tensor from floating-point ones: no view, no random numbers."""
    schema = getattr(executed.func, "_schema", None)
    if schema is None or schema.is_mutable or torch.Tag.nondeterministic_seeded in executed.func.tags:
        return False
    if any(each.alias_info is not None for each in schema.returns):
        return False
    values = chain(executed.args, executed.kwargs.values())
    flat = chain.from_iterable(each if isinstance(each, list | tuple) else (each,) for each in values)
    return any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in flat)
