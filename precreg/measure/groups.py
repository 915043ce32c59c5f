"""Which group sums does a baseline store?

Groups of an axis are the samples of the statistics (see tally.Groups). A baseline stores each sum as two base-64
digits, so that the sums of a case fit into one line of its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, zip_longest
from math import prod
from typing import cast

from precreg.types import AxisGroups, AxisSums, Comparison, KeptSums

# The groups of an axis with at least as many elements; the cores have the same constant.
MAX_GROUPS_PER_AXIS = 16
BASE64_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# Two digits hold 12 bits. 2^11 encodes 0, and 1 and 2^12 - 1 encode the largest sum of either sign.
ZERO = 2**11
_TWO_DIGITS = [first + second for first in BASE64_DIGITS for second in BASE64_DIGITS]
# The sums of AxisGroups that a baseline keeps. It keeps no counts: shapes give them.
GROUP_SUMS = ("absolute", "signed", "outward", "squared", "ulps", "squared_ulps", "logs")
# Large cases keep no others: finer groups of these show more than coarser groups of all.
MAIN_GROUP_SUMS = ("absolute", "signed", "squared", "ulps", "logs")
# Layouts from long to short: the number of joined neighbouring groups, the number of axes, longest first (None:
# all), and the sums. A baseline takes the first layout that fits into its line.
GROUP_LAYOUTS = (
    (1, None, GROUP_SUMS),
    (1, None, MAIN_GROUP_SUMS),
    (2, None, MAIN_GROUP_SUMS),
    (4, None, MAIN_GROUP_SUMS),
    (2, 1, MAIN_GROUP_SUMS),
    (4, 1, MAIN_GROUP_SUMS),
)


def keep_group_sums(
    seeds: Sequence[Comparison], joined: int, axes: int | None, sums: Sequence[str] = GROUP_SUMS
) -> list[AxisSums]:
    """Return the sums of one output, seed by seed, along its axes of two groups or more, in one of GROUP_LAYOUTS."""
    shape = seeds[0].shape
    long = [axis for axis, groups in enumerate(seeds[0].groups) if len(groups.n) > 1]
    longest = sorted(long, key=lambda axis: -shape[axis])[:axes]
    return [
        _keep_axis([seed.groups[axis] for seed in seeds], axis, joined, sums)
        for axis in sorted(longest)
        if all(len(seed.groups) > axis for seed in seeds)
    ]


def _keep_axis(seeds: Sequence[AxisGroups], axis: int, joined: int, sums: Sequence[str]) -> AxisSums:
    def join(groups: Sequence[float | None]) -> Sequence[float | None]:
        # A group by itself keeps its sum. -0.0 is encoded as 0.0.
        return groups if joined == 1 else join_groups(groups, joined)

    kept = {name: [_encode_sums(join(getattr(each, name))) for each in seeds] for name in sums}
    return AxisSums(axis, joined, **kept)


def join_groups(sums: Sequence[float | None], joined: int) -> list[float | None]:
    """Return the sums of `joined` neighbouring groups; None where one of them is beyond float64."""
    if joined == 1:
        # As a sum of one number: the sum of -0.0 is 0.0.
        return [None if number is None else number + 0 for number in sums]
    return [_add_known(sums[start : start + joined]) for start in range(0, len(sums), joined)]


def _add_known(sums: Sequence[float | None]) -> float | None:
    known = [number for number in sums if number is not None]
    return sum(known) if len(known) == len(sums) else None


def _encode_sums(sums: Sequence[float | None]) -> KeptSums | None:
    """Return sums in units of the largest; None if one is beyond float64, and without a sum."""
    if not sums or None in sums:
        return None
    # Outputs without an error have zeros alone.
    if not any(sums):
        return _encode_zeros(len(sums))
    known = cast("Sequence[float]", sums)
    largest = float(f"{max(map(abs, known)):.6g}")
    if largest - largest != 0:  # rounding to six digits may exceed float64
        return None
    return KeptSums(largest, "".join([_TWO_DIGITS[ZERO + round(number / largest * (ZERO - 1))] for number in known]))


@cache
def _encode_zeros(number: int) -> KeptSums:
    return KeptSums(0.0, _TWO_DIGITS[ZERO] * number)


def read_group_sums(sums: AxisSums, seed: int, name: str) -> list[float] | None:
    """Return the sums of one seed along an axis; None if the baseline has none.

    The error of each is at most the largest of them, in size, divided by 2**12.
    """
    seeds: list[KeptSums | None] = getattr(sums, name)
    of_seed = seeds[seed] if seed < len(seeds) else None
    return None if of_seed is None else [*_decode_sums(of_seed)]


def _decode_sums(sums: KeptSums) -> Iterator[float]:
    for first, second in zip(*[iter(sums.shares)] * 2, strict=True):
        number = BASE64_DIGITS.index(first) << 6 | BASE64_DIGITS.index(second)
        yield (number - ZERO) / (ZERO - 1) * sums.largest


def group_counts(groups: AxisGroups, joined: int) -> list[int]:
    """Return the numbers of finite pairs in the same joined groups."""
    parts: Iterable[Iterable[int]] = zip_longest(*(groups.n[start::joined] for start in range(joined)), fillvalue=0)
    return [sum(part) for part in parts]


def group_sizes(shape: Sequence[int], sums: AxisSums) -> list[int]:
    """Return the number of elements in each stored group of an axis."""
    length = shape[sums.axis]
    groups = min(length, MAX_GROUPS_PER_AXIS)
    edges = [*(group * length // groups for group in range(0, groups, sums.joined)), length]
    across = prod(shape) // length
    return [(end - begin) * across for begin, end in pairwise(edges)]
