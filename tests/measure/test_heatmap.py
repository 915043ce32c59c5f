"""The heat map: cell by cell what a slow loop gives, however the arrays are cut, in whatever layout they lie."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from precreg.errors import UserError
from precreg.measure import heatmap
from precreg.measure.comparison import compare_arrays
from precreg.measure.heatmap import MAX_CELLS, add_error_maps, heat_map
from precreg.types.outcome import ErrorGrid


def slowly(actual, reference):
    """Return sums and counts of each cell, and the mismatched, one element at a time."""
    rows, columns = (1, *actual.shape)[-2:] if actual.ndim else (1, 1)
    high, wide = min(rows, MAX_CELLS), min(columns, MAX_CELLS)
    found = [[([], []) for _ in range(wide)] for _ in range(high)]
    for place in np.ndindex(actual.shape):
        row, column = (0, 0, *place)[-2:]
        y = max(g for g in range(high) if g * rows // high <= row)
        x = max(g for g in range(wide) if g * columns // wide <= column)
        a, r = float(actual[place]), float(reference[place])
        errors, wrong = found[y][x]
        if np.isfinite(a) and np.isfinite(r):
            errors.append(abs(a - r))
        elif not (a == r or (np.isnan(a) and np.isnan(r))):
            wrong.append(place)
    means = [[sum(errors) / len(errors) if errors else None for errors, _ in line] for line in found]
    return means, [[len(wrong) for _, wrong in line] for line in found]


def close(found, expected):
    for line, wanted in zip(found, expected, strict=True):
        for mean, want in zip(line, wanted, strict=True):
            assert mean == (want if want is None else pytest.approx(want, rel=1e-12))


def pair(shape, seed=0):
    source = np.random.default_rng(seed)
    reference = np.array(source.standard_normal(shape))
    actual = np.array(reference + source.standard_normal(shape) * 1e-3)
    for side, value in ((actual, np.nan), (reference, np.inf)):
        side[source.random(shape) < 0.05] = value
    both = source.random(shape) < 0.05
    actual[both] = reference[both] = np.nan
    return actual, reference


SHAPES = st.lists(st.integers(1, 7), max_size=4).map(tuple) | st.tuples(st.integers(1, 3), st.integers(60, 140))


@settings(deadline=None, max_examples=50)
@given(SHAPES, st.integers(0, 100), st.sampled_from([1, 2, 5, 64, 1000]))
def test_any_chunks_give_what_a_loop_gives(shape, seed, chunk):
    actual, reference = pair(shape, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heatmap, "HEAT_MAP_CHUNK", chunk)
        found = heat_map(actual, reference)
    means, mismatched = slowly(actual, reference)
    assert found.shape == shape
    assert found.mismatched == mismatched
    close(found.mean, means)


@pytest.mark.parametrize("change", [np.asfortranarray, lambda x: x[::-1, :, ::2], lambda x: x.astype(">f8")])
def test_layout_and_byte_order_do_not_matter(change):
    actual, reference = map(change, pair((4, 6, 10)))
    found = heat_map(actual, reference)
    close(found.mean, slowly(actual, reference)[0])


def test_finite_pairs_are_those_of_compare():
    actual, reference = np.float16([[np.inf, 1, np.nan, 2]]), np.array([[7e4, 1.001, np.nan, np.inf]])
    counts = compare_arrays(actual, reference, rtol=0, atol=0).counts
    found = heat_map(actual, reference)
    assert [mean is not None for mean in found.mean[0]] == [False, True, False, False]
    assert (counts["inf_matched"], counts["inf_mismatched"]) == (1, 1)
    assert found.mismatched == [[0, 0, 0, 1]]


def test_the_whole_mean_is_that_of_compare():
    actual, reference = pair((5, 64, 64))
    found = heat_map(actual, reference)
    weights = np.isfinite(actual) & np.isfinite(reference)
    per_cell = weights.sum(axis=0)
    total = sum(
        mean * n for line, ns in zip(found.mean, per_cell, strict=True) for mean, n in zip(line, ns, strict=True) if n
    )
    mean = compare_arrays(actual, reference, rtol=0, atol=0).metrics["mean_abs_error"]
    assert total / weights.sum() == pytest.approx(mean, rel=1e-12)


def test_sums_beyond_float64_stay_numbers():
    large = np.full((2, 2, 2), 1.7e308)
    assert heat_map(large, -large).mean == [[np.finfo(np.float64).max] * 2] * 2


@pytest.mark.parametrize(
    ("actual", "reference"), [(np.zeros(3), np.zeros((3, 1))), (np.zeros((0, 4)), np.zeros((0, 4)))]
)
def test_what_has_no_map_is_refused(actual, reference):
    with pytest.raises(UserError, match="expected two arrays of one shape, with elements"):
        heat_map(actual, reference)


def test_a_mapped_file_is_read_chunk_by_chunk(tmp_path):
    shape = (64, 256, 512)
    for name, order in (("a", "C"), ("r", "F")):
        array = np.lib.format.open_memmap(tmp_path / f"{name}.npy", "w+", np.float32, shape, order == "F")
        array[:] = 1.0
        array.flush()
    actual, reference = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "ar")
    tracemalloc.start()
    try:
        heat_map(actual, reference)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32e6, "33 MB a side would have to be copied to be flat"


def recorded(actual, reference, accepted=(), digest="d"):
    compared = compare_arrays(actual, reference, rtol=1e-3, atol=0)
    (found,) = add_error_maps([compared], {"out": actual}, {"out": reference}, {"out": digest}, accepted)
    return found.error_map


def test_a_recorded_map_has_letters_of_a_quarter_octave():
    reference = np.ones((2, 4))
    actual = reference + np.array([[1, 0.5, 0.25, 0], [1 / 1024, 1e-9, np.nan, 0.75]])
    reference[0, 3] = actual[0, 3] = np.inf
    assert recorded(actual, reference) == ErrorGrid(1.0, ("aei.", "OZ!b"))


def test_a_recorded_map_has_at_most_32_cells_an_axis_for_any_chunks(monkeypatch):
    reference = np.random.default_rng(1).normal(size=(3, 70, 45))
    actual = reference * 1.01
    whole = recorded(actual, reference)
    assert (len(whole.rows), {len(row) for row in whole.rows}) == (32, {32})
    monkeypatch.setattr(heatmap, "HEAT_MAP_CHUNK", 50)
    assert recorded(actual, reference) == whole


def test_only_bits_that_nobody_accepted_are_mapped():
    reference = np.ones(8)
    near, far = reference * (1 + 1e-6), reference * 1.1
    assert recorded(far, reference, accepted=None) is UNSET
    assert recorded(far, reference, accepted=("d",)) is UNSET
    assert recorded(near, reference, accepted=("other",)).rows == ("aaaaaaaa",)
    assert recorded(near, reference) is UNSET
    assert recorded(far, reference).rows == ("aaaaaaaa",)
    assert recorded(reference, reference, accepted=("other",)) is UNSET
    assert recorded(far[:1], reference[:1]) is UNSET
