"""Cross entropy from logits and labels, log(sum(exp(x))) - x[label], with rows that are left out; in float32.

The loss of narrow logits is float32, as in mixed-precision training.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

IGNORED = -1
"""The label of a row that is left out, such as padding."""


def cross_entropy(
    logits: npt.NDArray, labels: npt.NDArray, *, reduction: Literal["none", "mean"]
) -> dict[str, npt.NDArray]:
    """Return the loss of each row, 0 where it is left out, and with "mean" their mean over the others; as float32.

    `logits` is [rows, classes], `labels` [rows]. A label whose logit is -infinity costs infinity. The mean of no rows
    is NaN.
    """
    values = logits.astype(np.float32)
    shifted = values - values.max(-1, keepdims=True)
    picked = np.take_along_axis(shifted, np.maximum(labels, 0)[:, None], -1)[:, 0]
    counted = labels != IGNORED
    losses = np.where(counted, np.log(np.exp(shifted).sum(-1)) - picked, np.float32(0))
    return with_mean(losses, counted) if reduction == "mean" else {"losses": losses}


def with_mean(losses: npt.NDArray, counted: npt.NDArray) -> dict[str, npt.NDArray]:
    """Add the mean over the rows that count."""
    return {"losses": losses, "mean": losses.sum() / np.float32(counted.sum())}


def exact(logits: npt.NDArray, labels: npt.NDArray, *, reduction: str) -> dict[str, npt.NDArray]:
    """Compute in the dtype of the logits, float64, row by row."""
    counted = np.flatnonzero(labels != IGNORED)
    losses = np.zeros(len(labels), logits.dtype)
    for row in counted:
        shifted = logits[row] - logits[row].max()
        losses[row] = np.log(np.exp(shifted).sum()) - shifted[labels[row]]
    return {"losses": losses, "mean": losses.sum() / len(counted)} if reduction == "mean" else {"losses": losses}
