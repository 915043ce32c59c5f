"""Replicates of a case: runs that differ from its own in what nobody should mind, and what they tell besides."""

from __future__ import annotations

from msgspec import Struct


class Replicate(Struct, frozen=True):
    """How a run of a case differs from the case's own, so that what its figures vary by can be told.

    `first_seed` is the first of the seeds that inputs are drawn from. `moved` is the number of a random move of inputs:
    each element that inputs/last_bits.py moves, to a neighbour or not; None leaves them as they are drawn.
    """

    first_seed: int = 0
    moved: int | None = None


class LongSum(Struct, frozen=True):
    """A sum of so many terms, or of products of them, and the bits of precision of what added them up."""

    terms: int
    precision: int
    products: bool


class Noise(Struct, frozen=True):
    """What a replicate tells besides: per output and seed the largest |d| / (atol + rtol |r|), and the longest sum.

    A share is infinite where a NaN or an infinity has no counterpart. The sum is that of the largest terms times unit
    roundoff; None where none was recorded.
    """

    shares: dict[str, tuple[float, ...]]
    longest: LongSum | None = None
