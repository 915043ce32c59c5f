"""Which specifications do the kinds "python" and "files" take?

Suites read them when they load, so the functions that run them are imported later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precreg.storage import format_value
from precreg.subject.kind import Kind, SpecPlace, refuse_options

# In place of an output's name: every array of an .npz file, under its own name.
EVERY_MEMBER = "*"


def _read_python(value: Any, options: Mapping[str, Any], place: SpecPlace) -> str:
    refuse_options(options, place)
    if not isinstance(value, str):
        raise place.error("bad-value", f"expected module:function but got {format_value(value)}")
    place.require_function(value)
    return value


def _read_files(value: Any, options: Mapping[str, Any], place: SpecPlace) -> dict[str, str]:
    refuse_options(options, place)
    if isinstance(value, str):
        return files_spec(place.require_file(value))
    if not isinstance(value, dict) or not value or not all(isinstance(item, str) for item in value.values()):
        raise place.error("bad-value", f"expected a path, or a path per output, but got files={format_value(value)}")
    return {name: place.require_file(item, name) for name, item in value.items()}


def files_spec(path: str) -> dict[str, str]:
    """Return the specification of one recorded file, by its path in the project.

    It gives one array named "out", or every array of an .npz file.
    """
    return {EVERY_MEMBER if path.endswith(".npz") else "out": path}


PYTHON = Kind(run="precreg.subject.python:run_python", read=_read_python, target=lambda spec: spec)
FILES = Kind(run="precreg.subject.python:run_files", read=_read_files, is_recorded=lambda _: True)
