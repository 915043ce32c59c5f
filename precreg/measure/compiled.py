"""The compiled core. Importing it fails if it was not built, or if it was built from other sources."""

from __future__ import annotations

from typing import Any, NamedTuple

from precreg.arithmetic import structs_of
from precreg.measure import _core
from precreg.measure.metrics import COUNT_DESCRIPTIONS, METRICS, Regions
from precreg.measure.tally import Counts, Expansion, Groups, Maxima, MeasuredFields, Places, Sketches, Sums
from precreg.types import Scalar

__all__ = [
    "FIGURES",
    "KINDS",
    "REPEATED",
    "SHADOW_OPERATIONS",
    "STRUCTS",
    "CoreResult",
    "Differences",
    "ShadowTotals",
    "TallyFormat",
    "TallyPlan",
    "_core",
]

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


# The metrics that the core computes: those of pairs alone.
FIGURES = tuple(
    name for name, metric in METRICS.items() if not (metric.needs_benchmark or metric.needs_samples or metric.derive)
)

# Operations on shadows, and how an operand repeats its elements, as core/shadows.hpp explains them.
SHADOW_OPERATIONS = ("add", "subtract", "multiply", "divide", "sqrt")
REPEATED = ("never", "everywhere", "in_row", "in_column")


class Differences(NamedTuple):
    """Differences from one array to another: the sum of squares, the largest sum of a row, and the largest size."""

    squares: float
    worst_row: float
    largest: float


class ShadowTotals(NamedTuple):
    """The totals of an array beside its shadow, as core/shadows.hpp explains them."""

    total: Differences
    own: Differences
    inherited: Differences
    scale: float
    own_scale: float
    smallest: float
    most: float
    nan: int
    inf: int
    subnormal: int
    zeros: int


# core/job.hpp, core/shadows.hpp and core/module.cpp declare these names in this order. A core of other names is
# refused: the ImportError says that it was built from other sources, and numpy serves.
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
        "Figure": [name.replace(".", "_").replace("-", "_") for name in FIGURES],
        "Counted": tuple(COUNT_DESCRIPTIONS),
        "Described": MeasuredFields._fields,
        "describe": ("found", "figures", "counts", "places"),
        "measure": ("actual", "reference", "start", "shape", "rtol", "atol", "worst", "plan", "tables"),
        "read": ("found",),
        "sizes": ("keys", "counts", "largest"),
        "Differences": Differences._fields,
        "ShadowTotals": ShadowTotals._fields,
        "ShadowState": ("totals", "row", "row_scales", "scales"),
        "ShadowOperation": SHADOW_OPERATIONS,
        "Repeated": REPEATED,
        "add_shadows": ("actual", "exact", "own", "errors", "state", "columns", "smallest_normal", "ends_row"),
        "compute_shadows": (
            *("operation", "low_x", "exact_x", "repeated_x", "low_y", "exact_y", "repeated_y"),
            *("actual", "exact", "own", "errors", "state", "columns", "smallest_normal", "has_own"),
        ),
    },
)
