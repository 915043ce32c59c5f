"""Do the results lie on a coarser grid than their dtype's, and which rounding or tie explains their errors?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from precreg.arithmetic import FORMATS, Format, Rounding, round_to
from precreg.measure.fingerprints.sample import ErrorSample, formats_narrower
from precreg.measure.fingerprints.thresholds import threshold
from precreg.storage import Array
from precreg.types import Fingerprint

# The roundings that a grid is tried with. Rounding to odd gives the values of no device alone.
ROUNDINGS = (
    Rounding.NEAREST_EVEN,
    Rounding.NEAREST_AWAY,
    Rounding.TOWARD_ZERO,
    Rounding.DOWN,
    Rounding.UP,
    Rounding.AWAY,
)
# The same for fixed point, and for integers.
_TO_INTEGERS: dict[str, Callable[[Array], Array]] = {
    "nearest_even": np.rint,
    "nearest_away": lambda values: np.copysign(np.floor(np.abs(values) + 0.5), values),
    "toward_zero": np.trunc,
    "down": np.floor,
    "up": np.ceil,
}
# More levels than 16 bits have are no quantization.
MAX_LEVELS = 65536
# The bits of a float64 significand.
BITS = 53


def find_grid(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the grid that the results lie on, or else the rounding that explains all of them."""
    if sample.is_bool or np.count_nonzero(sample.actual) < threshold("elements"):
        return
    found = (
        _powers_of_two(output, sample)
        or _levels(output, sample)
        or _own_rounding(output, sample)
        or _rounded_factor(output, sample)
    )
    if found is not None:
        yield found


def _powers_of_two(output: str, sample: ErrorSample) -> Fingerprint | None:
    """Find a format of fewer bits, or a fixed-point format, that holds all results but not the exact ones."""
    if sample.format is None or sample.working != np.float64:
        return None
    actual, expected = (_bits(values[values != 0]) for values in (sample.actual, sample.rounded))
    at = int(len(actual[0]) * threshold("on_grid"))
    bits = int(np.sort(actual[0])[min(at, len(actual[0]) - 1)])
    lost = threshold("lost_bits")
    step = _fixed_step(actual, bits)
    if step is not None:
        # The results of a wider type would be finer than the step at most elements.
        finer = np.mean(np.log2(sample.spacing[sample.actual != 0].astype(np.float64)) <= step - lost)
        if finer >= 0.5 and len(expected[1]) and np.mean(expected[1] >= step) < 0.5:
            return _fixed_point(output, sample, step)
    if bits > sample.format.precision - lost or (len(expected[0]) and np.mean(expected[0] <= bits) >= 0.5):
        return None
    return _of_format(output, sample, bits)


def _bits(values: Array) -> tuple[Array, Array]:
    """Return the significant bits of each value, and the exponent of its last one bit, as float64 has them."""
    significands, exponents = np.frexp(values.astype(np.float64))
    integers = np.ldexp(significands, BITS).astype(np.int64)
    # The lowest set bit of an integer is a power of two, whose logarithm is exact.
    trailing = np.log2((integers & -integers).astype(np.float64)).astype(np.int64)
    return BITS - trailing, exponents - BITS + trailing


def _fixed_step(actual: tuple[Array, Array], bits: int) -> int | None:
    """Return the exponent of the step if small results have fewer bits than large ones, as in fixed point."""
    significant, last = actual
    step = int(np.sort(last)[int(len(last) * (1 - threshold("on_grid")))])
    # In floating point, only the hundredth below the step can be so small and have all bits.
    small = (significant + last <= bits + step - 2) & (significant <= bits - 2)
    return step if np.count_nonzero(small) >= max(threshold("elements"), 0.05 * len(last)) else None


def _fixed_point(output: str, sample: ErrorSample, step: int) -> Fingerprint:
    size = 2.0**step
    on_grid = float(np.mean(np.rint(sample.actual / size) * size == sample.actual))
    values: dict[str, float | str] = {"format": "fixed_point", "step": size, "fraction_bits": float(-step)}
    for rounding, function in _TO_INTEGERS.items():
        certainty = float(np.mean(function(sample.exact / size) * size == sample.actual))
        if certainty >= threshold("share"):
            return Fingerprint("grid", output, certainty, values | {"rounding": rounding})
    return Fingerprint("grid", output, on_grid, values | {"rounding": "unknown"})


def _of_format(output: str, sample: ErrorSample, bits: int) -> Fingerprint:
    """Describe a grid of so many significant bits by the formats that have it."""
    assert sample.format is not None
    known = [format for format in formats_narrower(sample.format) if format.precision == bits]
    fitting = [format for format in known if np.mean(round_to(sample.actual, format) == sample.actual) >= 0.99]
    plain = Format(f"{bits} bits", bits, -1000, np.inf)
    values: dict[str, float | str] = {"precision": float(bits)}
    if fitting:
        values |= {"format": fitting[0].name, "formats": ", ".join(format.name for format in fitting)}
    for format in fitting or [plain]:
        for rounding in ROUNDINGS:
            certainty = float(np.mean(round_to(sample.exact, format, rounding) == sample.actual))
            if certainty >= threshold("share"):
                named = {"format": format.name} if fitting else {}
                return Fingerprint("grid", output, certainty, values | named | {"rounding": rounding.value})
    on_grid = float(np.mean(round_to(sample.actual, (fitting or [plain])[0]) == sample.actual))
    return Fingerprint("grid", output, on_grid, values | {"rounding": "unknown"})


def _levels(output: str, sample: ErrorSample) -> Fingerprint | None:
    """Find results that are multiples of one step, as scaled integers are, while the exact ones are not."""
    levels = np.unique(sample.actual)
    number = len(levels)
    if not threshold("few") < number <= min(MAX_LEVELS, sample.actual.size // 4) or sample.is_integer:
        return None
    if len(np.unique(sample.rounded)) < 4 * number:
        return None
    distance = levels - levels[0]
    smallest = float(np.diff(levels).min())
    # Each number of steps refines the step for the next, because its rounding error grows with the number.
    step = smallest
    for most in np.geomspace(2, max(float(distance[-1] / smallest), 2.0), 24):
        near = distance[(distance > 0) & (distance <= most * smallest)]
        counts = np.rint(near / step)
        if len(near) and counts.min() > 0:
            step = float(np.dot(near, counts) / np.dot(counts, counts))
    counts = np.rint(distance / step)
    allowed = 2 * (sample.spacing.max() if sample.format is not None else 0)
    on_grid = float(np.mean(np.abs(distance - counts * step) <= max(float(allowed), 1e-9 * step)))
    if on_grid < threshold("on_grid") or counts[-1] >= MAX_LEVELS or float(allowed) > step / 8:
        return None
    values: dict[str, float | str] = {"step": step, "levels": float(counts[-1] + 1)}
    within = float(np.mean(np.abs(sample.error) <= step * (0.5 + 1e-3)))
    rounding = "nearest_even" if within >= threshold("share") else "unknown"
    certainty = within if rounding != "unknown" else on_grid
    return Fingerprint("grid", output, certainty, {"format": "levels", **values, "rounding": rounding})


def _own_rounding(output: str, sample: ErrorSample) -> Fingerprint | None:
    """Find another rounding of the exact results to the output's own dtype."""
    if not sample.is_exact or sample.count < threshold("elements"):
        return None
    if sample.format is None:
        rounded = {name: function(sample.exact) for name, function in [*_TO_INTEGERS.items()][2:]}
    else:
        rounded = {rounding.value: round_to(sample.exact, sample.format, rounding) for rounding in ROUNDINGS[2:]}
    found = {name: float(np.mean(values == sample.actual)) for name, values in rounded.items()}
    best = max(found, key=lambda name: found[name])
    # A rounding explains something only if it explains more than the nearest one.
    if found[best] < threshold("on_grid") or sample.count < 0.05 * sample.error.size:
        return None
    return Fingerprint("grid", output, found[best], {"format": sample.dtype, "rounding": best})


def _rounded_factor(output: str, sample: ErrorSample) -> Fingerprint | None:
    """Find relative errors that have the distribution of rounding to a narrower format.

    A factor of the results was rounded then: an input of a product, or the result before a last exact step.
    """
    used = (sample.exact != 0) & (sample.actual != 0)
    if sample.format is None or np.count_nonzero(used) < 100:
        return None
    relative = np.abs(sample.error[used] / sample.exact[used]).astype(np.float64)
    p25, p50, p75, p99, p999 = np.quantile(relative, [0.25, 0.5, 0.75, 0.99, 0.999])
    # The errors of rounding are even: no gap, and no large part without an error.
    if not 0.3 * p50 <= p25 <= 0.7 * p50 or not 1.3 * p50 <= p75 <= 1.8 * p50:
        return None
    for format in formats_narrower(sample.format):
        unit = format.unit_roundoff
        is_median = threshold("p50_least") * unit <= p50 <= threshold("p50_most") * unit
        # The own rounding of the output adds up to its own unit.
        most = threshold("p999_most") * unit + sample.format.unit_roundoff
        if is_median and p99 >= threshold("p99_least") * unit and p999 <= most:
            formats = [one.name for one in formats_narrower(sample.format) if one.precision == format.precision]
            names: dict[str, float | str] = {"format": format.name, "formats": ", ".join(formats)}
            certainty = float(np.mean(relative <= most))
            return Fingerprint("grid", output, certainty, names | {"rounding": "of_a_factor"})
    return None


def find_ties(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield another rule at ties, or the wider format through which double rounding explains the errors."""
    if not sample.is_exact or sample.is_bool or sample.count < threshold("few"):
        return
    distance = np.abs(sample.exact - sample.rounded)
    ties = 2 * distance == sample.spacing
    chosen = sample.differs
    share = float(np.mean(ties[chosen]))
    if share >= threshold("share"):
        # The same number of random elements would be ties once in a million outputs.
        if float(np.mean(ties)) ** sample.count < 1e-6:
            values: dict[str, float | str] = {"elements": float(sample.count), "rule": _rule(sample, chosen)}
            yield Fingerprint("at_ties", output, share, values)
        return
    yield from _double_rounding(output, sample)


def _rule(sample: ErrorSample, chosen: Array) -> str:
    """Return the direction in which ties were rounded."""
    outward = np.abs(sample.actual[chosen]) > np.abs(sample.exact[chosen])
    up = sample.actual[chosen] > sample.exact[chosen]
    for name, mask in (("nearest_away", outward), ("toward_zero", ~outward), ("up", up), ("down", ~up)):
        if np.mean(mask) >= threshold("share"):
            return name
    return "unknown"


def _double_rounding(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    if sample.format is None:
        return
    own, most = sample.format.precision, threshold("double_rounding")
    wider = [format for format in FORMATS.values() if 0 < format.precision - own <= most]
    for format in sorted(wider, key=lambda one: one.precision):
        twice = round_to(round_to(sample.exact, format), sample.format)
        # Both the elements that it changes and the direction have to agree.
        changed = twice != sample.rounded
        agree = np.count_nonzero((twice == sample.actual) & changed)
        either = np.count_nonzero(changed | sample.differs)
        if agree >= threshold("few") and agree >= threshold("share") * either:
            values: dict[str, float | str] = {"through": format.name, "elements": float(agree)}
            yield Fingerprint("at_ties", output, agree / either, values)
            return
