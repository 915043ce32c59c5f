"""Which numbers may an input have in a search, and how are they counted through?

The numbers of a format in ascending order have consecutive ordinals, with 0 for both zeros. Neighbours, binades and
midpoints of an interval are simple in ordinals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import inf, isfinite, isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS, Format, cast, numpy_dtype
from precreg.errors import UserError, nearest
from precreg.suite.inputs import draw_input, parse_input
from precreg.types import Case, SearchedRange

Ordinals = NDArray[np.int64]
Values = NDArray[Any]

# Normal numbers of the suite lie in this many standard deviations; one of 500 million draws lies beyond.
_DEVIATIONS = 6.0

_RANGE = re.compile(r"(?P<name>[^=]+)=\[(?P<items>[^\[\]]*)\]")


class DeclaredRange(NamedTuple):
    """An interval of --ranges NAME=[LOW,HIGH] or of `ranges:` in the suite, and whether NaN belongs to it."""

    low: float
    high: float
    has_nan: bool
    origin: str = "declared"


class Domain(NamedTuple):
    """The numbers that one input may have: ordinals from `low` to `high`, of magnitudes from ordinal `least`."""

    name: str
    dtype: np.dtype[Any]
    format: Format
    bits: int
    low: int
    high: int
    least: int
    # Infinities and NaN that are admitted, too.
    special: tuple[float, ...]
    origin: str

    @property
    def size(self) -> int:
        """Return the number of values, both zeros counted."""
        gap = 2 * self.least - 1 if self.least else 0
        both = int(self.least == 0 and self.low <= 0 <= self.high and self.format.negative_zero)
        return self.high - self.low + 1 - gap + both + len(self.special)

    def ordinals(self, values: Values) -> Ordinals:
        """Return the ordinals of values; infinities and NaN lie beyond the largest number."""
        unsigned = values.view(f"u{self.dtype.itemsize}").astype(np.uint64)
        magnitude = (unsigned & np.uint64(self._mask)).astype(np.int64)
        return np.where((unsigned >> np.uint64(self.bits - 1)) & np.uint64(1), -magnitude, magnitude)

    def values(self, ordinals: Ordinals) -> Values:
        """Return the values of ordinals."""
        magnitude = np.abs(ordinals).astype(np.uint64)
        sign = (ordinals < 0).astype(np.uint64) << np.uint64(self.bits - 1)
        return self.patterns(magnitude | sign)

    def patterns(self, bits: NDArray[np.uint64]) -> Values:
        """Return the values of bit patterns."""
        found: Values = np.ascontiguousarray(bits.astype(f"u{self.dtype.itemsize}")).view(self.dtype)
        return found

    @property
    def _mask(self) -> int:
        return (1 << (self.bits - 1)) - 1

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Values:
        """Draw values with uniform ordinals, so that every binade has the same share."""
        drawn = generator.integers(self.low, self.high, shape, np.int64, endpoint=True)
        return self.values(self._outside_gap(drawn))

    def draw_evenly(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Values:
        """Draw values that are uniform between the ends, so that most have the largest exponents."""
        low, high = self.values(np.array([self.low, self.high])).astype(np.float64)
        share = generator.random(shape)
        # Two products, because the span of a range may overflow.
        return self.round(low * (1.0 - share) + high * share)

    def admit(self, values: Values) -> Values:
        """Return the values, moved to the nearest number of the domain where they lie outside."""
        with np.errstate(invalid="ignore"):
            wide = values.astype(np.float64)
        ordinals = self.ordinals(values)
        # The pattern of NaN may have any ordinal: fnuz formats encode it as -0.
        moved = np.where(np.isnan(wide), self.high, np.clip(ordinals, self.low, self.high))
        moved = self._outside_gap(moved)
        kept = (moved == ordinals) & ~np.isnan(wide)
        for each in self.special:
            kept |= np.isnan(wide) if isnan(each) else wide == each
        return np.where(kept, values, self.values(moved))

    def round(self, numbers: NDArray[np.float64]) -> Values:
        """Return numbers of float64 rounded to the dtype, within the domain."""
        with np.errstate(all="ignore"):
            return self.admit(np.ascontiguousarray(cast(numbers, self.dtype.name)))

    def _outside_gap(self, ordinals: Ordinals) -> Ordinals:
        if not self.least:
            return ordinals
        return np.where(np.abs(ordinals) >= self.least, ordinals, np.where(ordinals < 0, -self.least, self.least))

    def range(self) -> SearchedRange:
        """Return the range as a fact of the search."""
        low, high, least = (float(each) for each in self.values(np.array([self.low, self.high, self.least])))
        names = ("nan" if isnan(each) else "infinity" if each > 0 else "-infinity" for each in self.special)
        return SearchedRange(self.name, self.dtype.name, low, high, self.origin, least, tuple(names))


def parse_ranges(texts: Sequence[str]) -> dict[str, DeclaredRange]:
    """Return the ranges of `NAME=[LOW,HIGH]` or `NAME=[LOW,HIGH,nan]` by name. Raises UserError (bad-range)."""
    found: dict[str, DeclaredRange] = {}
    for text in texts:
        match = _RANGE.fullmatch(text.strip())
        items = [] if match is None else [item.strip().casefold() for item in match["items"].split(",")]
        has_nan = len(items) == 3 and items[2] == "nan"
        if match is None or not (len(items) == 2 or has_nan):
            raise UserError("bad-range", f"expected NAME=[LOW,HIGH] but got ranges={text}", hint=f"write {_EXAMPLE}")
        low, high = (_number(item, text) for item in items[:2])
        name = match["name"].strip()
        if name in found:
            raise UserError("bad-range", f"expected one range of {name} but got another: ranges={text}")
        if not low <= high:
            raise UserError("bad-range", f"expected LOW <= HIGH but got ranges={text}", hint=f"write {_EXAMPLE}")
        found[name] = DeclaredRange(low, high, has_nan)
    return found


_EXAMPLE = "--ranges 'x=[-1e4,1e4]'"


def _number(text: str, shown: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if isnan(value):
        raise UserError("bad-range", f"expected numbers but got ranges={shown}", hint=f"write {_EXAMPLE}")
    return value


def find_domains(case: Case, declared: Mapping[str, DeclaredRange], directory: Path, project: Path) -> list[Domain]:
    """Return the domains of the inputs that a search may change, in the order of the suite.

    Raises UserError: bad-range for a name that is not a floating input, and for a range without a number of the dtype;
    unsearchable if no input has a range.
    """
    floating = [name for name, mapping in case.inputs.items() if _is_searchable(mapping["dtype"])]
    of_suite = {
        name: DeclaredRange(ends[0], ends[1], has_nan=len(ends) > 2, origin="suite")
        for name, ends in case.ranges.items()
        if name in floating
    }
    for name in declared:
        if name not in floating:
            known = f"an input of {case.id} with a real floating dtype ({', '.join(floating) or 'it has none'})"
            raise UserError("bad-range", f"expected {known} but got ranges={name}{nearest(name, floating)}")
    found = []
    for name in floating:
        dtype = case.inputs[name]["dtype"]
        if (given := declared.get(name, of_suite.get(name))) is not None:
            found.append(_declared_domain(name, dtype, given))
        elif (ends := _own_range(name, case, directory, project)) is not None:
            found.append(_make_domain(name, dtype, *ends))
    if not found:
        why = "no input with a real floating dtype" if not floating else f"no range for {', '.join(floating)}"
        example = f"; declare one: --ranges '{floating[0]}=[-10,10]'" if floating else ""
        raise UserError("unsearchable", f"expected a case whose inputs have ranges but {case.id} has {why}{example}")
    return found


def _is_searchable(dtype: str) -> bool:
    # A longdouble has no bit patterns of a known size.
    return dtype in FORMATS


def _declared_domain(name: str, dtype: str, declared: DeclaredRange) -> Domain:
    format = FORMATS[dtype]
    special = tuple(end for end in (-inf, inf) if end in (declared.low, declared.high))
    if special and format.overflow != inf:
        raise UserError("bad-range", f"expected finite ends, because {dtype} has no infinity, but got ranges={name}")
    if declared.has_nan and format.overflow == format.largest:
        raise UserError("bad-range", f"expected a range without NaN, which {dtype} lacks, but got ranges={name}")
    special += (nan,) if declared.has_nan else ()
    return _make_domain(name, dtype, declared.low, declared.high, 0.0, declared.origin, special)


def _make_domain(
    name: str,
    dtype: str,
    low: float,
    high: float,
    least: float,
    origin: str,
    special: tuple[float, ...] = (),
) -> Domain:
    format = FORMATS[dtype]
    whole = Domain(name, numpy_dtype(dtype), format, _bits_of_dtype(dtype), 0, 0, 0, special, origin)
    largest = format.largest
    ends = np.clip(np.array([low, high, least]), -largest, largest)
    rounded = np.ascontiguousarray(cast(ends, dtype))
    wide, ordinals = rounded.astype(np.float64), whole.ordinals(rounded)
    first = int(ordinals[0]) + int(wide[0] < ends[0])
    last = int(ordinals[1]) - int(wide[1] > ends[1])
    smallest = int(ordinals[2]) + int(wide[2] < ends[2])
    if first > last or low > largest or high < -largest:
        raise UserError("bad-range", f"expected a range with numbers of {dtype} but got ranges={name}=[{low},{high}]")
    return whole._replace(low=first, high=last, least=smallest)


def _bits_of_dtype(dtype: str) -> int:
    # The sign, the exponent, and the significand without its implicit bit. Formats of 4 and 6 bits fill a byte.
    format = FORMATS[dtype]
    exponents = format.max_exponent - format.min_exponent + 1 + (format.overflow == inf)
    return 1 + exponents.bit_length() + format.precision - 1


def _own_range(name: str, case: Case, directory: Path, project: Path) -> tuple[float, float, float, str] | None:
    """Return low, high, smallest magnitude and distribution of an input's own range; None if it has none.

    Constants, integers and arrays with a structure keep their values unless the user declares a range.
    """
    spec = parse_input(name, case.inputs[name], case.source)
    options: Any = spec.distribution
    kind = next(key for key in case.inputs[name] if key not in ("shape", "dtype"))
    match kind:
        case "normal":
            return options.mean - _DEVIATIONS * options.std, options.mean + _DEVIATIONS * options.std, 0.0, kind
        case "legacy_normal":
            return -_DEVIATIONS, _DEVIATIONS, 0.0, kind
        case "uniform":
            return options.low, options.high, 0.0, kind
        case "log_uniform":
            return (-options.high if options.sign == "both" else options.low), options.high, options.low, kind
        case "special":
            largest = FORMATS[spec.dtype].largest
            return -largest, largest, 0.0, kind
        case "ill_conditioned_sum" | "file":
            return _drawn_range(draw_input(name, spec, 0, directory, project), kind)
    return None


def _drawn_range(array: Values, kind: str) -> tuple[float, float, float, str] | None:
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    if kind == "file":
        return low, high, 0.0, kind
    largest = max(abs(low), abs(high))
    return (-largest, largest, 0.0, kind) if isfinite(largest) else None
