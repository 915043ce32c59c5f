"""Read and check the values of a device's table, with file and line in every error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_named, rounding_named
from precreg.errors import UserError, key_hint, nearest
from precreg.storage import KeyPath, Source, expect_mapping, format_value

_T = TypeVar("_T")


class DeviceTable(NamedTuple):
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

    def format(self, *path: str | int, others: Iterable[str] = ()) -> Format:
        """Return the format named at a path: a format of the table, or of precreg.

        `others` are names that the caller knows already, for the suggestion in the error.
        """
        return self.format_called(self.text(*path), *path, others=others)

    def format_called(self, name: str, *path: str | int, others: Iterable[str] = ()) -> Format:
        """Return the format with a name; an error names the place of `path`."""
        if name in self.formats:
            return self.formats[name]
        return with_location(self.source, path, lambda: format_named(name, (*self.formats, *others)))

    def rounding(self, *path: str | int) -> Rounding:
        """Return the rounding at a path, or to nearest even without the key."""
        if path[-1] not in self.at(*path[:-1]):
            return Rounding.NEAREST_EVEN
        return with_location(self.source, path, lambda: rounding_named(self.text(*path)))


def with_location(source: Source, path: KeyPath, read: Callable[[], _T]) -> _T:
    """Return the result of `read`, and add file and line to its UserError."""
    try:
        return read()
    except UserError as error:
        raise source.error(error.slug, error.message, *path, hint=error.hint) from None


def holding_format(table: DeviceTable, dtype: str, *path: str) -> Format:
    """Return the format at a path, if the dtype, which stores the results, has all its numbers."""
    format, holder = table.format(*path), FORMATS[dtype]
    fits = format.precision <= holder.precision and format.largest <= holder.largest
    # Without subnormals, the smallest number of a format is its smallest normal one.
    small = format.smallest_subnormal if format.subnormals else format.smallest_normal
    if not fits or small < holder.smallest_subnormal:
        raise table.bad(f"expected a format whose numbers {dtype} has but got {path[-1]}={format.name}", *path)
    return format


def parse_seed(table: DeviceTable, *here: str) -> int:
    """Return the seed in the mapping at a path, or 0 without the key."""
    if "seed" not in table.at(*here):
        return 0
    value = table.at(*here, "seed")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise table.bad(f"expected a whole number of 0 or more but got seed={format_value(value)}", *here, "seed")
    return value
