"""Moments of samples along the last axis, in the dtype of the samples."""

import numpy as np


def mean(x):
    """Return the arithmetic mean."""
    return x.mean(axis=-1)


def variance(x):
    """Return the population variance."""
    deviations = x - mean(x)[..., np.newaxis]
    return np.square(deviations).mean(axis=-1)


def correlation(x, y):
    """Return Pearson's correlation of two samples."""
    covariance = mean((x - mean(x)[..., np.newaxis]) * (y - mean(y)[..., np.newaxis]))
    return covariance / np.sqrt(variance(x) * variance(y))
