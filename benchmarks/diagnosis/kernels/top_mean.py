"""The mean of the k largest unmasked numbers of each row, in float32."""

import numpy as np

f32 = np.float32


def top_mean(x, mask, k):
    """Return one number for each row."""
    hidden = np.where(mask, x, f32(-np.inf))
    ordered = np.sort(hidden, axis=-1)[:, ::-1]
    top = ordered[:, :k]
    valid = np.isfinite(top)
    total = np.where(valid, top, f32(0)).sum(axis=-1)
    count = np.maximum(valid.sum(axis=-1), 1).astype(f32)
    return total / count


def exact(x, mask, k):
    """Return the same row by row."""
    return np.array([sum(top := sorted(row[seen])[-k:]) / len(top) for row, seen in zip(x, mask, strict=True)])
