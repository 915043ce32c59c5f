"""The analyzer "classes", against mpmath: divergences of any size, and rows that have none."""

import ml_dtypes
import mpmath
import numpy as np
import pytest

from precreg.measure.classes import classes
from precreg.suite.load import load_suites
from tests.e2e.command import precreg, repository


def exactly(ours, exact):
    """Return the KL divergence of two rows of logits with 60 digits."""
    with mpmath.workdps(60):
        p, q = ([mpmath.exp(mpmath.mpf(float(one))) for one in row] for row in (ours, exact))
        p, q = ([one / mpmath.fsum(row) for one in row] for row in (p, q))
        return float(mpmath.fsum(b * mpmath.log(b / a) for a, b in zip(p, q, strict=True)))


@pytest.mark.parametrize("error", [1e-12, 1e-9, 1e-6, 1e-3, 0.3, 1.0, 4.0, 50.0])
def test_the_divergence_has_13_digits_however_small(error):
    random = np.random.default_rng(4)
    exact = random.normal(0, 3, (6, 20))
    ours = exact + error * random.normal(0, 1, exact.shape)
    rows = [exactly(*pair) for pair in zip(ours, exact, strict=True)]
    figures = classes(ours, exact)
    # Logits of 10 are whole multiples of 2^-49, so differences of 1e-12 have three digits, and the rows agree in them.
    assert figures["kl_divergence"] == pytest.approx(np.mean(rows), rel=1e-12)
    assert figures["max_kl_divergence"] == pytest.approx(max(rows), rel=1e-12)


def test_a_shift_of_all_logits_changes_nothing():
    exact = np.array([[1.0, 2.0, 4.0], [0.5, 0.25, 8.0]])
    figures = classes(exact + 64, exact)
    assert figures["top1_agreement"] == 1
    assert 0 <= figures["kl_divergence"] <= figures["max_kl_divergence"] < 1e-24


def test_classes_that_flip_are_counted():
    exact = np.array([[1.0, 2, 3], [3, 2, 1], [1, 3, 2], [0, 1, 5]])
    ours = exact.copy()
    ours[1] = [2, 3, 1]
    assert classes(ours.astype(ml_dtypes.bfloat16), exact)["top1_agreement"] == 0.75
    assert classes(ours.reshape(2, 2, 3), exact.reshape(2, 2, 3))["top1_agreement"] == 0.75


def test_hidden_classes_add_nothing_and_lost_ones_are_infinitely_far():
    exact, ours = np.array([[0.0, 1.0, -np.inf]]), np.array([[0.5, 1.0, -np.inf]])
    assert classes(ours, exact)["kl_divergence"] == pytest.approx(exactly([0.5, 1], [0, 1]))
    assert classes(np.array([[0.0, -np.inf]]), np.array([[0.0, 0.0]]))["kl_divergence"] == np.inf
    assert np.isnan(classes(np.array([[0.0, np.nan]]), np.array([[0.0, 0.0]]))["kl_divergence"])


@pytest.mark.parametrize("array", [np.array(1.5), np.zeros((3, 1)), np.arange(4), np.zeros(4, complex)])
def test_other_outputs_have_no_figures(array):
    assert classes(array, array) == {}


SUITE = """suite: head
about: Logits in float16
subject: kernels:head
reference: kernels:head
analyzers: [classes]
seeds: 2
inputs: {x: {shape: [8, 16], dtype: float16, normal: {mean: 0, std: 1}}}
tolerance: {rtol: 1e-2, atol: 1e-2, classes.kl_divergence: LIMIT, classes.top1_agreement: 1}
"""


@pytest.mark.parametrize(("limit", "code"), [("1e-4", 2), ("1e-12", 1)])
def test_a_suite_bounds_it_without_an_installed_package(tmp_path, limit, code):
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/kernels.py").write_text("def head(x):\n    return x * x.dtype.type(3)\n")
    (tmp_path / "suites/unit/head.yaml").write_text(SUITE.replace("LIMIT", limit))
    project = repository(tmp_path)
    assert load_suites(project)[0].file.analyzers == ("classes",)
    done = precreg(project, "run")
    assert done.returncode == code, done.stdout
    assert ("classes.kl_divergence" in done.stdout) == (code == 1)
