"""Which formats, roundings and order does a unit use when it sums products?"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import force_setattr

from precreg.arithmetic.formats import Format, Rounding, rounding_named
from precreg.errors import UserError, nearest


class Order(StrEnum):
    """Name the order in which a unit adds K terms. Every partial sum begins at +0 in the accumulator's format.

    - sequential: ((0 + t0) + t1) + ...
    - blocks: a unit sums each run of `width` terms sequentially. Then it adds these sums, in their order, to a total.
    - lanes: term k goes to partial sum k mod `width`. Then the unit adds the partial sums, in their order, to a total.
    - pairwise: a unit adds neighbours, level by level, and carries an odd last term up unchanged. `width` is ignored.
    """

    SEQUENTIAL = "sequential"
    BLOCKS = "blocks"
    LANES = "lanes"
    PAIRWISE = "pairwise"


def order_named(name: str) -> Order:
    """Return the order with this name. Raises UserError (bad-value) for an unknown name."""
    try:
        return Order(name)
    except ValueError:
        known = [order.value for order in Order]
        message = f"expected one of {', '.join(known)} but got order={name}{nearest(name, known)}"
        raise UserError("bad-value", message, hint=f"write one of them: order: {known[0]}") from None


class Unit(Struct, frozen=True):
    """Describe a unit that multiplies and adds, such as a matrix unit or the reduction of a vector unit.

    `rounding` and `order` may be given by name. Raises UserError for an unknown name: unknown-rounding, or bad-value
    for an order.
    """

    # The unit rounds operands to `input` and its result to `output`, each by `conversion`.
    input: Format
    # The unit rounds every addition to this format, by `rounding`.
    accumulator: Format
    output: Format
    # The unit rounds every product to this format, by `rounding`. None means fused multiply-add: products are exact,
    # and the addition rounds them. Tensor cores fuse; many vector units and NPUs have separate pipelines.
    product: Format | None = None
    rounding: Rounding = Rounding.NEAREST_EVEN
    conversion: Rounding = Rounding.NEAREST_EVEN
    order: Order = Order.SEQUENTIAL
    # The length of a block, or the number of lanes.
    width: int = 1
    # The seed of stochastic rounding. Products and conversions draw with seed + 1 to seed + 4 (see exact.py).
    seed: int = 0

    def __post_init__(self) -> None:
        # The struct is frozen, so that it can be a key of caches; only this hook may replace names by enum members.
        force_setattr(self, "order", order_named(self.order))
        force_setattr(self, "rounding", rounding_named(self.rounding))
        force_setattr(self, "conversion", rounding_named(self.conversion))
