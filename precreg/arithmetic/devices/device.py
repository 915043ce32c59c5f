"""Which formats, roundings and units does a simulated device have, and which table defines it?

A device is a value, read from a YAML table: a shipped one, or one of the project in suites/devices/. Every mistake in a
table is a UserError with file and line. Loading a suite checks the names of devices, so this module imports no numpy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct, field

from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_named, parse_format, rounding_named
from precreg.arithmetic.unit import Order, Unit, order_named
from precreg.errors import UserError, key_hint, nearest
from precreg.storage import DEVICES_FOLDER, KeyPath, Source, expect_mapping, format_value, read_yaml, resolve_inside

Method = Literal["polynomial", "newton", "table"]

# The functions that a device can approximate, by their names in numpy, and the methods for each.
FUNCTION_METHODS: dict[str, tuple[Method, ...]] = {
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sin", "cos", "tanh"), ("polynomial", "table")),
    **dict.fromkeys(("divide", "reciprocal", "sqrt"), ("newton",)),
}

# The most terms, steps and intervals. float64 gains nothing from more terms or steps, and a longer table takes memory
# without limit (2**20 float64 entries are 8 MiB).
MAX_APPROXIMATION_SIZE: dict[Method, int] = {"polynomial": 64, "newton": 64, "table": 2**20}

# The keys of a table.
SECTIONS = ("about", "like", "formats", "elementwise", "matmul", "reductions", "functions", "casts", "hops", "wide")

# The `product` of a unit that fuses multiplication and addition.
EXACT_KEYWORD = "exact"

# The orders whose `width` has a meaning.
WITH_WIDTH = (Order.BLOCKS, Order.LANES)

_T = TypeVar("_T")


class Elementwise(Struct, frozen=True):
    """Describe the rounding of elementwise operations: the exact result once, to `format`."""

    format: Format
    rounding: Rounding = Rounding.NEAREST_EVEN
    # Operands are rounded to this format first, by the same rounding. None leaves them unchanged.
    input: Format | None = None
    # The seed of stochastic rounding.
    seed: int = 0


class Approximation(Struct, frozen=True):
    """Describe the approximation of a special function."""

    method: Method
    # The terms of a polynomial, Newton's steps, or the intervals of a table.
    size: int


class Cast(Struct, frozen=True):
    """Describe the conversion of values to a dtype: rounded once, to a format whose numbers the dtype has."""

    format: Format
    rounding: Rounding = Rounding.NEAREST_EVEN


class StorageCast(Struct, frozen=True):
    """Describe the conversion of values on their way into a place of storage, such as a buffer or a register."""

    place: str
    format: Format
    # None means the device's cast to the dtype of this format. Formats without a dtype are always rounded directly.
    rounding: Rounding | None = None


class Device(Struct, frozen=True):
    """Describe the arithmetic of a simulated device, by the dtype that numpy gives a result.

    numpy computes dtypes without any entry. A dtype with an entry only in `elementwise` also multiplies matrices and
    sums by that entry, sequentially. Functions without an approximation are computed in float64 and rounded once.
    """

    name: str
    about: str = ""
    elementwise: dict[str, Elementwise] = field(default_factory=dict)
    # Units differ in `product`: None fuses multiplication and addition, a format means separate pipelines.
    matmul: dict[str, Unit] = field(default_factory=dict)
    reductions: dict[str, Unit] = field(default_factory=dict)
    functions: dict[str, Approximation] = field(default_factory=dict)
    casts: dict[str, Cast] = field(default_factory=dict)
    # The places of storage on the way to a unit, in order ("hops" in a table).
    storage_casts: tuple[StorageCast, ...] = ()
    # The operations that a wider unit computes: names with wildcards, lines, or both, such as exp@kernels.py:12.
    wide: tuple[str, ...] = ()

    def multiplier(self, dtype: str) -> Unit | None:
        """Return the unit that multiplies matrices of a dtype, or None if numpy does."""
        return self.matmul.get(dtype) or self._sequential_unit(dtype)

    def adder(self, dtype: str) -> Unit | None:
        """Return the unit that adds along axes in a dtype, or None if numpy does."""
        return self.reductions.get(dtype) or self._sequential_unit(dtype)

    def _sequential_unit(self, dtype: str) -> Unit | None:
        entry = self.elementwise.get(dtype)
        if entry is None:
            return None
        # A loop of elementwise operations: it rounds the product, and then the sum, to the format of elements.
        own, rounding = entry.format, entry.rounding
        return Unit(entry.input or FORMATS[dtype], own, own, own, rounding, rounding, seed=entry.seed)


class _Table(NamedTuple):
    """Read the values of a table with their checks."""

    source: Source
    # The formats that the table defines.
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
        """Return the UserError (bad-device) for the value at a path."""
        return self.source.error("bad-device", message, *path)

    def keys(self, known: tuple[str, ...], needed: tuple[str, ...], *path: str | int) -> None:
        """Require a mapping with known keys, among them all needed ones.

        Raises UserError: bad-value, unknown-key, missing-key.
        """
        value = self.at(*path)
        expect_mapping(self.source, value, *path)
        for key in value:
            if key not in known:
                came = f"{key}={format_value(value[key])}{nearest(key, known)}"
                message = f"expected one of {', '.join(known)} but got {came}"
                raise self.source.error("unknown-key", message, *path, key, hint=key_hint(key, known))
        for key in needed:
            if key not in value:
                raise self.source.error(
                    "missing-key",
                    f"expected {key}: but the key is not there",
                    *path,
                    hint="add the key to the table; precreg ships tables to copy from (docs/devices.md)",
                )

    def count(self, *path: str | int) -> int:
        """Return the positive whole number at a path."""
        value = self.at(*path)
        # bool is a subclass of int, and YAML reads "yes" as true.
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.bad(f"expected a whole number of 1 or more but got {path[-1]}={format_value(value)}", *path)
        return value

    def format(self, *path: str | int) -> Format:
        """Return the format named at a path: a format of the table, or of precreg."""
        name = self.text(*path)
        if name in self.formats:
            return self.formats[name]
        return _with_location(self.source, path, lambda: format_named(name, self.formats))

    def rounding(self, *path: str | int) -> Rounding:
        """Return the rounding at a path, or to nearest even without the key."""
        if path[-1] not in self.at(*path[:-1]):
            return Rounding.NEAREST_EVEN
        return _with_location(self.source, path, lambda: rounding_named(self.text(*path)))


def parse_device(source: Source, name: str, base: Device) -> Device:
    """Return the device of a table, which begins with `base`.

    Entries of the table replace entries of `base` one by one. Places of storage replace all places of `base`.
    Raises UserError: bad-device, unknown-key, missing-key, bad-value, unknown-format, bad-format, unknown-rounding,
    unknown-dtype.
    """
    expect_mapping(source, source.data)
    table = _Table(source, {})
    table.keys(SECTIONS, ("about",))
    # Formats come first, because all other sections may name them.
    table.formats.update(_parse_own_formats(table))
    return Device(
        name,
        table.text("about").strip(),
        base.elementwise | _parse_section(table, "elementwise", _parse_elementwise),
        base.matmul | _parse_section(table, "matmul", _parse_unit),
        base.reductions | _parse_section(table, "reductions", _parse_unit),
        base.functions | _parse_functions(table),
        base.casts | _parse_section(table, "casts", _parse_cast),
        _parse_storage_casts(table) if "hops" in source.data else base.storage_casts,
        _parse_wide(table) if "wide" in source.data else base.wide,
    )


def _parse_own_formats(table: _Table) -> dict[str, Format]:
    definitions = table.source.data.get("formats", {})
    expect_mapping(table.source, definitions, "formats")
    for name in definitions:
        expect_mapping(table.source, definitions[name], "formats", name)
        # A name must mean the same format in every table, so a table cannot redefine a format of precreg.
        if _is_taken(name):
            raise table.bad(f"expected a name that no format of precreg has but got {name}", "formats", name)
    return {
        name: _with_location(table.source, ("formats", name), partial(parse_format, name, definition))
        for name, definition in definitions.items()
    }


def _is_taken(name: str) -> bool:
    # format_named also knows short forms and suffixes, which a list of names would miss.
    try:
        format_named(name)
    except UserError:
        return False
    return True


def _parse_section(table: _Table, section: str, parse_entry: Callable[[_Table, str, str], _T]) -> dict[str, _T]:
    """Return the entries of a section, by floating-point dtype."""
    entries = table.source.data.get(section, {})
    expect_mapping(table.source, entries, section)
    for dtype in entries:
        if dtype not in FORMATS:
            message = f"expected the name of a floating-point dtype but got {section}={dtype}{nearest(dtype, FORMATS)}"
            raise table.source.error("unknown-dtype", message, section, dtype)
    return {dtype: parse_entry(table, section, dtype) for dtype in entries}


def _parse_elementwise(table: _Table, section: str, dtype: str) -> Elementwise:
    here = (section, dtype)
    table.keys(("format", "rounding", "input", "seed"), ("format",), *here)
    operands = table.format(*here, "input") if "input" in table.at(*here) else None
    return Elementwise(
        _holding_format(table, dtype, *here, "format"),
        table.rounding(*here, "rounding"),
        operands,
        _parse_seed(table, *here),
    )


def _parse_unit(table: _Table, section: str, dtype: str) -> Unit:
    here = (section, dtype)
    needed = ("product", "accumulator") if section == "matmul" else ("accumulator",)
    table.keys((*needed, "input", "output", "rounding", "conversion", "order", "width", "seed"), needed, *here)
    given = table.at(*here)
    order, width = _parse_order(table, *here)
    return Unit(
        input=table.format(*here, "input") if "input" in given else FORMATS[dtype],
        accumulator=table.format(*here, "accumulator"),
        output=_holding_format(table, dtype, *here, "output") if "output" in given else FORMATS[dtype],
        product=None if given.get("product", EXACT_KEYWORD) == EXACT_KEYWORD else table.format(*here, "product"),
        rounding=table.rounding(*here, "rounding"),
        conversion=table.rounding(*here, "conversion"),
        order=order,
        width=width,
        seed=_parse_seed(table, *here),
    )


def _parse_order(table: _Table, *here: str) -> tuple[Order, int]:
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


def _parse_seed(table: _Table, *here: str) -> int:
    if "seed" not in table.at(*here):
        return 0
    value = table.at(*here, "seed")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise table.bad(f"expected a whole number of 0 or more but got seed={format_value(value)}", *here, "seed")
    return value


def _holding_format(table: _Table, dtype: str, *path: str) -> Format:
    """Return the format at a path, if the dtype, which stores the results, has all its numbers."""
    format, holder = table.format(*path), FORMATS[dtype]
    fits = format.precision <= holder.precision and format.largest <= holder.largest
    # Without subnormals, the smallest number of a format is its smallest normal one.
    small = format.smallest_subnormal if format.subnormals else format.smallest_normal
    if not fits or small < holder.smallest_subnormal:
        raise table.bad(f"expected a format whose numbers {dtype} has but got {path[-1]}={format.name}", *path)
    return format


def _parse_functions(table: _Table) -> dict[str, Approximation]:
    entries = table.source.data.get("functions", {})
    expect_mapping(table.source, entries, "functions")
    for name in entries:
        if name not in FUNCTION_METHODS:
            came = f"{name}={format_value(entries[name])}{nearest(name, FUNCTION_METHODS)}"
            message = f"expected one of {', '.join(FUNCTION_METHODS)} but got {came}"
            raise table.bad(message, "functions", name)
    return {name: _approximation(table, name) for name in entries}


def _approximation(table: _Table, name: str) -> Approximation:
    """Return the approximation that {METHOD: SIZE} describes."""
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


def _parse_cast(table: _Table, section: str, dtype: str) -> Cast:
    table.keys(("format", "rounding"), (), section, dtype)
    given = table.at(section, dtype)
    format = _holding_format(table, dtype, section, dtype, "format") if "format" in given else FORMATS[dtype]
    return Cast(format, table.rounding(section, dtype, "rounding"))


def _parse_storage_casts(table: _Table) -> tuple[StorageCast, ...]:
    chain = table.at("hops")
    if not isinstance(chain, list) or not chain:
        raise table.bad(f"expected a list of places but got hops={format_value(chain)}", "hops")
    storage_casts = tuple(_parse_storage_cast(table, index) for index in range(len(chain)))
    # Places name the outputs of a subject, so each may occur once.
    places = [storage_cast.place for storage_cast in storage_casts]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise table.bad(f"expected each place once but got place={place} again", "hops", index, "place")
    return storage_casts


def _parse_storage_cast(table: _Table, index: int) -> StorageCast:
    here = ("hops", index)
    table.keys(("place", "format", "rounding"), ("place", "format"), *here)
    rounding = table.rounding(*here, "rounding") if "rounding" in table.at(*here) else None
    return StorageCast(table.text(*here, "place"), table.format(*here, "format"), rounding)


# The name of an operation, with wildcards; a file and line; or both.
_PLACE = re.compile(r"[\w.*?]+|([\w.*?]+@)?[^@:]+:[1-9][0-9]{0,8}")


def _parse_wide(table: _Table) -> tuple[str, ...]:
    given = table.at("wide")
    if not isinstance(given, list) or not given:
        raise table.bad(f"expected a list of operations but got wide={format_value(given)}", "wide")
    for index in range(len(given)):
        if not _PLACE.fullmatch(table.text("wide", index)):
            example = "add.reduce, kernels.py:12 or exp@kernels.py:12"
            message = f"expected an operation or a line, such as {example}, but got wide={format_value(given[index])}"
            raise table.bad(message, "wide", index)
    return tuple(given)


def _with_location(source: Source, path: KeyPath, read: Callable[[], _T]) -> _T:
    """Return the result of `read`, and add file and line to its UserError."""
    try:
        return read()
    except UserError as error:
        raise source.error(error.slug, error.message, *path, hint=error.hint) from None


_SHIPPED = Path(__file__).parent / "tables"


def device_names(project: Path | None) -> list[str]:
    """Return the names of the shipped devices and of a project's own."""
    return sorted({*_tables(_SHIPPED), *(_tables(project / DEVICES_FOLDER) if project else ())})


def device_named(name: str, project: Path | None = None) -> Device:
    """Return the device with this name, of the project or shipped.

    Raises UserError: unknown-device, and as `own_device` does.
    """
    own = None if project is None else own_device(name, project)
    return own or _read_shipped_device(name, device_names(project))


def own_device(name: str, project: Path) -> Device | None:
    """Return the device that a table of the project defines, or None without such a table.

    The table must lie inside the project and be the only one with its name. Raises UserError: bad-device for the name
    of a shipped device, and for two tables of one name; outside-project; errors of `read_yaml` and `parse_device`.
    """
    path = _tables(project / DEVICES_FOLDER).get(name)
    if path is None:
        return None
    shown = path.relative_to(project).as_posix()
    # A symbolic link could lead out of the project.
    resolve_inside(project, shown, file=shown)
    other = path.with_suffix(".yml")
    if path != other and other.exists():
        message = f"expected one table of device={name} but got {path.name} and {other.name}"
        raise UserError("bad-device", message, file=shown)
    return _parse_own_device(read_yaml(path, shown), name)


def device_table_paths(name: str) -> tuple[str, ...]:
    """Return the paths, relative to a project, where the table of a device may be."""
    return tuple(f"{DEVICES_FOLDER}/{name}{suffix}" for suffix in (".yaml", ".yml"))


def _parse_own_device(source: Source, name: str) -> Device:
    # The name of a shipped device must mean the same in every project.
    if name in _tables(_SHIPPED):
        raise source.error("bad-device", f"expected a name that precreg does not ship but got device={name}")
    like = source.data.get("like") if isinstance(source.data, dict) else None
    if like is None:
        return parse_device(source, name, Device(name))
    # Only shipped devices can be a base, so that tables of a project cannot refer to each other in a circle.
    known = sorted(_tables(_SHIPPED))
    if like not in known:
        message = f"expected one of {', '.join(known)} but got like={like}{nearest(str(like), known)}"
        raise source.error("unknown-device", message, "like")
    return parse_device(source, name, _read_shipped_device(like, known))


def _read_shipped_device(name: str, known: list[str]) -> Device:
    path = _tables(_SHIPPED).get(name)
    if path is None:
        message = f"expected one of {', '.join(known)} but got device={name}{nearest(name, known)}"
        raise UserError("unknown-device", message)
    return parse_device(read_yaml(path, f"precreg/arithmetic/devices/tables/{path.name}"), name, Device(name))


def _tables(folder: Path) -> dict[str, Path]:
    # .yaml comes last and replaces .yml of the same name; own_device then reports the two.
    return {path.stem: path for suffix in (".yml", ".yaml") for path in folder.glob(f"*{suffix}")}
