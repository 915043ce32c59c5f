"""Describe the values of a case for its panel: worst positions, distances in ULP, bits, and the map of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from math import inf, isfinite
from struct import pack
from typing import Any

from precreg.arithmetic import COMPLEX_PARTS, FORMATS, Format, bit_fields, exact_round, exact_ulp, format_of
from precreg.types import Comparison, ErrorGrid, Positions, Scalar, format_distinct, format_number, unravel_index

# Worst positions of one output over all seeds; record.json has the others.
MAX_DETAIL_POSITIONS = 20
# A record of another origin may have larger maps, which would make the page slow.
_MAX_MAP_CELLS = 64
_INTEGER_DTYPE = re.compile(r"u?int(\d{1,2})|bool")


def position_rows(comparison: Comparison, positions: Positions | None) -> Iterator[list[str]]:
    """Yield the first positions, which are the worst of their seed: seed, index, actual, reference, |actual - ref|."""
    for index, actual, reference in _elements(positions):
        yield [str(comparison.seed), _place(index, comparison), *_pair(actual, reference, comparison.dtype)]


def worst_rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Return the worst positions over all seeds: `position_rows` with ULP distance and the bits of both."""
    found = [row for comparison in comparisons for row in bit_rows(comparison, comparison.worst)]
    # Each seed has its own worst positions. The sort makes them one list, so that one bad seed fills it.
    found.sort(key=lambda row: -float(row[4] or 0))
    return found[:MAX_DETAIL_POSITIONS]


def bit_rows(comparison: Comparison, positions: Positions | None) -> Iterator[list[str]]:
    """Yield the first positions as `position_rows` does, each with its distance in ULP and the bits of both values.

    The reference is rounded to the output's dtype for its bits. A text is empty where a dtype has no such figure.
    """
    rows = position_rows(comparison, positions)
    for row, (_, actual, reference) in zip(rows, _elements(positions), strict=True):
        ulps = ulp_distance(actual, reference, comparison.dtype)
        bits = [hex_bits(value, comparison.dtype) for value in (actual, reference)]
        yield [*row, "" if ulps is None else format_number(ulps), *bits]


def _elements(positions: Positions | None) -> Iterator[tuple[int, Scalar, Scalar]]:
    if positions is not None:
        every = zip(positions.index, positions.actual, positions.reference, strict=True)
        yield from islice(every, MAX_DETAIL_POSITIONS)


def _place(index: int, comparison: Comparison) -> str:
    return f"[{', '.join(map(str, unravel_index(index, comparison.shape)))}]"


def _pair(actual: Scalar, reference: Scalar, dtype: str) -> list[str]:
    """Write two values and their distance; a value that JSON stores as text, such as "nan", has no distance."""
    # JSON has no NaN and no infinity, so records store them as text.
    if isinstance(actual, str) or isinstance(reference, str):
        distance = _complex_distance(actual, reference, dtype)
        return [str(actual), str(reference), "" if distance is None else format_number(distance)]
    # Integers beyond 2^53 keep every digit, and their difference is exact.
    if isinstance(actual, int) and isinstance(reference, int):
        return [str(actual), str(reference), str(abs(actual - reference))]
    distance = abs(actual - reference)
    return [*format_distinct([actual, reference], digits=6), format_number(distance) if isfinite(distance) else ""]


def _complex_distance(actual: Scalar, reference: Scalar, dtype: str) -> float | None:
    """Return |actual - reference| of complex numbers; None for other dtypes, and if it is not finite."""
    if dtype not in COMPLEX_PARTS:
        return None
    numbers = _complex(actual, dtype), _complex(reference, "complex128")
    distance = inf if None in numbers else abs(numbers[0] - numbers[1])  # type: ignore[operator]
    return distance if isfinite(distance) else None


def _complex(value: Scalar, dtype: str) -> complex | None:
    """Return a complex number of a dtype; None for any other text.

    numpy writes as few digits as tell the numbers of a dtype apart, so that reading them needs a rounding to it.
    """
    try:
        number = complex(value)
    except ValueError:
        return None
    format = FORMATS[COMPLEX_PARTS[dtype]]
    return complex(exact_round(number.real, format), exact_round(number.imag, format))


def ulp_distance(actual: Scalar, reference: Scalar, dtype: str) -> float | None:
    """Return |actual - reference| in units in the last place of |reference| in the output's dtype.

    Return None for integers, for values that are not finite, and for extended precision, whose values records store as
    text.
    """
    format = format_of(dtype)
    if format is None:
        return None
    if dtype in COMPLEX_PARTS:
        distance, size = _complex_distance(actual, reference, dtype), _complex(reference, "complex128")
        return None if distance is None or size is None else _ulps(Fraction(distance), Fraction(abs(size)), format)
    if isinstance(actual, str) or isinstance(reference, str):
        return None
    # Exact: the difference of two float64 numbers may round to 0 ULP of a float64 output.
    return _ulps(abs(Fraction(actual) - Fraction(reference)), abs(Fraction(reference)), format)


def _ulps(distance: Fraction, size: Fraction, format: Format) -> float | None:
    ulps = distance / exact_ulp(size, format)
    return float(ulps) if ulps < Fraction(2) ** 1000 else None


def hex_bits(value: Scalar, dtype: str) -> str:
    """Return the bits of a value, rounded to a dtype, in hexadecimal; empty if the record does not have them.

    A complex number has the bits of both parts. A NaN has those of the usual NaN, because records store no payload.
    """
    if dtype in COMPLEX_PARTS:
        number, part = _complex(value, dtype), FORMATS[COMPLEX_PARTS[dtype]]
        return "" if number is None else " ".join(_float_bits(each, part) for each in (number.real, number.imag))
    if found := _INTEGER_DTYPE.fullmatch(dtype):
        return _integer_bits(value, int(found[1] or 1))
    format = format_of(dtype)
    # The value of an extended format is a text, whose digits are not its bits.
    if format is None or format.largest == inf:
        return ""
    return _float_bits(float(value), format)


# Formats that `struct` rounds to, too: to nearest, ties to even.
_STRUCT_CODES = {"float16": ">e", "float32": ">f", "float64": ">d"}


def _float_bits(value: float, format: Format) -> str:
    code = _STRUCT_CODES.get(format.name)
    # Exact arithmetic takes 23 us, and a page has thousands of values. A processor that flushes subnormal numbers to
    # zero would pack a zero, and struct refuses what overflows.
    if code is not None and (value == 0 or format.smallest_normal <= abs(value) <= format.largest):
        return f"0x{pack(code, value).hex()}"
    fields = bit_fields(exact_round(value, format), format)
    return "" if fields is None else fields.pattern


def _integer_bits(value: Scalar, width: int) -> str:
    """Write an integer in two's complement; the reference of an integer output may be a float."""
    number = float(value) if isinstance(value, str) else value
    if not isfinite(number) or int(number) != number:
        return ""
    return f"0x{int(number) & ((1 << width) - 1):0{-(-width // 4)}x}"


def map_of_errors(comparisons: Sequence[Comparison]) -> dict[str, Any] | None:
    """Describe the map of the seed with the largest mean error in a cell; None without a map of a sensible size."""
    maps = [(each, each.error_map) for each in comparisons if isinstance(each.error_map, ErrorGrid)]
    sensible = [(each, grid) for each, grid in maps if _is_sensible(grid)]
    if not sensible:
        return None
    comparison, grid = max(sensible, key=lambda pair: pair[1].largest)
    return {
        "rows": grid.rows,
        "largest": grid.largest,
        "shown": format_number(grid.largest),
        "seed": comparison.seed,
        "shape": comparison.shape,
    }


def _is_sensible(grid: ErrorGrid) -> bool:
    widths = {len(row) for row in grid.rows}
    is_bounded = 0 < len(grid.rows) <= _MAX_MAP_CELLS and 0 < max(widths) <= _MAX_MAP_CELLS
    return is_bounded and len(widths) == 1 and isfinite(grid.largest)
