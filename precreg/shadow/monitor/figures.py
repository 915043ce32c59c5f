"""Which statistics and which errors do tensors have, measured on their own device?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from precreg.shadow.sizes import MASK_LIMIT
from precreg.types import ErrorSize, TensorFigures


def tensor_figures(tensors: Sequence[Any]) -> TensorFigures:
    """Return the statistics of all elements of some tensors together."""
    flat = [_flat(each) for each in tensors if each.numel()]
    if not flat:
        return TensorFigures(0)
    rows = _on_host(_finite_sums, _sums, flat)
    elements, finite, total, nan, inf, subnormal, zeros = (sum(row[place] for row in rows) for place in range(7))
    mean = total / finite if finite else 0.0
    # Around the common mean: the squares of a large mean would swallow a small deviation.
    spread = sum(row[9] + row[1] * (row[2] / row[1] - mean) ** 2 for row in rows if row[1])
    return TensorFigures(
        elements=int(elements),
        mean=mean,
        std=(spread / finite) ** 0.5 if finite else 0.0,
        least=min((row[7] for row in rows if row[1]), default=0.0),
        greatest=max((row[8] for row in rows if row[1]), default=0.0),
        nan=int(nan),
        inf=int(inf),
        subnormal=subnormal / elements,
        zeros=zeros / elements,
    )


def _on_host(fast: Callable[..., Any], careful: Callable[..., Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return rows of numbers, with one wait for the device; those that are not finite again, by the careful way."""
    rows = torch.stack([fast(*each).cpu() for each in given]).tolist()
    return [
        row if all(map(math.isfinite, row)) else careful(*each).tolist() for row, each in zip(rows, given, strict=True)
    ]


def _flat(tensor: Any) -> tuple[Any, float]:
    """Return the elements in float64, and the smallest normal number of their dtype."""
    smallest = float(torch.finfo(tensor.dtype).smallest_normal)
    real = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor.detach()
    return real.reshape(-1).to(torch.float64), smallest


def _finite_sums(values: Any, smallest: float) -> Any:
    """Return the numbers of `_sums`; some are not finite if a value is not."""
    mean = values.mean()
    # torch.var_mean takes four times as long.
    spread = torch.linalg.vector_norm(values - mean).square()
    least, greatest = values.aminmax()
    count = torch.full((), float(values.numel()), dtype=torch.float64, device=values.device)
    zeros = count - torch.count_nonzero(values)
    subnormal = torch.count_nonzero(values.abs() < smallest) - zeros
    none = torch.zeros_like(count)
    return torch.stack(
        [count, count, mean * count, none, none, subnormal, zeros, least, greatest, spread],
    )


def _sums(values: Any, smallest: float) -> Any:
    """Return ten numbers of a tensor as one of float64, on its device."""
    is_finite = values.isfinite()
    counted, sizes = is_finite.sum().double(), values.abs()
    kept = torch.where(is_finite, values, 0.0)
    mean = kept.sum() / counted.clamp(min=1.0)
    spread = torch.where(is_finite, values - mean, 0.0).square().sum()
    return torch.stack(
        [
            torch.tensor(float(values.numel()), dtype=torch.float64, device=values.device),
            counted,
            kept.sum(),
            values.isnan().sum().double(),
            values.isinf().sum().double(),
            ((sizes > 0.0) & (sizes < smallest)).sum().double(),
            (values == 0.0).sum().double(),
            torch.where(is_finite, values, torch.inf).amin(),
            torch.where(is_finite, values, -torch.inf).amax(),
            spread,
        ]
    )


def error_of_tensors(pairs: Sequence[tuple[Any, Any]]) -> ErrorSize:
    """Return the size of the errors of low-precision tensors against their exact values, all pairs together.

    Equal infinities, two NaN, and elements beyond MASK_LIMIT on the same side have no error. A NaN or an infinity on
    one side alone makes the error infinite.
    """
    known = [(low.detach(), exact) for low, exact in pairs if low.numel()]
    rows = _on_host(_plain_error, _error, known) if known else []
    error, scale = (max((row[place] for row in rows), default=0.0) for place in (0, 1))
    errors, exact = (
        largest * sum((row[place] / largest) ** 2 for row in rows) ** 0.5 if 0.0 < largest < float("inf") else largest
        for place, largest in ((0, error), (1, scale))
    )
    relative = 0.0 if errors == 0.0 else errors / exact if exact > 0.0 else float("inf")
    return ErrorSize(relative, 0.0, max((row[2] for row in rows), default=0.0))


def _plain_error(low: Any, exact: Any) -> Any:
    """Return the numbers of `_error`; one is NaN if values are not finite, masks, or too small for their squares."""
    errors = low.to(exact.dtype) - exact
    parts = torch.view_as_real(errors).flatten(end_dim=-2).norm(dim=-1) if errors.is_complex() else errors
    least, greatest = parts.aminmax()
    error, scale, largest = torch.linalg.vector_norm(errors), torch.linalg.vector_norm(exact), least.abs().max(greatest)
    is_plain = (scale < MASK_LIMIT) & ((error > 1e-140) | (largest == 0.0)) & (scale > 1e-140)
    return torch.where(is_plain, torch.stack([error, scale, largest]), torch.nan)


def _error(low: Any, exact: Any) -> Any:
    """Return the norms of the errors and of the exact values, and the largest error, as one tensor of float64."""
    wide = low.to(exact.dtype)
    is_masked = (wide.abs() > MASK_LIMIT) & (exact.abs() > MASK_LIMIT) & (wide.sgn() == exact.sgn())
    is_same = (wide == exact) | (wide.isnan() & exact.isnan()) | is_masked
    errors = torch.where(is_same, 0.0, (wide - exact).abs()).nan_to_num(nan=float("inf"), posinf=float("inf"))
    sizes = torch.where(exact.isfinite() & ~is_masked, exact.abs(), 0.0)
    largest, scale = errors.amax(), sizes.amax()
    # Scaled, so that squares of tiny and of large values stay in range.
    return torch.stack([_norm(errors, largest), _norm(sizes, scale), largest])


def _norm(sizes: Any, largest: Any) -> Any:
    is_plain = (largest > 0.0) & largest.isfinite()
    divisor = torch.where(is_plain, largest, 1.0)
    return torch.where(is_plain, largest * (sizes / divisor).square().sum().sqrt(), largest)
