"""Which facts does a watch show of an array, each time it is computed?"""

from __future__ import annotations

from msgspec import Struct

from precreg.types.case import Scalar


class WatchedValue(Struct, frozen=True, kw_only=True):
    """The elements of one array that a watch selects, beside their exact values.

    The tuples have one entry an element, in C order. `exact` and `ulps` are empty without a shadow, and `ulps` for a
    dtype without ULP. Numbers that JSON lacks are their repr.
    """

    # The watch, as the user wrote it: "scores[0:4]".
    watch: str
    # The number of the operation; 0 for an output of the computation.
    number: int
    # The name of the operation, of the probe or of the output.
    name: str
    # The user's place as FILE:LINE, and the path of its module; empty for an output.
    place: str = ""
    code: str = ""
    module: str = ""
    step: int | None = None
    dtype: str
    shape: tuple[int, ...]
    # SHA-256 of all bytes of the array in C order, the first 16 digits.
    digest: str
    # The relative total error of the whole array.
    total: float | None = None
    indices: tuple[tuple[int, ...], ...] = ()
    actual: tuple[Scalar, ...] = ()
    exact: tuple[Scalar, ...] = ()
    ulps: tuple[Scalar, ...] = ()
    # The number of selected elements; the first are listed. None if the selection does not fit the shape.
    selected: int | None = 0


class UnmatchedPattern(Struct, frozen=True):
    """A watch or breakpoint that no operation matched, and the nearest names that the computation has."""

    text: str
    nearest: tuple[str, ...] = ()
