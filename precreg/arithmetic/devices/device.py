"""Which formats, roundings and units does a simulated device have, and which table defines it?

A device is a value, read from a YAML table: a shipped one, or one of the project in suites/devices/. Every mistake in a
table is a UserError with file and line. Loading a suite checks the names of devices, so this module imports no numpy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct, field

from precreg.arithmetic.devices.table import DeviceTable, holding_format, parse_seed, with_location
from precreg.arithmetic.devices.unit_table import parse_operand_unit, parse_unit
from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_named, parse_format
from precreg.arithmetic.unit import Unit
from precreg.errors import UserError, nearest
from precreg.storage import DEVICES_FOLDER, Source, expect_mapping, format_value, read_yaml, resolve_inside

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
SECTIONS = (
    "about",
    "like",
    "formats",
    "elementwise",
    "matmul",
    "operands",
    "reductions",
    "functions",
    "casts",
    "hops",
    "wide",
)

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
    # The units for operands in a format of their own, by its name: kernels choose one with `multiply_as`.
    operands: dict[str, Unit] = field(default_factory=dict)
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

    def operand_unit(self, format: str) -> Unit:
        """Return the unit for operands in a format. Raises UserError (unsupported-format) if the device lacks it."""
        unit = self.operands.get(format)
        if unit is None:
            known = [*self.operands]
            has = f"one of {', '.join(known)}" if known else "a device with operands: in its table"
            message = f"expected {has} but got format={format} on device={self.name}{nearest(format, known)}"
            example = f'multiply_as(a, b, "{known[0]}")' if known else "device: gpu-blackwell"
            raise UserError("unsupported-format", message, hint=f"write a format that the device has: {example}")
        return unit

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


def parse_device(source: Source, name: str, base: Device) -> Device:
    """Return the device of a table, which begins with `base`.

    Entries of the table replace entries of `base` one by one. Places of storage replace all places of `base`.
    Raises UserError: bad-device, unknown-key, missing-key, bad-value, unknown-format, bad-format, unknown-rounding,
    unknown-dtype.
    """
    expect_mapping(source, source.data)
    table = DeviceTable(source, {})
    table.keys(SECTIONS, ("about",))
    # Formats come first, because all other sections may name them.
    table.formats.update(_parse_own_formats(table))
    return Device(
        name,
        table.text("about").strip(),
        base.elementwise | _parse_section(table, "elementwise", _parse_elementwise),
        base.matmul | _parse_section(table, "matmul", parse_unit),
        base.operands | _parse_operands(table),
        base.reductions | _parse_section(table, "reductions", parse_unit),
        base.functions | _parse_functions(table),
        base.casts | _parse_section(table, "casts", _parse_cast),
        _parse_storage_casts(table) if "hops" in source.data else base.storage_casts,
        _parse_wide(table) if "wide" in source.data else base.wide,
    )


def _parse_own_formats(table: DeviceTable) -> dict[str, Format]:
    definitions = table.source.data.get("formats", {})
    expect_mapping(table.source, definitions, "formats")
    for name in definitions:
        expect_mapping(table.source, definitions[name], "formats", name)
        # A name must mean the same format in every table, so a table cannot redefine a format of precreg.
        if _is_taken(name):
            raise table.bad(f"expected a name that no format of precreg has but got {name}", "formats", name)
    return {
        name: with_location(table.source, ("formats", name), partial(parse_format, name, definition))
        for name, definition in definitions.items()
    }


def _is_taken(name: str) -> bool:
    # format_named also knows short forms and suffixes, which a list of names would miss.
    try:
        format_named(name)
    except UserError:
        return False
    return True


def _parse_section(
    table: DeviceTable, section: str, parse_entry: Callable[[DeviceTable, str, str], _T]
) -> dict[str, _T]:
    """Return the entries of a section, by floating-point dtype."""
    entries = table.source.data.get(section, {})
    expect_mapping(table.source, entries, section)
    for dtype in entries:
        if dtype not in FORMATS:
            message = f"expected the name of a floating-point dtype but got {section}={dtype}{nearest(dtype, FORMATS)}"
            raise table.source.error("unknown-dtype", message, section, dtype)
    return {dtype: parse_entry(table, section, dtype) for dtype in entries}


def _parse_operands(table: DeviceTable) -> dict[str, Unit]:
    """Return the units for operands in a format of their own, by the name of the format."""
    entries = table.source.data.get("operands", {})
    expect_mapping(table.source, entries, "operands")
    return {name: parse_operand_unit(table, name) for name in entries}


def _parse_elementwise(table: DeviceTable, section: str, dtype: str) -> Elementwise:
    here = (section, dtype)
    table.keys(("format", "rounding", "input", "seed"), ("format",), *here)
    operands = table.format(*here, "input") if "input" in table.at(*here) else None
    return Elementwise(
        holding_format(table, dtype, *here, "format"),
        table.rounding(*here, "rounding"),
        operands,
        parse_seed(table, *here),
    )


def _parse_functions(table: DeviceTable) -> dict[str, Approximation]:
    entries = table.source.data.get("functions", {})
    expect_mapping(table.source, entries, "functions")
    for name in entries:
        if name not in FUNCTION_METHODS:
            came = f"{name}={format_value(entries[name])}{nearest(name, FUNCTION_METHODS)}"
            message = f"expected one of {', '.join(FUNCTION_METHODS)} but got {came}"
            raise table.bad(message, "functions", name)
    return {name: _approximation(table, name) for name in entries}


def _approximation(table: DeviceTable, name: str) -> Approximation:
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


def _parse_cast(table: DeviceTable, section: str, dtype: str) -> Cast:
    table.keys(("format", "rounding"), (), section, dtype)
    given = table.at(section, dtype)
    format = holding_format(table, dtype, section, dtype, "format") if "format" in given else FORMATS[dtype]
    return Cast(format, table.rounding(section, dtype, "rounding"))


def _parse_storage_casts(table: DeviceTable) -> tuple[StorageCast, ...]:
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


def _parse_storage_cast(table: DeviceTable, index: int) -> StorageCast:
    here = ("hops", index)
    table.keys(("place", "format", "rounding"), ("place", "format"), *here)
    rounding = table.rounding(*here, "rounding") if "rounding" in table.at(*here) else None
    return StorageCast(table.text(*here, "place"), table.format(*here, "format"), rounding)


# The name of an operation, with wildcards; a file and line; or both.
_PLACE = re.compile(r"[\w.*?]+|([\w.*?]+@)?[^@:]+:[1-9][0-9]{0,8}")


def _parse_wide(table: DeviceTable) -> tuple[str, ...]:
    given = table.at("wide")
    if not isinstance(given, list) or not given:
        raise table.bad(f"expected a list of operations but got wide={format_value(given)}", "wide")
    for index in range(len(given)):
        if not _PLACE.fullmatch(table.text("wide", index)):
            example = "add.reduce, kernels.py:12 or exp@kernels.py:12"
            message = f"expected an operation or a line, such as {example}, but got wide={format_value(given[index])}"
            raise table.bad(message, "wide", index)
    return tuple(given)


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
