"""The options of each distribution: what a suite may say, and which shapes and dtypes can hold what it draws.

precreg/suite/inputs/distributions.py says what is drawn.
"""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import Literal

from msgspec import Struct

from precreg.arithmetic import FORMATS, Format, format_of
from precreg.errors import nearest


class DistributionOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a distribution. Values that contradict each other raise ValueError when it is made."""

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError where arrays of that shape and dtype cannot be drawn; here, where numbers are real."""
        if format_of(dtype) is None:
            raise ValueError(f"expected a floating dtype but got dtype={dtype}; integers and constant draw integers")


class Normal(DistributionOptions, frozen=True):
    """Normal numbers."""

    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.mean) and 0 <= self.std < inf):
            raise ValueError(f"expected a finite mean and std >= 0 but got mean={self.mean}, std={self.std}")


class Uniform(DistributionOptions, frozen=True):
    """Numbers spread evenly over [low, high)."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.high - self.low < inf:
            raise ValueError(f"expected low < high, a finite span, but got low={self.low}, high={self.high}")


class LogUniform(DistributionOptions, frozen=True):
    """Numbers of [low, high] whose logarithm is spread evenly; with sign "both", half of them negative."""

    low: float
    high: float
    sign: Literal["positive", "both"] = "positive"

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < inf:
            raise ValueError(f"expected 0 < low < high, finite, but got low={self.low}, high={self.high}")


class Integers(DistributionOptions, frozen=True):
    """Whole numbers of [low, high), all equally likely."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"expected low < high but got low={self.low}, high={self.high}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError where the dtype does not hold every integer of the range."""
        _check_whole(self.low, dtype)
        _check_whole(self.high - 1, dtype)


class LegacyNormal(DistributionOptions, frozen=True):
    """Standard normal numbers of numpy's legacy generator, RandomState(seed).randn, known by the digest of the array.

    They are the same at every seed of the suite.
    """

    seed: int
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
    """One number everywhere."""

    value: int | float

    def __post_init__(self) -> None:
        if isinstance(self.value, int) and not -(2**63) <= self.value < 2**64:
            raise ValueError(
                f"expected an integer of 64 bits, or a float, but got one of {self.value.bit_length()} bits"
            )

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError where an integer dtype does not hold the value."""
        if format_of(dtype) is None:
            _check_whole(self.value, dtype)


class Rest(Struct, frozen=True, forbid_unknown_fields=True):
    """The one distribution of the positions that special values leave."""

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
        """The distribution that is named."""
        return self._named()[0]

    def _named(self) -> list[DistributionOptions]:
        every = (self.normal, self.uniform, self.log_uniform, self.integers, self.constant)
        return [options for options in every if options is not None]


class Special(DistributionOptions, frozen=True):
    """Values at the edges of the dtype, in turn: `values` (default: all it has) cycled through the array.

    With `share`, that share of the positions, chosen at random, gets them, and `rest` draws the others.
    """

    values: tuple[str, ...] | None = None
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
        """Raise ValueError where the dtype does not have the values, or cannot hold the rest."""
        known = special_values(dtype)
        for name in self.values or known:
            if name not in known:
                raise ValueError(f"expected special values that {dtype} has but got {name}{nearest(name, known)}")
        if not known:
            raise ValueError(f"expected a dtype with special values but got dtype={dtype}")
        if self.rest is not None:
            self.rest.distribution.check(shape, dtype)


class IllConditionedSum(DistributionOptions, frozen=True):
    """Numbers whose sum over the last axis cancels: sum |x| is `condition` times |sum x|, within a factor 1.2."""

    condition: float = 1e8

    def __post_init__(self) -> None:
        if not isfinite(self.condition):
            raise ValueError(f"expected a finite condition but got condition={self.condition}")

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError where the dtype, or the length of the last axis, cannot have that condition."""
        if format_of(dtype) is None or "complex" in dtype:
            raise ValueError(f"expected a real floating dtype but got dtype={dtype}")
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
    """The numbers of a .npy file, or of one array (`key`) of a .npz file; `path` is relative to the suite's folder."""

    path: str
    key: str | None = None

    def __post_init__(self) -> None:
        if not self.path.endswith((".npy", ".npz")):
            raise ValueError(f"expected a path that ends in .npy or .npz but got path={self.path}")
        if self.path.endswith(".npz") != (self.key is not None):
            raise ValueError(
                f"expected a key for a .npz file, and for that alone, but got path={self.path}, key={self.key}"
            )

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Accept every shape and dtype: only the file can tell."""


def special_values(dtype: str) -> dict[str, float | int]:
    """Return the numbers at the edges of a dtype by name, those it has: for integers zero, min and max."""
    bounds = integer_bounds(dtype)
    if bounds is not None:
        return {"zero": 0, "min": bounds[0], "max": bounds[1]}
    format = format_of(dtype)
    return {} if format is None or dtype == "longdouble" else _edges(format)


def _edges(format: Format) -> dict[str, float | int]:
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
    return both if format.overflow == format.largest else {**both, "nan": nan}


def integer_bounds(dtype: str) -> tuple[int, int] | None:
    """Return the least and the greatest number of an integer dtype, None for others."""
    sign, is_integer, bits = dtype.partition("int")
    if not is_integer:
        return None
    return (0, 2 ** int(bits) - 1) if sign == "u" else (-(2 ** (int(bits) - 1)), 2 ** (int(bits) - 1) - 1)


def drawn_format(dtype: str) -> Format:
    """Return the format that numbers of a real floating dtype are drawn in: its own; for a longdouble, float64."""
    return FORMATS.get(dtype, FORMATS["float64"])


def max_condition(format: Format) -> float:
    """Return the largest condition of a sum for which a format has both the terms and what they leave."""
    return format.largest / 8.0 / format.smallest_subnormal


def _check_whole(value: float, dtype: str) -> None:
    """Raise ValueError unless it is a whole number in the range of the dtype, and in the 53 bits of the arithmetic."""
    format = format_of(dtype)
    if format is not None:
        high = int(min(2.0**53, format.largest))
        low = -high
    else:
        low, high = integer_bounds(dtype) or (0, 1)
    if not (low <= value <= high and value == int(value)):
        raise ValueError(f"expected whole numbers from {low} to {high} for dtype={dtype} but got {value}")
