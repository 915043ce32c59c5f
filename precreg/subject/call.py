"""Which arguments does a computation take, and which outputs does it return?

Suites check computations when they load, so this module imports numpy late.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError
from precreg.subject.tensors import is_tensor, tensor_to_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from precreg.arithmetic.devices import Arithmetic


class Observer(Protocol):
    """Watch the operations of a subject while it runs, as a trace does."""

    def call(
        self,
        function: Callable[..., object],
        arguments: Sequence[object],
        named: Mapping[str, object],
        arithmetic: Arithmetic | None = None,
    ) -> object:
        """Return `function(*arguments, **named)`; an arithmetic computes its operations on arrays, if there is one."""

    def watch_module(self, module: object) -> None:
        """Learn the names of the layers of a module of torch that is called next."""

    def note_rounded_weights(self, module: str, dtype: str, changed: int, elements: int) -> None:
        """Learn how many weights a specification's dtype rounded before the call: the call does not see it."""


class Call(Struct, frozen=True):
    """Hold the arguments of one computation, and where it belongs.

    `inputs` and `params` are copies that the subject may change. `directory` is the folder of the suite and `project`
    the root of the project, as absolute paths. `arithmetic` computes the operations on inputs; None leaves them to
    numpy. An `observer` calls the subject's function. `case` is the id of the case, for messages.
    """

    inputs: dict[str, NDArray[Any]]
    params: dict[str, Any]
    directory: Path
    project: Path
    arithmetic: Arithmetic | None = None
    observer: Observer | None = None
    case: str = ""


class Outputs(NamedTuple):
    """Hold arrays by output name, in their order, and the duration of the computation in seconds.

    `facts` name the hardware and the libraries that computed, for the run record. The fact "accelerator" has a family
    and a model, such as "cuda NVIDIA H100": the case then has the baselines and tolerances of that accelerator. A fact
    whose name begins with "about_" only explains; any other one decides bits, and enters the fingerprint.
    """

    arrays: dict[str, NDArray[Any]]
    # Each kind measures its own time, because only the kind knows where loading ends and computing begins.
    duration_s: float
    facts: Mapping[str, str] = {}


def gather_facts(computed: Iterable[Outputs]) -> dict[str, str]:
    """Return the facts of several computations of one case; later facts win."""
    return {name: fact for outputs in computed for name, fact in outputs.facts.items()}


def name_outputs(returned: object) -> dict[str, NDArray[Any]]:
    """Name the arrays that a function returned: one is "out", a dict has its names, a sequence counts from "0".

    A dataclass has the names of its fields. Dicts, dataclasses, and sequences with tensors or with these in them get
    dotted names, such as "hidden.0.key"; another sequence inside is one array, as numpy makes it. Python numbers become
    0-d float64 (or complex128) arrays, and tensors of torch become arrays. None is left out inside of these, among
    tensors, and in a dataclass. The arrays are C-order copies.

    Raises:
        UserError: bad-outputs, for any other value.
    """
    found: dict[str, NDArray[Any]] = {}
    for name, value in output_leaves(returned):
        if name in found:
            raise UserError("bad-outputs", f"expected a name for each output but got two of name={name!a}")
        found[name] = _array(name, value)
    return found


def output_leaves(returned: object) -> Iterator[tuple[str, object]]:
    """Yield the outputs of a result with their names, before they become arrays. Raises UserError (bad-outputs)."""
    members = _members(returned, "")
    if members is None:
        yield "out", returned
    else:
        yield from _leaves("", returned, members, 1)


# A result inside itself would never end.
_MAX_DEPTH = 20


def _members(value: object, place: str) -> list[tuple[str, object]] | None:
    """Return the parts of a result by name; None for a value that is one output. `place` is its name, "" at the top."""
    if isinstance(value, Mapping):
        # Caches of keys and values count their layers.
        return [(str(name) if place and type(name) is int else _name(name), item) for name, item in value.items()]
    if is_dataclass(value) and not isinstance(value, type):
        return [(each.name, getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, tuple | list) and (not place or any(map(_is_named, value))):
        return [(str(index), item) for index, item in enumerate(value)]
    return None


def _is_named(value: object) -> bool:
    """Return whether a member of a sequence is an output of its own, or several."""
    if isinstance(value, tuple | list):
        return any(map(_is_named, value))
    return is_tensor(value) or isinstance(value, Mapping) or (is_dataclass(value) and not isinstance(value, type))


def _leaves(place: str, value: object, members: list[tuple[str, object]], depth: int) -> Iterator[tuple[str, object]]:
    if depth > _MAX_DEPTH:
        raise UserError(
            "bad-outputs", f"expected at most {_MAX_DEPTH} levels of outputs but got output {place[:40]}..."
        )
    # Modules return None in the place of results that nobody requested.
    has_gaps = bool(place) or is_dataclass(value) or any(is_tensor(item) for _, item in members)
    for name, item in members:
        if item is None and has_gaps:
            continue
        inner = _name(f"{place}.{name}" if place else name)
        parts = _members(item, inner)
        if parts is None:
            yield inner, item
        else:
            yield from _leaves(inner, item, parts, depth + 1)


def require_numeric(output: object, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array if its elements are numbers.

    Raises:
        UserError: bad-outputs.
    """
    if array.dtype.kind in "biufc" or array.dtype.name in DTYPE_NAMES:
        return array
    raise UserError("bad-outputs", f"expected an array of numbers but got output {output} of dtype={array.dtype}")


# Longer names make no readable table, and the name of a file may have 255 bytes.
MAX_OUTPUT_NAME = 200


def _name(name: object) -> str:
    """Return a name that records and baselines can store. Raises UserError (bad-outputs) for any other value."""
    if not isinstance(name, str):
        raise UserError(
            "bad-outputs", f"expected output names that are strings but got name={name!r:.{MAX_OUTPUT_NAME}}"
        )
    if len(name) > MAX_OUTPUT_NAME:
        message = f"expected output names of at most {MAX_OUTPUT_NAME} characters but got {len(name)}"
        raise UserError("bad-outputs", f"{message}: {name[:20]!a}...")
    try:
        name.encode()
    except UnicodeEncodeError:
        # JSON cannot store a lone surrogate.
        raise UserError("bad-outputs", f"expected output names of Unicode characters but got name={name!a}") from None
    return name


def check_outputs(outputs: Outputs) -> Outputs:
    """Return the outputs of an installed kind, as `name_outputs` makes them: arrays of numbers under names.

    Raises:
        UserError: bad-outputs.
    """
    import numpy as np

    if not isinstance(outputs, Outputs) or not isinstance(outputs.arrays, Mapping):
        raise UserError("bad-outputs", f"expected a kind of subject to return Outputs but got {type(outputs).__name__}")
    arrays = {
        _name(name): require_numeric(name, value) if type(value) is np.ndarray else _array(name, value)
        for name, value in outputs.arrays.items()
    }
    return Outputs(arrays, float(outputs.duration_s), _check_facts(outputs.facts))


def _check_facts(facts: object) -> dict[str, str]:
    """Return facts as texts of one line that JSON can store. Raises UserError: bad-outputs."""
    if not isinstance(facts, Mapping):
        raise UserError("bad-outputs", f"expected facts as a dict of texts but got {type(facts).__name__}")
    return {_fact_text(name): _fact_text(value) for name, value in facts.items()}


def _fact_text(value: object) -> str:
    # JSON cannot store a lone surrogate.
    return " ".join(str(value).split()).encode(errors="replace").decode()


def _array(output: object, value: object) -> NDArray[Any]:
    import numpy as np

    if value is None:
        raise UserError("bad-outputs", f"expected an array but got None for output {output}")
    if is_tensor(value):
        return tensor_to_array(value, f"output {output}")
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        try:
            return np.array(value, dtype=np.float64)
        except OverflowError as error:
            message = f"expected a number that float64 can hold but got {error} for output {output}"
            raise UserError("bad-outputs", message) from error
    if _is_masked(value):
        advice = "fill the mask first, array.filled(...)"
        raise UserError("bad-outputs", f"expected an array but got a masked array for output {output}; {advice}")
    mpmath = sys.modules.get("mpmath")
    if mpmath is not None and isinstance(value, mpmath.matrix):
        # numpy would take a matrix of mpmath as a flat sequence.
        value = value.tolist()
    try:
        # A copy, because the function may keep its buffer and overwrite it in the next call.
        array = np.array(value, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError("bad-outputs", f"expected an array for output {output} but got {error}") from error
    return require_numeric(output, _rounded_multiprecision(array))


def _rounded_multiprecision(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers of mpmath as longdouble, rounded once each; any other array unchanged."""
    # Only a reference that imported mpmath, or that precreg gave its numbers, can return them.
    mpmath = sys.modules.get("mpmath")
    if mpmath is None or array.dtype.kind != "O":
        return array
    numbers = (mpmath.mpf, mpmath.mpc, int, float)
    if not all(isinstance(value, numbers) for value in array.flat):
        return array
    from precreg.arithmetic import from_mpmath

    return from_mpmath(array)


def _is_masked(value: object) -> bool:
    """Return whether a copy would lose the array's mask."""
    # numpy imports numpy.ma lazily. If nothing has imported it, no masked array exists.
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)
