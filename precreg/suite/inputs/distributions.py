"""Which numbers does an input's name and seed determine, with the same bits on every machine and numpy version?

One word of 64 random bits makes one number, so numbers do not depend on the size of an array or of its blocks. Words
are the raw output of Philox4x64-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC11), which numpy
promises to keep. numpy's distributions carry no such promise, so precreg has its own. The key is the first 128 bits, as
two little-endian words, of

    BLAKE2b-128(b"precreg-inputs-1" NUL name NUL seed)        or, for a second stream, ... seed NUL purpose)

with the name in UTF-8 and the seed in decimal. Word 4*i + j is word j of the block with the counter i + 1.

Numbers come from float64 operations in the order written here: +, -, *, /, sqrt, comparison, rounding to integers,
frexp and ldexp. IEEE 754 fixes the result of each. It does not fix log and exp: their last bits differ between C
libraries and numpy's vector code. So `portable_log`, `portable_log2` and `portable_exp2` compute them here.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from math import factorial, frexp
from typing import Any, cast

import numpy as np
from numpy.random import Philox
from numpy.typing import NDArray

from precreg.arithmetic import Format, round_to

RandomWords = NDArray[np.uint64]
Reals = NDArray[np.float64]

# A stream of words. Each call with a count returns the next words of the stream.
Words = Callable[[int], NDArray[np.uint64]]

# ln 2, its leading 32 bits, and the rest. The product of the leading bits with any exponent is exact. So e * ln 2 can
# be added in two parts (Cody and Waite, Software Manual for the Elementary Functions, 1980).
_LN2 = 0.6931471805599453
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_SQRT_HALF = 0.7071067811865476

# Taylor series, whose next term is far below rounding (1.1e-16). For artanh(s), |s| <= 0.172, and s^22 / 23 is 6e-19.
# For exp(x), |x| <= 0.347, and x^14 / 14! is 4e-18.
_ARTANH_SERIES = np.array([2 / (2 * k + 1) for k in range(11)])[:, np.newaxis]
_EXP_SERIES = np.array([1 / factorial(k) for k in range(14)])[:, np.newaxis]


def derive_key(name: str, seed: int, purpose: str | None = None) -> NDArray[np.uint64]:
    """Return the two words of the key for an input's name and seed, and for the purpose of a second stream."""
    parts = ["precreg-inputs-1", name, str(seed)] + ([] if purpose is None else [purpose])
    digest = blake2b("\0".join(parts).encode(), digest_size=16).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def word_stream(name: str, seed: int, purpose: str | None = None) -> Words:
    """Return the stream of words for an input's name and seed, from its beginning."""
    return cast(Words, Philox(key=cast(Any, derive_key(name, seed, purpose))).random_raw)


def evaluate_polynomial(x: Reals, coefficients: Reals) -> Reals:
    """Return the sum of coefficients[k] * x**k along the first axis, by Horner's rule, for a vector x.

    Further axes of the coefficients hold several polynomials, evaluated at once. The last axis has length 1.
    """
    # Each numpy call is one operation with one rounding, so no compiler can fuse a multiplication with an addition.
    result: Reals = coefficients[-1] * x
    for coefficient in coefficients[-2:0:-1]:
        result += coefficient
        result *= x
    result += coefficients[0]
    return result


def portable_log(x: Reals) -> Reals:
    """Return the natural logarithm of a vector of positive, finite numbers, within 4 ulp."""
    exponents, log_significands = _split(x)
    # The small parts are added first, and the exact large product last, so that only one large sum is rounded.
    return exponents * _LN2_HIGH + (exponents * _LN2_LOW + log_significands)


def portable_log2(x: Reals) -> Reals:
    """Return the logarithm to base 2 of a vector of positive, finite numbers, within 5 ulp."""
    exponents, log_significands = _split(x)
    return exponents + log_significands / _LN2


def portable_exp2(x: Reals) -> Reals:
    """Return 2**x of a vector, within 2 ulp where the result is a normal number."""
    whole = np.rint(x)
    return np.ldexp(evaluate_polynomial((x - whole) * _LN2, _EXP_SERIES), whole.astype(np.int32))


def _split(x: Reals) -> tuple[Reals, Reals]:
    """Return e and log(m), where x = m * 2**e and m lies within a factor sqrt(2) of 1.

    log(m) is 2 artanh((m - 1) / (m + 1)).
    """
    significands, exponents = np.frexp(x)
    low = significands < _SQRT_HALF
    significands = significands * (1.0 + low)
    ratio = (significands - 1.0) / (significands + 1.0)
    return exponents - 1.0 * low, ratio * evaluate_polynomial(ratio * ratio, _ARTANH_SERIES)


def unit_fraction(words: RandomWords) -> Reals:
    """Return k * 2**-53 in [0, 1), where k is the upper 53 bits of each word."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def open_fraction(words: RandomWords) -> Reals:
    """Return (k + 1/2) * 2**-52 in (0, 1), exactly, where k is the upper 52 bits of each word."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def draw_normal(words: RandomWords, mean: float, std: float) -> Reals:
    """Return normal numbers, at most 8.21 standard deviations from the mean, by inverting the distribution."""
    # open_fraction never gives 0 or 1, whose quantiles are infinite. The quantile of its smallest number, 2**-53, is
    # -8.21.
    return normal_quantile(open_fraction(words)) * std + mean


def draw_uniform(words: RandomWords, low: float, high: float) -> Reals:
    """Return uniform numbers from [low, high), on a grid of (high - low) * 2**-53. Rounding may give high."""
    return np.minimum(unit_fraction(words) * (high - low) + low, high)


def draw_log_uniform(words: RandomWords, low: float, high: float, sign: str) -> Reals:
    """Return numbers from [low, high] with uniform logarithm. With sign "both", half of them are negative."""
    start, end = portable_log2(np.array([low, high]))
    # portable_exp2 may err by 2 ulp, and thus leave the interval.
    magnitudes = np.clip(portable_exp2(unit_fraction(words) * (end - start) + start), low, high)
    if sign == "positive":
        return magnitudes
    # The lowest bit of the word gives the sign. The magnitude uses only the upper 53 bits.
    return np.where(words & np.uint64(1), -magnitudes, magnitudes)


def draw_integers(words: RandomWords, low: int, high: int) -> NDArray[np.int64]:
    """Return integers from [low, high) modulo 2**64, as int64: low + floor(word * (high - low) / 2**64).

    The probabilities of any two integers differ by a share of at most (high - low) / 2**64. This is the method of
    Lemire, Fast random integer generation in an interval (2019), without rejection, so that one word makes one number.
    """
    span = high - low
    offsets = words if span == 2**64 else _high_product(words, span)
    return (offsets + np.uint64(low % 2**64)).view(np.int64)


def _high_product(words: RandomWords, factor: int) -> RandomWords:
    """Return the upper 64 bits of the products with a factor below 2**64."""
    # Long multiplication with digits of 32 bits, because numpy has no integers of 128 bits.
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    upper, lower = np.uint64(factor >> 32), np.uint64(factor & (2**32 - 1))
    words_upper, words_lower = words >> half, words & mask
    middle = words_upper * lower + ((words_lower * lower) >> half)
    carried = words_lower * upper + (middle & mask)
    product: RandomWords = words_upper * upper + (middle >> half) + (carried >> half)
    return product


def normal_quantile(p: Reals) -> Reals:
    """Return the standard normal quantiles of probabilities inside (0, 1), with a relative error below 1e-15.

    This is algorithm AS 241, PPND16 (Wichura, The percentage points of the normal distribution, Applied Statistics 37,
    1988). Its rational functions cover |p - 1/2| <= 0.425, the near tail and the far tail.
    """
    q = p - 0.5
    numerator, denominator = evaluate_polynomial(0.180625 - q * q, _CENTRE)
    quantiles: Reals = q * numerator / denominator
    tail = np.flatnonzero(np.abs(q) > 0.425)
    if tail.size:
        quantiles[tail] = np.copysign(_tail_quantile(np.minimum(p, 1.0 - p)[tail]), q[tail])
    return quantiles


def _tail_quantile(p: Reals) -> Reals:
    """Return the distance from the median at which the tail of probability p < 0.075 begins."""
    r = np.sqrt(-portable_log(p))
    numerator, denominator = evaluate_polynomial(r - 1.6, _NEAR_TAIL)
    quantiles: Reals = numerator / denominator
    far = np.flatnonzero(r > 5.0)
    if far.size:
        numerator, denominator = evaluate_polynomial(r[far] - 5.0, _FAR_TAIL)
        quantiles[far] = numerator / denominator
    return quantiles


def ill_conditioned_rows(words: RandomWords, length: int, condition: float, format: Format) -> Reals:
    """Return rows of numbers of `format` with sum |x| / |sum x| near `condition`, within a factor 1.2.

    `words` has shape (rows, words_per_row(length)), the result (rows, length).

    Half of a row are numbers between condition**-0.5 and 1 times a power of two, with uniform logarithm. The other half
    are their negatives. One or two more numbers make the sum. Then the row is shuffled.
    """
    # Ogita, Rump and Oishi (Accurate sum and dot product, 2005) choose the cancelling numbers from the rounded sum of
    # the others. Here pairs cancel exactly, so that the sum is known in every format.
    pairs = (length - 1) // 2
    exponents = unit_fraction(words[:, :pairs]) * (-0.5 * portable_log2(np.array([condition])))
    magnitudes = portable_exp2(exponents.ravel()).reshape(exponents.shape)
    magnitudes[:, 0] = 1.0
    magnitudes = round_to(magnitudes * _scale_of_sum(condition, format), format)
    # cumsum adds from left to right, while the order of np.sum is not specified.
    totals = 2.0 * np.cumsum(magnitudes, axis=1)[:, -1:]
    remainders = length - 2 * pairs
    residues = round_to(totals / (condition - 1.0) / remainders, format)
    rows = np.concatenate([magnitudes, -magnitudes, *[residues] * remainders], axis=1)
    # Sorting by random words is a shuffle. Ties are practically impossible, and a stable sort makes them portable.
    return np.take_along_axis(rows, np.argsort(words[:, pairs:], axis=1, kind="stable"), axis=1)


def words_per_row(length: int) -> int:
    """Return the number of words for a row of an ill-conditioned sum: one per pair, and one per number to shuffle."""
    return (length - 1) // 2 + length


def _scale_of_sum(condition: float, format: Format) -> float:
    """Return the power of two, at least 1, that keeps the sum at four times the smallest number or more."""
    # A sum close to the smallest number would be rounded too coarsely to meet the condition.
    return max(1.0, 2.0 ** frexp(4.0 * format.smallest_subnormal * condition)[1])


def _ratio(numerator: list[float], denominator: list[float]) -> Reals:
    """Return two polynomials stacked to (degree + 1, 2, 1), so that one call evaluates them."""
    return np.array([numerator, denominator]).T[:, :, np.newaxis]


# The coefficients of AS 241, as printed: a and b for the centre, c and d for the near tail, e and f for the far tail.
_CENTRE = _ratio(
    [
        3.3871328727963666080e0,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ],
    [
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ],
)

_NEAR_TAIL = _ratio(
    [
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ],
    [
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ],
)

_FAR_TAIL = _ratio(
    [
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ],
    [
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ],
)
