"""Which batches of inputs does a data set give?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from precreg.errors import UserError
from precreg.quantization.torch.layers import describe_batch

# A data loader of a training has thousands of batches; scales settle after a few.
DEFAULT_BATCHES = 32
# Rows of a stored array that make one batch.
ROWS = 32


class Batches(NamedTuple):
    """Hold batches, how many inputs they have, and whether the data set had more of them."""

    batches: list[Any]
    inputs: int
    has_more: bool


def read_batches(given: Any, source: str, most: int = DEFAULT_BATCHES, *, with_targets: bool = False) -> Batches:
    """Return the batches of a data set: a list or iterable of tensors, arrays, tuples or dicts of them.

    A tuple has the arguments of the model in order, a dict those by name. A single tensor is one batch. `with_targets`
    takes the first of each pair (inputs, target).

    Raises UserError: bad-value for no batches, empty ones, NaN and infinities, and for what is no data set.
    """
    if isinstance(given, torch.Tensor | np.ndarray | Mapping):
        given = [given]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UserError(
            "bad-value",
            f"expected batches of inputs but got {source} of type {type(given).__name__}",
            hint="return a list of tensors: data = [torch.randn(8, 3, 32, 32) for _ in range(4)]",
        )
    found = list(islice(iter(given), most + 1))
    if not found:
        raise UserError(
            "bad-value",
            f"expected at least one batch of inputs but got 0 from {source}",
            hint="return a list of tensors: data = [torch.randn(8, 3, 32, 32) for _ in range(4)]",
        )
    kept = [_batch(each[0] if with_targets else each, source, number) for number, each in enumerate(found[:most])]
    return Batches(kept, sum(_inputs(each) for each in kept), len(found) > most)


def _batch(given: Any, source: str, number: int) -> Any:
    if isinstance(given, Mapping):
        batch: Any = {name: _tensor(each) for name, each in given.items()}
    elif isinstance(given, tuple | list):
        batch = tuple(_tensor(each) for each in given)
    else:
        batch = _tensor(given)
        if not isinstance(batch, torch.Tensor):
            raise UserError(
                "bad-value",
                f"expected a tensor, an array, or a tuple or dict of them but got {type(given).__name__}"
                f" as batch {number} of {source}",
                hint="return a list of tensors: data = [torch.randn(8, 3, 32, 32) for _ in range(4)]",
            )
    if not _inputs(batch):
        raise UserError(
            "bad-value",
            f"expected inputs in each batch but batch {number} of {source} has no inputs: {describe_batch(batch)}",
            hint="leave out empty batches: data = [x for x in batches if len(x)]",
        )
    for each in _tensors(batch):
        if each.is_floating_point():
            bad = int(each.numel() - torch.isfinite(each).sum())
            if bad:
                raise UserError(
                    "bad-value",
                    f"expected finite inputs but got {bad:,} of {each.numel():,} NaN or infinite in batch {number}"
                    f" of {source} ({describe_batch(batch)})",
                    hint="remove them: x[torch.isfinite(x).all(dim=-1)]",
                )
    return batch


def _tensor(given: Any) -> Any:
    if isinstance(given, np.ndarray) and given.dtype.kind in "fiub":
        return torch.from_numpy(np.array(given, given.dtype.newbyteorder("=")))
    return given.detach() if isinstance(given, torch.Tensor) else given


def _tensors(batch: Any) -> Iterable[Any]:
    values = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple) else (batch,)
    return (each for each in values if isinstance(each, torch.Tensor))


def _inputs(batch: Any) -> int:
    first = next(iter(_tensors(batch)), None)
    return int(first.shape[0]) if first is not None and first.ndim else 1


def read_stored_batches(path: Path, most: int = DEFAULT_BATCHES) -> Batches:
    """Return the batches of a file: the arrays by name are arguments of the model, and one array is its input.

    Raises UserError: as the reader of the format does; bad-value for arrays of other lengths, empty ones, and NaN.
    """
    from precreg.storage import is_archive, read_recorded, read_single

    shown = str(path)
    arrays = read_recorded(path, shown) if is_archive(path.name) else {"x": read_single(path, shown)}
    lengths = {name: array.shape[0] if array.ndim else 0 for name, array in arrays.items()}
    if not arrays or len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        listed = ", ".join(f"{name}: {array.dtype} {array.shape}" for name, array in arrays.items()) or "no array"
        raise UserError(
            "bad-value",
            f"expected arrays with one first axis of inputs, which has elements, but got {listed}",
            file=shown,
            hint="store the inputs stacked: numpy.savez('data.npz', x=numpy.stack(inputs))",
        )
    rows = next(iter(lengths.values()))
    batches: list[Any] = []
    for start in range(0, rows, ROWS):
        parts = {name: np.array(array[start : start + ROWS]) for name, array in arrays.items()}
        batches.append(parts if len(parts) > 1 else next(iter(parts.values())))
    return read_batches(batches, shown, most)


def as_model_dtype(module: Any, tensor: Any) -> Any:
    """Return a floating tensor in the dtype of a module's parameters; other tensors as they are."""
    parameters = module.parameters() if isinstance(module, torch.nn.Module) else ()
    dtype = next((each.dtype for each in parameters if each.is_floating_point()), torch.float32)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
