"""In which cases could a run not see every loss? A pure function of their results."""

import pytest
from msgspec.structs import replace

from precreg.types.pair import UnclearOnFreshInputs
from precreg.types.record import FixedInputs, PairedRun
from precreg.types.recorded import RecordedFigures
from precreg.types.verdict import (
    ChangedBits,
    Finding,
    NotRegressed,
    OtherEnvironment,
    Reason,
    Status,
    UnjudgedOutputs,
    UnknownEnvironment,
    Verdict,
)
from precreg.verdict import UnseenKind, unseen_cases, unseen_kind
from tests.report.made import TOLERANCE, passed, regressed

ELSEWHERE = OtherEnvironment("generic", UnknownEnvironment("6f2a90c1"))
FEW, OFF = (UnjudgedOutputs(cause, ("out",)) for cause in ("few_samples", "statistic_off"))


def changed(*unjudged, reason=Reason.WITHIN_TOLERANCE, elsewhere=False, shape=(8,), **changes):
    """Return a case that passed with other bits."""
    fact = NotRegressed(ChangedBits("change"), unjudged=unjudged)
    verdict = Verdict(Status.PASSED, reason, findings=(Finding(reason, fact=fact),))
    changes = {"tolerances": with_threshold(max_abs_error=3.0)} | changes
    case = passed(**({"verdict": replace(verdict, accepted_in=ELSEWHERE if elsewhere else None)} | changes))
    entry = case.baseline.entry
    output = replace(entry.outputs["out"], shape=shape)
    return replace(case, baseline=replace(case.baseline, entry=replace(entry, outputs={"out": output})))


def with_metrics(case, metrics):
    entry = case.baseline.entry
    outputs = {"out": replace(entry.outputs["out"], metrics=metrics)}
    return replace(case, baseline=replace(case.baseline, entry=replace(entry, outputs=outputs)))


def with_figures_alone(case):
    row = RecordedFigures("sweep.csv", 2, ("max_ulp",))
    comparisons = tuple(replace(each, figures=row) for each in case.outcome.comparisons)
    return replace(case, outcome=replace(case.outcome, comparisons=comparisons))


def with_threshold(**regression):
    return {"out": replace(TOLERANCE, regression=regression)}


def paired(end, **changes):
    return PairedRun(20, end != "not_clear", judged=True, commit="c0ffee", end=end, **changes)


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (passed(), None),
        (regressed(), None),
        (changed(), None),
        (changed(elsewhere=True), UnseenKind.WIDER_LIMITS),
        (changed(elsewhere=True, reason=Reason.IMPROVED), UnseenKind.WIDER_LIMITS),
        (changed(elsewhere=True, reason=Reason.KNOWN_BAD), UnseenKind.WIDER_LIMITS),
        (changed(elsewhere=True, reason=Reason.EXPECTED_FAILURE), None),
        (changed(FEW), UnseenKind.SMALL_OUTPUTS),
        (changed(FEW, elsewhere=True), UnseenKind.NO_POWER),
        (changed(FEW, shape=(16,)), UnseenKind.NO_POWER),
        (changed(FEW, tolerances={"out": TOLERANCE}), None),
        (changed(OFF), UnseenKind.NO_POWER),
        (changed(OFF, shape=(16,)), UnseenKind.NO_POWER),
        (changed(OFF, shape=(16,), tolerances={"out": TOLERANCE}), None),
        (changed(FEW, role="golden"), None),
        (with_metrics(changed(FEW), {"mean_abs_error": [0.0, 0.0]}), None),
        (changed(reason=Reason.NOT_CLEAR), UnseenKind.NOT_CLEAR),
    ],
)
def test_the_kind_of_a_case(case, kind):
    assert unseen_kind(case) is kind


def test_an_output_that_kept_its_bits_hides_nothing():
    case = changed(FEW)
    digests = tuple(case.baseline.entry.outputs["out"].digests)
    execution = replace(case.outcome.execution, outputs={"out": digests})
    assert unseen_kind(replace(case, outcome=replace(case.outcome, execution=execution))) is None


@pytest.mark.parametrize(
    ("end", "kind"),
    [("clear", None), ("same_bits", None), ("worse", None), ("not_clear", UnseenKind.NOT_CLEAR)],
)
def test_a_pair_that_judged_replaces_what_the_baseline_could_not_see(end, kind):
    for case in (changed(FEW), changed(elsewhere=True), changed(reason=Reason.IMPROVED)):
        assert unseen_kind(replace(case, paired=paired(end))) is kind


def test_a_pair_without_fresh_inputs_leaves_what_its_own_seeds_could_not_see():
    alone = replace(paired(None), cause=FixedInputs())
    assert unseen_kind(changed(FEW, paired=alone)) is UnseenKind.SMALL_OUTPUTS
    fell_back = PairedRun(2, False, cause=FixedInputs())
    assert unseen_kind(changed(elsewhere=True, paired=fell_back)) is UnseenKind.WIDER_LIMITS


def test_cases_come_by_kind_with_the_weakest_evidence_first():
    unclear = Finding(Reason.NOT_CLEAR, fact=UnclearOnFreshInputs("c0ffee", 20, "max_seeds"))
    cases = [
        passed("same"),
        changed(name="open", verdict=Verdict(Status.PASSED, Reason.NOT_CLEAR, findings=(unclear,))),
        changed(elsewhere=True, name="wide"),
        changed(FEW, elsewhere=True, name="none"),
        changed(FEW, name="small"),
        with_figures_alone(changed(name="row")),
    ]
    found = unseen_cases(cases)
    assert list(found) == list(UnseenKind)
    assert [[case.name for case in of_kind] for of_kind in found.values()] == [
        ["none"],
        ["small"],
        ["row"],
        ["wide"],
        ["open"],
    ]
    assert unseen_cases([passed(), regressed()]) == {}
