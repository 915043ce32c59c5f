"""Embedding bags: rows of a table picked by index and combined bag by bag, and the gradients back into the table.

As in torch.nn.EmbeddingBag: modes sum, mean and weighted sum; an empty bag gives 0. Rows are added one after the
other in the order of the indices, forward and backward, so the result is the same on every device that does so.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from networks.formats import wide

Mode = Literal["sum", "mean", "weighted"]
Accumulator = Literal["wide", "storage"]


def embedding_bag(
    table: npt.NDArray,
    indices: npt.NDArray,
    weights: npt.NDArray,
    dout: npt.NDArray,
    *,
    lengths: list[int],
    mode: Mode,
    accumulator: Accumulator,
) -> dict[str, npt.NDArray]:
    """Combine table[indices] (table is (rows, width)) into bags of the given lengths; back from dout (bags, width).

    Gives out (bags, width), and the gradients by table and, where they count, by weights (indices,), all in the
    table's dtype. Accumulator "storage" sums in that dtype too, which is known to be bad.
    """
    bags = np.repeat(np.arange(len(lengths)), lengths)
    factors = {"sum": np.ones_like(weights), "mean": shares(lengths, bags, weights.dtype), "weighted": weights}[mode]
    accumulated = wide(table).dtype if accumulator == "wide" else table.dtype
    rows = table[indices].astype(accumulated)
    out = added_in_order(rows * factors.astype(accumulated)[:, None], bags, len(lengths))
    back = dout[bags].astype(accumulated)
    dtable = added_in_order(back * factors.astype(accumulated)[:, None], indices, len(table))
    gradients = {"dtable": dtable.astype(table.dtype)}
    if mode == "weighted":
        gradients["dweights"] = (rows * back).sum(-1).astype(table.dtype)
    return {"out": out.astype(table.dtype)} | gradients


def shares(lengths: list[int], bags: npt.NDArray, dtype: npt.DTypeLike) -> npt.NDArray:
    """Give 1 / length of its bag to each index, at least in float32."""
    return 1 / np.array(lengths).astype(np.promote_types(dtype, np.float32))[bags]


def added_in_order(rows: npt.NDArray, places: npt.NDArray, count: int) -> npt.NDArray:
    """Add each row of (n, width) to its place in (count, width), one after the other, in the rows' dtype."""
    total = np.zeros((count, rows.shape[1]), rows.dtype)
    for place, row in zip(places, rows, strict=True):
        total[place] += row
    return total


def embedding_bag_exact(
    table: npt.NDArray,
    indices: npt.NDArray,
    weights: npt.NDArray,
    dout: npt.NDArray,
    *,
    lengths: list[int],
    mode: Mode,
    accumulator: Accumulator,
) -> dict[str, npt.NDArray]:
    """Do the same as products with the matrix (bags, rows) that says how much of each row goes into each bag."""
    combined = np.zeros((len(lengths), len(table)))
    ends = np.cumsum(lengths)
    dweights = np.zeros_like(weights)
    for bag, (start, end) in enumerate(zip(ends - lengths, ends, strict=True)):
        factors = {"sum": np.ones(end - start), "mean": 1 / np.full(end - start, end - start)}
        np.add.at(combined[bag], indices[start:end], factors.get(mode, weights[start:end]))
        dweights[start:end] = table[indices[start:end]] @ dout[bag]
    outputs = {"out": combined @ table, "dtable": combined.T @ dout}
    return outputs | ({"dweights": dweights} if mode == "weighted" else {})
