"""Which share of an output's error does each operation explain?

The tape keeps each operation's inputs and own error. One pass backward over it computes the gradient at each result.
The gradients lie in memory as the values do, so views and writes in place need no rules: an operation takes the
gradient of the region that it wrote, and leaves 0 there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.shadow.numpy.bounds import BoundLedger
from precreg.shadow.numpy.contractions import (
    CONTRACTIONS,
    by_differences,
    is_small,
    rule_of_fourier,
    rule_of_norm,
)
from precreg.shadow.numpy.derivatives import RULES, WITHOUT_VALUES, Derived, Rule
from precreg.shadow.numpy.memory import Memory, Region
from precreg.shadow.numpy.values import Values, replace_leaves
from precreg.shadow.shelf import Codec, Kept, Shelf

Plain = NDArray[Any]

# A trace of 160,000 operations on 64x256 float32 needs about as much: 64 KiB for a value and as much for its error.
# Most of it is in temporary files.
TAPE_BYTES = 2**34
# Without room for such files.
_MEMORY_BYTES = 2**30

# Arrays on a shelf.
ARRAYS = Codec(
    lambda array: (np.ascontiguousarray(array).view(np.uint8), (array.dtype, array.shape)),
    lambda packed, form: np.frombuffer(packed, form[0]).reshape(form[1]),
    np.ndarray.copy,
)
# Elements of a block that stays in a core's cache. OpenBLAS starts threads for products of more than 10,000.
_BLOCK = 2**13


class Operand:
    """An input of an operation: its place, and a copy of its values if the derivative needs them."""

    # No tuple: conversions look for values inside of tuples.
    __slots__ = ("kept", "region", "units")

    def __init__(self, region: Region, units: int, kept: Kept | None) -> None:
        self.region, self.units, self.kept = region, units, kept

    @property
    def value(self) -> Plain | None:
        """Return the copy of the values."""
        return None if self.kept is None else self.kept.get()


class Written(NamedTuple):
    """A result of an operation: its place, its own error, and the elements that it wrote (all if None)."""

    region: Region
    units: int
    kept_error: Kept | None
    where: Plain | None = None
    # A copy of the low-precision values, for bounds.
    kept_result: Kept | None = None

    @property
    def error(self) -> Plain | None:
        """Return the own error."""
        return None if self.kept_error is None else self.kept_error.get()

    @property
    def result(self) -> Plain | None:
        """Return the low-precision values; None if bounds do not need them."""
        return None if self.kept_result is None else self.kept_result.get()


class Step(NamedTuple):
    """One operation on the tape. `arguments` and `options` have an Operand in the place of each watched value."""

    number: int | None
    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    operands: list[Operand]
    written: list[Written]


class NumpyTape:
    """Keep the operations of a computation, and drop the oldest beyond a number of bytes."""

    def __init__(self, values: Values, limit: int = TAPE_BYTES, *, bounds: bool = False) -> None:
        # Bounds need the values of all operands and results.
        self.has_bounds = bounds
        self.memories, self._widen = values.memories, values.wide
        self.limit, self.bytes = limit, 0
        self.shelf = Shelf(ARRAYS)
        self.steps: deque[tuple[Step, int]] = deque()
        self.dropped = 0
        # The operations whose derivative could not be computed.
        self.failed: set[int] = set()
        self._fresh = 0

    def prepare(self, name: str, arguments: Any, options: Any) -> tuple[Any, Any, list[Operand]]:
        """Return arguments for a step, with copies of the values: before the operation writes to one of them."""
        operands: list[Operand] = []
        keeps = self.has_bounds or _function_of(name) not in WITHOUT_VALUES

        def keep(leaf: Any) -> Any:
            array = leaf.view_plain()
            memory = self.memories.find(array)
            if memory is None:
                return array.copy() if array.ndim else array[()]
            region = self.memories.region(array, memory)
            operands.append(Operand(region, memory.twin.size, self._copy(memory, region, array) if keeps else None))
            return operands[-1]

        return self._widen(replace_leaves(arguments, keep)), self._widen(replace_leaves(options, keep)), operands

    def _copy(self, memory: Memory, region: Region, array: Plain) -> Kept:
        if region not in memory.copies:
            memory.copies[region] = self._keep(array)
        return memory.copies[region]

    def _keep(self, array: Plain) -> Kept:
        self._fresh += array.nbytes
        # The difference of arrays without dimensions is a scalar.
        return self.shelf.keep(asarray(array), array.nbytes)

    def written(self, array: Plain, error: Plain | None, where: Plain | None = None) -> Written:
        """Return a result with its own error for a step; the error of a large array is rounded to float32."""
        memory = self.memories.memory_of(array)
        narrow = _narrow(error)
        kept = None if narrow is None else self._keep(narrow)
        result = self._keep(array.copy()) if self.has_bounds else None
        return Written(self.memories.region(array, memory), memory.twin.size, kept, where, result)

    def add(self, step: Step) -> None:
        """Append a step. The oldest ones make room."""
        self.steps.append((step, self._fresh))
        self.bytes += self._fresh
        self._fresh = 0
        limit = min(self.limit, _MEMORY_BYTES) if self.shelf.is_full else self.limit
        while self.bytes > limit and len(self.steps) > 1:
            self.bytes -= self.steps.popleft()[1]
            self.dropped += 1

    def shares(self, seeds: Sequence[tuple[Region, int, Plain]], bounds: BoundLedger | None = None) -> dict[int, float]:
        """Return the inner product of gradient and own error for each operation; `seeds` are the outputs' gradients."""
        adjoints = Adjoints()
        for region, units, gradient in seeds:
            adjoints.add(region, units, gradient)
        found: dict[int, float] = {}
        is_whole = True
        for step, _ in reversed(self.steps):
            gradients = [adjoints.take(each) for each in step.written]
            if all(gradient is None for gradient in gradients):
                # The output does not depend on it, unless the way from the output to it was cut.
                if is_whole and step.number is not None:
                    found.setdefault(step.number, 0.0)
                continue
            known = [
                np.zeros(each.region.shape) if gradient is None else gradient
                for each, gradient in zip(step.written, gradients, strict=True)
            ]
            if step.number is not None:
                share = sum(_product(each.error, gradient) for each, gradient in zip(step.written, known, strict=True))
                found[step.number] = found.get(step.number, 0.0) + share
            is_passed = _pass_back(step, known, adjoints)
            if bounds is not None:
                bounds.add(step, known)
                bounds.is_complete &= is_passed
            is_whole &= is_passed
            if not is_passed and step.number is not None and can_pass_back(step):
                self.failed.add(step.number)
        return found


class Adjoints:
    """Hold the gradients of all memories that have one."""

    def __init__(self) -> None:
        self._by_memory: dict[int, Plain] = {}
        # Memories whose gradient is an array of a rule, which others may have, too: it is never changed in place.
        self._borrowed: set[int] = set()

    def _own(self, number: int) -> Plain:
        """Return the gradient of a memory as an array that may be changed."""
        if number in self._borrowed:
            self._borrowed.remove(number)
            self._by_memory[number] = self._by_memory[number].copy()
        return self._by_memory[number]

    def _view(self, region: Region, flat: Plain) -> Plain:
        unit = _unit(region)
        strides = tuple(stride * 8 // unit for stride in region.strides)
        dtype = np.complex128 if region.dtype.kind == "c" else np.float64
        return np.ndarray(region.shape, dtype, flat, region.offset * 8 // unit, strides)

    def take(self, written: Written) -> Plain | None:
        """Return the gradient of a result and leave 0 in its place; None if it has none."""
        flat = self._by_memory.get(written.region.memory)
        if flat is None:
            return None
        view = self._view(written.region, flat)
        if written.where is None and view.size == flat.size and view.dtype == flat.dtype and not _overlaps(view):
            # The gradient of a whole memory leaves with it.
            del self._by_memory[written.region.memory]
            self._borrowed.discard(written.region.memory)
            return view if view.any() else None
        view = self._view(written.region, self._own(written.region.memory))
        if written.where is None:
            gradient = view.copy()
            view[...] = 0.0
        else:
            gradient = np.where(written.where, view, 0.0)
            view[np.broadcast_to(written.where, view.shape)] = 0.0
        return gradient if gradient.any() else None

    def add(self, region: Region, units: int, gradient: Plain) -> None:
        """Add a gradient at a region."""
        if region.memory not in self._by_memory:
            if _is_whole(region, units, gradient):
                self._by_memory[region.memory] = gradient.reshape(-1)
                self._borrowed.add(region.memory)
                return
            self._by_memory[region.memory] = np.zeros(units)
        flat = self._own(region.memory)
        view = self._view(region, flat)
        if view.dtype.kind != "c" and gradient.dtype.kind == "c":
            gradient = gradient.real
        if _overlaps(view):
            places = np.ndarray(
                view.shape, np.int64, np.arange(units), region.offset * 8 // _unit(region), view.strides
            )
            flat += np.bincount(places.ravel(), np.broadcast_to(gradient, view.shape).ravel(), units)
            return
        # A square root at 0 has no finite derivative: that element passes nothing on.
        view += gradient if np.isfinite(gradient.sum()) else np.where(np.isfinite(gradient), gradient, 0.0)


def _is_whole(region: Region, units: int, gradient: Plain) -> bool:
    """Return whether a gradient is finite, and has the place of each number of a memory in order."""
    if gradient.dtype != np.float64 or gradient.size != units or gradient.shape != region.shape or region.offset:
        return False
    if region.dtype.kind == "c" or not gradient.flags.c_contiguous:
        return False
    scale = gradient.itemsize // region.dtype.itemsize
    is_in_order = tuple(stride * scale for stride in region.strides) == gradient.strides
    return is_in_order and bool(np.isfinite(gradient.sum()))


def _unit(region: Region) -> int:
    return region.dtype.itemsize // (2 if region.dtype.kind == "c" else 1)


def _overlaps(view: Plain) -> bool:
    """Return whether elements of a view share memory."""
    reach = sum(abs(stride) * (length - 1) for stride, length in zip(view.strides, view.shape, strict=True))
    return view.size > 0 and reach // view.itemsize + 1 < view.size


def can_pass_back(step: Step) -> bool:
    """Return whether the gradient of a step's result reaches its inputs."""
    return rule_of_step(step) is not None


def _function_of(name: str) -> str:
    """Return the function that an operation calls: a place of a device follows its name."""
    return name.partition(":")[0]


def rule_of_step(step: Step) -> Rule | None:
    """Return the rule of a step: its function's own, or differences if it has few numbers."""
    if step.name == "norm":
        order = step.arguments[1] if len(step.arguments) > 1 else step.options.get("ord")
        found = rule_of_norm(order)
    elif step.name.endswith(("fft", "fft2", "fftn")) and len(step.operands) == len(step.written) == 1:
        found = rule_of_fourier(step.name, step.operands[0].region.shape, step.written[0].region.shape)
    else:
        name = _function_of(step.name)
        found = RULES.get(name) or CONTRACTIONS.get(name)
    return found or (by_differences if is_small(step) else None)


def _pass_back(step: Step, gradients: list[Plain], adjoints: Adjoints) -> bool:
    """Add the gradients of a step's inputs, and return whether there is a rule for them."""
    if not step.operands:
        return True
    rule = rule_of_step(step)
    if rule is None:
        return False
    try:
        found = rule(Derived(step.function, step.arguments, step.options, step.operands), gradients)
    except Exception:
        # A function may refuse float64, or the numbers of elements. The way of shares ends here, which is counted.
        return False
    for operand, gradient in zip(step.operands, found, strict=True):
        if gradient is not None:
            adjoints.add(operand.region, operand.units, asarray(gradient))
    return True


def fits_float32(largest: float) -> bool:
    """Return whether float32 holds errors that are as large as this, and those that matter beside it."""
    return 1e-30 < largest < 1e30


def _narrow(error: Plain | None) -> Plain | None:
    """Return an error without NaN, in float32 if it fits, because the tape keeps one for each operation."""
    if error is None or not error.size or error.dtype == np.float32:
        return error if error is not None and error.size else None
    largest = float(np.abs(error).max())
    if not np.isfinite(largest):
        error = np.where(np.isfinite(error), error, 0.0)
        largest = float(np.abs(error).max())
    if largest == 0.0:
        return None
    return error.astype(np.float32) if error.dtype.kind == "f" and fits_float32(largest) else error


def _product(error: Plain | None, gradient: Plain) -> float:
    if error is None:
        return 0.0
    if error.dtype != np.float32 or not (error.flags.c_contiguous and gradient.flags.c_contiguous):
        return float(np.vdot(gradient, error).real)
    # Block by block: a whole error in float64 would go through memory once more.
    one, other = error.reshape(-1), gradient.reshape(-1)
    places = range(0, one.size, _BLOCK)
    return math.fsum(float(np.vdot(other[at : at + _BLOCK], one[at : at + _BLOCK]).real) for at in places)
