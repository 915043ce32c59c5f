"""Which options do distributions with a structure have: matrices, tokens, images, masks, rows of probabilities?

generators.py draws them. `python` names a function of the project that draws.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Literal

from msgspec import field

from precreg.arithmetic import format_of
from precreg.suite.inputs.options import DistributionOptions, check_whole, drawn_format


class RealArray(DistributionOptions, frozen=True):
    """Draw real numbers with at least so many axes as the structure has."""

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype is a real floating one, and the shape has the axes."""
        _require_real(dtype)
        _require_axes(shape, 1)


class SymmetricPositiveDefinite(DistributionOptions, frozen=True):
    """Draw symmetric positive definite matrices with eigenvalues from 1/condition to 1."""

    condition: float = 100.0

    def __post_init__(self) -> None:
        if not (isfinite(self.condition) and self.condition >= 1):
            raise ValueError(f"expected a finite condition >= 1 but got condition={self.condition}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the matrices are square, and stay definite when the dtype rounds them."""
        _require_real(dtype)
        _require_axes(shape, 2)
        if shape[-1] != shape[-2]:
            raise ValueError(f"expected square matrices but got shape={list(shape)}")
        format = drawn_format(dtype)
        # Elements are at most 1. The norm of their rounding errors is at most n times the largest of them.
        largest_error = format.unit_roundoff + format.smallest_subnormal / 2
        limit = 0.5 / (max(shape[-1], 1) * largest_error)
        if self.condition > limit:
            message = f"at most condition={limit:.3g}, beyond which {dtype} may round away definiteness"
            raise ValueError(f"expected {message} at n={shape[-1]}, but got condition={self.condition:g}")


class Orthogonal(DistributionOptions, frozen=True):
    """Draw matrices with orthonormal columns, or orthonormal rows if they have fewer rows than columns."""

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype is a real floating one, and the shape has two axes."""
        _require_real(dtype)
        _require_axes(shape, 2)


class Sorted(RealArray, frozen=True):
    """Draw uniform numbers from [low, high), sorted along the last axis."""

    low: float = 0.0
    high: float = 1.0
    descending: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.high - self.low < float("inf"):
            raise ValueError(f"expected low < high, a finite span, but got low={self.low}, high={self.high}")


class Sparse(DistributionOptions, frozen=True):
    """Draw normal numbers at a share of the positions, chosen at random, and zeros at the others."""

    density: float = 0.1
    std: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.density <= 1:
            raise ValueError(f"expected 0 <= density <= 1 but got density={self.density}")
        if not (isfinite(self.std) and self.std > 0):
            raise ValueError(f"expected a finite std > 0 but got std={self.std}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype is a real floating one."""
        _require_real(dtype)


class Tokens(DistributionOptions, frozen=True):
    """Draw ids of tokens by Zipf's law: id k, from 0, has a probability proportional to (k + 1)^-exponent."""

    vocabulary: int
    exponent: float = 1.0

    def __post_init__(self) -> None:
        # The table of probabilities has a number for each token.
        if not 1 <= self.vocabulary <= 2**24:
            raise ValueError(f"expected 1 <= vocabulary <= {2**24} but got vocabulary={self.vocabulary}")
        if not 0 <= self.exponent <= 10:
            raise ValueError(f"expected 0 <= exponent <= 10 but got exponent={self.exponent}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype holds every id."""
        check_whole(self.vocabulary - 1, dtype)


class Images(RealArray, frozen=True):
    """Draw images (..., height, width) in [0, 1], smooth light with sharp edges; `normalized`: (x - 0.45) / 0.225."""

    normalized: bool = False

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype is a real floating one, and the shape has two axes."""
        _require_real(dtype)
        _require_axes(shape, 2)


class Mask(DistributionOptions, frozen=True):
    """Make attention masks: 1 at positions to see and 0 at others, or 0 and -infinity with `additive`.

    A causal mask (..., queries, keys) shows the keys up to the query's own, the last query all of them. A padding mask
    (..., keys) shows the first keys of each row, a random number from 1 to all.
    """

    kind: Literal["causal", "padding"] = "causal"
    additive: bool = False

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype holds the two values, and the shape has the axes."""
        _require_axes(shape, 2 if self.kind == "causal" else 1)
        format = format_of(dtype)
        if "complex" in dtype:
            raise ValueError(f"expected a real dtype but got dtype={dtype}")
        if self.additive and (format is None or format.overflow != float("inf")):
            raise ValueError(f"expected a dtype with infinities beside additive but got dtype={dtype}")


class Probabilities(RealArray, frozen=True):
    """Draw positive numbers whose sum over the last axis is 1, uniform over all such rows."""

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype is a real floating one, and rows have elements."""
        super().check(shape, dtype)
        if shape[-1] == 0:
            raise ValueError(f"expected rows with elements but got shape={list(shape)}")


class PythonInput(DistributionOptions, frozen=True):
    """Call a function of the project, module:function, with a generator, the shape, the dtype and `args`."""

    function: str
    args: dict[str, Any] = field(default_factory=dict)

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Accept every shape and dtype, because only the function knows which it can make."""


STRUCTURED = (SymmetricPositiveDefinite, Orthogonal, Sorted, Sparse, Tokens, Images, Mask, Probabilities)


def _require_real(dtype: str) -> None:
    if format_of(dtype) is None or "complex" in dtype:
        raise ValueError(f"expected a real floating dtype but got dtype={dtype}")


def _require_axes(shape: tuple[int, ...], axes: int) -> None:
    if len(shape) < axes:
        raise ValueError(f"expected {axes} axes or more but got shape={list(shape)}")
