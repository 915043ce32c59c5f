"""Which sums do the values of a tensor of torch have, in few passes on its own device?"""

from __future__ import annotations

from collections.abc import Mapping
from math import frexp, isfinite, ldexp
from typing import Any, NamedTuple

import torch

from precreg.arithmetic import FORMATS, Format
from precreg.training.magnitudes import Limit, format_limits
from precreg.training.values import ValueSums, exponent_of, sample_stride


class BitLayout(NamedTuple):
    """Hold where the exponent of a dtype is in its bits."""

    bits: Any
    shift: int
    mask: int
    bias: int


# Other dtypes are converted to one of these, which loses nothing.
_LAYOUTS = {
    torch.float32: BitLayout(torch.int32, 23, 0xFF, 127),
    torch.float64: BitLayout(torch.int64, 52, 0x7FF, 1023),
}


def dtype_name_of(tensor: Any) -> str:
    """Return the name of a tensor's dtype: "float16"."""
    return str(tensor.dtype).removeprefix("torch.")


def is_measurable(tensor: Any) -> bool:
    """Return whether a tensor is dense, and its elements are floating-point numbers of a known format."""
    return tensor.layout == torch.strided and dtype_name_of(tensor) in FORMATS


def sample(tensor: Any, limit: int | None) -> Any:
    """Return at most `limit` elements of a tensor in one axis; a view where possible."""
    flat = tensor.detach().reshape(-1)
    return flat[:: sample_stride(flat.numel(), limit)]


def tensor_sums(tensor: Any, format: Format, limit: int | None) -> ValueSums:
    """Return the sums of a dense tensor. One with NaN or infinities is measured whole, so that none is missed."""
    values, nan, inf = tensor.detach(), 0, 0
    # One pass over all elements: a NaN or an infinity makes the norm infinite or NaN, and so do huge values.
    norm = norm_of(values) if values.numel() else 0.0
    if not isfinite(norm):
        nan, inf = int(values.isnan().sum()), int(values.isinf().sum())
        norm = norm_of(torch.where(values.isfinite(), values, 0.0).double())
    taken = sample(values, None if nan or inf else limit)
    # Several passes follow, which are slower with a stride.
    taken = (taken if taken.dtype in _LAYOUTS else taken.to(torch.float32)).contiguous()
    exponents, zeros = _exponents(taken)
    known = taken if not nan and not inf else taken[taken.isfinite()]
    below, subnormal, beyond = _beyond_limits(known, exponents, format)
    total, squares, least, greatest = _moments(known)
    return ValueSums(
        elements=values.numel(),
        measured=taken.numel(),
        finite=known.numel(),
        total=total,
        squares=squares,
        least=least,
        greatest=greatest,
        nan=nan,
        inf=inf,
        zeros=zeros,
        subnormal=subnormal,
        below=below,
        beyond=beyond + inf,
        exponents=exponents,
        all_squares=squares if known.numel() == values.numel() else norm * norm,
    )


def spacing_of(values: Any) -> Any:
    """Return the ULP of values in their dtype in float64: the distance to the next number of larger magnitude."""
    limits = torch.finfo(values.dtype)
    wide = values if values.dtype in _LAYOUTS else values.to(torch.float32)
    layout = _LAYOUTS[wide.dtype]
    # The exponent's bits alone are the power of two below a normal number; subnormals count as the smallest one.
    sizes = wide.abs().clamp(min=float(limits.smallest_normal)).contiguous()
    powers = (sizes.view(layout.bits) & (layout.mask << layout.shift)).view(wide.dtype)
    return powers.double() * float(limits.eps)


def norm_of(values: Any) -> float:
    """Return the norm of a tensor, added up in float32 or wider."""
    wide = torch.float32 if values.dtype not in _LAYOUTS else values.dtype
    return float(torch.linalg.vector_norm(values, dtype=wide))


def _moments(known: Any) -> tuple[float, float, float, float]:
    if not known.numel():
        return 0.0, 0.0, float("inf"), float("-inf")
    wide = known.double()
    least, greatest = known.aminmax()
    found = torch.stack([wide.sum(), torch.dot(wide, wide), least.double(), greatest.double()]).tolist()
    return found[0], found[1], found[2], found[3]


def _exponents(values: Any) -> tuple[dict[int, int], int]:
    """Return the finite nonzero elements by floor(log2(|x|)), and the number of zeros."""
    layout = _LAYOUTS[values.dtype]
    # A shift keeps the sign in the bits above the exponent, so it is masked after it.
    fields = (values.view(layout.bits) >> layout.shift) & layout.mask
    counts = torch.bincount(fields, minlength=layout.mask + 1).tolist()
    found = {field - layout.bias: count for field, count in enumerate(counts[1:-1], start=1) if count}
    # A choice of elements takes longer than all the rest: dead units have many zeros, and seldom subnormals.
    zeros = values.numel() - int(values.count_nonzero()) if counts[0] else 0
    if zeros == counts[0]:
        return found, zeros
    small = values[fields == 0].double().abs()
    nonzero = small[small > 0]
    if nonzero.numel():
        _, frexps = torch.frexp(nonzero)
        for exponent, count in zip(*torch.unique(frexps - 1, return_counts=True), strict=True):
            found[int(exponent)] = int(count)
    return found, counts[0] - nonzero.numel()


def _beyond_limits(known: Any, exponents: Mapping[int, int], format: Format) -> tuple[int, int, int]:
    """Return how many finite nonzero elements a format rounds to zero, holds as subnormals, and does not hold."""
    limits = format_limits(format)
    nonzero = _crossed(known, exponents, limits.nonzero)
    normal = _crossed(known, exponents, limits.normal)
    return sum(exponents.values()) - nonzero, nonzero - normal, _crossed(known, exponents, limits.beyond)


def _crossed(known: Any, exponents: Mapping[int, int], limit: Limit) -> int:
    """Return how many magnitudes cross a limit. Only the binade of the limit needs a look at the elements."""
    binade = limit.exponent - 1
    above = sum(count for exponent, count in exponents.items() if exponent > binade)
    if not exponents.get(binade):
        return above
    value, sizes = ldexp(limit.significand, limit.exponent), known.double().abs()
    within = sizes < ldexp(1.0, binade + 1) if binade < 1023 else torch.ones_like(sizes, dtype=torch.bool)
    crossing = sizes >= value if limit.is_included else sizes > value
    return above + int((within & crossing).sum())


def is_power_of_two(scale: float) -> bool:
    """Return whether a positive scale is a power of two, so that a division by it loses nothing."""
    return frexp(scale)[0] == 0.5


def scaled_sums(tensor: Any, format: Format, limit: int | None, scale: float) -> tuple[ValueSums, float]:
    """Return the sums of a tensor, and the scale, a power of two, that its figures still have.

    A scale in between is rare, because scalers double and halve. The values are then divided, and multiplied by the
    power of two below it.
    """
    if is_power_of_two(scale):
        return tensor_sums(tensor, format, limit), scale
    power = ldexp(1.0, exponent_of(scale))
    return tensor_sums(tensor.detach().double() * (power / scale), format, limit), power
