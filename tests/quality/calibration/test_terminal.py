"""What a person is shown of a calibration."""

from typing import get_args

from precreg.quality.bounds import BoundFault, FarAboveNoise, LikelyBreak, NoError, OwnRunBreaks, RunsBreak
from precreg.quality.calibration import CaseCalibration, MeanError, Uncalibrated
from precreg.report.calibration import describe_fault, describe_uncalibrated, render_calibrations
from precreg.types.warning import VacuousTolerance
from tests.quality.calibration.made import HERE

RUNS = {"own": 1, "reseeded": 8, "last-bit": 8, "reordered": 0}


def shown(*mean_errors):
    case = CaseCalibration("unit/s/a", "unit", "s", "a", HERE, 1, RUNS, (), mean_errors, (), "unseen", ())
    return render_calibrations([case], [], all_shown=True)


def test_a_factor_from_which_a_change_stands_out_never_looks_like_none():
    told = shown(MeanError("out", 9, 0.0001, 1.00042), MeanError("far", 9, 0.1, 1.528))
    assert "out: the mean error varies by 0.01 % over 9 runs; a change stands out from a factor of 1.0004\n" in told
    assert "far: the mean error varies by 10 % over 9 runs; a change stands out from a factor of 1.53\n" in told


def test_of_too_few_runs_nothing_is_told():
    assert "varies" not in shown(MeanError("out", 4, None, None))


FAULTS = {
    OwnRunBreaks(): "the case's own run breaks it",
    RunsBreak((("reseeded", 1, 3), ("last-bit", 1, 2))): "1 of 3 reseeded, 1 of 2 last-bit runs break it",
    LikelyBreak(0.01234): "another run breaks it with an estimated probability of 0.012",
    NoError(): "no run has any error, so a limit of 0 is enough",
    FarAboveNoise(1234.5): "it is 1.23e+03 times the largest noise",
    VacuousTolerance((("rtol", 2.0),), HERE): f"a result that is wrong by 100 % passes: rtol=2 ({HERE})",
}


def test_every_fault_of_a_bound_has_its_sentence():
    assert {fault: describe_fault(fault) for fault in FAULTS} == FAULTS
    assert {type(fault) for fault in FAULTS} == set(get_args(BoundFault))


def test_a_case_without_replicates_says_why():
    causes = ("known_bad", "recorded", "no_noise")
    assert [describe_uncalibrated(Uncalibrated("unit/s/a", "unit", cause)) for cause in causes] == [
        "it is known to be bad",
        "recorded outputs have no inputs to perturb",
        "no replicate differs from its own run",
    ]
    assert "no analytic bound: no sum over axes, running sum or product of matrices was seen" in shown()
