"""Which unit does an entry of `matmul`, `reductions` or `operands` in a device's table describe?"""

from __future__ import annotations

from msgspec.structs import replace

from precreg.arithmetic.block_operand import SCALED_OPERANDS, ScaledOperands, common_run
from precreg.arithmetic.devices.table import DeviceTable, holding_format, parse_seed, with_location
from precreg.arithmetic.formats import FORMATS, Format
from precreg.arithmetic.unit import Order, Promotion, Split, Unit, order_named, product_counts, split_products
from precreg.errors import UserError
from precreg.storage import format_value

# The `product` of a unit that fuses multiplication and addition.
EXACT_KEYWORD = "exact"

# The orders whose `width` has a meaning.
WITH_WIDTH = (Order.BLOCKS, Order.LANES)


# The keys of each section that are required, and those of the sub-mappings of products.
_PRODUCTS = ("product", "accumulator")
_NEEDED = {"matmul": _PRODUCTS, "operands": _PRODUCTS, "reductions": ("accumulator",)}
_SPLIT_KEYS = ("parts", "products", "first", "run")
_PROMOTION_KEYS = ("length", "accumulator", "rounding", "inner")

# More parts than these add nothing to a float32 of 24 bits, even in parts of 4 bits.
_MOST_PARTS = 6


def parse_unit(table: DeviceTable, section: str, dtype: str) -> Unit:
    """Return the unit of an entry. Only products have a split and a promotion.

    Raises UserError: bad-device, unknown-key, missing-key, bad-value, unknown-format, unknown-rounding.
    """
    return _parse_unit(table, dtype, section, dtype)


def parse_operand_unit(table: DeviceTable, name: str) -> Unit:
    """Return the unit that multiplies operands in a format of their own. Its results are float32 without an `output`.

    The name of the entry is its `input`, if it is the name of a format. Raises UserError as `parse_unit` does.
    """
    return _parse_unit(table, "float32", "operands", name)


def _parse_unit(table: DeviceTable, dtype: str, section: str, name: str) -> Unit:
    here = (section, name)
    needed = _NEEDED[section]
    of_products = () if section == "reductions" else ("split", "promotion")
    known = (*needed, "input", "output", "rounding", "conversion", "order", "width", "seed", *of_products)
    table.keys(known, needed, *here)
    given = table.at(*here)
    order, width = _parse_order(table, *here)
    input, scaled = _parse_input(table, dtype, section, name)
    rows, columns = (None, None) if scaled is None else scaled
    promotion = _parse_promotion(table, *here, "promotion") if "promotion" in given else None
    if rows is not None and columns is not None and promotion is None:
        # The total of a unit without one of its own is in its accumulator.
        accumulator = table.format(*here, "accumulator")
        promotion = Promotion(common_run(rows, columns), accumulator, table.rounding(*here, "rounding"))
    unit = Unit(
        input=input,
        accumulator=table.format(*here, "accumulator"),
        output=holding_format(table, dtype, *here, "output") if "output" in given else FORMATS[dtype],
        product=None if given.get("product", EXACT_KEYWORD) == EXACT_KEYWORD else table.format(*here, "product"),
        rounding=table.rounding(*here, "rounding"),
        conversion=table.rounding(*here, "conversion"),
        order=order,
        width=width,
        seed=parse_seed(table, *here),
        split=_parse_split(table, dtype, *here, "split") if "split" in given else None,
        promotion=promotion,
    )
    # A second operand that has the blocks of the first one needs no description of its own.
    columns = None if columns == rows else columns
    return with_location(table.source, here, lambda: replace(unit, blocks=rows, column_blocks=columns))


def _parse_input(table: DeviceTable, dtype: str, section: str, name: str) -> tuple[Format, ScaledOperands | None]:
    """Return the format of operands, and the blocks that they have, if `input` or the entry's name means some."""
    here = (section, name, "input")
    has_input = "input" in table.at(section, name)
    called = SCALED_OPERANDS.get(name) if section == "operands" else None
    if called is not None and called.rows is None:
        if not has_input:
            message = f"expected a format for the operand without scales, such as input: bfloat16, but got {name} alone"
            raise table.bad(message, section, name)
        return table.format(*here), called
    if not has_input and section != "operands":
        return FORMATS[dtype], None
    given, place = (table.text(*here), here) if has_input else (name, (section, name))
    found = SCALED_OPERANDS.get(given)
    if found is None:
        return table.format_called(given, *place, others=SCALED_OPERANDS), None
    if section == "reductions":
        raise table.bad(f"expected a format whose numbers have no blocks but got input={given}", *here)
    if found.rows is None:
        message = f"expected {given} as the name of an entry of operands, beside input: bfloat16, but got input={given}"
        raise table.bad(message, *here)
    return found.rows.element, found


def _parse_split(table: DeviceTable, dtype: str, *here: str) -> Split:
    """Return the split that {parts: 3, products: 6, first: smallest, run: 16} describes; only float32 has parts."""
    if dtype != "float32":
        raise table.bad(f"expected split only for float32, the operands that have parts, but got {dtype}", *here)
    table.keys(_SPLIT_KEYS, ("parts", "products"), *here)
    given = table.at(*here)
    parts, products = table.count(*here, "parts"), table.count(*here, "products")
    if not 2 <= parts <= _MOST_PARTS:
        raise table.bad(f"expected 2 to {_MOST_PARTS} parts but got parts={parts}", *here, "parts")
    counts = product_counts(parts)
    if products not in counts:
        shown = ", ".join(map(str, counts))
        # A count between these would drop one of two products of a size.
        raise table.bad(f"expected one of {shown} products of {parts} parts but got {products}", *here, "products")
    first = table.text(*here, "first") if "first" in given else "smallest"
    if first not in ("smallest", "largest"):
        raise table.bad(f"expected smallest or largest but got first={first}", *here, "first")
    run = table.count(*here, "run") if "run" in given else None
    return Split(parts, split_products(parts, products, smallest_first=first == "smallest"), run)


def _parse_promotion(table: DeviceTable, *here: str) -> Promotion:
    """Return the total that {length: 128, accumulator: float32, rounding: nearest_even, inner: {...}} describes.

    The length may be `all`. Its `inner` has the same keys without `inner`, and a shorter length.
    """
    is_outer = here[-1] == "promotion"
    keys = _PROMOTION_KEYS if is_outer else _PROMOTION_KEYS[:-1]
    table.keys(keys, ("length", "accumulator"), *here)
    length = None if is_outer and table.at(*here, "length") == "all" else table.count(*here, "length")
    inner = _parse_promotion(table, *here, "inner") if "inner" in table.at(*here) else None
    if inner is not None and length is not None and (inner.length or 0) >= length:
        message = f"expected an inner length below {length} but got length={inner.length}"
        raise table.bad(message, *here, "inner", "length")
    return Promotion(length, table.format(*here, "accumulator"), table.rounding(*here, "rounding"), inner)


def _parse_order(table: DeviceTable, *here: str) -> tuple[Order, int]:
    """Return the order and its width. Blocks and lanes need a width, and the other orders refuse one."""
    given = table.at(*here)
    name = table.text(*here, "order") if "order" in given else Order.SEQUENTIAL
    try:
        order = order_named(name)
    except UserError as error:
        raise table.bad(error.message, *here, "order") from None
    if (order in WITH_WIDTH) != ("width" in given):
        expected = "a width beside" if order in WITH_WIDTH else "no width beside"
        came = f"width={format_value(given['width'])}" if "width" in given else "none"
        raise table.bad(
            f"expected {expected} order={order} but got {came}", *here, *(("width",) if "width" in given else ())
        )
    return order, table.count(*here, "width") if "width" in given else 1
