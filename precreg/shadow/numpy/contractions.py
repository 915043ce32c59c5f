"""Which gradients do the operands of sums of products get, of linear algebra, and of functions without a rule?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import asarray

from precreg.shadow.numpy.derivatives import Derived, Plain, Rule, operand_pair, sum_to_shape, without_infinities
from precreg.shadow.numpy.values import in_float64


def _swap(a: Plain) -> Plain:
    return np.conjugate(np.swapaxes(a, -1, -2))


def _matmul(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Return the gradients of a product of matrices, with numpy's rules for vectors and stacks."""
    (a, b), known = operand_pair(derived)
    # A vector is a matrix of one row or column, whose axis the product has not.
    left, right = (a[np.newaxis] if a.ndim == 1 else a), (b[:, np.newaxis] if b.ndim == 1 else b)
    gradient = gradients[0]
    gradient = gradient[..., np.newaxis] if b.ndim == 1 else gradient
    gradient = np.expand_dims(gradient, -2) if a.ndim == 1 else gradient
    of_a = sum_to_shape(gradient @ _swap(right), left.shape).reshape(a.shape)
    of_b = sum_to_shape(_swap(left) @ gradient, right.shape).reshape(b.shape)
    return [each for each, is_known in zip((of_a, of_b), known, strict=True) if is_known]


def _contract(derived: Derived, gradient: Plain, axes: tuple[list[int], list[int]]) -> list[Any]:
    """Return the gradients of tensordot over pairs of axes."""
    (a, b), known = operand_pair(derived)
    in_a, in_b = [axis % a.ndim for axis in axes[0]], [axis % b.ndim for axis in axes[1]]
    rest_a = [axis for axis in range(a.ndim) if axis not in in_a]
    rest_b = [axis for axis in range(b.ndim) if axis not in in_b]
    count = len(rest_a)
    of_a = np.tensordot(gradient, np.conjugate(b), (list(range(count, gradient.ndim)), rest_b))
    of_b = np.tensordot(np.conjugate(a), gradient, (rest_a, list(range(count))))
    # of_a has the free axes of a, then the summed ones in the order of b's axes; of_b the summed ones first.
    by_b = [in_a[in_b.index(axis)] for axis in sorted(in_b)]
    by_a = [in_b[in_a.index(axis)] for axis in sorted(in_a)]
    found = np.transpose(of_a, np.argsort([*rest_a, *by_b])), np.transpose(of_b, np.argsort([*by_a, *rest_b]))
    return [each for each, is_known in zip(found, known, strict=True) if is_known]


def _tensordot(derived: Derived, gradients: list[Plain]) -> list[Any]:
    axes = derived.argument(2, "axes", 2)
    (a, _), _ = operand_pair(derived)
    if isinstance(axes, int):
        pairs = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        pairs = tuple([each] if isinstance(each, int) else list(each) for each in axes)  # type: ignore[assignment]
    return _contract(derived, gradients[0], pairs)


def _dot(derived: Derived, gradients: list[Plain]) -> list[Any]:
    (a, b), known = operand_pair(derived)
    if a.ndim == 0 or b.ndim == 0:
        found = (
            sum_to_shape(gradients[0] * np.conjugate(b), a.shape),
            sum_to_shape(gradients[0] * np.conjugate(a), b.shape),
        )
        return [each for each, is_known in zip(found, known, strict=True) if is_known]
    return _contract(derived, gradients[0], ([a.ndim - 1], [max(b.ndim - 2, 0)]))


def _inner(derived: Derived, gradients: list[Plain]) -> list[Any]:
    (a, b), _ = operand_pair(derived)
    if a.ndim == 0 or b.ndim == 0:
        return _dot(derived, gradients)
    return _contract(derived, gradients[0], ([a.ndim - 1], [b.ndim - 1]))


def _vdot(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Vdot conjugates its first operand."""
    (a, b), known = operand_pair(derived)
    of_a = np.conjugate(gradients[0]) * b.ravel()
    found = of_a.reshape(a.shape), (gradients[0] * a.ravel()).reshape(b.shape)
    return [each for each, is_known in zip(found, known, strict=True) if is_known]


def _outer(derived: Derived, gradients: list[Plain]) -> list[Any]:
    (a, b), known = operand_pair(derived)
    gradient = gradients[0].reshape(a.size, b.size)
    found = (gradient @ np.conjugate(b.ravel())).reshape(a.shape), (np.conjugate(a.ravel()) @ gradient).reshape(b.shape)
    return [each for each, is_known in zip(found, known, strict=True) if is_known]


def _einsum(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Return each operand's gradient: the sum of products of the result's gradient and the other operands."""
    subscripts, *given = derived.arguments
    values = iter(derived.values())
    known = {id(each) for each in derived.operands}
    arrays = [without_infinities(next(values) if id(each) in known else asarray(each)) for each in given]
    *labels, result = complete_subscripts(subscripts, [array.ndim for array in arrays])
    found = []
    for at, each in enumerate(given):
        if id(each) in known:
            others = [(labels[other], np.conjugate(arrays[other])) for other in range(len(arrays)) if other != at]
            found.append(_einsum_back(labels[at], arrays[at].shape, (result, gradients[0]), others))
    return found


def _einsum_back(
    labels: str, shape: tuple[int, ...], result: tuple[str, Plain], others: list[tuple[str, Plain]]
) -> Any:
    sizes = dict(zip(labels, shape, strict=True))
    present = set(result[0]).union(*(set(other) for other, _ in others))
    # Labels of this operand alone were summed: each of their elements gets the same gradient.
    unique = "".join(dict.fromkeys(labels))
    terms = [result, *others, *((label, np.ones(sizes[label])) for label in unique if label not in present)]
    subscripts = ",".join(term for term, _ in terms) + "->" + unique
    gradient = np.einsum(subscripts, *(array for _, array in terms))
    if len(unique) == len(labels):
        # Axes of length 1 broadcast.
        return sum_to_shape(gradient, shape)
    # A label that occurs twice is a diagonal.
    full = np.zeros(shape, gradient.dtype)
    grid = np.indices(gradient.shape)
    full[tuple(grid[unique.index(label)] for label in labels)] = gradient
    return full


def complete_subscripts(subscripts: str, dimensions: list[int]) -> list[str]:
    """Return the labels of each operand and of the result of einsum, with labels for each axis of an ellipsis."""
    text = subscripts.replace(" ", "")
    given, arrow, result = text.partition("->")
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if letter not in text]
    operands = given.split(",")
    hidden = [
        count - len(each.replace("...", "")) if "..." in each else 0
        for each, count in zip(operands, dimensions, strict=True)
    ]
    rest = "".join(free[: max(hidden)])
    shown = [each.replace("...", rest[len(rest) - count :]) for each, count in zip(operands, hidden, strict=True)]
    if not arrow:
        # Without an arrow, numpy keeps the labels that occur once, in alphabetical order.
        letters = given.replace(",", "").replace(".", "")
        result = ("..." if "..." in given else "") + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    return [*shown, result.replace("...", rest)]


def _vecdot(derived: Derived, gradients: list[Plain]) -> list[Any]:
    (a, b), known = operand_pair(derived)
    gradient = gradients[0][..., np.newaxis]
    found = sum_to_shape(np.conjugate(gradient) * b, a.shape), sum_to_shape(gradient * a, b.shape)
    return [each for each, is_known in zip(found, known, strict=True) if is_known]


def _convolve(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Return the gradients of a convolution: its full gradient, correlated with the other operand."""
    (a, b), known = operand_pair(derived)
    mode = derived.argument(2, "mode", "full")
    full = np.zeros(a.size + b.size - 1)
    # "same" and "valid" are cuts of "full"; a convolution of positions finds where they begin.
    length = gradients[0].size
    start = {"full": 0, "same": (full.size - length) // 2, "valid": min(a.size, b.size) - 1}[mode]
    full[start : start + length] = gradients[0]
    found = np.correlate(full, b, "valid"), np.correlate(full, a, "valid")
    return [each for each, is_known in zip(found, known, strict=True) if is_known]


def _norm(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Return the gradient of the 2-norm; another order is left to differences."""
    (x,) = derived.values()
    axis = derived.argument(2, "axis")
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    size = np.sqrt(np.sum(np.abs(x) ** 2, axes, keepdims=True))
    return [np.reshape(gradients[0], size.shape) * x / np.where(size > 0, size, np.inf)]


def _solve(derived: Derived, gradients: list[Plain]) -> list[Any]:
    (a, b), known = operand_pair(derived)
    of_b = np.linalg.solve(_swap(a), gradients[0])
    x = np.linalg.solve(a, b)
    of_a = -(of_b[..., np.newaxis] * np.conjugate(x) if b.ndim == 1 else of_b @ _swap(x))
    return [each for each, is_known in zip((of_a, of_b), known, strict=True) if is_known]


def _inverse(derived: Derived, gradients: list[Plain]) -> list[Any]:
    inverse = _swap(np.linalg.inv(derived.values()[0]))
    return [-(inverse @ gradients[0] @ inverse)]


def _determinant(derived: Derived, gradients: list[Plain]) -> list[Any]:
    (a,) = derived.values()
    cofactors = np.linalg.det(a)[..., np.newaxis, np.newaxis] * np.linalg.inv(a)
    return [gradients[0][..., np.newaxis, np.newaxis] * _swap(cofactors)]


def _fourier(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Return the gradient of a Fourier transform, whose matrix is symmetric: the conjugate transform of it."""
    arguments, options = derived.fill(lambda _, index: np.conjugate(gradients[0]), lambda constant: constant)
    (operand,) = derived.operands
    gradient = np.conjugate(derived.function(*arguments, **options))
    return [gradient if operand.region.dtype.kind == "c" else gradient.real]


def _real_fourier(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Return the gradient of rfft: the gradient of fft, whose other half of frequencies has none."""
    (operand,) = derived.operands
    axis, norm = derived.argument(2, "axis", -1), derived.argument(3, "norm")
    length = operand.region.shape[axis]
    gradient = np.moveaxis(gradients[0], axis, -1)
    full = np.zeros((*gradient.shape[:-1], length), np.complex128)
    full[..., : gradient.shape[-1]] = gradient
    return [np.moveaxis(np.fft.fft(np.conjugate(full), norm=norm).real, -1, axis)]


def _inverse_real_fourier(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Return the gradient of irfft: each frequency counts twice, apart from the first and a middle one."""
    axis, norm = derived.argument(2, "axis", -1), derived.argument(3, "norm") or "backward"
    opposite: Any = {"backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]
    length = gradients[0].shape[axis]
    found = np.moveaxis(np.fft.rfft(gradients[0], axis=axis, norm=opposite), axis, -1)
    found[..., 1 : (length + 1) // 2] *= 2.0
    return [np.moveaxis(found, -1, axis)]


_FOURIER: dict[str, Rule] = {
    **dict.fromkeys(("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn"), _fourier),
    "rfft": _real_fourier,
    "irfft": _inverse_real_fourier,
}


def rule_of_fourier(name: str, shape: tuple[int, ...], result: tuple[int, ...]) -> Rule | None:
    """Return the rule of a Fourier transform that neither pads nor cuts its input; None for other functions."""
    lengths = [length for length, other in zip(shape, result, strict=True) if length != other]
    if name == "rfft":
        is_whole = all(length // 2 + 1 in result for length in lengths)
    elif name == "irfft":
        is_whole = all(length in (other // 2 + 1 for other in result) for length in lengths)
    else:
        is_whole = not lengths
    return _FOURIER.get(name) if is_whole else None


# A function without a rule is differentiated by differences if its inputs have at most as many elements together:
# 1,000 calls of a function on small arrays take milliseconds.
_SMALL = 512


def is_small(step: Any) -> bool:
    """Return whether differences can serve for an operation: it has values, and few of them."""
    sizes = [int(np.prod(each.region.shape)) for each in step.operands]
    return sum(sizes) <= _SMALL and all(each.kept is not None for each in step.operands) and ".at" not in step.name


def by_differences(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Differentiate a function of a few numbers by central differences."""
    values = derived.values()
    found = [np.zeros(value.shape, value.dtype) for value in values]
    for which, value in enumerate(values):
        for place in np.ndindex(value.shape):
            # The cube root of the roundoff balances rounding and curvature.
            step = 6e-6 * max(float(abs(value[place])), float(np.sqrt(np.mean(np.abs(value) ** 2))), 1e-30)
            for direction in (1.0, 1j) if value.dtype.kind == "c" else (1.0,):
                ends = [_shifted(derived, values, which, place, sign * step * direction) for sign in (1.0, -1.0)]
                slopes = [(up - down) / (2.0 * step) for up, down in zip(*ends, strict=True)]
                pairs = zip(slopes, gradients, strict=False)
                size = sum(float(np.sum(np.real(np.conjugate(g) * slope))) for slope, g in pairs)
                found[which][place] += size * direction
    return found


def _shifted(derived: Derived, values: list[Plain], which: int, place: tuple[int, ...], step: complex) -> list[Plain]:
    moved = [value.copy() for value in values]
    moved[which][place] += step
    arguments, options = derived.fill(lambda _, index: moved[index], lambda constant: constant)
    try:
        result = derived.function(*arguments, **options)
    except TypeError:
        # LAPACK has no longdouble.
        result = derived.function(*in_float64(arguments), **in_float64(options))
    parts = result if isinstance(result, tuple | list) else [result]
    return [asarray(part) for part in parts if asarray(part).dtype.kind in "fc"]


CONTRACTIONS: dict[str, Rule] = {
    "matmul": _matmul,
    "dot": _dot,
    "inner": _inner,
    "vdot": _vdot,
    "outer": _outer,
    "multiply.outer": _outer,
    "tensordot": _tensordot,
    "einsum": _einsum,
    "vecdot": _vecdot,
    "convolve": _convolve,
    "solve": _solve,
    "inv": _inverse,
    "det": _determinant,
}


def rule_of_norm(order: Any) -> Rule | None:
    """Return the rule of a norm of an order; None for an order without one."""
    return _norm if order in (None, 2, "fro") else None
