"""How are convolutions and pools computed in float64, and what are their gradients?

A loop over the places of the kernel makes one product of matrices for each, so that no copy of all windows is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from precreg.shadow.onnx.wide import Array, Wide


class Steps(NamedTuple):
    """The geometry of a sliding kernel: sizes by spatial axis, and the padding before and behind each axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    def places(self, sizes: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Yield each place in the kernel, with the slices of a padded array that it meets for results of some sizes."""
        for place in product(*map(range, self.kernel)):
            yield (
                place,
                tuple(
                    slice(at * dilation, at * dilation + (size - 1) * stride + 1, stride)
                    for at, dilation, stride, size in zip(place, self.dilations, self.strides, sizes, strict=True)
                ),
            )

    def result_sizes(self, sizes: tuple[int, ...], *, ceil: bool = False) -> tuple[int, ...]:
        """Return the spatial sizes of the result for the input's."""
        return tuple(self._result_size(axis, size, ceil=ceil) for axis, size in enumerate(sizes))

    def _result_size(self, axis: int, size: int, *, ceil: bool) -> int:
        (low, high), stride = self.pads[axis], self.strides[axis]
        room = size + low + high - self.dilations[axis] * (self.kernel[axis] - 1) - 1
        if not ceil:
            return room // stride + 1
        found = -(-room // stride) + 1
        # A window must start inside of the input or the padding before it.
        return found - 1 if (found - 1) * stride >= size + low else found


def steps_of(attributes: dict[str, Any], kernel: tuple[int, ...], sizes: tuple[int, ...]) -> Steps:
    """Return the geometry that a node's attributes describe, on an input of some spatial sizes."""
    axes = len(kernel)
    strides = tuple(attributes.get("strides") or [1] * axes)
    dilations = tuple(attributes.get("dilations") or [1] * axes)
    given = attributes.get("pads") or [0] * (2 * axes)
    pads = tuple(zip(given[:axes], given[axes:], strict=True))
    automatic = attributes.get("auto_pad", "NOTSET")
    if automatic.startswith("SAME"):
        pads = tuple(_same(automatic, *each) for each in zip(sizes, kernel, strides, dilations, strict=True))
    elif automatic == "VALID":
        pads = ((0, 0),) * axes
    return Steps(kernel, strides, dilations, pads)


def _same(automatic: str, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    total = max(0, (-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size)
    less, more = total // 2, total - total // 2
    return (more, less) if automatic == "SAME_LOWER" else (less, more)


def convolve(x: Wide, w: Wide, steps: Steps, groups: int) -> Wide:
    """Convolve (n, c, ...) with weights (o, c / groups, ...)."""
    sizes = x.shape[2:]
    found = _convolved(x.value, w.value, steps, groups)
    return Wide(
        found,
        [
            (x, lambda g: _spread(g, w.value, steps, groups, sizes)),
            (w, lambda g: _correlated(x.value, g, steps, groups, w.shape)),
        ],
    )


def convolve_back(x: Wide, w: Wide, steps: Steps, groups: int, sizes: tuple[int, ...]) -> Wide:
    """Return the transposed convolution, whose results have these spatial sizes, with weights (c, o / groups, ...)."""
    found = _spread(x.value, w.value, steps, groups, sizes)
    return Wide(
        found,
        [
            (x, lambda g: _convolved(g, w.value, steps, groups)),
            (w, lambda g: _correlated(g, x.value, steps, groups, w.shape)),
        ],
    )


def _convolved(x: Array, w: Array, steps: Steps, groups: int) -> Array:
    sizes = steps.result_sizes(x.shape[2:])
    padded = np.pad(x, [(0, 0), (0, 0), *steps.pads])
    parts = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    found = np.zeros((x.shape[0], groups, parts.shape[1], prod(sizes)), np.result_type(x, w))
    for place, slices in steps.places(sizes):
        met = padded[_last(slices)].reshape(x.shape[0], groups, -1, prod(sizes))
        found += parts[_last(place)] @ met
    return found.reshape(x.shape[0], w.shape[0], *sizes)


def _last(key: tuple[Any, ...]) -> Any:
    """Return a key of the last axes. numpy's types know no such tuple."""
    return (..., *key)


def _spread(g: Array, w: Array, steps: Steps, groups: int, sizes: tuple[int, ...]) -> Array:
    """Return the adjoint of a convolution at its input of these spatial sizes."""
    inner = g.shape[2:]
    framed = [low + size + high for (low, high), size in zip(steps.pads, sizes, strict=True)]
    found = np.zeros((g.shape[0], groups, w.shape[1], *framed), np.result_type(g, w))
    parts = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    rows = g.reshape(g.shape[0], groups, -1, prod(inner))
    for place, slices in steps.places(inner):
        made = np.swapaxes(parts[_last(place)], -1, -2) @ rows
        found[_last(slices)] += made.reshape(*made.shape[:-1], *inner)
    kept = tuple(slice(low, low + size) for (low, _), size in zip(steps.pads, sizes, strict=True))
    inside: Array = found[_last(kept)].reshape(g.shape[0], -1, *sizes)
    return inside


def _correlated(x: Array, g: Array, steps: Steps, groups: int, shape: tuple[int, ...]) -> Array:
    """Return the adjoint of a convolution at its weights."""
    sizes = g.shape[2:]
    padded = np.pad(x, [(0, 0), (0, 0), *steps.pads])
    rows = g.reshape(g.shape[0], groups, -1, prod(sizes))
    found = np.zeros((groups, shape[0] // groups, *shape[1:]), np.result_type(x, g))
    for place, slices in steps.places(sizes):
        met = padded[_last(slices)].reshape(x.shape[0], groups, -1, prod(sizes))
        found[_last(place)] = (rows @ np.swapaxes(met, -1, -2)).sum(0)
    return found.reshape(shape)


def pool(x: Wide, steps: Steps, combine: Callable[[Wide, Wide], Wide], fill: float, *, ceil: bool = False) -> Wide:
    """Return the combination of the elements that each window meets; a frame is filled with one number."""
    sizes = steps.result_sizes(x.shape[2:], ceil=ceil)
    # With ceil_mode the last window may reach beyond the padding.
    reach = [
        max(0, (size - 1) * stride + dilation * (kernel - 1) + 1 - low - inner)
        for size, stride, dilation, kernel, (low, _), inner in zip(
            sizes, steps.strides, steps.dilations, steps.kernel, steps.pads, x.shape[2:], strict=True
        )
    ]
    frame = [(low, max(high, more)) for (low, high), more in zip(steps.pads, reach, strict=True)]
    padded = x.pad([(0, 0), (0, 0), *frame], fill)
    return reduce(combine, (padded.slice((slice(None), slice(None), *slices)) for _, slices in steps.places(sizes)))


def mean_pool(x: Wide, steps: Steps, *, include_pad: bool, ceil: bool = False) -> Wide:
    """Return the means of windows. `include_pad` counts the zeros of the padding, but not those beyond it."""
    total = pool(x, steps, lambda a, b: a + b, 0.0, ceil=ceil)
    inside = np.ones((1, 1, *x.shape[2:]), x.value.dtype)
    if include_pad:
        inside = np.pad(inside, [(0, 0), (0, 0), *steps.pads], constant_values=1)
        steps = steps._replace(pads=((0, 0),) * len(steps.kernel))
    counts = pool(Wide(inside), steps, lambda a, b: a + b, 0.0, ceil=ceil).value
    kept = tuple(slice(0, size) for size in total.shape[2:])
    return total / counts[(slice(None), slice(None), *kept)]
