"""What both training runs are held against: float64, no noise in the updates, nothing shared with the kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Outputs = dict[str, npt.NDArray]


def train(
    x: npt.NDArray[np.float64],
    held_out: npt.NDArray[np.float64],
    w1: npt.NDArray[np.float64],
    b1: npt.NDArray[np.float64],
    w2: npt.NDArray[np.float64],
    noise: npt.NDArray[np.float64],
    *,
    lr: float,
    epochs: int,
    target: float,
) -> Outputs:
    """Train the two layers, bias and w1 as one matrix; `noise` is the subject's."""
    inner, outer = np.vstack([w1, b1]), w2[:, 0]
    batches = np.column_stack([x, np.ones(len(x))]).reshape(-1, 64, 3)
    losses = []
    for batch in np.tile(batches, (epochs, 1, 1)):
        hidden, sign = np.tanh(batch @ inner), np.sign(batch[:, 0] * batch[:, 1])
        losses.append(np.logaddexp(0, -sign * (hidden @ outer)).mean())
        wrong = sign / 2 * (1 - np.tanh(sign * (hidden @ outer) / 2)) / len(batch)
        inner, outer = (
            inner + lr * batch.T @ (np.outer(wrong, outer) / np.cosh(batch @ inner) ** 2),
            outer + lr * wrong @ hidden,
        )
    guessed = np.tanh(held_out @ inner[:2] + inner[2]) @ outer
    return outputs(losses, epochs, guessed * held_out[:, 0] * held_out[:, 1] > 0, target)


def regress(
    x: npt.NDArray[np.float64],
    held_out: npt.NDArray[np.float64],
    teacher: npt.NDArray[np.float64],
    doubt: npt.NDArray[np.float64],
    noise: npt.NDArray[np.float64],
    negative: npt.NDArray,
    *,
    rates: dict[str, float],
    epochs: dict[str, int],
    rate: str,
) -> Outputs:
    """Train the logistic regression; `noise` and `negative` are the subject's."""
    weights, losses = np.zeros(len(teacher)), []
    signed = (x * np.where(x @ teacher + doubt > 0, 1, -1)[:, None]).reshape(-1, 64, x.shape[1])
    for batch in np.tile(signed, (epochs[rate], 1, 1)):
        margin = batch @ weights
        losses.append(np.logaddexp(0, -margin).mean())
        weights += rates[rate] / 128 * (1 - np.tanh(margin / 2)) @ batch
    by_epoch = np.mean(np.reshape(losses, (epochs[rate], -1)), axis=1)
    return outputs(losses, epochs[rate], (held_out @ weights) * (held_out @ teacher) > 0, by_epoch[-len(by_epoch) // 4])


def outputs(losses: list[float], epochs: int, right: npt.NDArray, target: float) -> Outputs:
    """Give the losses by epoch, the share of right guesses, and the steps until the loss of an epoch is the target."""
    by_epoch = np.mean(np.reshape(losses, (epochs, -1)), axis=1)
    reached = np.interp(-target, -by_epoch, np.arange(1, epochs + 1) * (len(losses) // epochs))
    return {"losses": by_epoch, "accuracy": np.float64(right.mean()), "steps": np.float64(reached)}
