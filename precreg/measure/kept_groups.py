"""Group sums as a baseline keeps them: short enough for one line of its file, exact enough to judge by.

Module level stays free of numpy: verdicts are made without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from math import prod

from precreg.types.records import AxisSums, KeptSums
from precreg.types.types import AxisGroups, Comparison

MOST = 16
"""Groups of an axis that has at least so many elements."""


DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
"""The 64 digits that numbers are kept in, two for each."""


ZERO = 2**11
"""What stands for 0; numbers reach from 1 to 2 * ZERO - 1, for the largest of either sign."""


WAYS = ((1, None), (2, None), (4, None), (2, 1), (4, 1))
"""Ever shorter ways to keep sums: how many neighbouring groups are one, and how many axes, the longest; None: all."""


SUMS = ("absolute", "signed", "squared", "ulps", "logs")
"""The sums of AxisGroups that are kept, besides its counts."""


def kept(seeds: Sequence[Comparison], joined: int, axes: int | None) -> list[AxisSums]:
    """Return the sums of one output, seed by seed, along its axes of two groups or more, in one of WAYS."""
    shape = seeds[0].shape
    long = [axis for axis, groups in enumerate(seeds[0].groups) if len(groups.n) > 1]
    longest = sorted(long, key=lambda axis: -shape[axis])[:axes]
    return [
        AxisSums(axis, joined, *(_of_seeds(seeds, axis, name, joined) for name in SUMS))
        for axis in sorted(longest)
        if all(len(seed.groups) > axis for seed in seeds)
    ]


def _of_seeds(seeds: Sequence[Comparison], axis: int, name: str, joined: int) -> list[KeptSums | None]:
    return [_kept_sums(join(getattr(seed.groups[axis], name), joined)) for seed in seeds]


def join(sums: Sequence[float | None], joined: int) -> list[float | None]:
    """Return sums of so many neighbouring groups; None where one of them is beyond float64."""
    return [_total(sums[start : start + joined]) for start in range(0, len(sums), joined)]


def _total(sums: Sequence[float | None]) -> float | None:
    known = [number for number in sums if number is not None]
    return sum(known) if len(known) == len(sums) else None


def _kept_sums(sums: Sequence[float | None]) -> KeptSums | None:
    """Return sums in units of the largest; None where one is beyond float64, or there is none."""
    known = [number for number in sums if number is not None]
    if not known or len(known) < len(sums):
        return None
    largest = float(f"{max(map(abs, known)):.6g}")
    if largest - largest != 0:
        return None
    return KeptSums(largest, "".join(_digits(number / largest if largest else 0.0) for number in known))


def _digits(share: float) -> str:
    number = ZERO + round(share * (ZERO - 1))
    return DIGITS[number >> 6] + DIGITS[number & 63]


def read(sums: AxisSums, seed: int, name: str) -> list[float] | None:
    """Return the sums of one seed along an axis; None where they are not kept.

    Each is within the largest of them, in size, divided by 2**12 of what it was.
    """
    seeds: list[KeptSums | None] = getattr(sums, name)
    of_seed = seeds[seed] if seed < len(seeds) else None
    return None if of_seed is None else [*_numbers(of_seed)]


def _numbers(sums: KeptSums) -> Iterator[float]:
    for first, second in zip(*[iter(sums.shares)] * 2, strict=True):
        number = DIGITS.index(first) << 6 | DIGITS.index(second)
        yield (number - ZERO) / (ZERO - 1) * sums.largest


def counts(groups: AxisGroups, joined: int) -> list[int]:
    """Return the numbers of finite pairs in groups that are joined alike."""
    parts: Iterable[Iterable[int]] = zip_longest(*(groups.n[start::joined] for start in range(joined)), fillvalue=0)
    return [sum(part) for part in parts]


def sizes(shape: Sequence[int], sums: AxisSums) -> list[int]:
    """Return how many elements each of the groups has that are kept of an axis."""
    length = shape[sums.axis]
    groups = min(length, MOST)
    edges = [*(group * length // groups for group in range(0, groups, sums.joined)), length]
    across = prod(shape) // length
    return [(end - begin) * across for begin, end in pairwise(edges)]
