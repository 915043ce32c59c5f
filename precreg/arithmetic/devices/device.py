"""A device as a value: the formats, roundings and units that its operations pass through, as its table says.

The table of a device, from YAML to a value, with every mistake a UserError: file, line, what was expected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct, field

from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_named, parse_format, rounding_named
from precreg.arithmetic.unit import Order, Unit, order_named
from precreg.errors import UserError, nearest
from precreg.storage import KeyPath, Source, expect_mapping, format_value

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


FUNCTION_METHODS: dict[str, tuple[Method, ...]] = {
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sin", "cos", "tanh"), ("polynomial", "table")),
    **dict.fromkeys(("divide", "reciprocal", "sqrt"), ("newton",)),
}
"""The functions that can be approximated, by their names in numpy, and in which ways."""


MAX_APPROXIMATION_SIZE: dict[Method, int] = {"polynomial": 64, "newton": 64, "table": 2**20}
"""Terms, steps and intervals at most: more change nothing, or take memory without end."""


class Approximation(Struct, frozen=True):
    """How a special function is approximated: terms of a polynomial, Newton's steps, or intervals of a table."""

    method: Method
    size: int


class Cast(Struct, frozen=True):
    """How values are converted to a dtype: rounded once, to a format whose numbers it holds."""

    format: Format
    rounding: Rounding = Rounding.NEAREST_EVEN


class StorageCast(Struct, frozen=True):
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
    hops: tuple[StorageCast, ...] = ()

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


_T = TypeVar("_T")


SECTIONS = ("about", "like", "formats", "elementwise", "matmul", "reductions", "functions", "casts", "hops")
"""The keys of a table."""


EXACT_KEYWORD = "exact"
"""The `product` of a unit that fuses multiplication and addition."""


WITH_WIDTH = (Order.BLOCKS, Order.LANES)


class _Table(NamedTuple):
    """A table while it is read: its source, and the formats that it defines itself."""

    source: Source
    formats: dict[str, Format]

    def text(self, *path: str | int) -> str:
        """Return the text at a path."""
        value = self.at(*path)
        if not isinstance(value, str) or not value.strip():
            raise self.bad(f"expected text but got {path[-1]}={format_value(value)}", *path)
        return value

    def at(self, *path: str | int) -> Any:
        """Return the value at a path."""
        value = self.source.data
        for step in path:
            value = value[step]
        return value

    def bad(self, message: str, *path: str | int) -> UserError:
        """Make the error for what a table cannot say."""
        return self.source.error("bad-device", message, *path)

    def keys(self, known: tuple[str, ...], needed: tuple[str, ...], *path: str | int) -> None:
        """Require a mapping with known keys and all that are needed. Raises UserError: unknown-key, missing-key."""
        value = self.at(*path)
        expect_mapping(self.source, value, *path)
        for key in value:
            if key not in known:
                message = (
                    f"expected one of {', '.join(known)} but got {key}={format_value(value[key])}{nearest(key, known)}"
                )
                raise self.source.error("unknown-key", message, *path, key)
        for key in needed:
            if key not in value:
                raise self.source.error("missing-key", f"expected {key}: but the key is not there", *path)

    def count(self, *path: str | int) -> int:
        """Return the positive whole number at a path."""
        value = self.at(*path)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.bad(f"expected a whole number of 1 or more but got {path[-1]}={format_value(value)}", *path)
        return value

    def format(self, *path: str | int) -> Format:
        """Return the format named at a path: one of the table's own, or one that precreg knows."""
        name = self.text(*path)
        if name in self.formats:
            return self.formats[name]
        return _placed(self.source, path, lambda: format_named(name, self.formats))

    def rounding(self, *path: str | int) -> Rounding:
        """Return the rounding at a path; to nearest even where there is none."""
        if path[-1] not in self.at(*path[:-1]):
            return Rounding.NEAREST_EVEN
        return _placed(self.source, path, lambda: rounding_named(self.text(*path)))


def parse_device(source: Source, name: str, base: Device) -> Device:
    """Return the device of a table. Entries take the place of those of `base`, hops that of all its hops.

    Raises UserError: bad-device, unknown-key, missing-key, bad-value, unknown-format, bad-format, unknown-rounding,
    unknown-dtype.
    """
    expect_mapping(source, source.data)
    table = _Table(source, {})
    table.keys(SECTIONS, ("about",))
    table.formats.update(_own_formats(table))
    return Device(
        name,
        table.text("about").strip(),
        base.elementwise | _by_dtype(table, "elementwise", _elementwise),
        base.matmul | _by_dtype(table, "matmul", _unit),
        base.reductions | _by_dtype(table, "reductions", _unit),
        base.functions | _functions(table),
        base.casts | _by_dtype(table, "casts", _cast),
        _hops(table) if "hops" in source.data else base.hops,
    )


def _own_formats(table: _Table) -> dict[str, Format]:
    definitions = table.source.data.get("formats", {})
    expect_mapping(table.source, definitions, "formats")
    for name in definitions:
        expect_mapping(table.source, definitions[name], "formats", name)
        if _is_known(name):
            raise table.bad(f"expected a name that precreg has no format by but got {name}", "formats", name)
    return {
        name: _placed(table.source, ("formats", name), partial(parse_format, name, definition))
        for name, definition in definitions.items()
    }


def _is_known(name: str) -> bool:
    try:
        format_named(name)
    except UserError:
        return False
    return True


def _by_dtype(table: _Table, section: str, entry: Callable[[_Table, str, str], _T]) -> dict[str, _T]:
    """Read the entries of a section, one for each dtype of floating-point numbers."""
    entries = table.source.data.get(section, {})
    expect_mapping(table.source, entries, section)
    for dtype in entries:
        if dtype not in FORMATS:
            message = f"expected the name of a floating-point dtype but got {section}={dtype}{nearest(dtype, FORMATS)}"
            raise table.source.error("unknown-dtype", message, section, dtype)
    return {dtype: entry(table, section, dtype) for dtype in entries}


def _elementwise(table: _Table, section: str, dtype: str) -> Elementwise:
    here = (section, dtype)
    table.keys(("format", "rounding", "input", "seed"), ("format",), *here)
    operands = table.format(*here, "input") if "input" in table.at(*here) else None
    return Elementwise(
        _held(table, dtype, *here, "format"), table.rounding(*here, "rounding"), operands, _seed(table, *here)
    )


def _unit(table: _Table, section: str, dtype: str) -> Unit:
    here = (section, dtype)
    needed = ("product", "accumulator") if section == "matmul" else ("accumulator",)
    table.keys((*needed, "input", "output", "rounding", "conversion", "order", "width", "seed"), needed, *here)
    given = table.at(*here)
    order, width = _order(table, *here)
    return Unit(
        input=table.format(*here, "input") if "input" in given else FORMATS[dtype],
        accumulator=table.format(*here, "accumulator"),
        output=_held(table, dtype, *here, "output") if "output" in given else FORMATS[dtype],
        product=None if given.get("product", EXACT_KEYWORD) == EXACT_KEYWORD else table.format(*here, "product"),
        rounding=table.rounding(*here, "rounding"),
        conversion=table.rounding(*here, "conversion"),
        order=order,
        width=width,
        seed=_seed(table, *here),
    )


def _order(table: _Table, *here: str) -> tuple[Order, int]:
    """Return the order and its width, which blocks and lanes need, and the others have no use for."""
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


def _seed(table: _Table, *here: str) -> int:
    if "seed" not in table.at(*here):
        return 0
    value = table.at(*here, "seed")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise table.bad(f"expected a whole number of 0 or more but got seed={format_value(value)}", *here, "seed")
    return value


def _held(table: _Table, dtype: str, *path: str) -> Format:
    """Return the format at a path, all of whose numbers the dtype must have: results are stored in it."""
    format, holder = table.format(*path), FORMATS[dtype]
    fits = format.precision <= holder.precision and format.largest <= holder.largest
    small = format.smallest_subnormal if format.subnormals else format.smallest_normal
    if not fits or small < holder.smallest_subnormal:
        raise table.bad(f"expected a format whose numbers {dtype} has but got {path[-1]}={format.name}", *path)
    return format


def _functions(table: _Table) -> dict[str, Approximation]:
    entries = table.source.data.get("functions", {})
    expect_mapping(table.source, entries, "functions")
    for name in entries:
        if name not in FUNCTION_METHODS:
            came = f"{name}={format_value(entries[name])}{nearest(name, FUNCTION_METHODS)}"
            message = f"expected one of {', '.join(FUNCTION_METHODS)} but got {came}"
            raise table.bad(message, "functions", name)
    return {name: _approximation(table, name) for name in entries}


def _approximation(table: _Table, name: str) -> Approximation:
    """Return {METHOD: SIZE} as a value."""
    here = ("functions", name)
    table.keys(FUNCTION_METHODS[name], (), *here)
    if len(table.at(*here)) != 1:
        came = format_value(table.at(*here))
        raise table.bad(f"expected one method, such as {FUNCTION_METHODS[name][0]}: 5, but got {name}={came}", *here)
    method = next(iter(table.at(*here)))
    size, most = table.count(*here, method), MAX_APPROXIMATION_SIZE[method]
    if size > most:
        raise table.bad(f"expected at most {most} but got {method}={size}", *here, method)
    return Approximation(method, size)


def _cast(table: _Table, section: str, dtype: str) -> Cast:
    table.keys(("format", "rounding"), (), section, dtype)
    given = table.at(section, dtype)
    format = _held(table, dtype, section, dtype, "format") if "format" in given else FORMATS[dtype]
    return Cast(format, table.rounding(section, dtype, "rounding"))


def _hops(table: _Table) -> tuple[StorageCast, ...]:
    chain = table.at("hops")
    if not isinstance(chain, list) or not chain:
        raise table.bad(f"expected a list of places but got hops={format_value(chain)}", "hops")
    hops = tuple(_hop(table, index) for index in range(len(chain)))
    places = [hop.place for hop in hops]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise table.bad(f"expected each place once but got place={place} again", "hops", index, "place")
    return hops


def _hop(table: _Table, index: int) -> StorageCast:
    here = ("hops", index)
    table.keys(("place", "format", "rounding"), ("place", "format"), *here)
    rounding = table.rounding(*here, "rounding") if "rounding" in table.at(*here) else None
    return StorageCast(table.text(*here, "place"), table.format(*here, "format"), rounding)


def _placed(source: Source, path: KeyPath, read: Callable[[], _T]) -> _T:
    """Give an error the place of what it is about."""
    try:
        return read()
    except UserError as error:
        raise source.error(error.slug, error.message, *path) from None
