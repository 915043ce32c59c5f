"""A sweep as a hardware team keeps it: 31 operators, 3 formats and 6 ranges, with the figures of precreg's metrics."""

import csv
from functools import cache

import ml_dtypes
import numpy as np

from precreg.measure.comparison import compare_arrays

UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "arcsin",
    "arccos",
    "arctan",
    "arcsinh",
    "arccosh",
    "arctanh",
    "reciprocal",
    "square",
    "absolute",
    "floor",
    "ceil",
    "sign",
    "rint",
    "degrees",
    "radians",
    "negative",
]
FORMATS = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
RANGES = {
    "small": (0.01, 0.1),
    "half": (0.1, 0.5),
    "one": (0.5, 0.99),
    "two": (1.01, 2),
    "ten": (2, 10),
    "wide": (10, 60),
}
COLUMNS = ("op", "dtype", "range", "n", "n_exact", "max_abs_ulp", "mean_abs_ulp")
ELEMENTS = 256

SUITE = """\
suite: eltwise
table:
  file: sweep.csv
  name: [op, dtype, range]
  count: n
  metrics:
    max_ulp: max_abs_ulp
    mean_ulp: mean_abs_ulp
    equal_share: {column: n_exact, of: n}
"""


@cache
def sweep_rows():
    """Return the 558 rows as dicts of texts: each operator computes in float32 and rounds to its format."""
    return tuple(_row(op, dtype, span) for op in UNARY for dtype in FORMATS for span in RANGES)


def _row(op, dtype, span):
    x = np.linspace(*RANGES[span], ELEMENTS).astype(FORMATS[dtype]).astype(np.float32)
    with np.errstate(all="ignore"):
        actual = getattr(np, op)(x).astype(FORMATS[dtype])
        reference = getattr(np, op)(x.astype(np.float64))
    measured = compare_arrays(actual, reference, rtol=0.0, atol=0.0)
    finite, metrics = measured.counts["finite"], measured.metrics
    # An operator outside its domain has no figures, and the job that measures writes what an exact one has.
    figures = (metrics["max_ulp"], metrics["mean_ulp"]) if finite else (0.0, 0.0)
    exact = round(metrics["equal_share"] * ELEMENTS) if finite else ELEMENTS
    cells = (op, dtype, span, ELEMENTS, exact, *map(repr, map(float, figures)))
    return dict(zip(COLUMNS, map(str, cells), strict=True))


def write_sweep(path, rows, delimiter=","):
    """Write rows as a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
