"""Interpolation between pixels, and polynomials."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import (
    as_brain,
    as_half,
    as_single,
    cut,
    double,
    extended,
    fused,
    half,
    half_cut,
    kept,
    single,
)
from detecting.summing import unchanged


def resample(x, at=None, weight=unchanged, between=None, store=half, rows=unchanged, shift=0.0) -> Array:
    """Enlarge float16 images from 24 to 40 by linear interpolation in both directions, in float32."""
    x = single(x)
    places = (single(np.arange(40)) + np.float32(0.5)) * np.float32(24 / 40) - np.float32(0.5) + np.float32(shift)
    places = np.clip(places, 0, 23)
    low = np.minimum(places.astype(np.int64), 22)
    share = weight(places - single(low))
    between = between or (lambda one, other, share: one + share * (other - one))
    lines = rows(between(x[:, low], x[:, low + 1], share[:, None]))
    return store(between(lines[:, :, low], lines[:, :, low + 1], share))


def exact_resample(x: Array) -> Array:
    """Interpolate in float64, at exact places."""
    x, places = double(x), np.clip((np.arange(40) + 0.5) * 24 / 40 - 0.5, 0, 23)
    low = np.minimum(places.astype(np.int64), 22)
    share = places - low
    lines = x[:, low] * (1 - share[:, None]) + x[:, low + 1] * share[:, None]
    return lines[:, :, low] * (1 - share) + lines[:, :, low + 1] * share


def columns_first(x: Array) -> Array:
    """Interpolate columns before rows."""
    return np.ascontiguousarray(resample(np.ascontiguousarray(x.swapaxes(1, 2))).swapaxes(1, 2))


def by_one_product(x: Array) -> Array:
    """Multiply by the matrix of weights from both sides, in float64."""
    matrix = weights_of_rows()
    return half(single(matrix @ double(x) @ matrix.T))


def weights_of_rows() -> Array:
    """Give the weights with which rows become one, in float64."""
    places = np.clip((np.arange(40) + 0.5) * 24 / 40 - 0.5, 0, 23)
    low = np.minimum(places.astype(np.int64), 22)
    matrix = np.zeros((40, 24))
    matrix[np.arange(40), low], matrix[np.arange(40), low + 1] = 1 - (places - low), places - low
    return matrix


RESAMPLE = Operator(
    "bilinear_float16",
    lambda random: (half(random.normal(0.2, 1, (4, 24, 24))),),
    exact_resample,
    resample,
    {
        "weights in float16": partial(resample, weight=as_half),
        "weights of 8 bits": partial(resample, weight=lambda share: np.rint(share * 256) / np.float32(256)),
        "weights of 10 bits": partial(resample, weight=lambda share: np.floor(share * 1024) / np.float32(1024)),
        "weights of 12 bits": partial(resample, weight=lambda share: np.floor(share * 4096) / np.float32(4096)),
        "rows in float16": partial(resample, rows=as_half),
        "rows in bfloat16": partial(resample, rows=as_brain),
        "rows of 12 bits": partial(resample, rows=partial(kept, bits=12)),
        "rows truncated to 12 bits": partial(resample, rows=partial(cut, bits=12)),
        "products in float16": partial(
            resample, between=lambda one, other, share: as_half((1 - share) * one) + as_half(share * other)
        ),
        "differences in float16": partial(
            resample, between=lambda one, other, share: one + share * as_half(other - one)
        ),
        "truncated to float16": partial(resample, store=half_cut),
        "places 1/2000 off": partial(resample, shift=0.0005),
        "places 1/8000 off": partial(resample, shift=0.000125),
        "the nearest": partial(resample, weight=np.rint),
    },
    {
        "two products": partial(resample, between=lambda one, other, share: (1 - share) * one + share * other),
        "from the other end": partial(
            resample, between=lambda one, other, share: other - (np.float32(1) - share) * (other - one)
        ),
        "columns first": columns_first,
        "everything in float64": lambda x: half(single(exact_resample(x))),
        "as products with a matrix": by_one_product,
        "multiplied and added in one": partial(
            resample, between=lambda one, other, share: fused(share, other - one, one)
        ),
        "weights of 20 bits": partial(resample, weight=lambda share: np.rint(share * 2**20) / np.float32(2**20)),
    },
    # Errors are distributed alike: an image is drawn like its transpose.
    null=frozenset({"columns first"}),
)

TERMS = tuple((-1) ** at * 2.5 / (at + 1) ** 1.5 for at in range(14))


def horner(x, terms=TERMS, keep=unchanged, step=None, last=unchanged) -> Array:
    """Evaluate a polynomial of 14 terms in float64."""
    step = step or (lambda total, x, term: total * x + term)
    total = np.full_like(x, terms[-1])
    for term in terms[-2::-1]:
        total = keep(step(total, x, x.dtype.type(term)))
    return last(total)


def compensated_horner(x: Array) -> Array:
    """Evaluate in long double."""
    return double(horner(extended(x)))


def estrin(x: Array) -> Array:
    """Add pairs of terms, then pairs of pairs."""
    parts, power = [np.full_like(x, term) for term in TERMS], x
    while len(parts) > 1:
        if len(parts) % 2:
            parts.append(np.zeros_like(x))
        parts = [low + power * high for low, high in zip(parts[0::2], parts[1::2], strict=True)]
        power = power * power
    return parts[0]


def powers(x: Array, by_pow: bool = False) -> Array:
    """Add terms times powers, from the first."""
    total, power = np.zeros_like(x), np.ones_like(x)
    for at, term in enumerate(TERMS):
        total = total + term * (x**at if by_pow else power)
        power = power * x
    return total


def even_and_odd(x: Array) -> Array:
    """Evaluate even and odd terms apart."""
    square = x * x
    return horner(square, TERMS[0::2]) + x * horner(square, TERMS[1::2])


HORNER = Operator(
    "polynomial_float64",
    lambda random: (random.uniform(-1, 1, (50, 100)),),
    lambda x: horner(extended(x)),
    horner,
    {
        "terms times powers": powers,
        "the last term left out": partial(horner, terms=TERMS[:-1]),
        "a term in float32": partial(horner, terms=(*TERMS[:5], float(np.float32(TERMS[5])), *TERMS[6:])),
        "terms with 15 digits": partial(horner, terms=tuple(float(f"{term:.15g}") for term in TERMS)),
        "terms with 16 digits": partial(horner, terms=tuple(float(f"{term:.16g}") for term in TERMS)),
        "terms with 14 digits": partial(horner, terms=tuple(float(f"{term:.14g}") for term in TERMS)),
        "steps of 52 bits": partial(horner, keep=partial(kept, bits=52)),
        "steps of 51 bits": partial(horner, keep=partial(kept, bits=51)),
        "steps truncated to 52 bits": partial(horner, keep=partial(cut, bits=52)),
        "products of 51 bits": partial(horner, step=lambda total, x, term: kept(total * x, 51) + term),
        "products truncated to 52 bits": partial(horner, step=lambda total, x, term: cut(total * x, 52) + term),
        "truncated to 52 bits": partial(horner, last=partial(cut, bits=52)),
        "stored in float32": partial(horner, last=as_single),
        "x read with 50 bits": lambda x: horner(kept(x, 50)),
    },
    {
        "in long double": compensated_horner,
        "even and odd terms": even_and_odd,
        "pairs of terms": estrin,
        "a term of zero": lambda x: horner(x, (*TERMS, 0.0)),
        "steps in long double": partial(
            horner, step=lambda total, x, term: double(extended(total) * x + extended(term))
        ),
        "powers in long double": lambda x: double(powers(extended(x))),
        "negated": lambda x: -horner(x, tuple(-term for term in TERMS)),
    },
)

OPERATORS = (RESAMPLE, HORNER)
