"""What `precreg export` does beside calling the model: read its arguments, choose among its nodes, write them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.comparison.places import RawFormat, Side, read_side
from precreg.errors import UserError, nearest
from precreg.storage.write import said_in_name, write_array, write_arrays
from precreg.storage.writing import replacing, writing
from precreg.subject.failure import encodable

if TYPE_CHECKING:
    from precreg.storage.arrayfile_stored import Array


Arrays = dict[str, "Array"]


def arguments(inputs: Iterable[str], raw: RawFormat) -> Arrays:
    """Read each `[NAME=]FILE` and return copies by name; an archive without a NAME gives each of its arrays.

    Raises UserError: bad-value for a folder and for two arrays of one name, and a NAME for several arrays;
    and as `read_side` does.
    """
    arrays: Arrays = {}
    for text in inputs:
        for name, array in _read(text, raw).items():
            if name in arrays:
                raise UserError("bad-value", f"expected one array for each argument but got {name} twice: {text}")
            arrays[name] = array
    return arrays


def _read(text: str, raw: RawFormat) -> Arrays:
    name, _, file = text.partition("=")
    if not file or not name.isidentifier():
        name, file = "", text
    if Path(file).is_dir():
        raise UserError("bad-value", f"expected a file of arrays but got the folder input={file}")
    side = read_side(Path(file), raw)
    if name and len(side.arrays) != 1:
        held = ", ".join(side.arrays) or "none"
        raise UserError("bad-value", f"expected one array for {name} (FILE.npz:ARRAY) but {file} has {held}")
    return {name or own: array for own, array in _loaded(side).items()}


def _loaded(side: Side) -> Arrays:
    """Return arrays of the model's own, in native byte order."""
    import numpy as np

    found = {name: place.load() for name, place in side.arrays.items()}
    return {name: np.array(array, array.dtype.newbyteorder("="), order="K") for name, array in found.items()}


def chosen(model: str, nodes: Arrays, names: tuple[str, ...]) -> Arrays:
    """Return the nodes that were named, or all. Raises UserError: unknown-node, bad-outputs where there is none."""
    if not nodes:
        raise UserError("bad-outputs", f"expected {model} to return an array but it returned an empty collection")
    for name in names:
        if name not in nodes:
            known = encodable(", ".join(nodes))
            message = f"expected a node of {model} ({known}) but got node={name}{nearest(name, nodes)}"
            raise UserError("unknown-node", message)
    return {name: nodes[name] for name in names or nodes}


def write(arrays: Arrays, output: Path) -> None:
    """Write the arrays in the format that the name of the file says, in one step, and tell what it holds.

    Raises UserError: bad-value where the format cannot hold them under that name; bad-outputs, not-writable.
    """
    if output.suffix == ".npy":
        _require_name(arrays, output)
    with writing(str(output)):
        output.parent.mkdir(parents=True, exist_ok=True)
        with replacing(output) as stream:
            if output.suffix == ".npy":
                write_array(stream, next(iter(arrays.values())))
            else:
                write_arrays(stream, arrays)
    for name, array in arrays.items():
        click.echo(f"{output}  {encodable(name)}: {array.dtype.name}, shape {'×'.join(map(str, array.shape)) or '()'}")


def _require_name(arrays: Arrays, output: Path) -> None:
    """Refuse a .npy file for several arrays, and one whose name leaves out a dtype that .npy files cannot say."""
    if len(arrays) != 1:
        message = f"expected NAME.npz, or one --node of {', '.join(arrays)}, but got output={output}"
        raise UserError("bad-value", message)
    dtype = said_in_name(next(iter(arrays.values())))
    if dtype and not output.name.endswith(f".{dtype}.npy"):
        message = f"expected {output.with_suffix('').name}.{dtype}.npy, because only a name can say that dtype,"
        raise UserError("bad-value", f"{message} but got output={output}")
