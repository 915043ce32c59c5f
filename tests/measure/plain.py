"""compare() once more in rational arithmetic, from nothing but the definitions: what every form is held against."""

import math
import struct
import sys
from collections import Counter
from fractions import Fraction

import numpy as np

# dtype: bits of the significand, smallest exponent, largest number, what lies beyond it
FORMATS = {
    "float16": (11, -14, Fraction(65504), math.inf),
    "bfloat16": (8, -126, Fraction(2**8 - 1) * 2**120, math.inf),
    "float32": (24, -126, Fraction(2**24 - 1) * 2**104, math.inf),
    "float64": (53, -1022, Fraction(2**53 - 1) * 2**971, math.inf),
    "float8_e4m3fn": (4, -6, Fraction(448), math.nan),
    "complex64": (24, -126, Fraction(2**24 - 1) * 2**104, math.inf),
}

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


def number(scalar):
    """A finite number as a Fraction, anything else as a float."""
    if isinstance(scalar, (bool, int, np.bool_, np.integer)):
        return Fraction(int(scalar))
    if not np.isfinite(scalar):
        return float(scalar)
    wide = np.longdouble(scalar)
    return Fraction(*wide.as_integer_ratio())


def parts(scalar):
    """The components of a number: one, or two where it is complex."""
    if isinstance(scalar, (complex, np.complexfloating)):
        return (number(scalar.real), number(scalar.imag))
    return (number(scalar),)


def quantum(value, precision, min_exponent):
    """The spacing of a format at |value|: 2**(e - precision + 1) with 2**e <= |value| < 2**(e + 1)."""
    if value == 0:
        return Fraction(2) ** (min_exponent - precision + 1)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    return Fraction(2) ** (max(exponent, min_exponent) - precision + 1)


def rounded_part(value, dtype):
    """A component as the output dtype holds it; the sign of a zero that came from rounding is lost here."""
    if isinstance(value, float):
        return math.nan if dtype == "float8_e4m3fn" else value
    if dtype not in FORMATS:
        return Fraction(round(value))
    precision, min_exponent, largest, beyond = FORMATS[dtype]
    step = quantum(value, precision, min_exponent)
    result = round(value / step) * step
    return (beyond if value > 0 else -beyond) if abs(result) > largest else result


def is_nan(value):
    return any(isinstance(part, float) and math.isnan(part) for part in value)


def infinities(value):
    return tuple(part if isinstance(part, float) else 0 for part in value)


def size(value, precision):
    """The absolute value, rounded to the precision of the working type; of complex numbers to a float."""
    if len(value) == 2:
        square = value[0] ** 2 + value[1] ** 2
        return Fraction(math.sqrt(square))
    exact = abs(value[0])
    return round(exact / quantum(exact, precision, -20000)) * quantum(exact, precision, -20000)


def same_bits(a, r, a_signs, r_signs):
    if is_nan((a,)) or is_nan((r,)):
        return is_nan((a,)) and is_nan((r,))
    return a == r and (a != 0 or a_signs == r_signs)


def nearest_rank(values, share):
    return sorted(values)[max(0, math.ceil(Fraction(str(share)) * len(values)) - 1)] if values else None


def mean(values):
    return sum(values) / len(values) if values else None


def share(values, bound):
    return Fraction(sum(value > bound for value in values), len(values)) if values else None


def plain_compare(actual, reference, rtol, atol):
    """Metrics as Fractions or floats (None where undefined), counts, indices of worst and non-finite, histogram."""
    dtype = actual.dtype.name
    wide = np.longdouble in (actual.dtype.type, reference.dtype.type)
    precision = np.finfo(np.longdouble).nmant + 1 if wide else 53
    counts, errors, non_finite, equal, flushed, signs_differ = Counter(n=actual.size), [], [], 0, 0, 0
    for index, (a_scalar, r_scalar) in enumerate(zip(actual.ravel(), reference.ravel(), strict=True)):
        a, r = parts(a_scalar), parts(r_scalar)
        held = tuple(rounded_part(part, dtype) for part in r)
        integer = dtype not in FORMATS
        signs = [
            [not integer and bool(np.signbit(part)) for part in (s.real, s.imag)]
            for s in map(as_builtin, (a_scalar, r_scalar))
        ]
        same = all(same_bits(*each) for each in zip(a, held, *signs, strict=False))
        equal += same
        if not any(isinstance(part, float) for part in (*a, *held)):
            errors.append((index, a, r))
            signs_differ += a == r and not same
            flushed += not any(a) and not integer and 0 < size(held, 2000) < Fraction(2) ** FORMATS[dtype][1]
            continue
        kind = "nan" if is_nan(a) or is_nan(held) else "inf"
        matched = is_nan(a) and is_nan(held) if kind == "nan" else infinities(a) == infinities(held)
        counts[f"{kind}_{'matched' if matched else 'mismatched'}"] += 1
        if kind == "inf":
            first = next(part for part in (*infinities(held), *infinities(a)) if part)
            counts[f"{'plus' if first > 0 else 'minus'}_inf_{'matched' if matched else 'mismatched'}"] += 1
        if not matched:
            non_finite.append(index)
    figures = _figures(errors, dtype, precision, rtol, atol, counts, equal) | {"non_finite": non_finite}
    figures["counts"] |= {"flushed_subnormals": flushed, "zero_sign_differences": signs_differ}
    return figures


def as_builtin(scalar):
    """A scalar that has real and imag: those of ml_dtypes lack them."""
    return scalar if hasattr(scalar, "imag") else float(scalar)


def _figures(pairs, dtype, precision, rtol, atol, counts, equal):
    n, finite = counts["n"], len(pairs)
    absolute = [size(tuple(x - y for x, y in zip(a, r, strict=True)), precision) for _, a, r in pairs]
    actuals, references = [size(a, 2000) for _, a, _ in pairs], [size(r, 2000) for _, _, r in pairs]
    is_complex = dtype == "complex64"
    signed = [x - y if is_complex else a[0] - r[0] for x, y, (_, a, r) in zip(actuals, references, pairs, strict=True)]
    outward = [
        0 if not y else -s if not is_complex and r[0] < 0 else s
        for s, y, (_, _, r) in zip(signed, references, pairs, strict=True)
    ]
    ulps_at = [quantum(r, *FORMATS[dtype][:2]) if dtype in FORMATS else Fraction(1) for r in references]
    relative = [(e / r, r) for e, r in zip(absolute, references, strict=True) if r]
    large = [e for e, r in relative if r > 1e-12]
    ratios = [e for e, _ in relative]
    floored = [e / (r + Fraction(1e-7)) for e, r in zip(absolute, references, strict=True)]
    ulps = [e / u for e, u in zip(absolute, ulps_at, strict=True)]
    matched = counts["nan_matched"] + counts["inf_matched"]
    within = [e / (Fraction(atol) + Fraction(rtol) * r) for e, r in zip(absolute, references, strict=True)]
    smallest_normal = Fraction(2) ** FORMATS[dtype][1] if dtype in FORMATS else 0
    mse = mean([e * e for e in absolute])
    ms_ulp = mean([u * u for u in ulps])
    return {
        "metrics": {
            "max_abs_error": max(absolute, default=None),
            "mean_abs_error": mean(absolute),
            "mse": mse,
            "rms_error": None if mse is None else root(mse),
            "bias": mean(signed),
            "outward_bias": mean(outward),
            "max_rel_error": max(ratios, default=None),
            "mean_rel_error": mean(ratios),
            "mere": mean(floored),
            "mare": max(floored, default=None),
            "max_ulp": max(ulps, default=None),
            "mean_ulp": mean(ulps),
            "rms_ulp": None if ms_ulp is None else root(ms_ulp),
            "ulp_scale": mean(ulps_at),
            "mean_magnitude": mean(references),
            "equal_share": Fraction(equal, n),
            "differing_bits_share": Fraction(n - equal, n),
        },
        "percentiles": {
            **{f"{p}_rel_error": nearest_rank(large, share) for p, share in PERCENTILES.items()},
            **{f"{p}_abs_error": nearest_rank(absolute, share) for p, share in PERCENTILES.items()},
            **{f"{p}_ulp": nearest_rank(ulps, share) for p, share in PERCENTILES.items()},
        },
        "mean_log2_ulp": mean([log2(u + Fraction(1, 4)) for u in ulps]),
        "second_degree": _second_degree(absolute, references, pairs),
        "shares": {  # name: the values whose share is asked for, the bound, and how to count them
            "share_above_0.5_ulp": (ulps, Fraction(1, 2)),
            "share_above_1_ulp": (ulps, 1),
            "share_above_2_ulp": (ulps, 2),
            "share_above_32_ulp": (ulps, 32),
            "share_rel_above_1e-3": (ratios, Fraction(1e-3)),
            "share_rel_above_1e-4": (ratios, Fraction(1e-4)),
        },
        "matching": (within, matched),
        "counts": {
            **{
                f"{kind}_{what}": counts[f"{kind}_{what}"]
                for kind in ("nan", "inf", "plus_inf", "minus_inf")
                for what in ("matched", "mismatched")
            },
            "n": n,
            "finite": finite,
            "zero_references": sum(r == 0 for r in references),
            "actual_subnormals": sum(0 < a < smallest_normal for a in actuals),
            "reference_subnormals": sum(0 < r < smallest_normal for r in references),
            "exact_matches": sum(e == 0 for e in absolute),
            "above": sum(s > 0 for s in signed),
            "below": sum(s < 0 for s in signed),
        },
        "worst": [index for e, index in sorted((-e, i) for e, (i, _, _) in zip(absolute, pairs, strict=True)) if e],
        "histogram": _histogram(absolute),
    }


def _second_degree(errors, sizes, pairs):
    """Sums of d^2, r^2, r*d and |r|*|d|, and of |d| and |r|."""
    inner = [sum(y * (x - y) for x, y in zip(a, r, strict=True)) for _, a, r in pairs]
    return {
        "dd": sum(e * e for e in errors),
        "rr": sum(r * r for r in sizes),
        "rd": sum(inner),
        "rd_sizes": sum(e * r for e, r in zip(errors, sizes, strict=True)),
        "d": sum(errors),
        "r": sum(sizes),
        "n": len(errors),
    }


def log2(value):
    return math.log2(value.numerator) - math.log2(value.denominator)


def root(value):
    """The square root as a Fraction with some hundred good digits."""
    shift = 2 * max(0, value.denominator.bit_length() - value.numerator.bit_length()) + 800
    return Fraction(math.isqrt(value.numerator * 4**shift // value.denominator), 2**shift)


def _histogram(errors):
    keys = Counter(
        (struct.unpack("<q", struct.pack("<d", min(float_of(e), sys.float_info.max)))[0] - 1) >> 50 for e in errors if e
    )
    return sum(e == 0 for e in errors), dict(keys)


def float_of(value):
    """The nearest float, infinite where there is none."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
