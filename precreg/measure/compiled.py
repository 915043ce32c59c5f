"""The compiled core. Importing it fails if it was not built, or if it was built from other sources."""

from __future__ import annotations

from typing import Any, NamedTuple

from precreg.arithmetic import structs_of
from precreg.measure import _core
from precreg.measure.metrics import Regions
from precreg.measure.tally import Counts, Expansion, Groups, Maxima, Places, Sketches, Sums
from precreg.types import Scalar

__all__ = ["KINDS", "STRUCTS", "CoreResult", "TallyFormat", "TallyPlan", "_core"]

KINDS = ("float32", "float64", "float16", "bfloat16", "byte", "int16", "uint16", "int32", "uint32")


class TallyFormat(NamedTuple):
    """The number format of the output, as Format in core/job.hpp explains it."""

    precision: int
    smallest_binade: float
    smallest_normal: float
    largest_reference: float
    negative_zero: bool
    overflow_is_nan: bool
    same: bool


class TallyPlan(NamedTuple):
    """All that a pair of dtypes decides: kinds by their index in KINDS, and the values of a Regions."""

    actual: int
    reference: int
    actual_is_integer: bool
    reference_is_integer: bool
    format: TallyFormat
    regions: tuple[float, ...]


class CoreResult(NamedTuple):
    """The fields of a Tally, as plain tuples and lists; `scaled` has indices of Sums in place of names."""

    counts: tuple[int, ...]
    sums: tuple[Expansion, ...]
    maxima: tuple[float, ...]
    places: tuple[int, ...]
    sketches: tuple[tuple[bytes, bytes], ...]
    errors: list[float]
    worst: tuple[list[int], list[Scalar], list[Scalar]]
    non_finite: tuple[list[int], list[Scalar], list[Scalar]]
    groups: tuple[tuple[Any, ...], ...]
    scaled: list[tuple[int, int, Expansion]]


# core/job.hpp and core/module.cpp declare these names in this order. A core of other names is refused: the ImportError
# says that it was built from other sources, and numpy serves.
STRUCTS = structs_of(
    _core,
    {
        "Kind": KINDS,
        "Format": TallyFormat._fields,
        "Regions": Regions.__struct_fields__,
        "Plan": TallyPlan._fields,
        "Counts": Counts._fields,
        "Sums": Sums._fields,
        "Maxima": Maxima._fields,
        "Places": Places._fields,
        "Sketches": Sketches._fields,
        "GroupSum": Groups._fields[1:],
        "Result": CoreResult._fields,
        "Sizes": ("percentiles", "above", "mean_log2", "bins", "counts"),  # of sketch.py, which imports this module
        "measure": ("actual", "reference", "start", "shape", "rules", "plan", "tables"),
        "sizes": ("keys", "counts", "largest"),
    },
)
