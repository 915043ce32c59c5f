"""How is an ONNX model loaded, run, and observed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from precreg.errors import UserError
from precreg.quantization.arrays import channel_rows
from precreg.quantization.model import Array
from precreg.subject.onnx import (
    ModelFile,
    make_session,
    onnx_package,
    parse_model,
    read_model,
    run_feeds,
    runtime_message,
)

Feeds = Mapping[str, Any]
# Values of a tensor that are kept over all batches; histograms need no more.
KEPT_VALUES = 2**20
# Without optimization, a pair of QuantizeLinear and DequantizeLinear is a rounding, and the operators work on floats.
_SIMULATION = {"optimization": "disabled"}
_EXECUTION = {"optimization": "all"}
# Protobuf holds no larger message.
_MAX_BYTES = 2**31 - 1


class Graph(NamedTuple):
    """Hold a parsed model with its weights, and its name for messages."""

    name: str
    folder: Path
    model: Any

    @property
    def graph(self) -> Any:
        """Return the graph of the model."""
        return self.model.graph

    def arrays(self) -> dict[str, Any]:
        """Return the initializers by name, as protobuf has them."""
        return {each.name: each for each in self.graph.initializer}

    def makers(self) -> dict[str, Any]:
        """Return the node that computes each tensor."""
        return {name: node for node in self.graph.node for name in node.output if name}


def load_graph(path: Path) -> Graph:
    """Read a model with its weights. Raises UserError: missing-file, bad-model, bad-value for 2 GiB and more."""
    folder = path.parent.absolute()
    file = read_model(path.name, folder, folder)._replace(name=str(path))
    parsed = parse_model(file)
    onnx_package().external_data_helper.load_external_data_for_model(parsed, str(folder))
    if parsed.ByteSize() > _MAX_BYTES:
        raise UserError(
            "bad-value",
            f"expected a model below 2 GiB with its weights but got {parsed.ByteSize():,} bytes",
            file=str(path),
            hint="measure its weights alone: precreg quantization --arrays weights.safetensors",
        )
    return Graph(str(path), folder, parsed)


def layer_name(node: Any) -> str:
    """Return the name of a node; without a name, its operator and its first result."""
    return node.name or f"{node.op_type}:{node.output[0]}"


def run_graph(graph: Graph, feeds: Sequence[Feeds], more: Sequence[str] = ()) -> list[Any]:
    """Return the measured result for each batch; with `more`, a tuple of it and of further tensors.

    Raises UserError: bad-input for feeds that the model refuses, bad-outputs for a model without floating results.
    """
    outputs = graph.graph.output
    known = {each.name for each in outputs}
    own = len(outputs)
    for name in dict.fromkeys(more):
        if name not in known:
            # ONNX Runtime infers the type.
            outputs.add().name = name
    try:
        return _run(graph, feeds, more, _SIMULATION)
    finally:
        del outputs[own:]


def run_whole(graph: Graph, feeds: Sequence[Feeds]) -> tuple[Array, ...]:
    """Return the results of a model as ONNX Runtime executes it, with kernels for integers where it has them."""
    return tuple(_run(graph, feeds, (), _EXECUTION))


def _run(graph: Graph, feeds: Sequence[Feeds], more: Sequence[str], options: Mapping[str, Any]) -> list[Any]:
    session = make_session(ModelFile(graph.name, graph.model.SerializeToString(), graph.folder), options)
    measured = next((each.name for each in session.get_outputs() if each.type in _FLOATING), None)
    if measured is None:
        types = ", ".join(f"{each.name}: {each.type}" for each in session.get_outputs())
        raise UserError(
            "bad-outputs",
            f"expected a floating tensor among the model's results but got {types}",
            file=graph.name,
            hint="return the scores of the model before ArgMax",
        )
    found = []
    for number, feed in enumerate(feeds):
        try:
            values = run_feeds(session, feed, [measured, *more]).values
        # The classes of ONNX Runtime's errors have no common base.
        except Exception as problem:
            raise _refused(session, graph.name, feed, number, problem) from None
        found.append((values[measured], *(values[name] for name in more)) if more else values[measured])
    return found


_FLOATING = ("tensor(float)", "tensor(double)", "tensor(float16)")


def _refused(session: Any, name: str, feed: Feeds, number: int, problem: BaseException) -> UserError:
    given = ", ".join(f"{key}: {each.dtype} {each.shape}" for key, each in feed.items())
    wanted = ", ".join(f"{each.name}: {each.type} {tuple(each.shape)}" for each in session.get_inputs())
    return UserError(
        "bad-input",
        f"expected inputs {wanted} but got batch {number}: {given}\n  {runtime_message(problem)}",
        file=name,
        detail=runtime_message(problem),
        hint="store arrays by the names of the model's inputs: numpy.savez('data.npz', x=images)",
    )


class ObservedTensor(NamedTuple):
    """Hold values of a tensor as rows of channels, and how many values were left out."""

    values: Array
    left_out: int
    dtype: np.dtype[Any]


def observe_tensors(graph: Graph, feeds: Sequence[Feeds], axes: Mapping[str, int]) -> dict[str, ObservedTensor]:
    """Return the values of tensors over all feeds as rows of channels; `axes` has the axis of the channels of each.

    Raises UserError: bad-value for NaN and infinities.
    """
    names = list(axes)
    if not names:
        return {}
    kept: dict[str, list[Array]] = {name: [] for name in names}
    left_out, dtypes = dict.fromkeys(names, 0), {}
    share = max(1, KEPT_VALUES // max(len(feeds), 1))
    for number in range(len(feeds)):
        values = run_graph(graph, feeds[number : number + 1], names)[0][1:]
        for name, array in zip(names, values, strict=True):
            _require_finite_tensor(array, name, graph.name)
            rows = channel_rows(array, axes[name])
            step = -(-rows.size // share)
            dtypes[name] = array.dtype
            if step > 1:
                # The extremes of each channel set scales, so that they are never left out.
                extremes = np.concatenate([rows.argmax(axis=0), rows.argmin(axis=0)])
                chosen = np.union1d(np.arange(0, len(rows), step), extremes)
                left_out[name] += rows.size - len(chosen) * rows.shape[1]
                rows = rows[chosen]
            kept[name].append(rows)
    return {name: ObservedTensor(_joined(kept[name]), left_out[name], dtypes[name]) for name in names}


def from_rows(rows: Array, like: Array, axis: int) -> Array:
    """Return rows of channels in the shape and dtype of the array from which they come."""
    if like.ndim >= 2:
        axis %= like.ndim
        moved = (*like.shape[:axis], *like.shape[axis + 1 :], like.shape[axis])
        rows = np.moveaxis(rows.reshape(moved), -1, axis)
    return np.ascontiguousarray(rows.reshape(like.shape)).astype(like.dtype)


def _joined(rows: Sequence[Array]) -> Array:
    widths = {each.shape[1] for each in rows}
    return np.concatenate(rows if len(widths) == 1 else [each.reshape(-1, 1) for each in rows])


def _require_finite_tensor(array: Array, name: str, model: str) -> None:
    bad = int(array.size - np.isfinite(array).sum())
    if bad:
        raise UserError(
            "bad-value",
            f"expected finite values of the tensor {name} but got {bad:,} of {array.size:,} that are NaN or infinite",
            file=model,
            hint="remove NaN from the calibration data",
        )
