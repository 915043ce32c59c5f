"""Quantiles, entropies, and the gates of experts: numbers that describe distributions."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, cut, double, fused, kept, single
from detecting.softmaxes import by_polynomial, no_top, top
from detecting.summing import (
    EQUAL_ORDERS,
    lanes,
    narrow,
    serial,
    stale_tail,
    tree,
    unchanged,
    wide,
    without_last,
)

ONE = np.float32(1)


def between_fused(low: Array, high: Array, share: Array) -> Array:
    """Interpolate with one product rounded, and the other added in one rounding."""
    return fused(share, high, (ONE - share) * low)


def between_mirrored(low: Array, high: Array, share: Array) -> Array:
    """Round the product with the upper value, and add the other in one rounding."""
    return fused(ONE - share, low, share * high)


def two_products(low, high, share, narrower=unchanged) -> Array:
    """Round the products apart."""
    return narrower((ONE - share) * low) + narrower(share * high)


def quantiles(
    x, q, between=between_fused, place=unchanged, share=unchanged, count=200, values=unchanged, last=unchanged
):
    """Return nine quantiles of 201 numbers, with linear interpolation, in float32."""
    x = np.sort(values(x))
    at = np.clip(place(q * np.float32(count)), 0, 200)
    low = np.minimum(at.astype(np.int64), 199)
    return last(between(x[low], x[low + 1], share(at - single(low))))


def exact_quantiles(x: Array, q: Array) -> Array:
    """Return the quantiles in float64."""
    x, at = np.sort(double(x)), double(q) * 200
    low = np.minimum(at.astype(np.int64), 199)
    return x[low] + (at - low) * (x[low + 1] - x[low])


def numbers(random: np.random.Generator) -> tuple[Array, Array]:
    """Draw 201 numbers, and nine shares of 16 bits: their places, and what is left to one, are exact."""
    return single(random.normal(0, 1, 201)), single(np.sort(random.integers(1, 2**16, 9)) / 2**16)


QUANTILES = Operator(
    "quantiles_float32",
    numbers,
    exact_quantiles,
    quantiles,
    {
        "shares of 8 bits": partial(quantiles, share=lambda share: np.rint(share * 256) / np.float32(256)),
        "shares stored in float16": partial(quantiles, share=as_half),
        "shares truncated to 12 bits": partial(quantiles, share=partial(cut, bits=12)),
        "places in float16": partial(quantiles, place=as_half),
        "places of 16 bits": partial(quantiles, place=partial(kept, bits=16)),
        "one number more": partial(quantiles, count=201),
        "as (n + 1) q - 1": partial(quantiles, count=202, place=lambda at: at - ONE),
        "the nearest": partial(quantiles, share=np.rint),
        "the lower": partial(quantiles, share=np.zeros_like),
        "the middle": partial(quantiles, share=lambda share: np.full_like(share, 0.5)),
        "numbers read as float16": partial(quantiles, values=as_half),
        "numbers of 22 bits": partial(quantiles, values=partial(kept, bits=22)),
        "numbers of 20 bits": partial(quantiles, values=partial(kept, bits=20)),
        "products rounded to 23 bits": partial(
            quantiles, between=partial(two_products, narrower=partial(kept, bits=23))
        ),
        "products truncated to 23 bits": partial(
            quantiles, between=partial(two_products, narrower=partial(cut, bits=23))
        ),
        "differences stored in bfloat16": partial(
            quantiles, between=lambda low, high, share: low + share * as_brain(high - low)
        ),
        "truncated to 23 bits": partial(quantiles, last=partial(cut, bits=23)),
        "rounded to 22 bits": partial(quantiles, last=partial(kept, bits=22)),
        "rounded to 23 bits": partial(quantiles, last=partial(kept, bits=23)),
    },
    {
        "the other product rounded": partial(quantiles, between=between_mirrored),
        "two products": partial(quantiles, between=two_products),
        "a share of the difference": partial(quantiles, between=lambda low, high, share: low + share * (high - low)),
        "a share of the difference, added in one": partial(
            quantiles, between=lambda low, high, share: fused(share, high - low, low)
        ),
        "from the upper value": partial(
            quantiles, between=lambda low, high, share: high - (ONE - share) * (high - low)
        ),
        "from the upper value, subtracted in one": partial(
            quantiles, between=lambda low, high, share: fused(share - ONE, high - low, high)
        ),
        "in float64": partial(
            quantiles,
            between=lambda low, high, share: single(double(low) + double(share) * (double(high) - double(low))),
        ),
        "from the nearer value": partial(
            quantiles,
            between=lambda low, high, share: np.where(
                share < 0.5, low + share * (high - low), high - (ONE - share) * (high - low)
            ),
        ),
    },
    # The quantile q of x is that of 1 - q of -x, negated; 1 - q and the share are exact, and x and -x drawn alike.
    null=frozenset({"the other product rounded"}),
)


def entropy(
    counts,
    total=lanes,
    log=np.log,
    shares=None,
    read=unchanged,
    terms=unchanged,
    added=0.0,
    last=unchanged,
) -> Array:
    """Return the entropies of six histograms of 64 bins each, in float32."""
    p = read(counts / np.float32(3000) if shares is None else shares(counts))
    found = np.where(p > 0, p * log(np.maximum(p, np.float32(1e-30)) + np.float32(added)), np.float32(0))
    return last(-total(terms(found)))


def exact_entropy(counts: Array) -> Array:
    """Return the entropies in float64."""
    p = double(counts) / 3000
    return -np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0).sum(-1)


def of_counts(counts: Array) -> Array:
    """Take the mean logarithm of the counts away from that of their sum."""
    logs = np.log(np.maximum(counts, ONE))
    return np.log(np.float32(3000)) - lanes(counts * logs) / np.float32(3000)


def of_reciprocals(counts: Array) -> Array:
    """Take logarithms of 1 / p."""
    p = np.maximum(counts / np.float32(3000), np.float32(1e-30))
    return lanes(np.where(counts > 0, p * np.log(ONE / p), np.float32(0)))


def histograms(random: np.random.Generator) -> tuple[Array]:
    """Draw six histograms of 3000 numbers: bins are drawn alike, and some are empty."""
    return (single([random.multinomial(3000, random.dirichlet(np.full(64, 0.7))) for _ in range(6)]),)


ENTROPY = Operator(
    "histogram_entropy_float32",
    histograms,
    exact_entropy,
    entropy,
    {
        "one accumulator instead of eight lanes": partial(entropy, total=serial),
        "two lanes instead of eight": partial(entropy, total=partial(lanes, count=2)),
        "shares stored in bfloat16": partial(entropy, read=as_brain),
        "shares truncated to 22 bits": partial(entropy, read=partial(cut, bits=22)),
        "shares of 18 bits": partial(entropy, read=partial(kept, bits=18)),
        "1/3000 with five digits": partial(entropy, shares=lambda counts: counts * np.float32(0.00033333)),
        "1/3000 in float16": partial(entropy, shares=lambda counts: counts * single(np.float16(1 / 3000))),
        "divided by one more": partial(entropy, shares=lambda counts: counts / np.float32(3001)),
        "logarithms truncated to 22 bits": partial(entropy, log=lambda p: cut(np.log(p), 22)),
        "logarithms of 20 bits": partial(entropy, log=lambda p: kept(np.log(p), 20)),
        "logarithms stored in float16": partial(entropy, log=lambda p: as_half(np.log(p))),
        "log2 times 0.69315": partial(entropy, log=lambda p: np.log2(p) * np.float32(0.69315)),
        "logarithms of p + 1e-6": partial(entropy, added=1e-6),
        "logarithms of p + 1e-8": partial(entropy, added=1e-8),
        "terms truncated to 23 bits": partial(entropy, terms=partial(cut, bits=23)),
        "terms truncated to 21 bits": partial(entropy, terms=partial(cut, bits=21)),
        "terms rounded to 20 bits": partial(entropy, terms=partial(kept, bits=20)),
        "terms stored in bfloat16": partial(entropy, terms=as_brain),
        "accumulated in float16": partial(entropy, total=narrow),
        "truncated to 22 bits": partial(entropy, last=partial(cut, bits=22)),
        "the last bin lost": partial(entropy, total=without_last),
        "stale bins": partial(entropy, total=stale_tail),
    },
    {
        **{name: partial(entropy, total=total) for name, total in EQUAL_ORDERS.items()},
        "sums in float64": partial(entropy, total=wide),
        "a tree of sums": partial(entropy, total=tree),
        "logarithms in float64": partial(entropy, log=lambda p: as_double(np.log, p)),
        "everything in float64": lambda counts: single(exact_entropy(counts)),
        "of counts": of_counts,
        "of reciprocals": of_reciprocals,
        "times 1/3000": partial(entropy, shares=lambda counts: counts * np.float32(1 / 3000)),
    },
    null=frozenset(EQUAL_ORDERS),  # bins are drawn alike, and their dependence knows no order
)


def gates(
    x,
    exp=np.exp,
    shift=top,
    total=lanes,
    shares=unchanged,
    sums=unchanged,
    terms=unchanged,
    divide=np.divide,
    read=unchanged,
    store=unchanged,
) -> Array:
    """Return the shares of the best two of 32 experts for 400 tokens, in float32."""
    x = read(x)
    powers = terms(exp(x - shift(x)))
    p = shares(divide(powers, total(powers)[:, None]))
    best = -np.sort(-p, axis=-1)[:, :2]
    return store(divide(best, sums(best[:, :1] + best[:, 1:])))


def exact_gates(x: Array) -> Array:
    """Return the shares in float64."""
    best = -np.sort(-double(x), axis=-1)[:, :2]
    powers = np.exp(best - best[:, :1])
    return powers / powers.sum(-1, keepdims=True)


def of_two_alone(x: Array, narrower=unchanged) -> Array:
    """Let the softmax have the best two alone."""
    best = -np.sort(-x, axis=-1)[:, :2]
    powers = narrower(np.exp(best - best[:, :1]))
    return powers / (powers[:, :1] + powers[:, 1:])


def of_difference(x: Array, narrower=unchanged) -> Array:
    """Return the sigmoid of the difference of the best two, and of its negative."""
    best = -np.sort(-x, axis=-1)[:, :2]
    off = narrower(best[:, :1] - best[:, 1:])
    return ONE / (ONE + np.exp(np.concatenate([-off, off], axis=1)))


def rest_of_first(x: Array, narrower=unchanged) -> Array:
    """Return for the second what the first leaves."""
    first = narrower(gates(x)[:, :1])
    return np.concatenate([first, ONE - first], axis=1)


def reciprocal(powers: Array, total: Array, narrower=unchanged) -> Array:
    """Multiply by the reciprocal."""
    return powers * narrower(ONE / total)


GATES = Operator(
    "expert_gates_float32",
    lambda random: (single(random.normal(0, 1.5, (400, 32)) + 94 * (random.uniform(0, 1, (400, 1)) < 0.01)),),
    exact_gates,
    gates,
    {
        "the maximum is not taken away": partial(gates, shift=no_top),
        "scores read as bfloat16": partial(gates, read=as_brain),
        "scores truncated to 22 bits": partial(gates, read=partial(cut, bits=22)),
        "exponentials rounded to 22 bits": partial(gates, terms=partial(kept, bits=22)),
        "exponentials truncated to 23 bits": partial(gates, terms=partial(cut, bits=23)),
        "exponentials stored in float16": partial(gates, terms=as_half),
        "exponentials of the best two in bfloat16": partial(of_two_alone, narrower=as_brain),
        "exp by a polynomial of degree 5": partial(gates, exp=partial(by_polynomial, degree=5)),
        "exp by a polynomial of degree 6": partial(gates, exp=partial(by_polynomial, degree=6)),
        "shares rounded to 22 bits": partial(gates, shares=partial(kept, bits=22)),
        "shares truncated to 23 bits": partial(gates, shares=partial(cut, bits=23)),
        "shares stored in bfloat16": partial(gates, shares=as_brain),
        "the sum of the two truncated to 23 bits": partial(gates, sums=partial(cut, bits=23)),
        "the sum of the two in float16": partial(gates, sums=as_half),
        "reciprocals of 22 bits": partial(gates, divide=partial(reciprocal, narrower=partial(kept, bits=22))),
        "reciprocals truncated to 23 bits": partial(gates, divide=partial(reciprocal, narrower=partial(cut, bits=23))),
        "1e-6 added to the sum of the two": partial(gates, sums=lambda total: total + np.float32(1e-6)),
        "not divided by the sum of the two": partial(gates, sums=np.ones_like),
        "what the first leaves": rest_of_first,
        "what the first leaves of its float16": partial(rest_of_first, narrower=as_half),
        "the difference of 20 bits": partial(of_difference, narrower=partial(kept, bits=20)),
        "truncated to 23 bits": partial(gates, store=partial(cut, bits=23)),
        "rounded to 23 bits": partial(gates, store=partial(kept, bits=23)),
    },
    {
        **{name: partial(gates, total=total) for name, total in EQUAL_ORDERS.items()},
        "one accumulator": partial(gates, total=serial),
        "a tree of sums": partial(gates, total=tree),
        "sums in float64": partial(gates, total=wide),
        "the best two alone": of_two_alone,
        "a sigmoid of the difference": of_difference,
        "everything in float64": lambda x: single(exact_gates(x)),
        "exp in float64": partial(gates, exp=lambda x: as_double(np.exp, x)),
    },
    null=frozenset(EQUAL_ORDERS),  # experts are drawn alike
)

OPERATORS = (QUANTILES, ENTROPY, GATES)
