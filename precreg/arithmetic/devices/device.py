"""A device as a value: the formats, roundings and units that its operations pass through, as its table says."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from precreg.arithmetic.formats import FORMATS, Format
from precreg.arithmetic.roundings import Rounding
from precreg.arithmetic.unit import Unit

Method = Literal["polynomial", "newton", "table"]


class Elementwise(Struct, frozen=True):
    """How operations on elements are rounded: the exact result once, to `format`.

    Operands are rounded to `input` first, where there is one, by the same rounding. `seed` is that of stochastic
    rounding.
    """

    format: Format
    rounding: Rounding = Rounding.NEAREST_EVEN
    input: Format | None = None
    seed: int = 0


METHODS: dict[str, tuple[Method, ...]] = {
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sin", "cos", "tanh"), ("polynomial", "table")),
    **dict.fromkeys(("divide", "reciprocal", "sqrt"), ("newton",)),
}
"""The functions that can be approximated, by their names in numpy, and in which ways."""


LARGEST_SIZE: dict[Method, int] = {"polynomial": 64, "newton": 64, "table": 2**20}
"""Terms, steps and intervals at most: more change nothing, or take memory without end."""


class Approximation(Struct, frozen=True):
    """How a special function is approximated: terms of a polynomial, Newton's steps, or intervals of a table."""

    method: Method
    size: int


class Cast(Struct, frozen=True):
    """How values are converted to a dtype: rounded once, to a format whose numbers it holds."""

    format: Format
    rounding: Rounding = Rounding.NEAREST_EVEN


class Hop(Struct, frozen=True):
    """A place that values rest in on their way to a unit. They come into it as a cast to `dtype`, if there is one.

    A format that no dtype is for, or a rounding of the hop's own, is rounded to by itself.
    """

    place: str
    format: Format
    rounding: Rounding | None = None


class Device(Struct, frozen=True):
    """What a simulated device computes with, by the dtype that numpy gives the result.

    A dtype without any entry is numpy's. One that has only an entry of `elementwise` is multiplied and added up by it,
    in sequence. A function that is not approximated is the float64 one, rounded once. Fused multiply-add and separate
    pipelines differ in the `product` of units.
    """

    name: str
    about: str = ""
    elementwise: dict[str, Elementwise] = field(default_factory=dict)
    matmul: dict[str, Unit] = field(default_factory=dict)
    reductions: dict[str, Unit] = field(default_factory=dict)
    functions: dict[str, Approximation] = field(default_factory=dict)
    casts: dict[str, Cast] = field(default_factory=dict)
    hops: tuple[Hop, ...] = ()

    def multiplier(self, dtype: str) -> Unit | None:
        """Return the unit that multiplies matrices, or None where that is numpy's."""
        return self.matmul.get(dtype) or self._in_sequence(dtype)

    def adder(self, dtype: str) -> Unit | None:
        """Return the unit that adds along axes, or None where that is numpy's."""
        return self.reductions.get(dtype) or self._in_sequence(dtype)

    def _in_sequence(self, dtype: str) -> Unit | None:
        entry = self.elementwise.get(dtype)
        if entry is None:
            return None
        own, way = entry.format, entry.rounding
        return Unit(entry.input or FORMATS[dtype], own, own, own, way, way, seed=entry.seed)
