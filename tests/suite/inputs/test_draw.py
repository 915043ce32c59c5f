from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.formats import FORMATS, numpy_dtype
from precreg.arithmetic.rounding import cast
from precreg.errors import UserError
from precreg.suite.inputs import draw as draw_module
from precreg.suite.inputs.draw import draw_input
from precreg.suite.inputs.spec import parse_input
from precreg.types.case import Location
from tests.suite.inputs.golden_digests import DRAWS

HERE = Location("suites/unit/softmax.yaml", 12)
NOWHERE = Path("/nonexistent")


def drawn(name="x", seed=0, directory=NOWHERE, **mapping):
    return draw_input(name, parse_input(name, mapping, HERE), seed, directory, directory)


@pytest.mark.parametrize("mapping", DRAWS.values(), ids=DRAWS.keys())
def test_arrays_are_as_specified(mapping):
    array = drawn(**mapping)
    assert array.dtype == numpy_dtype(mapping["dtype"])
    assert array.shape == tuple(mapping["shape"])
    assert array.flags.c_contiguous
    assert array.dtype.isnative


@pytest.mark.parametrize("mapping", DRAWS.values(), ids=DRAWS.keys())
def test_blocks_do_not_change_the_bits(mapping, monkeypatch):
    whole = drawn(**mapping)
    monkeypatch.setattr(draw_module, "_BLOCK", 7)
    assert drawn(**mapping).tobytes() == whole.tobytes()


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 3))
def test_a_shorter_array_is_the_start_of_a_longer_one(one, other, seed):
    short, long = sorted([one, other])
    arrays = [drawn(seed=seed, shape=n, dtype="float32", normal={}) for n in (short, long)]
    np.testing.assert_array_equal(arrays[0], arrays[1][:short])


@given(st.sampled_from(sorted(set(FORMATS) & set(dir(ml_dtypes)) | {"float16", "float32"})), st.integers(0, 9))
def test_dtypes_are_roundings_of_the_same_numbers(dtype, seed):
    numbers = drawn(seed=seed, shape=[5, 7], dtype="float64", normal={"mean": 1, "std": 3})
    rounded = drawn(seed=seed, shape=[5, 7], dtype=dtype, normal={"mean": 1, "std": 3})
    assert rounded.tobytes() == cast(numbers, dtype).tobytes()


def test_names_and_seeds_draw_different_numbers():
    arrays = [drawn(name, seed, shape=4, dtype="float64", uniform={}) for name in "xy" for seed in (0, 1)]
    assert len({array.tobytes() for array in arrays}) == 4


def test_scalars_and_empty_arrays():
    assert drawn(shape=[], dtype="float16", normal={}).shape == ()
    assert drawn(shape=[2, 0, 3], dtype="bfloat16", special={}).shape == (2, 0, 3)
    assert drawn(shape=[0, 9], dtype="float32", ill_conditioned_sum={}).shape == (0, 9)


def test_complex_numbers_are_pairs_of_real_ones():
    pairs = drawn(shape=[3, 2], dtype="float32", normal={})
    np.testing.assert_array_equal(drawn(shape=3, dtype="complex64", normal={}), pairs[:, 0] + 1j * pairs[:, 1])


def test_special_values_are_cycled():
    array = drawn(shape=5, dtype="float16", special={"values": ["-zero", "largest", "nan"]})
    np.testing.assert_array_equal(array, np.array([-0.0, 65504, np.nan, -0.0, 65504], np.float16))
    assert np.signbit(array[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
def test_special_values_are_at_the_edges(dtype):
    edges = ["smallest_subnormal", "largest_subnormal", "smallest_normal", "largest", "infinity"]
    array = drawn(shape=5, dtype=dtype, special={"values": edges})
    limits = ml_dtypes.finfo(numpy_dtype(dtype))
    below_normal = np.nextafter(limits.smallest_normal, np.zeros((), array.dtype)[()])
    expected = [limits.smallest_subnormal, below_normal, limits.smallest_normal, limits.max, np.inf]
    assert [float(number) for number in array] == [float(number) for number in expected]


def test_integers_have_their_own_edges():
    np.testing.assert_array_equal(drawn(shape=4, dtype="int16", special={}), [0, -(2**15), 2**15 - 1, 0])
    np.testing.assert_array_equal(drawn(shape=3, dtype="uint64", special={}), np.array([0, 0, 2**64 - 1], np.uint64))


def test_a_share_of_positions_gets_special_values_in_turn():
    rest = {"normal": {"mean": 3}}
    special = {"values": ["zero", "-infinity"], "share": 0.25, "rest": rest}
    array = drawn(shape=20_000, dtype="float32", special=special)
    plain = drawn(shape=20_000, dtype="float32", **rest)
    chosen = array != plain
    assert abs(np.mean(chosen) - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 20_000)
    np.testing.assert_array_equal(array[chosen], np.resize(np.float32([0, -np.inf]), np.sum(chosen)))


def test_integers_reach_every_value_of_small_ranges():
    assert set(drawn(shape=500, dtype="int8", integers={"low": -3, "high": 4})) == set(range(-3, 4))
    assert set(drawn(shape=50, dtype="bool", integers={"low": 0, "high": 2})) == {False, True}
    assert drawn(shape=500, dtype="uint64", integers={"low": 0, "high": 2**64}).max() > 2**63


def test_constants():
    assert np.all(drawn(shape=3, dtype="uint64", constant={"value": 2**64 - 1}) == np.uint64(2**64 - 1))
    assert np.all(drawn(shape=3, dtype="float16", constant={"value": 0.1}) == np.float16(0.1))


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[0.1, 7e4], [np.nan, -0.0]]))
    np.save(tmp_path / "whole.npy", np.array([1, 300], np.int64))
    np.save(tmp_path / "complex.npy", np.array([1j]))
    np.savez(tmp_path / "b.npz", x=np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]))
    return tmp_path


def test_files_are_rounded_to_the_dtype(folder):
    array = drawn(directory=folder, shape=[2, 2], dtype="float16", file={"path": "a.npy"})
    np.testing.assert_array_equal(array, np.array([[0.1, np.inf], [np.nan, -0.0]], np.float16))
    array = drawn(directory=folder, shape=[2, 2], dtype="bfloat16", file={"path": "b.npz", "key": "x"})
    np.testing.assert_array_equal(array.astype(float), [[1, 2], [3, 4]])
    assert array.flags.c_contiguous
    assert drawn(directory=folder, shape=1, dtype="complex64", file={"path": "complex.npy"})[0] == 1j
    assert drawn(directory=folder, shape=2, dtype="int16", file={"path": "whole.npy"})[1] == 300


@pytest.mark.parametrize(
    ("path", "dtype", "shape", "slug"),
    [
        ("none.npy", "float16", [2, 2], "missing-file"),
        ("../a.npy", "float16", [2, 2], "outside-project"),
        ("a.npy", "float16", [4], "bad-value"),
        ("a.npy", "int32", [2, 2], "bad-value"),
        ("whole.npy", "int8", [2], "bad-value"),
        ("complex.npy", "float32", [1], "bad-value"),
    ],
)
def test_files_that_do_not_fit_are_refused(folder, path, dtype, shape, slug):
    with pytest.raises(UserError) as caught:
        drawn(directory=folder, shape=shape, dtype=dtype, file={"path": path})
    assert caught.value.slug == slug
    assert caught.value.file is not None


def test_a_file_may_say_its_dtype_in_its_name(folder):
    stored = np.arange(2).astype("bfloat16")
    np.save(folder / "stored.npy", stored)
    (folder / "c.bfloat16.npy").symlink_to(folder / "stored.npy")
    np.savez(folder / "d.npz", **{"x.bfloat16": stored})
    for options in ({"path": "c.bfloat16.npy"}, {"path": "d.npz", "key": "x"}):
        array = drawn(directory=folder, shape=2, dtype="bfloat16", file=options)
        assert array.tobytes() == stored.tobytes()


def test_a_key_that_the_file_lacks_is_refused(folder):
    with pytest.raises(UserError, match="expected one of x but got key=y"):
        drawn(directory=folder, shape=[2, 2], dtype="float16", file={"path": "b.npz", "key": "y"})


@pytest.mark.parametrize("distribution", [{"constant": {"value": 0.0}}, {"normal": {"std": 0}}])
def test_zero_and_minus_zero_are_equal_options_that_draw_different_bits(distribution):
    kind, options = next(iter(distribution.items()))
    key = "value" if kind == "constant" else "mean"
    signs = [
        np.signbit(drawn(shape=64, dtype="float32", **{kind: {**options, key: zero}})) for zero in (0.0, -0.0, 0.0)
    ]
    assert (signs[0] == signs[2]).all()
    assert (signs[0] != signs[1]).any()


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_is_remembered_cannot_be_changed(dtype):
    with pytest.raises(ValueError, match="read-only"):
        drawn(shape=3, dtype=dtype, normal={})[0] = 1


class TestLegacyNormal:
    DIGEST = "1d5cad88a937239cf5bfbb571837e130"

    def test_numbers_are_those_of_many_a_published_example(self):
        array = drawn(shape=[2, 3], dtype="float32", legacy_normal={"seed": 42, "digest": self.DIGEST})
        first = [0.49671415, -0.1382643, 0.64768854, 1.52302986, -0.23415337, -0.23413696]
        assert array.ravel().tolist() == [float(np.float32(value)) for value in first]
        again = drawn("y", 3, shape=[2, 3], dtype="float32", legacy_normal={"seed": 42, "digest": self.DIGEST})
        assert np.array_equal(array, again), "whatever the input is called, and at every seed"

    def test_other_numbers_are_refused_with_their_digest(self):
        for seed, shape in ((43, [2, 3]), (42, [3, 2])):
            with pytest.raises(UserError, match=r"expected numbers of digest=1d5c.* drew digest=[0-9a-f]{32}") as error:
                drawn(shape=shape, dtype="float32", legacy_normal={"seed": seed, "digest": self.DIGEST})
            assert (error.value.slug, error.value.line) == ("bad-value", 12)

    @pytest.mark.parametrize(
        ("mapping", "message"),
        [
            ({"seed": -1, "digest": DIGEST}, "expected 0 <= seed < 2^32 but got seed=-1"),
            ({"seed": 2**32, "digest": DIGEST}, "but got seed=4294967296"),
            (
                {"seed": 1, "digest": DIGEST.upper()},
                "expected 32 hexadecimal digits, small letters, but got digest=1D5C",
            ),
            ({"seed": 1, "digest": "1d5c"}, "but got digest=1d5c"),
            ({"seed": 1}, "expected digest: but the key is not there"),
        ],
    )
    def test_what_it_cannot_be_is_told_before_anything_is_drawn(self, mapping, message):
        with pytest.raises(UserError) as error:
            parse_input("x", {"shape": 2, "dtype": "float32", "legacy_normal": mapping}, HERE)
        assert message in error.value.message

    @pytest.mark.parametrize("dtype", ["int8", "complex64", "bool"])
    def test_only_real_floating_arrays(self, dtype):
        with pytest.raises(UserError, match=f"expected a real floating dtype but got dtype={dtype}"):
            parse_input("x", {"shape": 2, "dtype": dtype, "legacy_normal": {"seed": 1, "digest": self.DIGEST}}, HERE)
