"""Which tally does a chunk have by the definitions, pair by pair in Python's own numbers?

The reference implementation of every backend: slow, and short enough to check by eye against docs/metrics.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import copysign, inf, isfinite, isnan, ldexp
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic import Format, exact_round, exact_ulp
from precreg.measure.accumulation import HUGE, pairs_at
from precreg.measure.block import GroupedAxis, grouped_axes
from precreg.measure.groups import GROUP_SUMS
from precreg.measure.metrics import Regions, regions_of
from precreg.measure.pairing import Pairing, pairing_of
from precreg.measure.sketch import key_of, log2_above
from precreg.measure.tally import (
    Counts,
    Expansion,
    Groups,
    Maxima,
    MeasureRules,
    Places,
    Sketch,
    Sketches,
    Sums,
    Tally,
    make_expansion,
)
from precreg.storage import Array

# A float, an int for integers, or a numpy.longdouble if one side is a long double.
Number = Any


class ScalarPair(NamedTuple):
    """A finite pair: its index, d, d sign(r), |d|, |a|, |r|, and the components whose products add up to r * d."""

    index: int  # type: ignore[assignment]
    signed: float
    outward: float
    error: Number
    size: Number
    magnitude: Number
    factors: tuple[tuple[float, float], ...]


def tally_reference(actual: Array, reference: Array, start: int, shape: tuple[int, ...], rules: MeasureRules) -> Tally:
    """Measure two flat chunks of one length that begin at flat C-order index `start` of arrays of a shape.

    Raises:
        UserError: bad-value or unknown-dtype, for arrays of other things than numbers.
    """
    pairing = pairing_of(actual.dtype, reference.dtype)
    counts, pairs, mismatched = Counter(n=actual.size), [], []
    with np.errstate(all="ignore"):
        for index, (a_scalar, r_scalar) in enumerate(zip(actual, reference, strict=True), start):
            a, r = _parts(a_scalar, pairing), _parts(r_scalar, pairing)
            rounded = tuple(_round_reference(part, pairing) for part in r)
            counts["equal"] += all(map(_same_bits, a, rounded))
            if all(map(_is_finite, (*a, *rounded))):
                pairs.append(_pair(index, a, r, pairing))
                counts["zero_sign_differences"] += int(a == r and not all(map(_same_bits, a, rounded)))
                counts["flushed_subnormals"] += int(not any(a) and _is_subnormal(_absolute(rounded), pairing.format))
                continue
            kind = _kind(a, rounded)
            counts[kind] += 1
            counts["matching"] += not kind.endswith("mismatched")
            mismatched += [index] if kind.endswith("mismatched") else []
        return _tally(pairs, counts, pairing, rules, shape, (start, actual, reference), mismatched)


def _parts(scalar: Any, pairing: Pairing) -> tuple[Number, ...]:
    """Return the components of a number: two for complex numbers, else one."""
    both = (scalar.real, scalar.imag) if isinstance(scalar, complex | np.complexfloating) else (scalar,)
    if pairing.is_complex and len(both) == 1:
        both = (scalar, type(scalar)(0))
    return tuple(_number(part, pairing) for part in both)


def _number(scalar: Any, pairing: Pairing) -> Number:
    if pairing.kind == "wide":
        return np.longdouble(scalar)
    if isinstance(scalar, np.bool_ | np.integer) or np.dtype(type(scalar)).name in ("int2", "int4", "uint2", "uint4"):
        return float(scalar) if pairing.is_complex else int(scalar)
    return float(scalar)


def _fraction(number: Number) -> Fraction:
    return Fraction(*number.as_integer_ratio())


def _round_reference(value: Number, pairing: Pairing) -> Number:
    """Return a component of the reference, rounded to the output dtype."""
    if pairing.same:
        return value
    if pairing.format is None:
        return type(value)(round(value)) if _is_finite(value) else value
    # exact_round takes floats, so a long double is rounded here by its quantum; far beyond the range a float is enough.
    if not _is_finite(value) or abs(value) > 2 * pairing.format.largest:
        return exact_round(float(value), pairing.format)
    quantum = exact_ulp(_fraction(value), pairing.format)
    magnitude = round(abs(_fraction(value)) / quantum) * quantum
    if magnitude > pairing.format.largest:  # a fraction until here, because it may be beyond the largest float
        return copysign(pairing.format.overflow, value)
    return copysign(float(magnitude), value) if magnitude or pairing.format.negative_zero else 0.0


def _same_bits(a: Number, rounded: Number) -> bool:
    """Return True if two numbers have the same bits; any NaN equals any NaN."""
    if isnan(a) or isnan(rounded):
        return isnan(a) and isnan(rounded)
    return bool(a == rounded and copysign(1.0, a) == copysign(1.0, rounded))


def _kind(a: tuple[Number, ...], rounded: tuple[Number, ...]) -> str:
    """Return the name of the count of a pair with a non-finite side."""
    nans = [any(map(isnan, side)) for side in (a, rounded)]
    if any(nans):
        return "nan_matched" if all(nans) else "nan_mismatched"
    infinities = [tuple(part if np.isinf(part) else 0.0 for part in side) for side in (a, rounded)]
    # docs/metric-definitions.md: the sign of the reference's infinity counts first.
    first = next(part for part in (*infinities[1], *infinities[0]) if part)
    matched = "matched" if infinities[0] == infinities[1] else "mismatched"
    return f"{'plus' if first > 0 else 'minus'}_inf_{matched}"


def _is_finite(number: Number) -> bool:
    # math.isfinite converts a long double to a float, and so takes 1e4000 for infinite.
    return bool(np.isfinite(number))


def _absolute(parts: tuple[Number, ...]) -> Number:
    """Return |z|: sqrt(re * re + im * im) for complex numbers, scaled by a power of two so that no bit is lost."""
    largest = max(map(abs, parts))
    if len(parts) == 1 or not _is_finite(largest):
        return largest
    exponent = int(np.frexp(largest)[1])
    re, im = (np.ldexp(part, -exponent) for part in parts)
    return np.ldexp(np.sqrt(re * re + im * im), exponent)


def _float(number: Number) -> float:
    """Return a number as a float: infinite beyond its range, and 0 for zeros alone."""
    try:
        narrow = float(number)
    except OverflowError:
        return copysign(inf, number)
    return copysign(5e-324, number) if number != 0 and narrow == 0 else narrow


def _difference(a: Number, r: Number) -> Number:
    if isinstance(a, int) or isinstance(r, int):  # exact, then rounded
        return _float(_fraction(a) - _fraction(r)) if isfinite(r) and isfinite(a) else float(a) - float(r)
    return a - r


def _pair(index: int, a: tuple[Number, ...], r: tuple[Number, ...], pairing: Pairing) -> ScalarPair:
    difference = tuple(map(_difference, a, r))
    error, size, magnitude = _absolute(difference), _absolute(a), _absolute(r)
    factors = tuple((_float(part), _float(d)) for part, d in zip(r, difference, strict=True))
    signed = _float(size - magnitude) if pairing.is_complex else _float(difference[0])
    points_down = r[0] < 0 and not pairing.is_complex
    outward = 0.0 if magnitude == 0 else -signed if points_down else signed
    if pairing.kind == "wide":
        return ScalarPair(index, signed, outward, error, size, magnitude, factors)
    return ScalarPair(index, signed, outward, float(error), float(size), float(magnitude), factors)


def _is_subnormal(size: Number, format: Format | None) -> bool:
    return format is not None and bool(0 < size < format.smallest_normal)


class PairTerms(NamedTuple):
    """The terms that one pair adds to the sums of first degree; `relative` is None for a reference of zero."""

    absolute: float
    relative: float | None
    floored: float
    ulps: float
    squared_ulps: float
    spacing: float
    magnitude: float
    diff3: float


def _quotient(error: Number, by: Number) -> float:
    """Return a quotient of sizes; infinity by infinity is infinite."""
    quotient = float(np.divide(error, by))
    return inf if isnan(quotient) else quotient


def _terms(pair: ScalarPair, format: Format | None, regions: Regions) -> PairTerms:
    error, magnitude = pair.error, pair.magnitude
    ulp = _ulp(magnitude, format)
    ulps = _quotient(error, ulp)
    small = _float(magnitude) < regions.diff3_bound
    return PairTerms(
        absolute=_float(error),
        relative=_quotient(error, magnitude) if magnitude else None,
        floored=_quotient(error, magnitude + 1e-7),
        ulps=ulps,
        squared_ulps=ulps * ulps,
        spacing=_float(ulp),
        magnitude=_float(magnitude),
        diff3=_float(error) if small else _quotient(error, magnitude + 1e-9),
    )


def _ulp(magnitude: Number, format: Format | None) -> Number:
    if format is None:
        return 1.0
    if np.isinf(magnitude):  # math.isinf would convert a long double to a float, and overflow
        return np.ldexp(type(magnitude)(1), format.max_exponent - format.precision + 1)
    spacing = exact_ulp(_fraction(magnitude), format)
    exponent = spacing.numerator.bit_length() - spacing.denominator.bit_length()
    return np.ldexp(type(magnitude)(1), exponent)


def _tally(
    pairs: list[ScalarPair],
    counts: Counter[str],
    pairing: Pairing,
    rules: MeasureRules,
    shape: tuple[int, ...],
    arrays: tuple[int, Array, Array],
    mismatched: list[int],
) -> Tally:
    regions, format = regions_of(pairing.dtype, rules.regions), pairing.format
    rows = [(pair, _terms(pair, format, regions)) for pair in pairs]
    for pair, terms in rows:
        counts.update({name: 1 for name in _count_names(pair, terms, format, regions, rules)})
    sums = _first_degree(rows) | _second_degree(rows)
    every = [[getattr(terms, name) for _, terms in rows] for name in Maxima._fields]
    largest = Maxima(*(max((value for value in values if value is not None), default=0.0) for values in every))
    worst = sorted((-terms.absolute, pair.index) for pair, terms in rows if terms.absolute)[: max(rules.worst, 0)]
    large = [t.relative for p, t in rows if t.relative is not None and t.magnitude > 1e-12]
    return Tally(
        counts=Counts(**counts),
        sums=Sums(*(make_expansion(sums.get((name, 0), ())) for name in Sums._fields)),
        maxima=largest,
        places=Places(*(_first(rows, name, getattr(largest, name)) for name in Places._fields)),
        sketches=Sketches(
            _sketch(terms.absolute for _, terms in rows), _sketch(large), _sketch(terms.ulps for _, terms in rows)
        ),
        errors=[-error for error, _ in worst],
        worst=pairs_at(np.array([index for _, index in worst], np.int64), *arrays),
        non_finite=pairs_at(np.array(mismatched[: max(rules.worst, 0)], np.int64), *arrays),
        groups=tuple(_groups(axis, rows) for axis in grouped_axes(shape)),
        scaled=_scaled(sums),
    )


def _count_names(
    pair: ScalarPair, terms: PairTerms, format: Format | None, regions: Regions, rules: MeasureRules
) -> Iterator[str]:
    """Yield the names of the counts that include a finite pair."""
    error, r, relative = terms.absolute, terms.magnitude, terms.relative or 0.0
    facts = {
        "finite": True,
        "zero_references": r == 0,
        "actual_subnormals": _is_subnormal(pair.size, format),
        "reference_subnormals": _is_subnormal(pair.magnitude, format),
        "exact_matches": error == 0,
        "above": pair.signed > 0,
        "below": pair.signed < 0,
        # Without rtol an infinite reference would give 0 * inf, which is NaN.
        "matching": error <= (r * rules.rtol if rules.rtol else 0.0) + rules.atol,
        "thousandths": relative > 1e-3,
        "ten_thousandths": relative > 1e-4,
        "small_values": r < regions.small_bound,
        "small_value_errors": r < regions.small_bound and error > regions.small_error,
        "cancellations": regions.small_bound <= r < regions.cancellation_bound,
        "cancellation_errors": regions.small_bound <= r < regions.cancellation_bound
        and relative > regions.cancellation_rtol,
        "relative_violations": 0 < regions.threshold_bound <= r and relative > regions.threshold_rtol,
        "absolute_violations": r < regions.threshold_bound and error > regions.threshold_atol,
    }
    return (name for name, is_so in facts.items() if is_so)


PairRows = list[tuple[ScalarPair, PairTerms]]

Parts = dict[tuple[str, int], list[float]]


def _first_degree(rows: PairRows) -> Parts:
    """Return the terms of each sum of first degree; terms beyond 2**960 are separate, in units of 2**600."""
    parts: Parts = defaultdict(list)
    for pair, terms in rows:
        for name in ("absolute", "relative", "floored", "ulps", "squared_ulps", "spacing", "magnitude"):
            term = getattr(terms, name)
            if term is not None:
                _add_term(parts, name, term)
        _add_term(parts, "signed", pair.signed)
        _add_term(parts, "outward", pair.outward)
    return parts


def _add_term(parts: Parts, name: str, term: float) -> None:
    huge = HUGE < abs(term) < inf
    parts[name, 600 if huge else 0].append(ldexp(term, -600) if huge else term)


def _second_degree(rows: PairRows) -> Parts:
    """Return the products of each sum of second degree; very large and very small ones are in units of 2**+-1200."""
    parts: Parts = defaultdict(list)
    for pair, terms in rows:
        error, magnitude = terms.absolute, terms.magnitude
        pairs = {"squared_error": (error, error), "squared_reference": (magnitude, magnitude)}
        products = [*pairs.items(), ("weighted_error", (magnitude, error))]
        for name, factors in [*products, *(("product", factors) for factors in pair.factors)]:
            unit, product = _product(*factors)
            parts[name, unit].append(product)
    return parts


def _product(x: float, y: float) -> tuple[int, float]:
    """Return k and x * y * 2**-k, rounded once: k is 0 for products within 2**+-960."""
    if not x or not y:
        return 0, 0.0
    product = x * y
    if not isfinite(x) or not isfinite(y):
        return 0, product
    # In this range the product and its rounding error are far from overflow and underflow.
    if HUGE >= abs(product) >= 1 / HUGE:
        return 0, product
    unit = 1200 if abs(product) > 1 else -1200
    return unit, ldexp(x, -unit // 2) * ldexp(y, -unit // 2)


def _scaled(sums: Parts) -> dict[tuple[str, int], Expansion]:
    totals = {key: make_expansion(terms) for key, terms in sorted(sums.items()) if key[1]}
    return {key: total for key, total in totals.items() if total}


def _first(rows: PairRows, name: str, largest: float) -> int:
    return next((pair.index for pair, terms in rows if largest and getattr(terms, name) == largest), -1)


def _sketch(values: Iterable[float]) -> Sketch:
    counts = Counter(key_of(value) if isfinite(value) else key_of(float(np.finfo(float).max)) for value in values)
    # The same bytes as the fast backends write, so that tests compare tallies with ==.
    keys = sorted(counts)
    numbers = np.array([counts[key] for key in keys], "<i8")
    return Sketch(np.array(keys, "<i4").tobytes(), numbers.tobytes())


def _groups(axis: GroupedAxis, rows: PairRows) -> Groups:
    found = Groups([0] * axis.groups, *([0.0] * axis.groups for _ in GROUP_SUMS))
    for pair, terms in rows:
        along = pair.index // axis.stride % axis.length
        group = max(g for g in range(axis.groups) if g * axis.length // axis.groups <= along)
        found.n[group] += 1
        found.absolute[group] += terms.absolute
        found.signed[group] += pair.signed
        found.outward[group] += pair.outward
        found.squared[group] += terms.absolute * terms.absolute
        found.ulps[group] += terms.ulps
        found.squared_ulps[group] += terms.squared_ulps
        found.logs[group] += log2_above(key_of(terms.ulps))
    return found
