"""What moved by so much that a lucky, or an unlucky, run must be ruled out before it is accepted."""

import pytest
from msgspec.structs import replace

from precreg.baseline.proposal import update_proposals
from precreg.baseline.proposal_file import Proposal, pending_proposals, proposal_facts
from precreg.baseline.review import MetricChange, ProposalChange, change_of_proposal
from precreg.baseline.store import BaselineKey, Baselines, store_entries
from precreg.types.verdict import ChangedBits, Finding, LargestRatio, NotRegressed, Reason
from tests.baseline.samples import ENVIRONMENT, GIT, entry, result

X = "unit/a/x"


def change(error, verdict=Reason.WITHIN_TOLERANCE, old=1.0, definition="1:aa"):
    new = entry(definition, error)
    before = None if old is None else entry(error=old)
    proposal = Proposal(verdict, "generic", "generic", new)
    return ProposalChange(BaselineKey("generic", X), proposal_facts(proposal), before, lambda: proposal)


@pytest.mark.parametrize(
    ("error", "verdict", "asked"),
    [
        (1.0, Reason.WITHIN_TOLERANCE, False),
        (1.019, Reason.WITHIN_TOLERANCE, False),
        (1 / 1.019, Reason.WITHIN_TOLERANCE, False),
        (1.021, Reason.WITHIN_TOLERANCE, True),
        (1 / 1.021, Reason.WITHIN_TOLERANCE, True),
        (1.001, Reason.REGRESSED, True),
        (0.999, Reason.IMPROVED, True),
    ],
)
def test_a_loss_or_a_gain_is_confirmed_and_less_is_not(error, verdict, asked):
    assert change(error, verdict).needs_rerun is asked


def test_what_has_no_baseline_of_its_definition_has_neither_gained_nor_lost():
    assert not change(9.0, Reason.NEW, old=None).needs_rerun
    assert not change(9.0, Reason.STALE, definition="1:bb").needs_rerun


@pytest.mark.parametrize(
    ("metric", "old", "new", "material"),
    [
        ("mean_ulp", 0.0, 1e-9, True),
        ("mean_ulp", 1e-9, 0.0, True),
        ("mean_ulp", None, 1.0, False),
        ("mean_log2_ulp", 0.0, 0.0285, False),
        ("mean_log2_ulp", 0.0, 0.0287, True),
        ("max_ulp", 1.0, 9.0, False),
        ("bias", 1.0, 9.0, False),
    ],
)
def test_only_means_tell_of_a_loss(metric, old, new, material):
    assert MetricChange("out", metric, old, new).is_relevant is material


def test_a_proposal_keeps_its_evidence_and_what_json_has_no_number_for_is_left_out(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", X): entry(error=1.0)})
    found = Finding(
        Reason.REGRESSED, "worse", "out", "rms_error", 1, 2.0, 1.0, float("inf"), rule="statistic", lower=1.5
    )
    judged = result(X, Reason.REGRESSED, error=2.0, found="generic")
    judged = replace(judged, verdict=replace(judged.verdict, message="out: worse", findings=(found,)))
    update_proposals(tmp_path, [judged], ENVIRONMENT, GIT)
    waiting = pending_proposals(tmp_path)
    assert (waiting[X].message, waiting[X].findings) == ("out: worse", [replace(found, ratio=None)])
    assert change_of_proposal(Baselines(tmp_path), X, waiting).old == entry(error=1.0)


def test_a_fact_without_a_finite_bound_can_be_proposed(tmp_path):
    largest = LargestRatio("out", "rms_error", 1.0, 0.5, float("inf"), 1.02)
    found = Finding(Reason.WITHIN_TOLERANCE, "unclear", fact=NotRegressed(ChangedBits(), largest))
    judged = result(X, Reason.WITHIN_TOLERANCE, error=2.0, found="generic")
    update_proposals(tmp_path, [replace(judged, verdict=replace(judged.verdict, findings=(found,)))], ENVIRONMENT, GIT)
    (kept,) = pending_proposals(tmp_path)[X].findings
    assert kept.fact == NotRegressed(ChangedBits(), replace(largest, upper=None))
