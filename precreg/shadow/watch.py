"""Which elements of which arrays does a user watch, and which facts does each computation of them give?"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import islice, product
from math import isfinite, prod
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS, Format, dtype_name, ulp
from precreg.errors import UserError
from precreg.shadow.place import PlacePattern, is_place, statement_at
from precreg.shadow.recorder import Lookup, Observed
from precreg.shadow.sizes import error_size
from precreg.shadow.variables import Assigned, VariableWatch
from precreg.subject import is_tensor, tensor_to_array
from precreg.types import Operation, Scalar, UnmatchedPattern, WatchedValue

Selection = tuple[slice | int | EllipsisType, ...]

# Elements that are listed without a selection, of lanes, and of a selection of the watch itself.
FIRST_ELEMENTS = 8
MAX_LANES = 64
MAX_ELEMENTS = 1024

_WATCH = re.compile(r"([^\[\]]+)(?:\[([^\[\]]*)\])?")
_SLICE = re.compile(r"(-?[0-9]{1,18})?\s*:\s*(-?[0-9]{1,18})?\s*(?::\s*(-?[0-9]{1,18})?)?")


class WatchSpec(NamedTuple):
    """A watch: its text, the name, and the selected elements; None selects the first."""

    text: str
    name: str
    selection: Selection | None


def parse_watch(text: str) -> WatchSpec:
    """Read NAME or NAME[0:64, ...]. Raises UserError: bad-watch."""
    found = _WATCH.fullmatch(text.strip())
    if found is None or not is_place(found[1].strip()):
        message = f"expected NAME or NAME[0:64] but got watch={text!r}"
        raise UserError("bad-watch", message, hint="write --watch 'scores[0, 0:8]'")
    name = found[1].strip()
    return WatchSpec(text.strip(), name, None if found[2] is None else _selection(found[2], f"watch={text!r}"))


def parse_lanes(text: str) -> Selection:
    """Read a selection of the last axis, 0:8 or 3. Raises UserError: bad-watch."""
    selection = _selection(text, f"lanes={text!r}")
    if len(selection) != 1 or selection[0] is ...:
        message = f"expected a slice of the last axis but got lanes={text!r}"
        raise UserError("bad-watch", message, hint="write --lanes 0:8")
    return (..., *selection)


def _selection(text: str, shown: str) -> Selection:
    parts = [_axis(part.strip(), shown) for part in text.split(",")]
    if parts.count(...) > 1:
        raise UserError("bad-watch", f"expected at most one ... but got {shown}", hint="write [..., 0:8]")
    return tuple(parts)


def _axis(text: str, shown: str) -> slice | int | EllipsisType:
    if text == "...":
        return ...
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    found = _SLICE.fullmatch(text)
    if found is None or found[3] == "0":
        message = f"expected indices and slices as numpy has them, such as 0:64, but got {text!r} in {shown}"
        raise UserError("bad-watch", message, hint="write [0, 0:64:2]")
    return slice(*(None if part is None else int(part) for part in found.groups()))


class Watch:
    """Show the selected elements of every array that a text names, each time it is computed.

    `lanes` selects elements for a watch without a selection.
    """

    def __init__(self, spec: WatchSpec, show: Callable[[WatchedValue], None], lanes: Selection | None = None) -> None:
        self._spec, self._show = spec, show
        self._lanes = lanes
        self._place = PlacePattern(spec.name)
        # A name with wildcards or dots is not a variable.
        self._variable = (
            VariableWatch(spec.name, self._value, self._show_variable) if spec.name.isidentifier() else None
        )

    def take_lookup(self, lookup: Lookup | None) -> None:
        """Find the shadows of variables by this from now on; None ends the computation."""
        if self._variable is not None:
            self._variable.take_lookup(lookup)

    def see(self, observed: Observed) -> None:
        """Show an operation that the text names, and the variables of that name."""
        is_named = self._place.matches(observed.operation)
        if self._variable is not None:
            self._variable.see(observed)
        if is_named:
            self._show(self._value(Assigned(*observed[:3])))

    def _show_variable(self, value: WatchedValue) -> None:
        self._place.matched = True
        self._show(value)

    def see_output(self, name: str, actual: NDArray[Any], exact: NDArray[Any] | None) -> None:
        """Show an output of this name."""
        if self._variable is not None:
            self._variable.finish()
        if self._place.matches_output(name):
            facts = {"watch": self._spec.text, "number": 0, "name": name}
            self._show(watched_value(facts, self._selection(actual.ndim), actual, exact, self._limit()))

    def unmatched(self) -> UnmatchedPattern | None:
        """Return the text, with the nearest names, if nothing matched."""
        return self._place.unmatched()

    def _selection(self, axes: int) -> Selection | None:
        given = self._spec.selection
        return given if given is not None else self._lanes if axes else None

    def _limit(self) -> int:
        return MAX_LANES if self._spec.selection is None else MAX_ELEMENTS

    def _value(self, observed: Assigned) -> WatchedValue:
        operation = observed.operation
        place, code = _statement(operation)
        facts = {
            "watch": self._spec.text,
            "number": operation.number,
            "name": operation.name,
            "place": place,
            "code": code,
            "module": operation.site.module,
            "step": operation.step,
        }
        selection = self._selection(len(observed.actual.shape))
        return watched_value(facts, selection, observed.actual, observed.exact, self._limit())


def _statement(operation: Operation) -> tuple[str, str]:
    site = operation.site
    if not site.file:
        return "", ""
    # The file as an editor opens it from here.
    file = site.file.removeprefix(f"{os.getcwd()}{os.sep}")
    return f"{file}:{statement_at(site.file, site.line).line}", site.code


def watched_value(
    facts: dict[str, Any], selection: Selection | None, actual: Any, exact: Any, limit: int
) -> WatchedValue:
    """Return the facts of the selected elements of an array or tensor; `facts` are the place's.

    At most `limit` elements are listed.
    """
    values = _on_host(actual)
    shadow = None if exact is None else _on_host(exact)
    chosen = _indices(values.shape, selection, limit)
    indices, selected = ((), None) if chosen is None else chosen
    format = FORMATS.get(dtype_name(values.dtype))
    exacts = () if shadow is None else tuple(shadow[index] for index in indices)
    return WatchedValue(
        **facts,
        dtype=dtype_name(values.dtype),
        shape=values.shape,
        total=None if shadow is None else error_size(values, shadow).relative,
        digest=sha256(values.tobytes()).hexdigest()[:16],
        indices=indices,
        actual=tuple(_scalar(values[index]) for index in indices),
        exact=tuple(map(_scalar, exacts)),
        ulps=_ulps([values[index] for index in indices], exacts, format) if format is not None and exacts else (),
        selected=selected,
    )


def _on_host(value: Any) -> NDArray[Any]:
    return tensor_to_array(value, "a watched value") if is_tensor(value) else asarray(value)


def _indices(
    shape: tuple[int, ...], selection: Selection | None, limit: int
) -> tuple[tuple[tuple[int, ...], ...], int] | None:
    """Return the first selected indices in C order and the count of all; None if the selection does not fit."""
    if selection is None:
        size = prod(shape)
        places = product(*map(range, shape))
        return tuple(islice(places, FIRST_ELEMENTS)), min(size, FIRST_ELEMENTS)
    axes = list(selection)
    missing = len(shape) - sum(axis is not ... for axis in axes)
    if missing < 0:
        return None
    at = axes.index(...) if ... in axes else len(axes)
    axes[at : at + 1] = [slice(None)] * missing
    ranges = []
    for size, axis in zip(shape, axes, strict=True):
        if isinstance(axis, int):
            if not -size <= axis < size:
                return None
            axis = slice(axis % size, axis % size + 1)
        assert isinstance(axis, slice)
        ranges.append(range(size)[axis])
    return tuple(islice(product(*ranges), limit)), prod(map(len, ranges))


@np.errstate(all="ignore")
def _ulps(values: Sequence[Any], shadow: Sequence[Any], format: Format) -> tuple[Scalar, ...]:
    # The shadow of a float64 is wider, and its errors are lost in float64.
    exact = asarray(shadow)
    actual = asarray(values).astype(exact.dtype)
    same = (actual == exact) | (np.isnan(actual) & np.isnan(exact))
    errors = np.where(same, 0.0, np.abs(actual - exact) / ulp(exact.astype(np.float64), format))
    return tuple(map(_scalar, np.where(np.isnan(errors), np.inf, errors)))


def _scalar(value: Any) -> Scalar:
    if value.dtype.kind in "biu":
        return int(value)
    if value.dtype.kind == "c":
        return str(value)
    number = float(value)
    if not isfinite(number):
        return repr(number)
    # A longdouble may lie between two numbers of float64.
    return number if value == number else str(value)


class WatchedValues:
    """Collect watched values up to a bound on their elements, and count those beyond it."""

    def __init__(self, limit: int) -> None:
        self._room = limit
        self.values: list[WatchedValue] = []
        self.left_out = 0

    def add(self, value: WatchedValue) -> None:
        """Keep a value if there is room."""
        if len(value.indices) > self._room:
            self.left_out += 1
            return
        self._room -= max(1, len(value.indices))
        self.values.append(value)
