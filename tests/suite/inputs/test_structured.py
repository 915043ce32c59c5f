"""Distributions with a structure have it in every dtype, and the same bits under other kernels of numpy."""

import json
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.arithmetic import format_of
from precreg.errors import UserError
from precreg.suite.inputs.draw import draw_input
from precreg.suite.inputs.generators import InputGenerator
from precreg.suite.inputs.spec import parse_input
from precreg.types.case import Location
from tests.e2e.command import environ
from tests.e2e.test_escalation import disabled_features
from tests.suite.inputs.golden_digests import TABLE

HERE = Location("suites/unit/s.yaml", 3)
SEEDS = st.integers(0, 1000)
SIZES = st.integers(1, 9)
FLOATS = st.sampled_from(["float16", "bfloat16", "float32", "float64"])


def draw(shape, dtype, seed=0, **distribution):
    spec = parse_input("x", {"shape": list(shape), "dtype": dtype, **distribution}, HERE)
    return draw_input("x", spec, seed, HERE, HERE)


def refusal(shape, dtype, **distribution):
    with pytest.raises(UserError) as caught:
        parse_input("x", {"shape": list(shape), "dtype": dtype, **distribution}, HERE)
    assert (caught.value.slug, caught.value.line) == ("bad-value", 3)
    return caught.value.message


def test_all_inputs_have_the_golden_bits_under_plainer_kernels_of_numpy():
    """The golden table has every distribution; numpy picks other kernels with these features turned off."""
    variables = environ(NPY_DISABLE_CPU_FEATURES=disabled_features(), OPENBLAS_CORETYPE="Prescott")
    command = [sys.executable, "-m", "tests.suite.inputs.golden_digests"]
    shown = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    assert json.loads(shown) == json.loads(TABLE.read_text())


@given(SEEDS, SIZES, st.sampled_from(["float32", "float64"]), st.floats(1, 1e4))
@settings(deadline=None, max_examples=40)
def test_definite_matrices_are_symmetric_and_have_their_condition(seed, size, dtype, condition):
    matrix = draw((size, size), dtype, seed, spd={"condition": condition})
    assert np.array_equal(matrix, matrix.T)
    eigenvalues = [float(value) for value in mpmath.eigsy(mpmath.matrix(matrix.tolist()), eigvals_only=True)]
    # Rounding to the dtype moves each eigenvalue by at most the norm of the rounding errors.
    error = size * format_of(dtype).unit_roundoff + 1e-13
    assert eigenvalues[0] > 0
    assert eigenvalues[-1] == pytest.approx(1, abs=error)
    if size > 1:
        assert eigenvalues[0] == pytest.approx(1 / condition, abs=error)


@given(SEEDS, SIZES, SIZES)
@settings(deadline=None, max_examples=40)
def test_orthogonal_matrices_have_orthonormal_columns_or_rows(seed, rows, columns):
    matrix = draw((2, rows, columns), "float64", seed, orthogonal={})
    for each in matrix:
        longer = each if rows >= columns else each.T
        exact = mpmath.matrix(longer.T.tolist()) * mpmath.matrix(longer.tolist())
        assert mpmath.mnorm(exact - mpmath.eye(min(rows, columns)), "f") < 1e-14
    assert not np.array_equal(*matrix) or max(rows, columns) == 1


def test_orthogonal_matrices_are_uniform_over_all_of_them():
    """The elements of a Haar matrix have mean 0 and variance 1/n, and half of the determinants are -1."""
    matrices = draw((400, 4, 4), "float64", orthogonal={})
    assert np.abs(matrices.mean(axis=0)).max() < 4 * 0.5 / np.sqrt(400)
    assert np.abs((matrices**2).mean(axis=0) - 0.25).max() < 0.06
    assert 150 < np.count_nonzero(np.linalg.det(matrices) < 0) < 250


@given(SEEDS, FLOATS, st.booleans())
@settings(deadline=None, max_examples=25)
def test_sorted_numbers_are_sorted_in_their_dtype(seed, dtype, descending):
    rows = draw((3, 40), dtype, seed, sorted={"low": -1, "high": 2, "descending": descending}).astype(np.float64)
    steps = np.diff(rows, axis=-1)
    assert ((steps <= 0) if descending else (steps >= 0)).all()
    assert rows.min() >= -1
    assert rows.max() <= 2


def test_sparse_arrays_have_their_density_and_keep_values_when_it_grows():
    thin, dense = (draw((200, 50), "float64", sparse={"density": share}) for share in (0.05, 0.5))
    assert np.count_nonzero(thin) == pytest.approx(500, abs=4 * np.sqrt(500))
    assert np.count_nonzero(dense) == pytest.approx(5000, abs=4 * 50)
    assert np.array_equal(dense[thin != 0], thin[thin != 0])
    assert not draw((10,), "float32", sparse={"density": 0}).any()


@given(SEEDS, st.integers(1, 300), st.floats(0, 3))
@settings(deadline=None, max_examples=25)
def test_tokens_are_ids_of_the_vocabulary(seed, vocabulary, exponent):
    ids = draw((64,), "int32", seed, tokens={"vocabulary": vocabulary, "exponent": exponent})
    assert ids.min() >= 0
    assert ids.max() < vocabulary


def test_tokens_follow_zipfs_law():
    ids = draw((40000,), "int64", tokens={"vocabulary": 1000})
    expected = 1 / (np.arange(1, 1001) * np.sum(1 / np.arange(1, 1001)))
    counted = np.bincount(ids, minlength=1000) / 40000
    assert np.abs(counted - expected)[:20].max() < 4 * np.sqrt(0.14 * 0.86 / 40000)


@given(SEEDS, st.integers(0, 40), st.integers(0, 40))
@settings(deadline=None, max_examples=25)
def test_images_are_in_their_range(seed, height, width):
    images = draw((2, 3, height, width), "float32", seed, images={})
    assert images.shape == (2, 3, height, width)
    assert ((images >= 0) & (images <= 1)).all()
    normalized = draw((2, 3, height, width), "float64", seed, images={"normalized": True})
    plain = draw((2, 3, height, width), "float64", seed, images={})
    assert np.array_equal(normalized, (plain - 0.45) / 0.225)


def test_images_are_smooth_apart_from_edges():
    image = draw((64, 64), "float64", images={})
    steps = np.sort(np.abs(np.diff(image, axis=1)).ravel())
    assert steps[len(steps) // 2] < 0.1 * np.ptp(image), "most neighbours are alike"
    assert image.std() > 0.05


def test_masks_show_what_attention_may_see():
    causal = draw((3, 5), "bool", mask={})
    assert causal.astype(int).tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    additive = draw((2, 2), "float16", mask={"additive": True})
    assert additive.tolist() == [[0, -np.inf], [0, 0]]
    lengths = draw((500, 6), "int8", mask={"kind": "padding"}).sum(axis=1)
    assert set(lengths) == {1, 2, 3, 4, 5, 6}
    assert (np.diff(draw((500, 6), "int8", mask={"kind": "padding"}), axis=1) <= 0).all()


@given(SEEDS, st.integers(1, 50), st.sampled_from(["float16", "float32", "float64"]))
@settings(deadline=None, max_examples=25)
def test_rows_of_probabilities_add_up_to_one(seed, length, dtype):
    rows = draw((4, length), dtype, seed, probabilities={})
    assert (rows >= 0).all()
    error = (length + 2) * format_of(dtype).unit_roundoff
    assert np.abs(rows.astype(np.longdouble).sum(axis=-1) - 1).max() <= error


@pytest.mark.parametrize(
    ("shape", "dtype", "distribution", "says"),
    [
        ((3, 4), "float32", {"spd": {}}, "expected square matrices but got shape=[3, 4]"),
        ((3,), "float32", {"spd": {}}, "expected 2 axes or more but got shape=[3]"),
        ((3, 3), "int32", {"spd": {}}, "expected a real floating dtype but got dtype=int32"),
        ((3, 3), "float32", {"spd": {"condition": 0.5}}, "condition >= 1 but got condition=0.5"),
        ((64, 64), "float16", {"spd": {"condition": 1e6}}, "beyond which float16 may round away definiteness"),
        ((3,), "complex64", {"sorted": {}}, "expected a real floating dtype"),
        ((3,), "float32", {"sorted": {"low": 1, "high": 1}}, "expected low < high"),
        ((), "float32", {"sorted": {}}, "expected 1 axes or more"),
        ((3,), "float32", {"sparse": {"density": 1.5}}, "0 <= density <= 1 but got density=1.5"),
        ((3,), "int8", {"tokens": {"vocabulary": 1000}}, "from -128 to 127 for dtype=int8 but got 999"),
        ((3,), "int8", {"tokens": {"vocabulary": 0}}, "vocabulary=0"),
        ((3,), "float32", {"images": {}}, "expected 2 axes or more"),
        ((3, 3), "int8", {"mask": {"additive": True}}, "a dtype with infinities beside additive but got dtype=int8"),
        ((3,), "float32", {"mask": {}}, "expected 2 axes or more"),
        ((3, 3), "float32", {"mask": {"kind": "block"}}, "causal or padding but got kind=block"),
        ((3, 0), "float32", {"probabilities": {}}, "expected rows with elements but got shape=[3, 0]"),
    ],
)
def test_what_a_dtype_or_a_shape_cannot_hold_is_refused(shape, dtype, distribution, says):
    assert says in refusal(shape, dtype, **distribution)


def test_a_generator_gives_the_numbers_of_the_distributions_one_word_each():
    generator = InputGenerator("x", 3)
    normal = draw((5,), "float64", 3, normal={})
    assert np.array_equal(generator.normal(2), normal[:2])
    assert np.array_equal(generator.normal((3,)), normal[2:])
    assert np.array_equal(generator.uniform(4), draw((9,), "float64", 3, uniform={})[5:])
    assert np.array_equal(
        InputGenerator("x", 3).integers((2, 3), 0, 7), draw((2, 3), "int64", 3, integers={"low": 0, "high": 7})
    )


def test_permutations_and_choices():
    generator = InputGenerator("x", 0)
    assert sorted(generator.permutation(50)) == list(range(50))
    assert set(generator.choice(["a", "b"], 50)) == {"a", "b"}
    exponential = generator.exponential(20000)
    assert exponential.min() > 0
    assert exponential.mean() == pytest.approx(1, abs=4 / np.sqrt(20000))
    assert generator.words((2, 3)).dtype == np.uint64
