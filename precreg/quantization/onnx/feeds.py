"""Which batches of inputs does an ONNX model get?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from precreg.errors import UserError
from precreg.quantization.onnx.graph import Feeds, Graph

# Rows of a stored array that make one batch.
_ROWS = 32


class FeedBatches(NamedTuple):
    """Hold feeds, how many inputs they have, and whether the data set had more of them."""

    batches: list[Feeds]
    inputs: int
    has_more: bool


def read_feeds(given: Any, graph: Graph, source: str, most: int) -> FeedBatches:
    """Return the batches of a data set: dicts by the names of the model's inputs, or arrays for its only input.

    Raises UserError: bad-value for no batches, empty ones, other names, NaN, infinities, and for what is no data set.
    """
    if isinstance(given, Mapping) or hasattr(given, "dtype"):
        given = [given]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise _no_data(f"{source} of type {type(given).__name__}")
    found = list(islice(iter(given), most + 1))
    if not found:
        raise _no_data(f"0 from {source}")
    constants = graph.arrays()
    wanted = [each.name for each in graph.graph.input if each.name not in constants]
    feeds = [_feed(each, wanted, f"batch {number} of {source}") for number, each in enumerate(found[:most])]
    return FeedBatches(feeds, sum(_inputs(each) for each in feeds), len(found) > most)


def _no_data(got: str) -> UserError:
    return UserError(
        "bad-value",
        f"expected batches of inputs but got {got}",
        hint="return a list of dicts: data = [{'x': numpy.zeros((8, 3, 32, 32), 'float32')}]",
    )


def _feed(given: Any, wanted: Sequence[str], source: str) -> Feeds:
    if not isinstance(given, Mapping):
        parts = given if isinstance(given, tuple) else (given,)
        given = dict(zip(wanted, parts, strict=False)) if len(parts) == len(wanted) else {"": None}
    if set(given) != set(wanted):
        got = ", ".join(map(str, given)) if "" not in given else "another number of arrays"
        raise UserError(
            "bad-value",
            f"expected arrays for the model's inputs {', '.join(wanted)} but got {got} in {source}",
            hint=f"store arrays by the names of the inputs: numpy.savez('data.npz', {wanted[0] if wanted else 'x'}=x)",
        )
    arrays = {name: np.ascontiguousarray(given[name]) for name in wanted}
    if not _inputs(arrays):
        listed = ", ".join(f"{name}: {array.dtype} {array.shape}" for name, array in arrays.items())
        raise UserError(
            "bad-value",
            f"expected inputs in each batch but {source} has no inputs: {listed}",
            hint="leave out empty batches: data = [{'x': x} for x in batches if len(x)]",
        )
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            bad = int(array.size - np.isfinite(array).sum())
            if bad:
                raise UserError(
                    "bad-value",
                    f"expected finite inputs but got {bad:,} of {array.size:,} NaN or infinite: {name} in {source}",
                    hint="remove them: x[numpy.isfinite(x).all(axis=-1)]",
                )
    return arrays


def _inputs(feed: Feeds) -> int:
    first = next(iter(feed.values()), None)
    return int(first.shape[0]) if first is not None and first.ndim else 1


def read_stored_feeds(path: Path, graph: Graph, most: int) -> FeedBatches:
    """Return the batches of a file: its arrays by name, 32 rows a batch; a single array is the only input.

    Raises UserError: as the reader of the format does; bad-value for arrays of other lengths.
    """
    from precreg.storage import is_archive, read_recorded, read_single

    shown = str(path)
    is_named = is_archive(path.name)
    arrays = read_recorded(path, shown) if is_named else {"": read_single(path, shown)}
    lengths = {array.shape[0] if array.ndim else 0 for array in arrays.values()}
    if len(lengths) != 1 or not next(iter(lengths)):
        listed = ", ".join(f"{name}: {array.dtype} {array.shape}" for name, array in arrays.items()) or "no array"
        raise UserError(
            "bad-value",
            f"expected arrays with one first axis of inputs, which has elements, but got {listed}",
            file=shown,
            hint="store the inputs stacked: numpy.savez('data.npz', x=numpy.stack(inputs))",
        )

    def batches() -> Iterator[Any]:
        for start in range(0, next(iter(lengths)), _ROWS):
            parts = {name: np.array(array[start : start + _ROWS]) for name, array in arrays.items()}
            yield parts if is_named else parts[""]

    return read_feeds(batches(), graph, shown, most)
