"""Which specifications do the kinds "python" and "files" take?

Suites read them when they load, so the functions that run them are imported later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError, key_hint, nearest
from precreg.storage import (
    ARRAY_SUFFIXES,
    MSPROBE_FILE,
    RAW,
    STORE_PACKAGES,
    format_value,
    is_archive,
    is_array_file,
    is_url,
    split_url,
)
from precreg.subject.kind import Kind, SpecPlace, refuse_options
from precreg.types import Computation

# In place of an output's name: every array of an archive, under its own name.
EVERY_MEMBER = "*"


def _read_python(value: Any, options: Mapping[str, Any], place: SpecPlace) -> str:
    refuse_options(options, place)
    if not isinstance(value, str):
        raise place.error(
            "bad-value",
            f"expected module:function but got {format_value(value)}",
            hint="write the module and the function with a colon: subject: kernels:mean",
        )
    place.require_function(value)
    return value


# The keys beside `files:` that say how raw files are read.
_RAW_OPTIONS = ("dtype", "shape", "byte_order")
FileSpec = dict[str, str | dict[str, Any]]


def _read_files(value: Any, options: Mapping[str, Any], place: SpecPlace) -> FileSpec:
    raw = read_raw_options(options, place.error)
    if isinstance(value, str):
        return files_spec(_required(value, place), raw, place.error)
    if not isinstance(value, dict) or not value or not all(isinstance(item, str) for item in value.values()):
        raise place.error(
            "bad-value",
            f"expected a path, or a path per output, but got files={format_value(value)}",
            hint="write a path, or one for each output: golden: {files: {out: golden/y.npy}}",
        )
    found = {name: _required(item, place, name) for name, item in value.items()}
    for name, path in found.items():
        if is_archive(path):
            message = f"expected a file of one array for the output {name} but got {path}; name the archive alone"
            raise place.error("bad-value", message, name, hint=f"name the archive alone: {{files: {path}}}")
    return {name: _one_file(path, raw, place.error) for name, path in found.items()}


def _required(path: str, place: SpecPlace, *keys: str) -> str:
    """Return a path beside the suite as one relative to the project, and a URL as it is."""
    if not is_url(path):
        return _known_format(place.require_file(path, *keys), place, *keys)
    check_object_url(path, lambda slug, message, hint: place.error(slug, message, *keys, hint=hint))
    return _known_format(path, place, *keys)


def check_object_url(url: str, error: Callable[[str, str, str], UserError]) -> None:
    """Check the URL of a recorded object; `error` makes an error of slug, message and hint. Raises: bad-url."""
    try:
        split_url(url)
    except UserError as problem:
        raise error(problem.slug, problem.message, problem.hint) from None
    if url.rpartition("/")[2] == MSPROBE_FILE:
        message = f"expected a file of arrays but got {MSPROBE_FILE}, whose tensors are files beside it"
        raise error("bad-url", message, "copy the dump to a disk")


def _known_format(path: str, place: SpecPlace, *keys: str) -> str:
    if not is_array_file(path):
        message = f"expected a file of {', '.join(ARRAY_SUFFIXES)}, or {MSPROBE_FILE}, but got {path}"
        raise place.error("unknown-file-format", message, *keys)
    return path


ErrorAt = Callable[..., UserError]


def read_raw_options(options: Mapping[str, Any], error: ErrorAt) -> dict[str, Any]:
    """Return dtype, shape and byte order of raw files; `error` makes an error with the line of an option.

    Raises UserError: unknown-key, unknown-dtype, bad-value.
    """
    for name in options:
        if name not in _RAW_OPTIONS:
            message = (
                f"expected one of {', '.join(_RAW_OPTIONS)} beside files but got {name}{nearest(name, _RAW_OPTIONS)}"
            )
            raise error("unknown-key", message, name, hint=key_hint(name, _RAW_OPTIONS))
    raw = dict(options)
    if "dtype" in raw and raw["dtype"] not in DTYPE_NAMES:
        got = format_value(raw["dtype"])
        message = f"expected the name of a dtype but got dtype={got}{nearest(str(raw['dtype']), DTYPE_NAMES)}"
        raise error("unknown-dtype", message, "dtype")
    if "shape" in raw:
        raw["shape"] = _read_shape(raw["shape"], error)
    if raw.get("byte_order", "little") not in ("little", "big"):
        message = f"expected little or big but got byte_order={format_value(raw['byte_order'])}"
        raise error("bad-value", message, "byte_order")
    if raw and "dtype" not in raw:
        raise error(
            "missing-key",
            f"expected dtype: beside {next(iter(raw))} but it is not there",
            next(iter(raw)),
            hint="add the dtype that the file was written in: dtype: float32",
        )
    return {name: value for name, value in raw.items() if (name, value) != ("byte_order", "little")}


def _read_shape(given: Any, error: ErrorAt) -> list[int]:
    """Return a shape: a list of lengths, or text such as 4x64, as names of files have it."""
    shape = [int(part) for part in given.split("x")] if isinstance(given, str) and _SHAPE.fullmatch(given) else given
    if not isinstance(shape, list) or not all(type(length) is int and length >= 0 for length in shape):
        raise error(
            "bad-value", f"expected lengths such as [4, 64] or 4x64 but got shape={format_value(given)}", "shape"
        )
    return shape


_SHAPE = re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*")


def files_spec(path: str, raw: Mapping[str, Any], error: ErrorAt) -> FileSpec:
    """Return the specification of one recorded file, by its path in the project; `raw` describes a raw one.

    It gives one array named "out", or every array of an archive. Raises UserError: missing-key, bad-value.
    """
    return {EVERY_MEMBER if is_archive(path) else "out": _one_file(path, raw, error)}


def _one_file(path: str, raw: Mapping[str, Any], error: ErrorAt) -> str | dict[str, Any]:
    if not path.endswith(RAW):
        if raw:
            message = f"expected no {next(iter(raw))} for {path}, which has its own; raw files end in {RAW}"
            raise error("bad-value", message, next(iter(raw)), hint=f"remove {next(iter(raw))}:")
        return path
    if "dtype" not in raw:
        # No default: float32 and int32 have the same size, and wrong numbers would look like errors of the kernel.
        raise error(
            "missing-key",
            f"expected dtype: for the raw file {path}, such as dtype: float32, but got none",
            hint="add the dtype that the file was written in: dtype: float32",
        )
    return {"path": path, **raw}


def recorded_paths(spec: FileSpec) -> list[str]:
    """Return the files of a specification of the kind "files", relative to the project, without objects of stores."""
    return [path for path in _places(spec) if not is_url(path)]


def _places(spec: FileSpec) -> list[str]:
    return [item if isinstance(item, str) else item["path"] for item in spec.values()]


def has_recorded_objects(computation: Computation) -> bool:
    """Return whether a computation reads objects of a store, which may change at any time."""
    return computation.kind == "files" and any(map(is_url, _places(computation.spec)))


def _store_packages(spec: FileSpec) -> list[str]:
    schemes = dict.fromkeys(split_url(path)[0] for path in _places(spec) if is_url(path))
    return [STORE_PACKAGES[scheme] for scheme in schemes]


PYTHON = Kind(run="precreg.subject.python:run_python", read=_read_python, target=lambda spec: spec)
FILES = Kind(
    run="precreg.subject.python:run_files",
    read=_read_files,
    is_recorded=lambda _: True,
    requirements=_store_packages,
)
