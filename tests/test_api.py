"""precreg.compare: which rtol and atol hold, what is refused, and what importing it costs those who do not."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import precreg

ONE_AND_A_BIT = 1 + 2e-3


def matched(actual, **settings):
    """Return the share of matches of an array of one number with 1."""
    return precreg.compare(actual, np.ones_like(actual, np.float64), **settings).metrics["match_ratio"]


@pytest.mark.parametrize(("dtype", "share"), [(np.float32, 0.0), (np.float16, 0.0), (ml_dtypes.bfloat16, 1.0)])
def test_without_settings_the_shipped_standard_holds_for_the_dtype(dtype, share):
    assert matched(np.full(3, 1.008, dtype)) == share


def test_a_standard_in_its_place():
    actual = np.full(3, 1 + 5e-5, np.float32)
    assert (matched(actual), matched(actual, standard="onnxruntime-1")) == (0, 1)


def test_a_standard_that_matches_nothing_leaves_the_shipped_figures():
    near, far = np.full(3, 1 + 5e-7, np.float32), np.full(3, 1 + 5e-5, np.float32)
    assert [matched(array, standard="msprobe-binary-26.2.0") for array in (near, far)] == [1, 0]


def test_what_is_given_holds_and_the_other_stays():
    actual = np.full(3, 1 + 5e-5, np.float32)
    assert matched(actual, rtol=1e-4) == 1
    assert matched(actual, atol=1e-4) == 1
    assert matched(actual, rtol=np.float32(0), atol=0) == 0


@pytest.mark.parametrize("settings", [{"rtol": -1}, {"atol": float("nan")}, {"rtol": float("inf")}])
def test_a_limit_that_is_none_is_refused(settings):
    with pytest.raises(precreg.UserError) as caught:
        precreg.compare([1.0], [1.0], **settings)
    assert caught.value.slug == "bad-value"


@pytest.mark.parametrize(
    ("slug", "settings"),
    [("unknown-standard", {"standard": "torch-2.31"}), ("unknown-analyzer", {"analyzers": ["sings"]})],
)
def test_unknown_names_are_refused(slug, settings):
    with pytest.raises(precreg.UserError) as caught:
        precreg.compare([1.0], [1.0], **settings)
    assert caught.value.slug == slug


def test_one_name_is_no_list_of_names():
    with pytest.raises(precreg.UserError, match="expected a list of names but got analyzers='signs'"):
        precreg.compare([1.0], [1.0], analyzers="signs")


MASKED = np.ma.MaskedArray([1.0, 2.0], [False, True])


@pytest.mark.parametrize(
    ("says", "given", "settings"),
    [
        ("got actual: ", [[1.0], [1.0, 2.0]], {}),
        ("got a mask: actual", MASKED, {}),
        ("got standard={'name'", [1.0, 2.0], {"standard": {"name": "torch-2.13"}}),
    ],
)
def test_what_is_no_plain_array_or_name_is_refused(says, given, settings):
    with pytest.raises(precreg.UserError, match=says) as caught:
        precreg.compare(given, [1.0, 2.0], **settings)
    assert caught.value.slug == "bad-value"


def test_a_mask_without_masked_elements_is_none():
    assert precreg.compare(np.ma.MaskedArray([1.0, 2.0]), [1.0, 2.0]).counts["n"] == 2


def test_a_mistake_without_a_file_names_none():
    with pytest.raises(precreg.UserError) as caught:
        precreg.compare([1.0], [1.0], standard="torch-2.31")
    assert str(caught.value).startswith("error[unknown-standard]")


def test_worst_limits_what_is_named():
    found = precreg.compare(np.arange(9.0), np.zeros(9), worst=2)
    assert found.worst.index == [8, 7]


def test_threads_change_nothing_and_positions_of_large_arrays_are_theirs():
    reference = np.arange(3 * 2**18 + 5, dtype=np.float64)
    actual = reference.copy()
    places = [2**18 + 1, 3 * 2**18 + 4, 7]
    actual[places] += [3, 2, 1]
    one, two, left_to_us = (precreg.compare(actual, reference, threads=threads) for threads in (1, 2, None))
    assert one == two == left_to_us
    assert one.worst.index == places
    assert one.worst.reference == reference[places].tolist()
    assert one.worst.actual == actual[places].tolist()


def test_lists_are_taken_as_numpy_takes_them():
    assert precreg.compare([[1, 2]], [[1, 4]]).metrics["max_abs_error"] == 2


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import precreg", ["numpy", "msgspec", "typing", "importlib.metadata"]),
        ("import precreg; precreg.Comparison, precreg.METRICS, precreg.analyzer", ["numpy", "importlib.metadata"]),
        ("import precreg; precreg.compare([1.0], [1.0])", ["importlib.metadata", "precreg.suite", "precreg.verdict"]),
    ],
)
def test_nothing_is_imported_before_it_is_needed(code, absent):
    shown = f"{code}\nimport sys; print([name for name in {absent} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-S", "-c", shown], capture_output=True, text=True, check=True, env=PATHS)
    assert done.stdout == "[]\n"


PATHS = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
"""Where modules are; -S keeps what .pth files import out of the way."""
