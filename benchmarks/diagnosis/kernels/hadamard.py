"""The orthonormal Walsh-Hadamard transform by butterflies, in float32."""

import math

import numpy as np

f32 = np.float32


def hadamard(x):
    """Return the transform of each row."""
    rows, n = x.shape
    width = 1
    while width < n:
        pairs = x.reshape(rows, -1, 2, width)
        even = pairs[:, :, 0]
        odd = pairs[:, :, 1]
        x = np.stack((even + odd, even - odd), axis=2).reshape(rows, n)
        width = width * 2
    return x * f32(1 / math.sqrt(n))


def exact(x):
    """Return the same by the matrix."""
    matrix = np.ones((1, 1))
    while len(matrix) < x.shape[1]:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / math.sqrt(2)
    return x @ matrix
