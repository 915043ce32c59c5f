"""An arithmetic unit as a value: the formats a sum of products passes through, and the order it is added in."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import force_setattr

from precreg.arithmetic.formats import Format, Rounding, rounding_named
from precreg.errors import UserError, nearest


class Order(StrEnum):
    """The order in which K terms are added. Every partial sum begins at +0 in the accumulator's format.

    sequential: ((0 + t0) + t1) + ... . blocks: each run of `width` terms is summed by itself, sequentially, and the
    sums of the runs are then added, in their order, to a total. lanes: term k goes to partial sum k mod `width`; the
    partial sums are then added, in their order, to a total. pairwise: neighbours are added, level by level; an odd
    last one is carried up as it is (`width` means nothing).
    """

    SEQUENTIAL = "sequential"
    BLOCKS = "blocks"
    LANES = "lanes"
    PAIRWISE = "pairwise"


def order_named(name: str) -> Order:
    """Return the order of that name. Raises UserError (bad-value)."""
    try:
        return Order(name)
    except ValueError:
        known = [order.value for order in Order]
        message = f"expected one of {', '.join(known)} but got order={name}{nearest(name, known)}"
        raise UserError("bad-value", message) from None


class Unit(Struct, frozen=True):
    """A unit that multiplies and adds, as a matrix unit or a reduction does.

    Terms are rounded to `input` on their way in, and the result to `output` on its way out, by `conversion`. Each
    product is rounded to `product`; None means that products are exact and are rounded together with the addition
    (fused multiply-add). Each addition is rounded to `accumulator`. Products and additions round by `rounding`.
    `seed` is that of stochastic rounding. Names stand for roundings and orders. Raises UserError for one that names
    none: unknown-rounding, or bad-value for an order.
    """

    input: Format
    accumulator: Format
    output: Format
    product: Format | None = None
    rounding: Rounding = Rounding.NEAREST_EVEN
    conversion: Rounding = Rounding.NEAREST_EVEN
    order: Order = Order.SEQUENTIAL
    width: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        force_setattr(self, "order", order_named(self.order))
        force_setattr(self, "rounding", rounding_named(self.rounding))
        force_setattr(self, "conversion", rounding_named(self.conversion))
