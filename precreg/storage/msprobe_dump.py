"""Which tensors does a dump of msprobe hold?

msprobe (MindStudio Probe, package mindstudio-probe) writes dump.json and beside it the folder dump_tensor_data. The
JSON lists the calls in the order of execution, each with the names, dtypes and shapes of its tensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.storage.array_file import StoredArray

MSPROBE_FILE = "dump.json"
MSPROBE_FOLDER = "dump_tensor_data"
_MAX_BYTES = 1 << 28
_MAX_DEPTH = 100


def find_msprobe_dump(path: Path | str, shown: str) -> dict[str, StoredArray]:
    """Locate the tensors of a dump by name, such as Module.conv1.Conv2d.forward.0.output.0, in the order of execution.

    Raises:
        UserError: missing-file, also for a tensor that the JSON names; bad-tensor-file, for JSON of another kind, for
            statistics without tensors, and for a tensor of another dtype or shape than the JSON says; the errors of
            reading .npy and .pt files.
    """
    # Late, because suites name the formats of arrays when they load, without numpy.
    from precreg.storage.array_file import open_array_file

    with open_array_file(path, shown) as stream:
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise _bad(shown, f"at most {_MAX_BYTES} bytes of JSON but got more")
    try:
        dump = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _bad(shown, f"the JSON of msprobe but got: {error}") from None
    return {_name(entry): _located(entry, Path(path), shown) for entry in _entries(dump, shown)}


def ordered_msprobe_names(dump: Any, shown: str) -> list[str]:
    """Return the names of the tensors of a parsed dump.json in the order of execution; no file is opened.

    Raises UserError (bad-tensor-file) for JSON of another kind, and for statistics without tensors.
    """
    return list(dict.fromkeys(map(_name, _entries(dump, shown))))


def _entries(dump: Any, shown: str) -> list[dict[str, Any]]:
    """Return the entries of the tensors of a dump that have a file."""
    data = dump.get("data") if isinstance(dump, dict) else None
    if not isinstance(data, dict):
        raise _bad(shown, 'the JSON of msprobe with calls under "data" but there is none')
    entries = [entry for call in data.values() for entry in _tensors(call, _MAX_DEPTH)]
    named = [entry for entry in entries if isinstance(entry.get("data_name"), str)]
    if not named:
        statistics = f"statistics of {len(entries)} tensors alone" if entries else "no tensor"
        remedy = 'dump with "task": "tensor", or keep the figures in a table'
        raise _bad(shown, f"tensors in {MSPROBE_FOLDER} but the dump has {statistics}; {remedy}")
    return named


def _bad(shown: str, expectation: str) -> UserError:
    return UserError("bad-tensor-file", f"expected {expectation}", file=shown)


def _tensors(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the entries of tensors inside a call: its inputs, keywords, outputs, parameters and gradients."""
    if depth == 0:
        return
    if isinstance(value, dict):
        if isinstance(value.get("dtype"), str) and isinstance(value.get("shape"), list):
            yield value
            return
        for item in value.values():
            yield from _tensors(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            yield from _tensors(item, depth - 1)


def _name(entry: dict[str, Any]) -> str:
    return str(entry["data_name"]).rpartition(".")[0]


def _located(entry: dict[str, Any], path: Path, shown: str) -> StoredArray:
    from precreg.storage.npy import find_npy
    from precreg.storage.torch_file import find_torch_tensors

    file = entry["data_name"]
    # A name leads to a file of the folder and nowhere else.
    if "/" in file or "\\" in file or file.startswith(".") or not file.endswith((".npy", ".pt")):
        raise _bad(shown, f"the name of a .npy or .pt file in {MSPROBE_FOLDER} but got data_name={file[:80]!a}")
    place, named = (
        path.parent / MSPROBE_FOLDER / file,
        f"{shown.rpartition('/')[0]}/{MSPROBE_FOLDER}/{file}".lstrip("/"),
    )
    if file.endswith(".npy"):
        found = find_npy(place, named)
    else:
        tensors = find_torch_tensors(place, named)
        if len(tensors) != 1:
            raise _bad(shown, f"one tensor in {file} but it has {len(tensors)}")
        found = next(iter(tensors.values()))
    # msprobe widens what numpy lacks, so that a bfloat16 tensor may be a file of float32.
    if list(found.shape) != entry["shape"]:
        raise _bad(shown, f"shape {entry['shape']} in {file}, as the JSON says, but it has {list(found.shape)}")
    return found
