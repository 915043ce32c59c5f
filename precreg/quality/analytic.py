"""What theory allows of a sum: bounds on its rounding error where its length is known.

Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, Lemma 3.1 and section 4.2: a sum of n terms, in
any order, is off by at most gamma(n - 1) sum |x|, a sum of n products by at most gamma(n) sum |x y|; relative to the
result where terms have one sign. Higham and Mary, SIAM J. Sci. Comput. 41 (2019) A2815: where roundings are independent
with mean zero, errors are of the order sqrt(n) u.
"""

from __future__ import annotations

from math import sqrt

from msgspec import Struct

from precreg.arithmetic.formats import format_of
from precreg.types.replicate import LongSum


class Analytic(Struct, frozen=True):
    """Bounds on the relative error of the longest sum, rounded to the output once, beside what was measured.

    `gamma` and `bound` (gamma and the rounding to the output together) are None where n u >= 1: then there is none.
    `probable` is sqrt(n) u. `measured` is the largest |d| over the largest |r|, `ratio` what it is of the bound.
    """

    terms: int
    precision: int
    products: bool
    gamma: float | None
    probable: float
    bound: float | None
    measured: float | None
    ratio: float | None


def gamma(n: int, unit_roundoff: float) -> float | None:
    """Return n u / (1 - n u), or None where n u >= 1."""
    total = n * unit_roundoff
    return total / (1 - total) if total < 1 else None


def analytic(longest: LongSum, dtype: str, measured: float | None) -> Analytic:
    """Put the bounds on a sum beside what was measured of an output in that dtype."""
    unit_roundoff = 2.0**-longest.precision
    roundings = longest.terms if longest.products else longest.terms - 1
    most = gamma(roundings, unit_roundoff)
    output = format_of(dtype)
    coarse = output is not None and output.precision < longest.precision
    last = output.unit_roundoff if output is not None and coarse else 0.0
    bound = None if most is None else most + last + most * last
    ratio = measured / bound if bound and measured is not None else None
    probable = sqrt(roundings) * unit_roundoff
    return Analytic(longest.terms, longest.precision, longest.products, most, probable, bound, measured, ratio)
