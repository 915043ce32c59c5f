"""The record of a comparison as a file: written losslessly, and read back."""

from __future__ import annotations

from pathlib import Path

from precreg.storage.report_stored import read_stored, write_stored
from precreg.types.records import COMPARISON_SCHEMA, ComparisonRecord


def write(record: ComparisonRecord, path: Path) -> None:
    """Write a record as one line of JSON, in one step; its folder is there. Raises UserError (not-writable)."""
    write_stored(record, path)


def read(path: Path) -> ComparisonRecord:
    """Read a record of this schema or an older one; fields that this version does not know are passed over.

    Raises:
        UserError: missing-file, unreadable-record, future-schema; each names the file.
    """
    return read_stored(path, ComparisonRecord, COMPARISON_SCHEMA, "the record of a comparison")
