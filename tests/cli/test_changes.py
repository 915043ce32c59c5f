"""What a person is shown of a proposal."""

from precreg.baseline.proposal import Proposal
from precreg.baseline.review import MetricChange, ProposalChange
from precreg.baseline.store import BaselineKey
from precreg.cli.review import describe_change
from precreg.types.verdict import ChangedEnvironment, EnvironmentFact, Reason
from tests.baseline.samples import entry

NUMPY = ChangedEnvironment((EnvironmentFact("numpy", "1", "2"),))


def lines(*metrics, difference=None):
    proposal = Proposal(Reason.WITHIN_TOLERANCE, "generic", "generic", entry(), paired=entry())
    place = BaselineKey("generic", "unit/a/x")
    return list(describe_change(ProposalChange(place, proposal, entry(), entry(), metrics, difference), verbose=False))[
        1:
    ]


def test_figures_that_differ_never_look_alike():
    (line,) = lines(MetricChange("out", "mean_ulp", 0.25, 0.250001))
    assert line == "  worse   out  mean_ulp         0.25 -> 0.250001 (1.000004 times)"


def test_what_did_not_change_is_not_shown():
    assert lines(MetricChange("out", "mean_ulp", 0.25, 0.25)) == []


def test_a_change_of_the_environment_is_told_apart_from_that_of_the_code():
    shown = lines(MetricChange("out", "mean_ulp", 0.25, 0.500001, 0.5), difference=NUMPY)
    assert shown[0] == "  environment: numpy 1 -> 2"
    told = "due to the environment 0.25 -> 0.5 (2 times), due to the code 0.5 -> 0.500001 (1.000002 times)"
    assert shown[2].strip() == told


def test_what_is_undefined_says_so():
    (line,) = lines(MetricChange("out", "mean_ulp", 0.25, None))
    assert line.endswith("0.25 -> undefined")
