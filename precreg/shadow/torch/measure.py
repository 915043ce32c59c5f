"""How large are the errors of a tensor, measured on its own device?"""

from __future__ import annotations

import math
from typing import Any

import torch

from precreg.shadow.sizes import MASK_LIMIT, error_size, value_range
from precreg.subject import tensor_to_array
from precreg.types import ErrorSize, ValueRange

_NO_ERROR = ErrorSize(0.0)


def measure_errors(pairs: list[tuple[Any, Any]], *, elements: bool = False) -> list[ErrorSize]:
    """Return the size of the errors of each (actual, exact) pair of tensors; `elements` measures ULP, too.

    The norms of all pairs reach the host in one transfer. Pairs with infinities, NaN or masks are measured on the host.
    """
    if elements:
        return [_on_host(actual, exact, elements=True) for actual, exact in pairs]
    norms = [_norms(actual, exact) for actual, exact in pairs if exact.numel()]
    found = iter(torch.stack([each for four in norms for each in four]).tolist() if norms else ())
    sizes = []
    for actual, exact in pairs:
        if not exact.numel():
            sizes.append(_NO_ERROR)
            continue
        error, worst, largest, scale = next(found), next(found), next(found), next(found)
        if not math.isfinite(error) or not scale < MASK_LIMIT:
            sizes.append(_on_host(actual, exact))
        elif error == 0.0:
            sizes.append(_NO_ERROR)
        elif scale == 0.0:
            sizes.append(ErrorSize(math.inf, math.inf, largest))
        else:
            rows = exact.numel() // exact.shape[-1] if exact.dim() > 1 else 1
            sizes.append(ErrorSize(error / scale, worst * math.sqrt(rows) / scale, largest))
    return sizes


def _norms(actual: Any, exact: Any) -> tuple[Any, Any, Any, Any]:
    """Return the norm of the errors, that of the worst row, the largest error, and the norm of the exact values."""
    errors = actual - exact
    norm = torch.linalg.vector_norm
    scale = norm(exact)
    largest = norm(errors, math.inf)
    if errors.dim() < 2:
        error = norm(errors)
        return error, error, largest, scale
    rows = norm(errors, dim=-1)
    return norm(rows), rows.max(), largest, scale


def _on_host(actual: Any, exact: Any, *, elements: bool = False) -> ErrorSize:
    return error_size(tensor_to_array(actual, "result"), tensor_to_array(exact, "shadow"), elements=elements)


def measure_range(low: Any, exact: Any = None) -> ValueRange:
    """Return the range of low-precision values; `exact` is their shadow."""
    if not low.numel():
        return ValueRange()
    low = low.detach().resolve_conj().resolve_neg()
    parts = torch.view_as_real(low) if low.is_complex() else low
    # float8 has no such kernels.
    parts = parts.float() if parts.element_size() == 1 else parts
    smallest, largest = torch.stack(parts.abs().aminmax()).tolist()
    limits = torch.finfo(low.dtype)
    if math.isfinite(largest) and limits.smallest_normal <= smallest and largest < limits.max:
        return ValueRange(smallest, largest)
    if low.is_complex():
        low = torch.view_as_real(low)
        exact = None if exact is None else torch.view_as_real(exact.resolve_conj())
    return value_range(tensor_to_array(low, "result"), None if exact is None else tensor_to_array(exact, "shadow"))
