"""The recorded outputs: complete, as their script would make them again, and of the accuracy that is claimed."""

import json

import mpmath
import numpy as np
import pytest

from tests.suites.kernel_files import SUITES, load

record_numpy = load("unit/recorded/record_numpy")
FOLDER = SUITES / "unit" / "recorded" / "arctan2"
NAMES = ["near_axis", "unit_square", "wide_range"]
MEAN_ULP = {
    "near_axis": {"1.23.5": 0.2733, "1.24.4": 0.3546},
    "unit_square": {"1.23.5": 0.2953, "1.24.4": 0.4510},
    "wide_range": {"1.23.5": 0.3011, "1.24.4": 0.3846},
}


def test_every_version_has_every_file():
    versions = json.loads((FOLDER / "metadata.json").read_text())["versions"]
    folders = [FOLDER / "inputs", FOLDER / "golden", *(FOLDER / "outputs" / version for version in versions)]
    for folder in folders:
        assert sorted(path.stem for path in folder.iterdir()) == NAMES
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 310_000


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_what_the_script_draws(name):
    assert np.array_equal(np.load(FOLDER / "inputs" / f"{name}.npy"), record_numpy.inputs()[name])


@pytest.mark.parametrize("name", NAMES)
def test_golden_is_correctly_rounded(name):
    (y, x), golden = np.load(FOLDER / "inputs" / f"{name}.npy"), np.load(FOLDER / "golden" / f"{name}.npy")
    assert golden.dtype == np.float64
    np.testing.assert_array_max_ulp(golden, np.arctan2(y.astype(np.float64), x.astype(np.float64)), 2)
    with mpmath.workdps(60):
        for index in range(0, len(golden), 64):
            angle = mpmath.arg(mpmath.mpc(float(x[index]), float(y[index])))
            assert abs(angle - mpmath.mpf(float(golden[index]))) <= np.spacing(abs(golden[index])) * mpmath.mpf("0.5")


@pytest.mark.parametrize("version", ["1.23.5", "1.24.4"])
@pytest.mark.parametrize("name", NAMES)
def test_mean_ulp_is_as_claimed(name, version):
    actual, golden = np.load(FOLDER / "outputs" / version / f"{name}.npy"), np.load(FOLDER / "golden" / f"{name}.npy")
    assert actual.dtype == np.float32
    ulp = np.spacing(np.abs(golden).astype(np.float32)).astype(np.float64)
    errors = np.abs(actual - golden) / ulp
    assert errors.mean() == pytest.approx(MEAN_ULP[name][version], abs=5e-5)
    assert errors.max() < 4
