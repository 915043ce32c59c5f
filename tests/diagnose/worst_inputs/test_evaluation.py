"""Errors by element agree with the metrics of a run, and trials are as independent as the kernel is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from precreg.arithmetic.formats import numpy_dtype
from precreg.diagnose.worst_inputs.domain import find_domains
from precreg.diagnose.worst_inputs.evaluation import Layout, element_errors, find_layout, require_searchable
from precreg.errors import UserError
from precreg.measure.comparison import compare_arrays, share_of_tolerance
from tests.diagnose.worst_inputs.made import case_of, drawn, evaluator

METRICS = ("max_ulp", "max_rel_error", "max_abs_error")


@given(
    st.sampled_from(["float16", "bfloat16", "float32", "float64", "float8_e5m2"]),
    arrays.arrays(np.float64, 6, elements=st.floats(-1e5, 1e5)),
    arrays.arrays(np.float64, 6, elements=st.floats(-1e-2, 1e-2)),
)
def test_the_largest_element_error_is_the_metric_of_a_run(dtype, exact, noise):
    with np.errstate(all="ignore"):
        actual = (exact * (1 + noise)).astype(numpy_dtype(dtype))
    # float64 is measured against a longdouble that no float64 equals.
    wide = exact.astype(np.longdouble) * (1 + np.longdouble(2) ** -60) if dtype == "float64" else exact
    measured = compare_arrays(actual, wide, rtol=1e-3, atol=1e-5)
    for metric in METRICS:
        errors = element_errors(actual, wide, metric)
        if np.isfinite(errors).all():
            assert errors.max() == pytest.approx(measured.metrics.get(metric, 0.0), rel=1e-12, abs=0)
        else:
            mismatched = ("nan_mismatched", "plus_inf_mismatched", "minus_inf_mismatched")
            assert any(measured.counts.get(name) for name in mismatched) or measured.counts.get("inf_mismatched")
    shares = element_errors(actual, wide, "tolerance", (1e-3, 1e-5))
    assert shares.max() == pytest.approx(share_of_tolerance(actual, wide, 1e-3, 1e-5), rel=1e-12)


def test_values_that_are_finite_on_one_side_alone_are_infinite_errors():
    exact = np.array([np.nan, np.inf, 1e6, 1.0, np.nan, 65519.0])
    actual = np.array([np.nan, np.inf, np.inf, np.nan, 1.0, 65504.0], np.float16)
    # 1e6 rounds to infinity in float16, and 65519 to the largest number.
    assert element_errors(actual, exact, "max_abs_error").tolist() == [0, 0, 0, np.inf, np.inf, 15]
    saturating = np.array([448.0, np.nan]).astype(numpy_dtype("float8_e4m3fn"))
    assert element_errors(saturating, np.array([1e6, 1e6]), "max_abs_error").tolist() == [np.inf, 0]


@given(st.sampled_from(["leading", "trailing"]), st.integers(0, 3), st.integers(0, 10**6))
def test_parts_of_a_layout_are_slices_of_the_array(side, axes, number):
    shape = (2, 3, 4)
    own = shape[:axes] if side == "leading" else shape[3 - axes :]
    layout = Layout(side, own, ("x",))
    array = np.arange(24).reshape(shape)
    parts = layout.split(array)
    assert parts.shape == (layout.trials, 24 // layout.trials)
    assert np.array_equal(layout.join(parts, shape), array)
    trial, element = number % parts.shape[0], number % parts.shape[1]
    assert array[layout.place(trial, element, shape)] == parts[trial, element]


KERNELS = {
    "np.exp(x) * y": ("leading", (6, 5), ("x", "y")),
    "np.cumsum(x, axis=1) + y": ("leading", (6,), ("x", "y")),
    "x.mean(axis=0)": ("trailing", (5,), ("x", "y")),
    "x / x.sum(-1, keepdims=True)": ("leading", (6,), ("x", "y")),
    "x / x.sum()": ("leading", (), ("x", "y")),
    "x + y[0]": ("trailing", (5,), ("x", "y")),
    "x @ y.T @ y": ("leading", (), ("x", "y")),
    "np.sort(x, axis=None).reshape(x.shape)": ("leading", (), ("x", "y")),
}


@pytest.mark.parametrize("expression", KERNELS)
def test_trials_are_the_parts_that_do_not_touch_each_other(tmp_path, expression):
    kernels = f"def subject(x, y):\n    return {expression}\n\n\nexact = subject\n"
    tried = evaluator(tmp_path, kernels, x=drawn([6, 5]), y=drawn([6, 5]))
    inputs, results = tried.start(0)
    domains = find_domains(tried.case, {}, tried.directory, tmp_path)
    layout = find_layout(tried, inputs, results, domains, 0)
    side, shape, searched = KERNELS[expression]
    assert (layout.shape, layout.searched) == (shape, searched)
    assert layout.side == side or shape in ((), (6, 5))


@pytest.mark.parametrize(
    ("columns", "formula", "shape", "searched"),
    [
        (4, "x @ w", (6,), ("x",)),
        (30, "x @ w", (30,), ("w",)),
        (30, "x @ w @ w.T", (), ("x", "w")),
    ],
)
def test_the_smaller_factor_is_held_if_the_larger_one_has_trials(tmp_path, columns, formula, shape, searched):
    kernels = f"def subject(x, w):\n    return {formula}\n\n\nexact = subject\n"
    tried = evaluator(tmp_path, kernels, x=drawn([6, 5]), w=drawn([5, columns]))
    inputs, results = tried.start(0)
    layout = find_layout(tried, inputs, results, find_domains(tried.case, {}, tried.directory, tmp_path), 0)
    assert (layout.shape, layout.searched) == (shape, searched)


FAILING = {
    "def subject(x):\n    return x * np.random.random()\n\n\ndef exact(x):\n    return x\n": "two runs",
    "def subject(x):\n    return x > 0\n\n\nexact = subject\n": "expected a floating output",
    "def subject(x):\n    return x\n\n\ndef exact(x):\n    return x.astype(np.float32)\n": "wider than float32",
}


@pytest.mark.parametrize("kernels", FAILING)
def test_a_subject_or_reference_that_a_search_cannot_judge(tmp_path, kernels):
    with pytest.raises(UserError) as caught:
        evaluator(tmp_path, kernels, x=drawn([6])).start(0)
    assert caught.value.slug == "unsearchable"
    assert FAILING[kernels] in caught.value.message


def test_a_subject_that_fails_on_its_own_inputs_names_its_error(tmp_path):
    kernels = "def subject(x):\n    raise ValueError('no data')\n\n\ndef exact(x):\n    return x\n"
    with pytest.raises(UserError, match="no data") as caught:
        evaluator(tmp_path, kernels, x=drawn([6])).start(0)
    assert caught.value.slug == "search-failed"


def test_a_golden_is_no_measure_of_an_error(tmp_path):
    case = case_of(tmp_path, "def subject(x):\n    return x\n\n\nexact = subject\n", x=drawn([6]))
    file = tmp_path / "suites/unit/s.yaml"
    file.write_text(file.read_text().replace("reference:", "golden:"))
    from precreg.suite.expand import load_cases

    require_searchable(case, ("generic",))
    with pytest.raises(UserError, match="has a golden") as caught:
        require_searchable(load_cases(tmp_path)[0], ("generic",))
    assert caught.value.slug == "unsearchable"
