"""Group sums as a baseline keeps them: short enough for one line of its file, exact enough to judge by.

Module level stays free of numpy: verdicts are made without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from precreg.records import AxisSums, KeptSums
from precreg.types import AxisGroups, Comparison

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
"""The 64 digits that numbers are kept in, three for each."""

ZERO = 2**17
"""What stands for 0; numbers reach from 1 to 2 * ZERO - 1, for the largest of either sign."""

JOINED = (1, 2, 4)
"""How many neighbouring groups are one, at most: 16 groups, 8, or 4."""

SUMS = ("absolute", "signed", "squared", "ulps", "logs")
"""The sums of AxisGroups that are kept, besides its counts."""


def kept(seeds: Sequence[Comparison], joined: int) -> list[AxisSums]:
    """Return the sums of one output, seed by seed, along each axis of two groups or more, some of them joined."""
    return [
        AxisSums(axis, joined, *(_of_seeds(seeds, axis, name, joined) for name in SUMS))
        for axis, groups in enumerate(seeds[0].groups)
        if len(groups.n) > 1 and all(len(seed.groups) > axis for seed in seeds)
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
    largest = max(map(abs, known))
    if largest - largest != 0:
        return None
    return KeptSums(largest, "".join(_digits(number / largest if largest else 0.0) for number in known))


def _digits(share: float) -> str:
    number = ZERO + round(share * (ZERO - 1))
    return DIGITS[number >> 12] + DIGITS[number >> 6 & 63] + DIGITS[number & 63]


def read(sums: AxisSums, seed: int, name: str) -> list[float] | None:
    """Return the sums of one seed along an axis; None where they are not kept.

    Each is within the largest of them, in size, divided by 2**18 of what it was.
    """
    seeds: list[KeptSums | None] = getattr(sums, name)
    of_seed = seeds[seed] if seed < len(seeds) else None
    return None if of_seed is None else [*_numbers(of_seed)]


def _numbers(sums: KeptSums) -> Iterator[float]:
    for first, second, third in zip(*[iter(sums.shares)] * 3, strict=True):
        number = DIGITS.index(first) << 12 | DIGITS.index(second) << 6 | DIGITS.index(third)
        yield (number - ZERO) / (ZERO - 1) * sums.largest


def counts(groups: AxisGroups, joined: int) -> list[int]:
    """Return the numbers of finite pairs in groups that are joined alike."""
    parts: Iterable[Iterable[int]] = zip_longest(*(groups.n[start::joined] for start in range(joined)), fillvalue=0)
    return [sum(part) for part in parts]
