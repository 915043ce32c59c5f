"""How many digits of a result are significant under random noise, with which probability and confidence?

The formulas come from Sohier, Castro, Févotte, Lathuilière, Petit and Jamond, Confidence intervals for stochastic
arithmetic, ACM TOMS 47(2), 2021. With Z the errors of n samples, in the unit of the digits:

- normal: s = -log2(std Z) - [log2((n - 1) / chi2) / 2 + log2(F^-1((p + 1) / 2))], for errors with a normal distribution
  around the centre. chi2 is the quantile of the chi-square distribution with n - 1 degrees of freedom that a value lies
  below with probability (1 - confidence) / 2, and F^-1 the quantile function of the normal distribution.
- general: s = max k with |Z| <= 2^-k for every sample. Any distribution allows the statement if there are at least
  `Stochastic.min_general_samples` samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf, lgamma, log, log2, log10
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS, format_of
from precreg.storage import Array
from precreg.types import Comparison, ElementDigits, SignificantDigits, Stochastic

Reals = NDArray[np.float64]

MIN_DIGITS, MEDIAN_DIGITS = "min_significant_digits", "median_significant_digits"

DIGITS_PER_BIT = log10(2)

# Elements whose digits a record names.
_NAMED_ELEMENTS = 8

# Elements whose samples are widened at a time: 30 samples of float64 take 4 MiB.
_CHUNK = 2**14

# Relative change of a term or a step that ends an expansion: the unit roundoff of float64.
_TOLERANCE = 2.0**-53
_TINY = 1e-300


@lru_cache(maxsize=256)
def normal_allowance(samples: int, probability: float, confidence: float) -> float:
    """Return the bits by which the normal formula lies below -log2(std): the bracket in the module's docstring."""
    chi2 = chi_square_quantile((1 - confidence) / 2, samples - 1)
    return log2((samples - 1) / chi2) / 2 + log2(NormalDist().inv_cdf((probability + 1) / 2))


def chi_square_quantile(p: float, df: int) -> float:
    """Return the value that a chi-square variable with `df` degrees of freedom lies below with probability p.

    The relative error is below 1e-12.
    """
    low, high = 0.0, float(df)
    while _lower_gamma(df / 2, high / 2) < p:
        low, high = high, 2 * high
    while high - low > 4 * _TOLERANCE * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _lower_gamma(df / 2, middle / 2) < p else (low, middle)
    return high


def _lower_gamma(a: float, x: float) -> float:
    """Return the regularized lower incomplete gamma function P(a, x) (DLMF 8.11.4 and 8.9.2)."""
    if x <= 0:
        return 0.0
    scale = exp(a * log(x) - x - lgamma(a))
    return scale * _gamma_series(a, x) if x < a + 1 else 1 - scale * _gamma_fraction(a, x)


def _gamma_series(a: float, x: float) -> float:
    term = total = 1 / a
    k = a
    while term > _TOLERANCE * total:
        k += 1
        term *= x / k
        total += term
    return total


def _gamma_fraction(a: float, x: float) -> float:
    """Return the continued fraction of the upper function by Lentz's algorithm."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value, k, change = d, 0, inf
    while abs(change - 1) > _TOLERANCE:
        k += 1
        part = -k * (k - a)
        b += 2
        d = 1 / (part * d + b or _TINY)
        c = b + part / c or _TINY
        change = c * d
        value *= change
    return value


def significant_bits(samples: Array, centre: Array | None, settings: Stochastic, precision: int) -> Reals:
    """Return the significant bits of each element of finite `samples` (n, ...), float64 or longdouble.

    `centre` has the shape of one sample; None is the mean of the samples. `precision` has the bits of the output's
    format. Errors of 0 count as an error in the last of these bits. A relative error of a centre of 0 is infinite,
    unless it is 0: the bits are -inf.
    """
    errors, exponents = _errors(samples, centre, relative=settings.error == "relative")
    with np.errstate(divide="ignore", invalid="ignore"):
        if settings.method == "general":
            return _general_bits(errors, exponents, precision - 1)
        return _normal_bits(errors, exponents, settings, precision - 1)


@np.errstate(all="ignore")
def _errors(samples: Array, centre: Array | None, *, relative: bool) -> tuple[Array, NDArray[np.int64]]:
    """Return the errors of the samples, and the exponents of their unit (0 for relative errors)."""
    # Scaled by a power of two, which changes no digit: else squares of errors and sums could leave float64.
    scale = -np.frexp(np.max(np.abs(samples), axis=0))[1].astype(np.int64)
    scaled = np.ldexp(samples, scale)
    # Differences of close numbers are exact, so the errors do not carry the rounding of a quotient near 1.
    if centre is None:
        offsets = scaled - scaled[0]
        mean_offset = offsets.mean(axis=0)
        middle, errors = scaled[0] + mean_offset, offsets - mean_offset
    else:
        middle = np.ldexp(centre, scale)
        errors = scaled - middle
    if relative:
        errors = np.where(errors == 0, errors.dtype.type(0), errors / middle)
        return errors, np.zeros(middle.shape, np.int64)
    # The unit of an absolute error is 2^floor(log2 |centre|), or 1 for a centre of 0.
    return errors, np.where(middle == 0, scale, np.frexp(middle)[1].astype(np.int64) - 1)


def _normal_bits(errors: Array, exponents: NDArray[np.int64], settings: Stochastic, last: int) -> Reals:
    spread = errors.astype(np.float64).std(axis=0)
    # Equal samples beside the centre have no spread, and no digits beyond their common error.
    spread = np.where(spread == 0, np.max(np.abs(errors), axis=0).astype(np.float64), spread)
    bits = np.where(spread == 0, float(last), -np.log2(spread) + exponents)
    allowance = normal_allowance(settings.samples, settings.probability, settings.confidence)
    return np.where(np.isfinite(bits), bits, -inf) - allowance


def _general_bits(errors: Array, exponents: NDArray[np.int64], last: int) -> Reals:
    largest = np.max(np.abs(errors), axis=0)
    fractions, powers = np.frexp(largest)
    # 2^(power - 1) <= |Z| < 2^power, and the power of two itself belongs to the better class.
    bits = np.where(fractions == 0.5, 1 - powers.astype(np.int64), -powers.astype(np.int64)) + exponents
    bits = np.where(largest == 0, last, np.clip(bits, 0, last))
    return np.where(np.isfinite(largest), bits, 0).astype(np.float64)


class MeasuredDigits(NamedTuple):
    """The digits of each element, NaN where all samples agree on a NaN or an infinity, and the unsteady elements."""

    digits: Reals
    non_finite: NDArray[np.bool_]


def measure_digits(actual: Array, samples: Sequence[Array], oracle: Array, settings: Stochastic) -> MeasuredDigits:
    """Return the significant decimal digits of each element of an output of a real floating dtype, in C order.

    Digits are at least 0. They end at the digits of the output's format, because no sample shows a smaller error.
    """
    flat, references = actual.ravel(), oracle.ravel()
    columns = [sample.ravel() for sample in samples]
    digits, non_finite = np.empty(flat.size), np.empty(flat.size, np.bool_)
    for start in range(0, flat.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        found = _measure_part(flat[part], [column[part] for column in columns], references[part], settings)
        digits[part], non_finite[part] = found
    return MeasuredDigits(digits, non_finite)


def _measure_part(actual: Array, samples: Sequence[Array], oracle: Array, settings: Stochastic) -> MeasuredDigits:
    number_format = format_of(actual.dtype.name)
    assert number_format is not None
    wide = np.result_type(np.float64, actual.dtype if actual.dtype.kind == "f" else np.float64)
    stacked = np.stack([sample.astype(wide) for sample in samples])
    finite = np.isfinite(stacked).all(axis=0)
    same_kind = (_classes(stacked) == _classes(actual.astype(wide))).all(axis=0)
    stacked = np.where(finite, stacked, 1)
    centre = None
    if settings.against == "oracle":
        given = oracle.astype(np.result_type(wide, oracle.dtype) if oracle.dtype.kind == "f" else wide)
        # An oracle that is not finite beside finite samples is a mismatch, which fails the case.
        finite &= np.isfinite(given)
        centre = np.where(np.isfinite(given), given, 1)
    bits = significant_bits(stacked, centre, settings, number_format.precision)
    limit = float(number_format.precision - 1)
    if settings.method == "normal":
        limit -= normal_allowance(settings.samples, settings.probability, settings.confidence)
    digits = np.clip(bits, 0, max(limit, 0)) * DIGITS_PER_BIT
    return MeasuredDigits(np.where(finite, digits, np.where(same_kind, np.nan, 0.0)), ~finite)


def _classes(values: Array) -> NDArray[np.int64]:
    """Return 0 for finite values, 1 and -1 for infinities, 2 for NaN."""
    infinite = np.isinf(values) * np.where(values > 0, 1, -1)
    return np.where(np.isnan(values), 2, infinite).astype(np.int64)


def has_digits(dtype: np.dtype[Any]) -> bool:
    """Return whether an output has significant digits: real floating-point numbers do."""
    return dtype.name in FORMATS or dtype.kind == "f"


def add_digits(
    comparison: Comparison, actual: Array, samples: Sequence[Array], oracle: Array, settings: Stochastic
) -> Comparison:
    """Add the significant digits of an output to its comparison.

    Outputs of integers and complex numbers, without elements, or of another shape than the oracle's have none.
    """
    is_real = has_digits(actual.dtype) and oracle.dtype.kind != "c"
    if not is_real or not actual.size or actual.shape != oracle.shape:
        return comparison
    measured = measure_digits(actual, samples, oracle, settings)
    digits = measured.digits
    known = digits[~np.isnan(digits)]
    metrics = dict(comparison.metrics)
    if known.size:
        metrics |= {MIN_DIGITS: float(known.min()), MEDIAN_DIGITS: float(np.median(known))}
    counts = tuple(np.bincount(known.astype(np.int64)).tolist())
    # Stable, so that the first of equal elements in C order is named.
    order = np.argsort(digits, kind="stable")[: min(_NAMED_ELEMENTS, known.size)]
    worst = tuple(_element(int(index), float(digits[index]), samples) for index in order)
    found = SignificantDigits(settings, counts, worst, int(measured.non_finite.sum()))
    return replace(comparison, metrics=metrics, digits=found)


def _element(index: int, digits: float, samples: Sequence[Array]) -> ElementDigits:
    values = [float(sample.ravel()[index]) for sample in samples]
    finite = [value for value in values if np.isfinite(value)]
    return ElementDigits(index, digits, min(finite, default=None), max(finite, default=None))
