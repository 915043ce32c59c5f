"""How do the recorded calls of numpy compute again, in their own dtypes or in higher precision?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from os.path import realpath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS, dtype_name
from precreg.diagnose.reduction.steps import ChainStep, outputs_after
from precreg.shadow import relative_site
from precreg.shadow.numpy import CallRecorder, RecordedCall, SpelledCall, ValueName
from precreg.types import TraceEngine

Plain = NDArray[Any]


class NumpyChain:
    """The recorded calls of one function, as the steps of a chain."""

    engine: TraceEngine = "numpy"

    def __init__(self, recorder: CallRecorder, project: Path) -> None:
        root = Path(realpath(project))
        calls = [call._replace(site=relative_site(call.site, root)) for call in recorder.calls]
        self.calls: Sequence[RecordedCall] = calls
        self.low: Mapping[str, Plain] = recorder.low
        self.outputs: Mapping[str, str] = recorder.outputs
        self.steps: Sequence[ChainStep] = [_step(call) for call in calls]
        floats = [array.dtype for array in recorder.low.values() if is_narrow(array.dtype)]
        # A float64 of its own would be no higher precision.
        inputs = [dtype for dtype in floats if dtype.name not in ("float64", "complex128")]
        self.wide = np.dtype(np.float64 if inputs else np.longdouble)

    def widen(self, value: Any) -> Plain:
        """Return an array in the wide dtype; integers and truth values as they are."""
        array = np.asarray(value)
        return array.astype(wide_dtype(array.dtype, self.wide)) if is_narrow(array.dtype) else array

    def compute(self, place: int, wide: Mapping[str, Any]) -> list[Plain]:
        """Return the results of a call on wide values, with wide dtypes in the place of narrow ones."""
        call = self.calls[place]
        with np.errstate(all="ignore"):
            found = run_call(call.spelled, wide, self.wide)
        return [self.widen(each) for each in _made(call, found)]

    def replaced(self, name: str, value: Plain) -> dict[str, Plain]:
        """Return the outputs of the low-precision computation with another value in the place of a name's."""

        def compute(place: int, values: Mapping[str, Any]) -> list[Any]:
            with np.errstate(all="ignore"):
                return _made(self.calls[place], run_call(self.calls[place].spelled, values, None))

        return outputs_after(self, {**self.low, name: value}, name, compute)

    def repeats(self, place: int) -> bool:
        """Return whether a call on its recorded values gives the recorded results, bit by bit."""
        call = self.calls[place]
        try:
            with np.errstate(all="ignore"):
                found = run_call(call.spelled, self.low, None)
        # The function may be of any library.
        except Exception:
            return False
        made = [name for name in call.makes if name]
        return all(_has_bits(each, self.low[name]) for name, each in zip(made, _made(call, found), strict=True))


def _step(call: RecordedCall) -> ChainStep:
    reads = tuple(dict.fromkeys(names_in(call.spelled)))
    return ChainStep(describe_call(call.spelled), call.site, reads, tuple(name for name in call.makes if name))


def describe_call(call: SpelledCall) -> str:
    """Return the name of the operation, as a trace has it."""
    if call.target is not None:
        return f"{call.name or 'item'} (written)"
    return call.name or "getitem"


def names_in(value: Any) -> Iterator[str]:
    """Yield the names of the values that a call or an argument reads."""
    if isinstance(value, ValueName):
        yield value.name
    elif isinstance(value, SpelledCall):
        for each in (value.target, value.view, value.arguments, value.options):
            yield from names_in(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from names_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from names_in(each)


def _made(call: RecordedCall, found: Any) -> list[Any]:
    parts = list(found) if isinstance(found, tuple | list) else [found]
    return [part for name, part in zip(call.makes, parts, strict=True) if name]


def run_call(call: SpelledCall, values: Mapping[str, Any], wide: np.dtype[Any] | None) -> Any:
    """Make a call again on values by name. `wide` replaces narrow dtypes among its arguments, if there is one."""
    if call.target is not None:
        return _written(call, values, wide)
    arguments, options = _filled(call.arguments, values, wide), _filled(call.options, values, wide)
    if call.kind == "item":
        return arguments[0][arguments[1]]
    if call.kind == "method":
        return getattr(arguments[0], call.name)(*arguments[1:], **options)
    return function_of(call)(*arguments, **options)


def function_of(call: SpelledCall) -> Callable[..., Any]:
    """Return the function that a call names. Raises AttributeError and ImportError for one of no module."""
    found: Any = operator if call.kind == "operator" else import_module(call.module)
    for name in call.name.split("."):
        found = getattr(found, name)
    function: Callable[..., Any] = found
    return function


def _written(call: SpelledCall, values: Mapping[str, Any], wide: np.dtype[Any] | None) -> Plain:
    assert call.target is not None
    whole = np.array(values[call.target.name])
    given = {**values, call.target.name: whole}
    part = whole if call.view is None else run_call(call.view, given, None)
    is_copy = not np.shares_memory(part, whole)
    arguments, options = _filled(call.arguments, values, wide), _filled(call.options, values, wide)
    if call.kind == "item":
        part[arguments[0]] = arguments[1]
    elif call.is_first:
        function_of(call)(part, *arguments, **options)
    elif call.kind == "method":
        getattr(arguments[0], call.name)(*arguments[1:], **options, out=part)
    else:
        function_of(call)(*arguments, **options, out=part)
    if is_copy and call.view is not None:
        whole.reshape(-1)[values[call.view.arguments[1].name]] = part
    return whole


def _filled(value: Any, values: Mapping[str, Any], wide: np.dtype[Any] | None) -> Any:
    if isinstance(value, ValueName):
        return values[value.name]
    if isinstance(value, list):
        return [_filled(each, values, wide) for each in value]
    if isinstance(value, tuple):
        return tuple(_filled(each, values, wide) for each in value)
    if isinstance(value, dict):
        return {name: _filled(each, values, wide) for name, each in value.items()}
    return value if wide is None else widened_argument(value, wide)


def widened_argument(value: Any, wide: np.dtype[Any]) -> Any:
    """Return a narrow number or dtype in the wide dtype; any other argument as it is."""
    if isinstance(value, np.dtype) and is_narrow(value):
        return wide_dtype(value, wide)
    if isinstance(value, np.generic) and is_narrow(value.dtype):
        return value.astype(wide_dtype(value.dtype, wide))
    if isinstance(value, type) and issubclass(value, np.generic | float | complex):
        try:
            dtype = np.dtype(value)
        except TypeError:
            # The abstract types, such as numpy.floating.
            return value
        return wide_dtype(dtype, wide) if is_narrow(dtype) else value
    if isinstance(value, str) and value in FORMATS:
        return wide
    return value


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype has floating or complex numbers."""
    return dtype.kind in "fc" or dtype_name(dtype) in FORMATS


def wide_dtype(dtype: np.dtype[Any], wide: np.dtype[Any]) -> np.dtype[Any]:
    """Return the wide dtype, or the complex one of its parts."""
    return np.result_type(wide, np.complex64) if dtype.kind == "c" else wide


def _has_bits(found: Any, recorded: Plain) -> bool:
    array = np.asarray(found)
    if array.dtype != recorded.dtype or array.shape != recorded.shape:
        return False
    return np.ascontiguousarray(array).tobytes() == np.ascontiguousarray(recorded).tobytes()
