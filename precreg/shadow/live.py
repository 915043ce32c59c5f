"""How is a block or a function of a script traced, without a project?"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from precreg.arithmetic import dtype_name
from precreg.errors import UserError
from precreg.shadow.case_trace import coarsest_dtype, with_relative_files
from precreg.shadow.engines import RunningEngines
from precreg.shadow.listeners import Listeners
from precreg.shadow.tracer import Tracer
from precreg.subject import is_tensor, output_leaves
from precreg.types import Trace

_T = TypeVar("_T")


class TracedBlock:
    """Trace the operations between `start` and `stop`.

    Arrays of numpy are traced from `wrap` on, tensors of torch from their first operation. `module` names layers; if
    the block calls it, its last result is the output. `dtype` is the one whose rounding is normal.
    """

    def __init__(
        self, name: str, listeners: Listeners, *, module: object = None, dtype: str | None = None, shares: bool = True
    ) -> None:
        self._name, self._listeners, self._dtype = name, listeners, dtype
        self._tracer = Tracer(listeners.recorder, shares=shares)
        self._module = module
        self._engines = RunningEngines(listeners.recorder, module, shares=shares)
        self._outputs: dict[str, Any] = {}
        self._inputs: list[str] = []
        self._hook: Any = None

    def start(self) -> Self:
        """Begin. Raises UserError: nested-trace."""
        self._engines.__enter__()
        if self._module is not None:
            self._hook = self._module.register_forward_hook(self._take_result)  # type: ignore[attr-defined]
        return self

    def _take_result(self, _module: object, _arguments: object, result: object) -> None:
        # A result would take the place of the module's own.
        self._outputs = dict(_array_leaves(result))

    def wrap(self, value: _T) -> _T:
        """Return a value in which every array is one that an engine sees."""
        self._inputs += [_dtype_of(leaf) for _, leaf in _array_leaves(value)]
        wrapped: _T = _map_arrays(self._engines.wrap, value)
        return wrapped

    def unwrap(self, value: _T) -> _T:
        """Return a result with plain arrays, in its own structure."""
        plain: _T = _map_arrays(self._engines.unwrap, value)
        return plain

    def keep_output(self, name: str, value: object) -> None:
        """Make a value one of the outputs, whose errors and shares the trace has.

        Raises:
            UserError: bad-outputs, if it has no array.
        """
        leaves = dict(_array_leaves(value))
        if not leaves:
            raise UserError(
                "bad-outputs", f"expected an array or tensor but got output {name} of {type(value).__name__}"
            )
        single = set(leaves) == {"out"}
        self._outputs |= {name if single else f"{name}.{leaf}": array for leaf, array in leaves.items()}

    def keep_outputs(self, returned: object) -> None:
        """Make the arrays of a function's result the outputs, under the names that outputs of a case have."""
        self._outputs |= dict(_array_leaves(returned))

    def stop(self, *exception: Any) -> Trace:
        """End, and return the trace: after an exception, the operations before it and no outputs."""
        try:
            if self._hook is not None:
                self._hook.remove()
            if not any(exception):
                self._tracer.keep_outputs(self._engines, self._outputs)
        finally:
            self._engines.__exit__(*(exception or (None, None, None)))
        recorder, outputs = self._listeners.recorder, self._tracer.outputs
        trace = Trace(
            case=self._name,
            dtype=self._dtype or self._own_dtype(),
            facts={"numpy": np.__version__},
            operations=tuple(recorder.operations),
            events=recorder.events,
            outputs=outputs,
        )
        return with_relative_files(self._listeners.add_to(trace), Path.cwd())

    def _own_dtype(self) -> str:
        """Return the coarsest floating dtype of parameters, inputs and outputs; else the one of most operations."""
        parameters = () if self._module is None else self._module.parameters()  # type: ignore[attr-defined]
        names = [*self._inputs, *map(_dtype_of, parameters), *(output.dtype for output in self._tracer.outputs)]
        known = [name for name in names if coarsest_dtype([name]) == name]
        if known:
            return coarsest_dtype(known)
        # A block without them may hold one cast to a coarser dtype, which is a loss there.
        counts = Counter(each.dtype for each in self._listeners.recorder.operations)
        return next((name for name, _ in counts.most_common() if coarsest_dtype([name]) == name), "float64")


def _array_leaves(value: object) -> list[tuple[str, Any]]:
    """Return the arrays and tensors of a value with their names; none for a value that outputs of a case cannot be."""
    try:
        leaves = list(output_leaves(value))
    except UserError:
        return []
    return [(name, leaf) for name, leaf in leaves if is_tensor(leaf) or isinstance(leaf, np.ndarray | np.generic)]


def _dtype_of(leaf: Any) -> str:
    return str(leaf.dtype).removeprefix("torch.") if is_tensor(leaf) else dtype_name(leaf.dtype)


def _map_arrays(change: Callable[[Any], Any], value: Any) -> Any:
    """Return a value of the same structure with changed arrays; containers without a change stay the same objects."""
    if isinstance(value, np.ndarray | np.generic) or is_tensor(value):
        return change(value)
    kind = type(value)
    if kind in (list, tuple, dict):
        parts = value.values() if kind is dict else value
        changed = [_map_arrays(change, part) for part in parts]
        if all(new is old for new, old in zip(changed, parts, strict=True)):
            return value
        return dict(zip(value, changed, strict=True)) if kind is dict else kind(changed)
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        return kind._make(_map_arrays(change, part) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _map_fields(change, value)
    return value


def _map_fields(change: Callable[[Any], Any], value: Any) -> Any:
    found = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    changed = {name: new for name, old in found.items() if (new := _map_arrays(change, old)) is not old}
    if not changed:
        return value
    # Not dataclasses.replace, which would run the user's __post_init__ again.
    result = copy(value)
    for name, new in changed.items():
        object.__setattr__(result, name, new)
    return result
