"""Which arrays does `precreg export` get from an ONNX model?"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import relpath
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from precreg.errors import UserError, nearest
from precreg.storage import find_project
from precreg.subject.call import Call

ONNX_SUFFIX = ".onnx"


def export_nodes(model: Path, names: Sequence[str], inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Run a model on arrays by the names of its inputs, and return the named nodes in the order of execution.

    Without names return the outputs of the model. Raises UserError as `run_model` does; missing-extra without ONNX
    Runtime.
    """
    from importlib.util import find_spec

    for package in ("onnxruntime", "onnx"):
        if find_spec(package) is None:
            message = f"expected {package}, which runs {model.name}, but it is not installed: precreg[onnx] has it"
            raise UserError("missing-extra", message)
    from precreg.subject.onnx.model import run_model

    if not model.is_file():
        known = [entry.name for entry in model.parent.glob(f"*{ONNX_SUFFIX}")]
        message = f"expected a model but {model} is not there{nearest(model.name, known)}"
        raise UserError("missing-file", message)
    folder = model.resolve().parent
    try:
        project = find_project(folder)
    except UserError:
        project = folder
    spec: dict[str, Any] = {"model": relpath(model.resolve(), folder)}
    if names:
        # A name may belong to an output, which is the tensor of a node, too.
        spec |= {"nodes": list(names), "outputs": []}
    return run_model(spec, Call(inputs, {}, folder, project)).arrays
