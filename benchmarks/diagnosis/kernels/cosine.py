"""The cosine similarity of rows, in float32."""

import numpy as np

f32 = np.float32


def cosine(a, b, eps):
    """Return one number for each pair of rows."""
    product = a * b
    dot = product.sum(axis=-1)
    norm_a = np.sqrt(np.sum(a * a, axis=-1))
    norm_b = np.sqrt(np.sum(b * b, axis=-1))
    return dot / np.maximum(norm_a * norm_b, f32(eps))


def exact(a, b, eps):
    """Return the same by numpy's norms."""
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return np.einsum("nd,nd->n", a, b) / np.maximum(norms, eps)
