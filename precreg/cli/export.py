"""Which arrays does a model get, and which of its nodes are written?

`precreg export` reads the arguments, calls the model, chooses among its nodes and writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from precreg.cli.compare import parse_shape
from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    from precreg.comparison import ArraySide, RawFormat
    from precreg.run import Arrays, Model


EXPORT_SUFFIXES = (".npy", ".npz")


# A callback of the option: a wrong suffix stops the command before the model runs.
def _file(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if path.suffix not in EXPORT_SUFFIXES:
        raise UserError(
            "bad-value",
            f"expected NAME.npy or NAME.npz but got output={path}",
            hint="write a name of one array or of an archive: --output y.npz",
        )
    return path


@click.command("export")
@click.argument("model", metavar="[FOLDER/]MODULE:FUNCTION|MODEL.onnx")
@click.option("--node", "names", multiple=True, metavar="NAME", help="Write this output of the model; by default all.")
@click.option("--layer", "layers", multiple=True, metavar="NAME", help="Write this layer of a module of torch; or a*.")
@click.option("--torch", "with_torch", is_flag=True, help="Give a function tensors, as a module of torch gets.")
@click.option(
    "--input", "inputs", multiple=True, metavar="[NAME=]FILE", help="An argument; by default named as its file."
)
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), callback=_file, help=".npy or .npz.")
@click.option("--device", metavar="NAME", help="Compute it on a simulated device (docs/devices.md).")
@click.option("--dtype", metavar="NAME", help="Of raw .bin inputs.")
@click.option("--shape", metavar="4x64", callback=parse_shape, help="Of raw .bin inputs; by default one axis.")
@click.option("--byte-order", type=click.Choice(["little", "big"]), default="little", help="Of raw .bin inputs.")
@click.pass_obj
def export_command(
    project: Path | None,
    /,
    model: str,
    names: tuple[str, ...],
    layers: tuple[str, ...],
    with_torch: bool,
    inputs: tuple[str, ...],
    output: Path,
    device: str | None,
    dtype: str | None,
    shape: tuple[int, ...] | None,
    byte_order: Literal["little", "big"],
) -> None:
    """Call a model on arrays in files, and write its nodes for precreg compare and visualize.

    The model is a function or a module of torch, found as a suite in FOLDER finds its subject; its nodes are the arrays
    that it returns: the keys of a dict, 0, 1, ... of a tuple, or out. A .npy file has one node, a .npz file any number.

    Nodes of an ONNX model are its tensors and nodes by name, also inner ones and patterns such as "*/MatMul*". They are
    written in the order of execution; without --node, the outputs are.

    Exit codes: 0 the file is written; 2 it is not.
    """
    _refuse_contradictions(names, output, device, in_torch=bool(layers or with_torch))
    from precreg.comparison import RawFormat
    from precreg.run import call_model, find_model
    from precreg.subject.onnx import ONNX_SUFFIX, export_nodes

    raw = RawFormat(dtype, shape, byte_order)
    if model.endswith(ONNX_SUFFIX):
        _refuse_python_options(model, device=device, layer=layers, torch=with_torch)
        # In the order of execution, so that the first difference in a comparison is the cause.
        write_nodes(export_nodes((project or Path()) / model, names, read_arguments(inputs, raw)), output)
        return
    found, arguments = find_model(model, project or Path()), read_arguments(inputs, raw)
    # Only after the call the nodes are known, so a wrong name costs a run of the model.
    if layers:
        write_nodes(_layers(found, arguments, layers, names), output)
    else:
        write_nodes(choose_nodes(model, call_model(found, arguments, device, with_torch=with_torch), names), output)


def _refuse_contradictions(names: tuple[str, ...], output: Path, device: str | None, *, in_torch: bool) -> None:
    """Refuse options that contradict each other, before the model runs, which may take long. Raises UserError."""
    if len(set(names)) > 1 and output.suffix == ".npy":
        raise UserError(
            "bad-value",
            f"expected NAME.npz for {len(set(names))} nodes but got output={output}",
            hint=f"write --output {output.with_suffix('.npz')}, which holds several arrays",
        )
    if device is not None and in_torch:
        raise UserError(
            "bad-value",
            "expected --device for a model in numpy but got one in torch",
            hint="leave out --device: it simulates the arithmetic of numpy",
        )


def _refuse_python_options(model: str, **options: object) -> None:
    for name, value in options.items():
        if value:
            raise UserError(
                "bad-value",
                f"expected a Python function or module beside --{name} but got {model}",
                hint=f"leave out --{name}, or name a function: precreg export mylib:model --input x.npy --output y.npz",
            )


def _layers(found: Model, arguments: Arrays, layers: tuple[str, ...], names: tuple[str, ...]) -> Arrays:
    """Return the outputs of layers, and the named outputs of the module after them."""
    from precreg.run import call_layers

    chosen, nodes = call_layers(found, arguments, layers)
    outputs = choose_nodes(found.target, nodes, names) if names else {}
    if twice := chosen.keys() & outputs.keys():
        message = f"expected layers and nodes with names of their own but got {min(twice)} of each"
        raise UserError("bad-outputs", f"{message}; export the nodes alone")
    return chosen | outputs


def read_arguments(inputs: Iterable[str], raw: RawFormat) -> Arrays:
    """Read each `[NAME=]FILE` and return copies by name; an archive without a NAME gives each of its arrays.

    Raises UserError: bad-value for a folder, for two arrays of one name and for one NAME of several arrays; errors of
    `read_side`.
    """
    arrays: Arrays = {}
    for text in inputs:
        for name, array in _read(text, raw).items():
            # The later file would silently replace the first.
            if name in arrays:
                raise UserError(
                    "bad-value",
                    f"expected one array for each argument but got {name} twice: {text}",
                    hint="give each name once: --input x=x.npy --input mask=mask.npy",
                )
            arrays[name] = array
    return arrays


def _read(text: str, raw: RawFormat) -> Arrays:
    from precreg.comparison import read_side

    name, _, file = text.partition("=")
    # A file name may have an equals sign, too.
    if not file or not name.isidentifier():
        name, file = "", text
    if Path(file).is_dir():
        raise UserError(
            "bad-value",
            f"expected a file of arrays but got the folder input={file}",
            hint=f"name a file in it: --input {file}/x.npy",
        )
    side = read_side(Path(file), raw)
    # A NAME is one argument of the function, so it can take one array only.
    if name and len(side.arrays) != 1:
        held = ", ".join(side.arrays) or "none"
        raise UserError(
            "bad-value",
            f"expected one array for {name} (FILE.npz:ARRAY) but {file} has {held}",
            hint=f"name one array of the file: --input {name}={file}:ARRAY",
        )
    return {name or own: array for own, array in _loaded(side).items()}


def _loaded(side: ArraySide) -> Arrays:
    """Return copies in native byte order, which the model may write into."""
    import numpy as np

    # Files are mapped read-only, and many kernels accept native byte order only.
    found = {name: place.load() for name, place in side.arrays.items()}
    return {name: np.array(array, array.dtype.newbyteorder("="), order="K") for name, array in found.items()}


def choose_nodes(model: str, nodes: Arrays, names: tuple[str, ...]) -> Arrays:
    """Return the named nodes, or all. Raises UserError: unknown-node; bad-outputs if the model has no node."""
    from precreg.subject import escape_surrogates

    if not nodes:
        raise UserError("bad-outputs", f"expected {model} to return an array but it returned an empty collection")
    for name in names:
        if name not in nodes:
            known = escape_surrogates(", ".join(nodes))
            message = f"expected a node of {model} ({known}) but got node={name}{nearest(name, nodes)}"
            raise UserError("unknown-node", message)
    # In the order of the options, so that the user controls the order in the archive.
    return {name: nodes[name] for name in names or nodes}


def write_nodes(arrays: Arrays, output: Path) -> None:
    """Write the arrays in the format of the file's name, in one step, and print the file's content.

    Raises UserError: bad-value if the format cannot store them under that name; bad-outputs, not-writable.
    """
    from precreg.storage import open_replacement, report_write_errors, write_npy, write_npz
    from precreg.subject import escape_surrogates

    if output.suffix == ".npy":
        _require_name(arrays, output)
    with report_write_errors(str(output)):
        output.parent.mkdir(parents=True, exist_ok=True)
        with open_replacement(output) as stream:
            if output.suffix == ".npy":
                write_npy(stream, next(iter(arrays.values())))
            else:
                write_npz(stream, arrays)
    # Names of nodes are any text; surrogates cannot be printed.
    for name, array in arrays.items():
        click.echo(
            f"{output}  {escape_surrogates(name)}: {array.dtype.name}, shape {'×'.join(map(str, array.shape)) or '()'}"
        )


def _require_name(arrays: Arrays, output: Path) -> None:
    """Refuse a .npy file for several arrays, and a name without the dtype if .npy files cannot state it."""
    from precreg.storage import dtype_suffix

    if len(arrays) != 1:
        message = f"expected NAME.npz, or one --node of {', '.join(arrays)}, but got output={output}"
        raise UserError(
            "bad-value",
            message,
            hint=f"write --output {output.with_suffix('.npz')}, or choose: --node {next(iter(arrays), 'NAME')}",
        )
    # numpy writes bfloat16 and the float8 formats as plain bytes.
    dtype = dtype_suffix(next(iter(arrays.values())))
    if dtype and not output.name.endswith(f".{dtype}.npy"):
        message = f"expected {output.with_suffix('').name}.{dtype}.npy, because only a name can say that dtype,"
        raise UserError(
            "bad-value",
            f"{message} but got output={output}",
            hint=f"write --output {output.with_suffix('').name}.{dtype}.npy",
        )
