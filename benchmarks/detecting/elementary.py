"""Elementary functions by reduction and polynomials, element by element."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, cut, double, extended, fused, kept, single
from detecting.summing import unchanged

HIGH, LOW, LOG2_E = np.float32(0.693359375), np.float32(-2.12194440e-4), np.float32(1.4426950408889634)
EXP_TERMS = tuple(np.float32(1) / np.float32(term) for term in (5040, 720, 120, 24, 6, 2))


def exp(x, terms=EXP_TERMS, low=LOW, high=HIGH, rest=unchanged, value=unchanged, nearest=np.rint, step=None) -> Array:
    """Give e**x by Cody and Waite's reduction and Horner's scheme, in float32."""
    powers = nearest(x * LOG2_E)
    r = rest((x - powers * high) - powers * low)
    step = step or (lambda total, r, term: total * r + term)
    total = np.full_like(r, terms[0])
    for term in terms[1:]:
        total = step(total, r, term)
    return np.ldexp(value(np.float32(1) + (r + total * r * r)), powers.astype(np.int32))


def exp_estrin(x: Array) -> Array:
    """Evaluate the same polynomial by pairs of terms."""
    powers = np.rint(x * LOG2_E)
    r = (x - powers * HIGH) - powers * LOW
    square = r * r
    a7, a6, a5, a4, a3, a2 = EXP_TERMS
    total = (a2 + a3 * r) + square * ((a4 + a5 * r) + square * (a6 + a7 * r))
    return np.ldexp(np.float32(1) + (r + total * square), powers.astype(np.int32))


def horner_to_one(x: Array) -> Array:
    """Let the scheme go on to the constant term."""
    powers = np.rint(x * LOG2_E)
    r = (x - powers * HIGH) - powers * LOW
    total = np.zeros_like(r)
    for term in (*EXP_TERMS, np.float32(1), np.float32(1)):
        total = total * r + term
    return np.ldexp(total, powers.astype(np.int32))


def reduced_in_float64(x: Array) -> Array:
    """Take multiples of log(2) away in float64."""
    powers = np.rint(double(x) * 1.4426950408889634)
    r = single(double(x) - powers * 0.6931471805599453)
    total = np.full_like(r, EXP_TERMS[0])
    for term in EXP_TERMS[1:]:
        total = total * r + term
    return np.ldexp(np.float32(1) + (r + total * r * r), powers.astype(np.int32))


EXP = Operator(
    "exp_float32",
    lambda random: (single(random.uniform(-20, 20, (64, 100))),),
    lambda x: np.exp(double(x)),
    exp,
    {
        "a term fewer": partial(exp, terms=EXP_TERMS[1:]),
        "two terms fewer": partial(exp, terms=EXP_TERMS[2:]),
        "three terms fewer": partial(exp, terms=EXP_TERMS[3:]),
        "log(2) in one piece": partial(exp, high=np.float32(0.6931471805599453), low=np.float32(0)),
        "the lower piece of log(2) with two digits": partial(exp, low=np.float32(-2.1e-4)),
        "the lower piece of log(2) with four digits": partial(exp, low=np.float32(-2.122e-4)),
        "the lower piece of log(2) with five digits": partial(exp, low=np.float32(-2.1219e-4)),
        "the exponent rounded down: a wider interval": partial(exp, nearest=np.floor),
        "terms of five digits": partial(exp, terms=tuple(np.float32(f"{term:.5g}") for term in EXP_TERMS)),
        "terms of three digits": partial(exp, terms=tuple(np.float32(f"{term:.3g}") for term in EXP_TERMS)),
        "what remains rounded to 22 bits": partial(exp, rest=partial(kept, bits=22)),
        "what remains truncated to 20 bits": partial(exp, rest=partial(cut, bits=20)),
        "truncated to 23 bits": partial(exp, value=partial(cut, bits=23)),
        "rounded to 23 bits": partial(exp, value=partial(kept, bits=23)),
        "the scheme goes on to 1": horner_to_one,
        "a power of two": lambda x: np.exp2(x * LOG2_E),
        "stored in bfloat16": partial(exp, value=as_brain),
    },
    {
        "multiplied and added in one": partial(exp, step=fused),
        "pairs of terms": exp_estrin,
        "numpy's": np.exp,
        "numpy's in float64": lambda x: as_double(np.exp, x),
        "a term more": partial(exp, terms=(np.float32(1 / 40320), *EXP_TERMS)),
        "terms of nine digits": partial(exp, terms=tuple(np.float32(f"{term:.9g}") for term in EXP_TERMS)),
        "the exponent by floor(x + 1/2)": partial(exp, nearest=lambda x: np.floor(x + np.float32(0.5))),
        "reduced in float64": reduced_in_float64,
    },
)


def softplus(x, log=np.log1p, power=np.exp, added=unchanged) -> Array:
    """Give log(1 + exp(x)), with no overflow."""
    return np.maximum(x, np.float32(0)) + added(log(power(-np.abs(x))))


SOFTPLUS = Operator(
    "softplus_float32",
    lambda random: (single(random.normal(0, 4, (80, 90))),),
    lambda x: np.logaddexp(0, double(x)),
    softplus,
    {
        "log(1 + y) instead of log1p": partial(softplus, log=lambda y: np.log(np.float32(1) + y)),
        "exponentials rounded to 22 bits": partial(softplus, power=lambda x: kept(np.exp(x), 22)),
        "exponentials rounded to 21 bits": partial(softplus, power=lambda x: kept(np.exp(x), 21)),
        "exponentials truncated to 23 bits": partial(softplus, power=lambda x: cut(np.exp(x), 23)),
        "exponentials stored in float16": partial(softplus, power=lambda x: as_half(np.exp(x))),
        "the logarithm rounded to 22 bits": partial(softplus, added=partial(kept, bits=22)),
        "the logarithm truncated to 22 bits": partial(softplus, added=partial(cut, bits=22)),
        "the logarithm truncated to 18 bits": partial(softplus, added=partial(cut, bits=18)),
        "beyond 10 x itself": lambda x: np.where(x > 10, x, softplus(x)),
        "beyond 8 x itself, below -8 0": lambda x: np.where(np.abs(x) > 8, np.maximum(x, 0), softplus(x)),
        "log(exp(x) + 1)": lambda x: np.log(np.exp(x) + np.float32(1)),
        "truncated to 23 bits": lambda x: cut(softplus(x), 23),
        "rounded to 23 bits": lambda x: kept(softplus(x), 23),
        "log2 times log(2)": partial(
            softplus, log=lambda y: np.log2(np.float32(1) + y) * np.float32(0.6931471805599453)
        ),
    },
    {
        "numpy's logaddexp": lambda x: np.logaddexp(np.float32(0), x),
        "in float64": lambda x: as_double(lambda y: np.logaddexp(0, y), x),
        "log1p in float64": partial(softplus, log=lambda y: as_double(np.log1p, y)),
        "exponentials in float64": partial(softplus, power=lambda x: as_double(np.exp, x)),
        "x above 0 as (x + |x|) / 2": lambda x: (x + np.abs(x)) * np.float32(0.5) + np.log1p(np.exp(-np.abs(x))),
        "by cases": lambda x: np.where(x > 0, x + np.log1p(np.exp(-x.clip(0))), np.log1p(np.exp(np.minimum(x, 0)))),
        "operands change places": lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, np.float32(0)),
    },
)


PIECES = (1.5707963267341256, 6.077100506506192e-11)
SIN_TERMS = (
    1.58962301576546568e-10,
    -2.50507477628578072e-8,
    2.75573136213857245e-6,
    -1.98412698295895386e-4,
    8.33333333332211858e-3,
    -1.66666666666666307e-1,
)
COS_TERMS = (
    -1.13585365213876818e-11,
    2.08757008419747316e-9,
    -2.75573141792967388e-7,
    2.48015872888517045e-5,
    -1.38888888888730564e-3,
    4.16666666666665930e-2,
)


def polynomial(x: Array, terms: tuple[float, ...]) -> Array:
    """Evaluate a polynomial by Horner's scheme."""
    total = np.full_like(x, terms[0])
    for term in terms[1:]:
        total = total * x + term
    return total


def sin(
    x, pieces=PIECES, sin_terms=SIN_TERMS, cos_terms=COS_TERMS, rest=unchanged, value=unchanged, evaluate=polynomial
):
    """Give the sine in float64: multiples of pi/2 taken away in two pieces, then Cephes's polynomials."""
    quarters = np.rint(x * (2 / np.pi))
    r = x
    for piece in pieces:
        r = r - quarters * piece
    r = rest(r)
    square = r * r
    sine = r + r * square * evaluate(square, sin_terms)
    cosine = (1 - 0.5 * square) + square * square * evaluate(square, cos_terms)
    which = quarters.astype(np.int64) & 3
    return value(np.where(which & 1, cosine, sine) * np.where(which & 2, -1.0, 1.0))


def by_pairs(x: Array, terms: tuple[float, ...]) -> Array:
    """Evaluate a polynomial of six terms by pairs."""
    a5, a4, a3, a2, a1, a0 = terms
    square = x * x
    return (a0 + a1 * x) + square * ((a2 + a3 * x) + square * (a4 + a5 * x))


def sin_of_extended(x: Array) -> Array:
    """Take multiples of pi/2 away in long double, and round what remains."""
    quarters = np.rint(x * (2 / np.pi))
    r = double(extended(x) - extended(quarters) * PIECES[0] - extended(quarters) * PIECES[1])
    which, square = quarters.astype(np.int64) & 3, r * r
    sine = r + r * square * polynomial(square, SIN_TERMS)
    cosine = (1 - 0.5 * square) + square * square * polynomial(square, COS_TERMS)
    return np.where(which & 1, cosine, sine) * np.where(which & 2, -1.0, 1.0)


SIN = Operator(
    "sin_float64",
    lambda random: (random.uniform(-60, 60, (50, 100)),),
    lambda x: np.sin(extended(x)),
    sin,
    {
        "a term fewer in both": partial(sin, sin_terms=SIN_TERMS[1:], cos_terms=COS_TERMS[1:]),
        "a term fewer in the sine": partial(sin, sin_terms=SIN_TERMS[1:]),
        "two terms fewer in the cosine": partial(sin, cos_terms=COS_TERMS[2:]),
        "three terms fewer in both": partial(sin, sin_terms=SIN_TERMS[3:], cos_terms=COS_TERMS[3:]),
        "pi in one piece": partial(sin, pieces=(np.pi / 2,)),
        "the second piece of pi in float32": partial(sin, pieces=(PIECES[0], float(np.float32(PIECES[1])))),
        "the second piece of pi with six digits": partial(sin, pieces=(PIECES[0], 6.07710e-11)),
        "what remains rounded to 52 bits": partial(sin, rest=partial(kept, bits=52)),
        "what remains rounded to 51 bits": partial(sin, rest=partial(kept, bits=51)),
        "what remains truncated to 51 bits": partial(sin, rest=partial(cut, bits=51)),
        "terms in float32": partial(sin, sin_terms=tuple(float(np.float32(term)) for term in SIN_TERMS)),
        "terms of eleven digits": partial(sin, sin_terms=tuple(float(f"{term:.11g}") for term in SIN_TERMS)),
        "truncated to 52 bits": partial(sin, value=partial(cut, bits=52)),
        "rounded to 52 bits": partial(sin, value=partial(kept, bits=52)),
        "float32": lambda x: double(np.sin(single(x))),
    },
    {
        "terms by pairs": partial(sin, evaluate=by_pairs),
        "numpy's": np.sin,
        "in long double": lambda x: double(np.sin(extended(x))),
        "odd": lambda x: np.copysign(1.0, x) * sin(np.abs(x)),
        "what remains in long double": sin_of_extended,
        "polynomials in long double": partial(sin, evaluate=lambda x, terms: double(polynomial(extended(x), terms))),
        "terms of 17 digits": partial(sin, sin_terms=tuple(float(f"{term:.17g}") for term in SIN_TERMS)),
    },
)

OPERATORS = (EXP, SOFTPLUS, SIN)
