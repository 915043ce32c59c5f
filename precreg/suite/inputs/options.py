"""Which options does each distribution have, and which shapes and dtypes can hold its numbers?

distributions.py draws the numbers.
"""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import Literal

from msgspec import Struct

from precreg.arithmetic import FORMATS, Format, format_of
from precreg.errors import nearest
from precreg.storage import ARRAY_SUFFIXES, is_archive, is_array_file


class DistributionOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Hold the options of a distribution. Contradicting options raise ValueError when the object is made."""

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless arrays of this shape and dtype can be drawn: here, for other than floating dtypes."""
        if format_of(dtype) is None:
            raise ValueError(f"expected a floating dtype but got dtype={dtype}; integers and constant draw integers")


class Normal(DistributionOptions, frozen=True):
    """Draw normal numbers."""

    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.mean) and 0 <= self.std < inf):
            raise ValueError(f"expected a finite mean and std >= 0 but got mean={self.mean}, std={self.std}")


class Uniform(DistributionOptions, frozen=True):
    """Draw uniform numbers from [low, high)."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        # The span is checked and not the ends, because -1e308 to 1e308 would overflow; NaN fails every comparison.
        if not 0 < self.high - self.low < inf:
            raise ValueError(f"expected low < high, a finite span, but got low={self.low}, high={self.high}")


class LogUniform(DistributionOptions, frozen=True):
    """Draw numbers from [low, high] with uniform logarithm. With sign "both", half of them are negative."""

    low: float
    high: float
    sign: Literal["positive", "both"] = "positive"

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < inf:
            raise ValueError(f"expected 0 < low < high, finite, but got low={self.low}, high={self.high}")


class Integers(DistributionOptions, frozen=True):
    """Draw integers from [low, high), all with the same probability."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"expected low < high but got low={self.low}, high={self.high}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype holds every integer of the range."""
        check_whole(self.low, dtype)
        check_whole(self.high - 1, dtype)


class LegacyNormal(DistributionOptions, frozen=True):
    """Draw standard normal numbers with numpy's legacy generator, RandomState(seed).randn.

    They are the same for every seed of the suite.
    """

    seed: int
    # The digest of the array in its dtype, because the platform's logarithms may give other bits.
    digest: str

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"expected 0 <= seed < 2^32 but got seed={self.seed}")
        if not (len(self.digest) == 32 and set(self.digest) <= set("0123456789abcdef")):
            raise ValueError(f"expected 32 hexadecimal digits, small letters, but got digest={self.digest}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype is a real floating one."""
        if format_of(dtype) is None or "complex" in dtype:
            raise ValueError(f"expected a real floating dtype but got dtype={dtype}")


class Constant(DistributionOptions, frozen=True):
    """Fill the array with one number."""

    value: int | float

    def __post_init__(self) -> None:
        # YAML has integers of any length, but numpy's end at these bounds.
        if isinstance(self.value, int) and not -(2**63) <= self.value < 2**64:
            raise ValueError(
                f"expected an integer of 64 bits, or a float, but got one of {self.value.bit_length()} bits"
            )

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless an integer dtype holds the value."""
        if format_of(dtype) is None:
            check_whole(self.value, dtype)


class Rest(Struct, frozen=True, forbid_unknown_fields=True):
    """Name the distribution of the positions without special values."""

    normal: Normal | None = None
    uniform: Uniform | None = None
    log_uniform: LogUniform | None = None
    integers: Integers | None = None
    constant: Constant | None = None

    def __post_init__(self) -> None:
        if len(self._named()) != 1:
            raise ValueError(f"expected one distribution in rest but got {len(self._named())}")

    @property
    def distribution(self) -> DistributionOptions:
        """Return the named distribution."""
        return self._named()[0]

    def _named(self) -> list[DistributionOptions]:
        every = (self.normal, self.uniform, self.log_uniform, self.integers, self.constant)
        return [options for options in every if options is not None]


class Special(DistributionOptions, frozen=True):
    """Cycle values at the edges of the dtype through the array."""

    # Names of special_values; None means all of the dtype.
    values: tuple[str, ...] | None = None
    # The share of positions, chosen at random, that get special values; `rest` draws the others. None means all.
    share: float | None = None
    rest: Rest | None = None

    def __post_init__(self) -> None:
        if self.values == ():
            raise ValueError("expected at least one value but got values=[]")
        if (self.share is None) != (self.rest is None):
            raise ValueError("expected share and rest together but got one of them")
        if self.share is not None and not 0 < self.share < 1:
            raise ValueError(f"expected 0 < share < 1 but got share={self.share}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype has the values and can hold the rest."""
        known = special_values(dtype)
        for name in self.values or known:
            if name not in known:
                raise ValueError(f"expected special values that {dtype} has but got {name}{nearest(name, known)}")
        if not known:
            raise ValueError(f"expected a dtype with special values but got dtype={dtype}")
        if self.rest is not None:
            self.rest.distribution.check(shape, dtype)


class IllConditionedSum(DistributionOptions, frozen=True):
    """Draw numbers whose sum over the last axis cancels: sum |x| / |sum x| is `condition`, within a factor 1.2."""

    condition: float = 1e8

    def __post_init__(self) -> None:
        if not isfinite(self.condition):
            raise ValueError(f"expected a finite condition but got condition={self.condition}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError unless the dtype and the length of the last axis allow the condition."""
        if format_of(dtype) is None or "complex" in dtype:
            raise ValueError(f"expected a real floating dtype but got dtype={dtype}")
        # A row needs a number, its negative, and a number that the sum leaves.
        length = shape[-1] if shape else 0
        if length < 3:
            raise ValueError(f"expected a last axis of at least 3 numbers but got shape={list(shape)}")
        limit = max_condition(drawn_format(dtype))
        if not length <= self.condition <= limit:
            raise ValueError(
                f"expected a condition from {length}, the length of the last axis, to {limit:.3g}, what {dtype} can"
                f" hold, but got condition={self.condition:g}"
            )


class File(DistributionOptions, frozen=True):
    """Read the numbers of a file of one array (.npy, .bin, .pb), or of one array of an archive."""

    # Relative to the suite's folder.
    path: str
    # The array of an archive: .npz, .safetensors, .pt or dump.json of msprobe.
    key: str | None = None

    def __post_init__(self) -> None:
        if not is_array_file(self.path):
            raise ValueError(f"expected a path that ends in {', '.join(ARRAY_SUFFIXES)} but got path={self.path}")
        if is_archive(self.path) != (self.key is not None):
            raise ValueError(
                f"expected a key for an archive, and for that alone, but got path={self.path}, key={self.key}"
            )

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Accept every shape and dtype, because only the file determines them."""


def special_values(dtype: str) -> dict[str, float | int]:
    """Return the numbers at the edges of a dtype, by name: for integers zero, min and max, for bool and others none."""
    bounds = integer_bounds(dtype)
    if bounds is not None:
        return {"zero": 0, "min": bounds[0], "max": bounds[1]}
    format = format_of(dtype)
    # A float cannot hold the edges of a longdouble.
    if format is None or dtype == "longdouble":
        return {}
    positive = {
        "zero": 0.0,
        "smallest_subnormal": format.smallest_subnormal,
        "largest_subnormal": format.smallest_normal - format.smallest_subnormal,
        "smallest_normal": format.smallest_normal,
        "largest": format.largest,
    }
    if format.overflow == inf:
        positive["infinity"] = inf
    both = {sign + name: -value if sign else value for name, value in positive.items() for sign in ("", "-")}
    if not format.negative_zero:
        del both["-zero"]
    # A format that saturates has no NaN either.
    return both if format.overflow == format.largest else {**both, "nan": nan}


def integer_bounds(dtype: str) -> tuple[int, int] | None:
    """Return the smallest and the largest number of an integer dtype, or None for other dtypes."""
    sign, is_integer, bits = dtype.partition("int")
    if not is_integer:
        return None
    return (0, 2 ** int(bits) - 1) if sign == "u" else (-(2 ** (int(bits) - 1)), 2 ** (int(bits) - 1) - 1)


def drawn_format(dtype: str) -> Format:
    """Return the format in which numbers of a real floating dtype are drawn: its own, or float64 for a longdouble."""
    return FORMATS.get(dtype, FORMATS["float64"])


def max_condition(format: Format) -> float:
    """Return the largest condition of a sum for which a format holds both the terms and their sum."""
    # distributions.py scales the largest term to at most 8 smallest numbers times the condition.
    return format.largest / 8.0 / format.smallest_subnormal


def check_whole(value: float, dtype: str) -> None:
    """Raise ValueError unless a value is an integer within the dtype, and for floating dtypes within 53 bits."""
    format = format_of(dtype)
    # Numbers are drawn in float64, which has every integer of 53 bits.
    if format is not None:
        high = int(min(2.0**53, format.largest))
        low = -high
    else:
        low, high = integer_bounds(dtype) or (0, 1)
    if not (low <= value <= high and value == int(value)):
        raise ValueError(f"expected whole numbers from {low} to {high} for dtype={dtype} but got {value}")
