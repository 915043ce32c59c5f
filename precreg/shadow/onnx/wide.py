"""How is a rule of float64 computed, and differentiated where shares need it?

A rule is written once, with `Wide`. On untracked values it computes only. From tracked ones it also remembers how each
value was made, and `gradients` walks that way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# From the gradient at a result to that at an argument.
Pullback = Callable[[Array], Array]

_orders = count()


class Wide:
    """An array of higher precision, or of integers, inside a rule."""

    __slots__ = ("_order", "_parents", "tracked", "value")
    value: Array
    tracked: bool

    # numpy's operators leave `array * wide` to this class.
    __array_ufunc__ = None

    def __init__(self, value: Array, parents: Sequence[tuple[Wide, Pullback]] = (), *, tracked: bool = False) -> None:
        self.value = value
        self._parents = [parent for parent in parents if parent[0].tracked]
        self.tracked = tracked or bool(self._parents)
        self._order = next(_orders)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the array."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return self.value.ndim

    # Elements

    def __add__(self, other: Operand) -> Wide:
        b = wide(other)
        return _broadcast(self.value + b.value, (self, lambda g: g), (b, lambda g: g))

    def __sub__(self, other: Operand) -> Wide:
        b = wide(other)
        return _broadcast(self.value - b.value, (self, lambda g: g), (b, lambda g: -g))

    def __mul__(self, other: Operand) -> Wide:
        b = wide(other)
        return _broadcast(self.value * b.value, (self, lambda g: g * b.value), (b, lambda g: g * self.value))

    def __truediv__(self, other: Operand) -> Wide:
        b = wide(other)
        found = self.value / b.value
        return _broadcast(found, (self, lambda g: g / b.value), (b, lambda g: -g * found / b.value))

    def __pow__(self, other: Operand) -> Wide:
        b = wide(other)
        found = np.power(self.value, b.value)
        return _broadcast(
            found,
            (self, lambda g: g * b.value * np.power(self.value, b.value - 1)),
            (b, lambda g: g * found * np.log(self.value)),
        )

    def __radd__(self, other: Operand) -> Wide:
        return self + other

    def __rmul__(self, other: Operand) -> Wide:
        return self * other

    def __rsub__(self, other: Operand) -> Wide:
        return wide(other) - self

    def __rtruediv__(self, other: Operand) -> Wide:
        return wide(other) / self

    def __neg__(self) -> Wide:
        return Wide(-self.value, [(self, lambda g: -g)])

    def apply(self, function: Callable[[Array], Array], slope: Callable[[Array, Array], Array]) -> Wide:
        """Return a function of each element; `slope` gives its derivative from the argument and the result."""
        found = function(self.value)
        return Wide(found, [(self, lambda g: g * slope(self.value, found))])

    def exp(self) -> Wide:
        """Return e to the power of each element."""
        return self.apply(np.exp, lambda _, y: y)

    def log(self) -> Wide:
        """Return the natural logarithm of each element."""
        return self.apply(np.log, lambda x, _: 1 / x)

    def sqrt(self) -> Wide:
        """Return the square root of each element."""
        return self.apply(np.sqrt, lambda _, y: 0.5 / y)

    def tanh(self) -> Wide:
        """Return the hyperbolic tangent of each element."""
        return self.apply(np.tanh, lambda _, y: 1 - y * y)

    def sigmoid(self) -> Wide:
        """Return 1 / (1 + exp(-x)) of each element, without overflow."""
        return self.apply(lambda x: 0.5 * (1 + np.tanh(0.5 * x)), lambda _, y: y * (1 - y))

    def maximum(self, other: Operand) -> Wide:
        """Return the larger element of each pair."""
        b = wide(other)
        return choose(~(self.value < b.value), self, b)

    def minimum(self, other: Operand) -> Wide:
        """Return the smaller element of each pair."""
        b = wide(other)
        return choose(~(self.value > b.value), self, b)

    # Sums and products

    def linear(self, forward: Pullback, adjoint: Pullback) -> Wide:
        """Return a linear function, whose adjoint gives the gradient."""
        return Wide(forward(self.value), [(self, adjoint)])

    def sum(self, axis: Axes = None, *, keepdims: bool = False) -> Wide:
        """Return the sum along axes."""
        kept = np.sum(self.value, axis=axis, keepdims=True)
        shape = kept.shape if keepdims else np.sum(np.empty(self.shape, np.bool_), axis=axis).shape
        return Wide(kept.reshape(shape), [(self, lambda g: np.broadcast_to(g.reshape(kept.shape), self.shape))])

    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Wide:
        """Return the mean along axes."""
        total = self.sum(axis, keepdims=keepdims)
        return total / (self.value.size / max(1, total.value.size))

    def extreme(self, function: Callable[..., Array], axis: int, *, keepdims: bool = False) -> Wide:
        """Return the elements along one axis that np.argmax or np.argmin finds."""
        at = np.expand_dims(function(self.value, axis=axis), axis)
        found = np.take_along_axis(self.value, at, axis)

        def pull(g: Array) -> Array:
            spread = np.zeros_like(self.value)
            np.put_along_axis(spread, at, g.reshape(found.shape), axis)
            return spread

        return Wide(found if keepdims else np.squeeze(found, axis), [(self, pull)])

    def __matmul__(self, other: Operand) -> Wide:
        b = wide(other)
        left = self.reshape((1, -1)) if self.ndim == 1 else self
        right = b.reshape((-1, 1)) if b.ndim == 1 else b
        product = _broadcast(
            left.value @ right.value,
            (left, lambda g: g @ np.swapaxes(right.value, -1, -2)),
            (right, lambda g: np.swapaxes(left.value, -1, -2) @ g),
        )
        if self.ndim > 1 and b.ndim > 1:
            return product
        kept = [*product.shape[:-2], *product.shape[-2:-1] * (self.ndim > 1), *product.shape[-1:] * (b.ndim > 1)]
        return product.reshape(kept)

    # Places

    def reshape(self, shape: Sequence[int]) -> Wide:
        """Return the elements in another shape."""
        return self.linear(lambda x: x.reshape(shape), lambda g: g.reshape(self.shape))

    def transpose(self, axes: Sequence[int] | None = None) -> Wide:
        """Return the array with its axes in another order."""
        back = None if axes is None else np.argsort([axis % self.ndim for axis in axes])
        return self.linear(lambda x: np.transpose(x, axes), lambda g: np.transpose(g, back))

    def swap_last(self) -> Wide:
        """Return the array with its last two axes swapped."""
        return self.linear(lambda x: np.swapaxes(x, -1, -2), lambda g: np.swapaxes(g, -1, -2))

    def __getitem__(self, key: Any) -> Wide:
        def pull(g: Array) -> Array:
            spread = np.zeros(self.shape, g.dtype)
            np.add.at(spread, key, g)
            return spread

        return Wide(self.value[key], [(self, pull)])

    def slice(self, key: tuple[slice, ...]) -> Wide:
        """Return a part of the array, which has each element once."""

        def pull(g: Array) -> Array:
            spread = np.zeros(self.shape, g.dtype)
            spread[key] = g
            return spread

        return Wide(self.value[key], [(self, pull)])

    def take(self, places: NDArray[np.int64]) -> Wide:
        """Return the elements at places of the flat array, in the shape of the places."""

        def pull(g: Array) -> Array:
            spread = np.zeros(self.value.size, g.dtype)
            np.add.at(spread, places.reshape(-1), g.reshape(-1))
            return spread.reshape(self.shape)

        return Wide(self.value.reshape(-1)[places], [(self, pull)])

    def broadcast_to(self, shape: Sequence[int]) -> Wide:
        """Return the array repeated to a shape."""
        return self.linear(lambda x: np.broadcast_to(x, shape), lambda g: reduce_to(g, self.shape))

    def pad(self, widths: Sequence[tuple[int, int]], fill: float = 0.0) -> Wide:
        """Return the array inside a frame of constants."""
        inner = tuple(slice(low, low + size) for (low, _), size in zip(widths, self.shape, strict=True))
        return self.linear(lambda x: np.pad(x, widths, constant_values=fill), lambda g: g[inner])


Operand = Wide | Array | float
Axes = int | tuple[int, ...] | None


def wide(value: Operand) -> Wide:
    """Return a value as one that a rule takes; a number has no axis."""
    return value if isinstance(value, Wide) else Wide(np.asarray(value))


def choose(mask: Array, first: Operand, second: Operand) -> Wide:
    """Return the elements of the first value where the mask is true, and of the second one otherwise."""
    a, b = wide(first), wide(second)
    found = np.where(mask, a.value, b.value)
    return _broadcast(found, (a, lambda g: np.where(mask, g, 0)), (b, lambda g: np.where(mask, 0, g)))


def join(parts: Sequence[Wide], axis: int) -> Wide:
    """Return values one behind the other along an axis."""
    ends = np.cumsum([0, *(part.shape[axis] for part in parts)])
    found = np.concatenate([part.value for part in parts], axis)

    def pull(place: int) -> Pullback:
        return lambda g: np.take(g, np.arange(ends[place], ends[place + 1]), axis)

    return Wide(found, [(part, pull(place)) for place, part in enumerate(parts)])


def _broadcast(found: Array, *parents: tuple[Wide, Pullback]) -> Wide:
    """Return the result of operands that broadcast: a gradient is summed over the axes that an operand lacks."""

    def reduced(operand: Wide, pull: Pullback) -> Pullback:
        return lambda g: reduce_to(pull(g), operand.shape)

    return Wide(found, [(operand, reduced(operand, pull)) for operand, pull in parents if operand.tracked])


def reduce_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Return the sum of a gradient over the axes along which an operand of this shape was repeated."""
    if gradient.shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    axes = [*range(extra), *(extra + at for at, size in enumerate(shape) if size == 1 != gradient.shape[extra + at])]
    reduced: Array = np.sum(gradient, axis=tuple(axes), keepdims=True).reshape(shape)
    return reduced


@np.errstate(all="ignore")
def gradients(results: Sequence[tuple[Wide, Array]], of: Sequence[Wide]) -> list[Array | None]:
    """Return the gradients at some values of the inner product of results and their gradients; None for no way."""
    found: dict[int, Array] = {}
    waiting: list[tuple[int, int]] = []
    nodes: dict[int, Wide] = {}

    def add(node: Wide, gradient: Array) -> None:
        key = id(node)
        if key not in found:
            nodes[key], found[key] = node, gradient
            heappush(waiting, (-node._order, key))
        else:
            found[key] = found[key] + gradient

    for result, gradient in results:
        if result.tracked:
            add(result, gradient)
    wanted = {id(each) for each in of}
    while waiting:
        _, key = heappop(waiting)
        gradient = found[key] if key in wanted else found.pop(key)
        for parent, pull in nodes[key]._parents:
            add(parent, pull(gradient))
    return [found.get(id(each)) for each in of]
