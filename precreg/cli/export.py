"""`precreg export`: its options, understood; exporting.py does what they ask, and is imported when they are right."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from precreg.cli.compare import lengths
from precreg.errors import UserError

FORMATS = (".npy", ".npz")


def _file(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if path.suffix not in FORMATS:
        raise UserError("bad-value", f"expected NAME.npy or NAME.npz but got output={path}")
    return path


@click.command("export")
@click.argument("model", metavar="[FOLDER/]MODULE:FUNCTION")
@click.option("--node", "names", multiple=True, metavar="NAME", help="An output of the model, by its name; else all.")
@click.option("--input", "inputs", multiple=True, metavar="[NAME=]FILE", help="An argument; else called as its file.")
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), callback=_file, help=".npy or .npz.")
@click.option("--device", metavar="NAME", help="Compute it on a simulated device (docs/devices.md).")
@click.option("--dtype", metavar="NAME", help="Of raw .bin inputs.")
@click.option("--shape", metavar="4x64", callback=lengths, help="Of raw .bin inputs; else one axis.")
@click.option("--byte-order", type=click.Choice(["little", "big"]), default="little", help="Of raw .bin inputs.")
@click.pass_obj
def command(
    project: Path | None,
    /,
    model: str,
    names: tuple[str, ...],
    inputs: tuple[str, ...],
    output: Path,
    device: str | None,
    dtype: str | None,
    shape: tuple[int, ...] | None,
    byte_order: Literal["little", "big"],
) -> None:
    """Call a Python model on arrays in files, and write what its nodes give, for precreg compare and visualize.

    The model is a function, found as a suite in FOLDER finds its subject; its nodes are the arrays that it returns: the
    keys of a dict, 0, 1, ... of a tuple, or out. One node is written as .npy, any number as .npz.

    Exit codes: 0 the file is written; 2 it is not.
    """
    if len(set(names)) > 1 and output.suffix == ".npy":
        raise UserError("bad-value", f"expected NAME.npz for {len(set(names))} nodes but got output={output}")
    from precreg.cli import exporting
    from precreg.comparison.places import RawFormat
    from precreg.run.model import find_model, nodes

    found = find_model(model, project or Path())
    arguments = exporting.arguments(inputs, RawFormat(dtype, shape, byte_order))
    chosen = exporting.chosen(model, nodes(found, arguments, device), names)
    exporting.write(chosen, output)
