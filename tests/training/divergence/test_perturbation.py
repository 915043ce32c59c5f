"""Twins move weights to their neighbours, in every format."""

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic import FORMATS, numpy_dtype
from precreg.training.divergence.perturbation import TWIN_SHARE, Twin, change_last_bits

NARROW = [name for name in FORMATS if name in dir(ml_dtypes) or name == "float16"]


@pytest.mark.parametrize("name", [n for n in NARROW if np.dtype(numpy_dtype(n)).itemsize <= 2])
def test_every_pattern_moves_to_a_neighbour_or_stays(name):
    dtype = np.dtype(numpy_dtype(name))
    patterns = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    values = patterns.view(dtype)
    finite = np.isfinite(values.astype(np.float64))
    values = values[finite]
    numbers = np.unique(values.astype(np.float64))
    moved = change_last_bits(values, np.random.default_rng(0), share=1.0)
    before, after = (np.searchsorted(numbers, each.astype(np.float64)) for each in (values, moved))
    assert np.isfinite(moved.astype(np.float64)).all()
    assert (np.abs(before - after) <= 1).all()
    assert (values.astype(np.float64) == moved.astype(np.float64))[values.astype(np.float64) == 0].all()


def test_a_share_of_the_elements_moves_by_one_ulp_up_and_down():
    w = np.random.default_rng(1).standard_normal(16_000).astype(np.float32)
    moved = change_last_bits(w, np.random.default_rng(2))
    changed = moved != w
    assert abs(changed.mean() - TWIN_SHARE) < 0.01
    assert set(np.unique(np.abs(moved.view(np.int32) - w.view(np.int32)))) == {0, 1}
    assert abs((np.abs(moved) > np.abs(w)).sum() / changed.sum() - 0.5) < 0.05


def test_small_arrays_change_and_integers_do_not():
    assert (change_last_bits(np.ones(1, np.float32), np.random.default_rng(0)) != 1).all()
    whole = np.arange(5)
    assert (change_last_bits(whole, np.random.default_rng(0), 1.0) == whole).all()
    assert not change_last_bits(np.zeros(3), np.random.default_rng(0), 1.0).any()
    assert (change_last_bits(np.array([np.inf, np.nan]), np.random.default_rng(0), 1.0)[:1] == np.inf).all()


def test_a_twin_begins_at_its_first_step_and_draws_anew():
    weights = {"w": np.ones(1000, np.float32)}
    twin = Twin(4, first=3)
    assert (twin.change(2, weights)["w"] == 1).all()
    third, fourth = twin.change(3, weights)["w"], twin.change(4, weights)["w"]
    assert (third != 1).any()
    assert (third != fourth).any()
    assert (third == Twin(4, first=3).change(3, weights)["w"]).all()
    assert (weights["w"] == 1).all()
