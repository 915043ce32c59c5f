"""The file that pairs names that differ: YAML that maps the name of an actual array to that of its reference."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from precreg.storage.yaml_source import expect_mapping, read, shown
from precreg.types.types import Location


class Renamed(NamedTuple):
    """The reference of one actual array, and where the file says so."""

    reference: str
    where: Location


def read_mapping(path: Path) -> dict[str, Renamed]:
    """Return the renamed arrays by the name of the actual one.

    Raises UserError as reading YAML does, and bad-value for anything but text mapped to text.
    """
    source = read(path, path.as_posix())
    expect_mapping(source, source.data)
    for name, reference in source.data.items():
        if not isinstance(reference, str) or not reference:
            message = f"expected the name of a reference array, as text, but got {name}={shown(reference)}"
            raise source.error("bad-value", message, name)
    return {name: Renamed(reference, source.where(name)) for name, reference in source.data.items()}
