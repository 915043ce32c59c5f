"""What a person is shown of a calibration."""

from precreg.quality.calibration import CaseCalibration, MeanError
from precreg.report.calibration import render_calibrations
from tests.quality.calibration.made import HERE

RUNS = {"own": 1, "reseeded": 8, "last-bit": 8, "reordered": 0}


def shown(*mean_errors):
    case = CaseCalibration("unit/s/a", "unit", "s", "a", HERE, 1, RUNS, (), mean_errors, (), "no sum was seen", ())
    return render_calibrations([case], [], all_shown=True)


def test_a_factor_from_which_a_change_stands_out_never_looks_like_none():
    told = shown(MeanError("out", 9, 0.0001, 1.00042), MeanError("far", 9, 0.1, 1.528))
    assert "out: the mean error varies by 0.01 % over 9 runs; a change stands out from a factor of 1.0004\n" in told
    assert "far: the mean error varies by 10 % over 9 runs; a change stands out from a factor of 1.53\n" in told


def test_of_too_few_runs_nothing_is_told():
    assert "varies" not in shown(MeanError("out", 4, None, None))
