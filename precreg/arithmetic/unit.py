"""Which formats, roundings and order does a unit use when it sums products?"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import force_setattr

from precreg.arithmetic.block_operand import BlockOperand, common_run
from precreg.arithmetic.formats import FORMATS, Format, Rounding, rounding_named
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


class Split(Struct, frozen=True):
    """Describe how float32 operands become sums of parts in a unit's input format, and which products are added.

    The unit rounds an operand to its first part, the rest to the next part, and so on: x = x0 + x1 + x2 + rest.
    """

    parts: int
    # The products (part of a, part of b) in the order of their additions. split_products makes the usual lists.
    products: tuple[tuple[int, int], ...]
    # The unit adds all products of a run of this many terms, then those of the next run: the terms of one instruction.
    # None means all terms, so each product of parts is a matrix product of its own.
    run: int | None = None


class Promotion(Struct, frozen=True):
    """Describe the total that a unit keeps beside its accumulator.

    The sum of each run of `length` terms begins at zero in the accumulator. Then it is multiplied by the scales of its
    blocks, if the operands have scales, and added to the total. This product and its addition are rounded once. A sum
    of more than 24 bits, such as an int32, is rounded to the total's format before it is multiplied.
    """

    # None means all terms: the total then holds their sum, once it is scaled.
    length: int | None
    format: Format
    rounding: Rounding = Rounding.NEAREST_EVEN
    # The sum of a run may have a total of its own, of shorter runs: an instruction within a block.
    inner: Promotion | None = None

    def __post_init__(self) -> None:
        # As in Unit: only this hook may replace a name by an enum member.
        force_setattr(self, "rounding", rounding_named(self.rounding))

    def run_of(self, terms: int) -> int:
        """Return the terms of a run among so many terms."""
        return max(1, terms) if self.length is None else self.length


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
    # Products alone: the unit reads float32 operands, and multiplies parts of them.
    split: Split | None = None
    # Products alone: the total of the sums of runs. `order` and `width` then apply within the shortest run.
    promotion: Promotion | None = None
    # Products alone: both operands are read in blocks with scales, in place of `input`. Needs a promotion of the length
    # of a block, and neither a split nor a total wider than float32.
    blocks: BlockOperand | None = None
    # The blocks of the second operand, if they differ. Without `blocks`, only this operand has scales: the unit rounds
    # the values of its blocks to `input`, as kernels of quantized weights do.
    column_blocks: BlockOperand | None = None

    def __post_init__(self) -> None:
        # The struct is frozen, so that it can be a key of caches; only this hook may replace names by enum members.
        force_setattr(self, "order", order_named(self.order))
        force_setattr(self, "rounding", rounding_named(self.rounding))
        force_setattr(self, "conversion", rounding_named(self.conversion))
        if self.blocks is not None:
            self._check_blocks(self.blocks)

    @property
    def sum_format(self) -> Format:
        """Return the format in which the sum of a run reaches the total."""
        inner = None if self.promotion is None else self.promotion.inner
        return self.accumulator if inner is None else inner.format

    def _check_blocks(self, blocks: BlockOperand) -> None:
        length = common_run(blocks, self.column_blocks or blocks)
        if self.promotion is None or self.promotion.length != length or self.split is not None:
            shown = _length_key(length)
            came = "none" if self.promotion is None else f"length={_length_key(self.promotion.length)}"
            came = "a split" if self.split is not None else came
            raise UserError(
                "bad-value",
                f"expected a promotion of length={shown}, as the blocks of {blocks.name} have, but got {came}",
                hint=f"write promotion: {{length: {shown}, accumulator: float32}}, and no split",
            )
        # The product of a sum and two scales must be a float64.
        if self.promotion.format.precision > FORMATS["float32"].precision:
            raise UserError(
                "bad-value",
                "expected a total of at most 24 bits for operands in blocks but got "
                f"{self.promotion.format.precision} bits",
                hint=f"write promotion: {{length: {_length_key(length)}, accumulator: float32}}",
            )


def _length_key(length: int | None) -> str:
    """Return the length of runs as a table has it."""
    return "all" if length is None else str(length)


def product_counts(parts: int) -> list[int]:
    """Return how many products of `parts` parts can be kept: those with the largest, the two largest sizes, and so on.

    >>> product_counts(2), product_counts(3)
    ([1, 3, 4], [1, 3, 6, 8, 9])
    """
    sizes = [i + j for i in range(parts) for j in range(parts)]
    return [sum(size <= most for size in sizes) for most in range(2 * parts - 1)]


def split_products(parts: int, count: int, *, smallest_first: bool = True) -> tuple[tuple[int, int], ...]:
    """Return the `count` largest products of parts, in the order of their additions.

    The product of part i and part j is about 2**(-precision * (i + j)) times the whole product, so i + j orders them.
    Raises ValueError for a count that would drop one of two products of a size.

    >>> split_products(2, 3)
    ((1, 0), (0, 1), (0, 0))
    """
    if count not in product_counts(parts):
        raise ValueError(f"expected one of {product_counts(parts)} products of {parts} parts but got {count}")
    pairs: Iterable[tuple[int, int]] = ((i, j) for i in range(parts) for j in range(parts))
    kept = sorted(pairs, key=lambda pair: (sum(pair), pair[0]))[:count]
    return tuple(reversed(kept)) if smallest_first else tuple(kept)
