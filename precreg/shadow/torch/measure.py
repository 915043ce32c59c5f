"""How large are the errors of a tensor, measured on its own device?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from precreg.measure import shadow_core
from precreg.shadow.sizes import MASK_LIMIT, counted_errors, error_size, size_of_sums, value_range
from precreg.shadow.torch.twins import array_of, twin_dtype, upcast
from precreg.subject import tensor_to_array
from precreg.types import ErrorSize, ValueRange

# The rounding of so many errors to 16 bits averages out in their sum.
_MANY = 2**12
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class OpResult(NamedTuple):
    """One result of an operation: the tensor, its shadow, and the exact operation on the same inputs, if known."""

    low: Any
    exact: Any
    own_exact: Any


class Measured(NamedTuple):
    """The errors of one result. `own_errors` are the elements of the own error, if requested.

    `range` is the range of the low-precision values, if it was measured with them, and `own_norm` the 2-norm of the own
    error.
    """

    total: ErrorSize
    own: ErrorSize | None
    inherited: ErrorSize | None
    own_errors: Any
    range: ValueRange | None = None
    own_norm: float = 0.0


class _Norms(NamedTuple):
    """Facts of one difference, on its device."""

    error: Any
    worst_row: Any
    lowest: Any
    highest: Any
    scale: Any


class Meter:
    """Measure the errors of results. Differences use the same memory again: to reserve it takes longer than to fill it.

    `elements` measures ULP, too.
    """

    def __init__(self, *, elements: bool) -> None:
        self._elements = elements
        self._core = shadow_core()
        self._memory: dict[tuple[str, Any, Any], Any] = {}

    @property
    def is_fast(self) -> bool:
        """Return whether the core measures, and no element counts alone."""
        return self._core is not None and not self._elements

    def measure(self, results: Sequence[OpResult], *, keeps_own: bool) -> list[Measured]:
        """Return the errors of each result."""
        if results and isinstance(results[0].exact, np.ndarray):
            return [self._by_numpy(each, keeps_own) for each in results]
        if not self.is_fast:
            return self._by_torch(results, keeps_own)
        return [
            self._by_core(each, keeps_own) if _is_plain(each) else self._by_torch([each], keeps_own)[0]
            for each in results
        ]

    def _by_numpy(self, result: OpResult, keeps_own: bool) -> Measured:
        """Measure a result of float64, whose exact values are longdouble."""
        low, exact, own_exact = array_of(result.low), result.exact, result.own_exact
        total, spread = error_size(low, exact, elements=self._elements), value_range(low, exact)
        if own_exact is None:
            return Measured(total, None, None, None, spread)
        kept = torch.from_numpy(np.asarray(counted_errors(low, own_exact), np.float64)) if keeps_own else None
        if own_exact is exact:
            return Measured(total, total, self.no_error, kept, spread)
        own = error_size(low, own_exact, elements=self._elements)
        return Measured(total, own, error_size(own_exact, exact), kept, spread)

    def error_of(self, low: Any, exact: Any) -> tuple[Any, float]:
        """Return the error of a tensor of the core, in float32, and its 2-norm."""
        error = torch.empty(low.shape, dtype=torch.float32)
        if not low.numel():
            return error, 0.0
        found = self._sums(low, exact, None, error)
        return error, math.sqrt(found.total.squares)

    def _by_core(self, result: OpResult, keeps_own: bool) -> Measured:
        """Measure a result in one pass over its values."""
        low, exact, own_exact = result
        kept = torch.empty(low.shape, dtype=torch.float32) if keeps_own and own_exact is not None else None
        sums = self._sums(low, exact, None if own_exact is exact else own_exact, kept)
        kept = kept if kept is None or low.dtype.itemsize > 2 or low.numel() < _MANY else kept.to(torch.bfloat16)
        spread = _range_of(low.dtype, sums)
        total = _size_of(sums.total, sums.scale, low, exact)
        if own_exact is None:
            return Measured(total, None, None, None, spread)
        if own_exact is exact:
            return Measured(total, total, self.no_error, kept, spread)
        own = _size_of(sums.own, sums.own_scale, low, own_exact)
        inherited = _size_of(sums.inherited, sums.scale, own_exact, exact)
        return Measured(total, own, inherited, kept, spread, math.sqrt(sums.own.squares))

    def _sums(self, low: Any, exact: Any, own_exact: Any, kept: Any) -> Any:
        """Return the core's totals; `kept` takes the own errors, or the total ones without `own_exact`."""
        columns = low.shape[-1] if low.dim() > 1 else low.numel()
        sums = self._core.ShadowSums(columns, _limits(low.dtype)[0])  # type: ignore[union-attr]
        own = None if own_exact is None else array_of(own_exact.contiguous())
        errors = None if kept is None else array_of(kept)
        sums.add(array_of(_in_core(low)), array_of(exact.contiguous()), own, errors)
        return sums.totals()

    def _by_torch(self, results: Sequence[OpResult], keeps_own: bool) -> list[Measured]:
        """Measure results by single passes; the norms of all reach the host in one transfer."""
        pending = [self._norms(each, keeps_own) for each in results]
        flat = [value for norms, _ in pending for one in norms for value in one]
        found = iter(torch.stack(flat).tolist() if flat else ())
        return [self._sizes(each, kept, found) for each, (_, kept) in zip(results, pending, strict=True)]

    def _norms(self, result: OpResult, keeps_own: bool) -> tuple[list[_Norms], Any]:
        low, exact, own_exact = result
        if not exact.numel() or self._elements:
            return [], self._own_errors(result) if keeps_own else None
        wide = self._part("wide", exact).copy_(low.detach())
        scale = torch.linalg.vector_norm(exact)
        errors = self._part("errors", exact)
        norms = [_norms_of(torch.sub(wide, exact, out=errors), scale)]
        if own_exact is None:
            return norms, None
        if own_exact is exact:
            return norms, _stored(errors, low.dtype) if keeps_own else None
        norms.append(_norms_of(torch.sub(own_exact, exact, out=errors), scale))
        norms.append(_norms_of(torch.sub(wide, own_exact, out=errors), torch.linalg.vector_norm(own_exact)))
        return norms, _stored(errors, low.dtype) if keeps_own else None

    def _part(self, use: str, like: Any) -> Any:
        """Return memory for a tensor of a shape, which the next measurement overwrites."""
        key = (use, like.dtype, like.device)
        if key not in self._memory or self._memory[key].numel() < like.numel():
            self._memory[key] = torch.empty(like.numel(), dtype=like.dtype, device=like.device)
        return self._memory[key][: like.numel()].view(like.shape)

    def _own_errors(self, result: OpResult) -> Any:
        if result.own_exact is None:
            return None
        return _stored(upcast(result.low) - result.own_exact, result.low.dtype)

    def _sizes(self, result: OpResult, kept: Any, found: Iterator[float]) -> Measured:
        low, exact, own_exact = result
        if not exact.numel():
            return Measured(self.no_error, self.no_error, self.no_error, None)
        total = self._size(low, exact, found)
        if own_exact is None:
            return Measured(total, None, None, kept)
        if own_exact is exact:
            return Measured(total, total, self.no_error, kept)
        inherited = self._size(own_exact, exact, found)
        return Measured(total, self._size(low, own_exact, found), inherited, kept)

    @property
    def no_error(self) -> ErrorSize:
        """Return the size of an error of 0."""
        return ErrorSize(0.0, max_ulp=0.0, mean_ulp=0.0) if self._elements else ErrorSize(0.0)

    def _size(self, actual: Any, exact: Any, found: Iterator[float]) -> ErrorSize:
        if self._elements:
            return _on_host(actual, exact, elements=True)
        error, worst, lowest, highest, scale = (next(found) for _ in _Norms._fields)
        if not math.isfinite(error) or not scale < MASK_LIMIT:
            # Infinities, NaN and masks need a look at each element.
            return _on_host(actual, exact)
        if error == 0.0:
            return self.no_error
        largest = max(abs(lowest), abs(highest))
        if scale == 0.0:
            return ErrorSize(math.inf, math.inf, largest)
        rows = exact.numel() // exact.shape[-1] if exact.dim() > 1 else 1
        return ErrorSize(error / scale, worst * math.sqrt(rows) / scale, largest)


def _is_plain(result: OpResult) -> bool:
    """Return whether the core can read the values of a result."""
    low, exact, _ = result
    return (
        low.is_cpu
        and exact.dtype == torch.float64
        and low.dtype.is_floating_point
        and exact.numel() > 0
        and not low.is_neg()
    )


def _in_core(low: Any) -> Any:
    """Return values in a dtype of the core, which has all values of narrower ones."""
    low = low.detach().contiguous()
    return low.float() if low.dtype.itemsize < 4 else low


def _size_of(found: Any, scale: float, actual: Any, exact: Any) -> ErrorSize:
    """Return the size of one difference; overflow, NaN and underflow need a look at each element."""
    rows = exact.numel() // exact.shape[-1] if exact.dim() > 1 else 1
    size = size_of_sums(found.squares, found.worst_row, found.largest, scale, rows)
    return _on_host(actual, exact) if size is None else size


def _range_of(dtype: Any, sums: Any) -> ValueRange | None:
    """Return the range of values of a dtype; None if some may be saturated, which needs a look at each element."""
    if sums.most >= _limits(dtype)[1]:
        return None
    return ValueRange(sums.smallest, sums.most, nan=sums.nan, inf=sums.inf, subnormal=sums.subnormal, zeros=sums.zeros)


@cache
def _limits(dtype: Any) -> tuple[float, float]:
    found = torch.finfo(dtype)
    return found.smallest_normal, found.max


def _zeros_and_least(sizes: Any) -> tuple[int, float]:
    """Return the number of zeros and the least other size, or infinity."""
    # Sizes are in the order of their bits. Operations on floating numbers and masks take 15 times as long.
    bits = sizes.view(_BITS[sizes.element_size()])
    none = torch.iinfo(bits.dtype).max
    zeros = sizes.numel() - int(torch.count_nonzero(bits))
    least = bits.sub_(1).bitwise_and_(none).min() + 1
    return zeros, math.inf if zeros == sizes.numel() else float(least.view(sizes.dtype))


def _norms_of(errors: Any, scale: Any) -> _Norms:
    parts = torch.view_as_real(errors) if errors.is_complex() else errors
    # Its infinity norm takes 14 times as long (torch 2.13 on a CPU).
    lowest, highest = parts.aminmax()
    if errors.dim() < 2:
        error = torch.linalg.vector_norm(errors)
        return _Norms(error, error, lowest, highest, scale)
    rows = torch.linalg.vector_norm(errors, dim=-1)
    return _Norms(torch.linalg.vector_norm(rows), rows.max(), lowest, highest, scale)


def _stored(errors: Any, dtype: Any) -> Any:
    """Return a copy of own errors: float32 at least for a few, and 16 bits for many, whose sum keeps three digits."""
    narrow = torch.complex64 if dtype.is_complex else torch.bfloat16 if errors.numel() >= _MANY else torch.float32
    return errors.to(twin_dtype(dtype) if dtype.itemsize >= 16 else narrow, copy=True)


def _on_host(actual: Any, exact: Any, *, elements: bool = False) -> ErrorSize:
    return error_size(tensor_to_array(actual, "result"), tensor_to_array(exact, "shadow"), elements=elements)


def measure_range(low: Any, exact: Any = None) -> ValueRange:
    """Return the range of low-precision values; `exact` is their shadow."""
    if not low.numel():
        return ValueRange()
    low = low.detach().resolve_conj().resolve_neg()
    parts = torch.view_as_real(low) if low.is_complex() else low
    # float8 has no such kernels.
    sizes = (parts.float() if parts.element_size() == 1 else parts).abs()
    smallest, largest = torch.stack(sizes.aminmax()).tolist()
    zeros = 0
    if smallest == 0.0:
        zeros, smallest = _zeros_and_least(sizes)
    limits = torch.finfo(low.dtype)
    if math.isfinite(largest) and largest < limits.max and (largest == 0.0 or smallest >= limits.smallest_normal):
        return ValueRange(smallest if largest else 0.0, largest, zeros=zeros)
    exact = torch.view_as_real(exact.resolve_conj()) if exact is not None and low.is_complex() else exact
    return value_range(tensor_to_array(parts, "result"), None if exact is None else tensor_to_array(exact, "shadow"))
