from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.baseline.proposal import SEEN_FILE, is_seen_again, seen_again, update_proposals
from precreg.baseline.proposal_file import PROPOSALS_SCHEMA, pending_proposals, replace_proposals
from precreg.errors import UserError
from precreg.types.verdict import Reason
from tests.baseline.samples import ENVIRONMENT, GIT, outcome, result

X, Y, Z = "unit/a/x", "unit/a/y", "model/b/z"


def run(project: Path, *results, git=GIT, level: str | None = None) -> list[str]:
    return update_proposals(project, iter(results), ENVIRONMENT, git, level)


def test_a_proposal_is_the_entry_that_would_be_stored_without_a_reason_yet(tmp_path):
    assert run(tmp_path, result(Z, Reason.NEW), result(X, Reason.REGRESSED, error=0.5)) == [Z, X]
    proposals = pending_proposals(tmp_path)
    assert list(proposals) == [Z, X]
    assert proposals[X].entry == entry_from(outcome(X, 0.5), "6f2a90c1", "1a2b3c4d")
    assert [proposal.verdict for proposal in proposals.values()] == [Reason.NEW, Reason.REGRESSED]
    assert not (tmp_path / "baselines").exists()


@pytest.mark.parametrize("acceptable", [True, False])
def test_only_what_could_be_accepted_is_proposed(tmp_path, acceptable):
    proposed = run(tmp_path, replace(result(X, Reason.DTYPE_MISMATCH), acceptable=acceptable))
    assert proposed == list(pending_proposals(tmp_path)) == ([X] if acceptable else [])


@pytest.mark.parametrize("reason", [Reason.IDENTICAL, Reason.OUT_OF_TOLERANCE, Reason.NON_FINITE_MISMATCH])
def test_what_has_nothing_to_accept_any_more_loses_its_proposal(tmp_path, reason):
    run(tmp_path, result(X, Reason.NEW), result(Y, Reason.NEW))
    run(tmp_path, result(X, reason))
    assert list(pending_proposals(tmp_path)) == [Y]


@pytest.mark.parametrize("reason", [Reason.CRASHED, Reason.UNAVAILABLE])
def test_what_could_not_be_judged_keeps_its_proposal(tmp_path, reason):
    run(tmp_path, result(X, Reason.NEW))
    assert run(tmp_path, result(X, reason)) == []
    assert list(pending_proposals(tmp_path)) == [X]


def test_a_later_run_of_one_case_replaces_that_proposal_alone(tmp_path):
    run(tmp_path, result(X, Reason.NEW, error=1.0), result(Y, Reason.NEW, error=2.0), result(Z, Reason.NEW, error=3.0))
    before = pending_proposals(tmp_path)
    run(tmp_path, result(Y, Reason.NEW, error=4.0))
    after = pending_proposals(tmp_path)
    assert after[Y].entry == entry_from(outcome(Y, 4.0), "6f2a90c1", "1a2b3c4d")
    assert {X: after[X], Z: after[Z]} == {X: before[X], Z: before[Z]}


def test_the_last_proposal_takes_its_file_along(tmp_path):
    run(tmp_path, result(X, Reason.NEW))
    run(tmp_path, result(X, Reason.IDENTICAL))
    assert list((tmp_path / ".precreg/proposals/unit").iterdir()) == []


@pytest.mark.parametrize(
    ("cleared", "since", "left"), [((X, Y), (), []), ((X,), (), [Y]), ((X, Y), ("unit/a/w",), ["unit/a/w"])]
)
def test_clearing_reviewed_proposals_leaves_those_that_nobody_reviewed(tmp_path, cleared, since, left):
    run(tmp_path, result(X, Reason.NEW), result(Y, Reason.NEW))
    reviewed = pending_proposals(tmp_path)
    run(tmp_path, *(result(id, Reason.NEW) for id in since))
    replace_proposals(tmp_path, dict.fromkeys(cleared), reviewed)
    assert list(pending_proposals(tmp_path)) == left
    assert (tmp_path / ".precreg/proposals/unit/a.json").exists() is bool(left)


def test_a_case_that_is_gone_takes_its_proposal_along(tmp_path):
    run(tmp_path, result(X, Reason.NEW), result(Y, Reason.NEW))
    update_proposals(tmp_path, [result(X, Reason.CRASHED)], ENVIRONMENT, GIT, gone=[Y])
    assert list(pending_proposals(tmp_path)) == [X]


def test_an_entry_goes_back_to_where_its_baseline_was_found(tmp_path):
    run(tmp_path, result(X, Reason.REGRESSED, found="cpu"), result(Y, Reason.NEW))
    assert [(p.environment, p.judged_against) for p in pending_proposals(tmp_path).values()] == [
        ("cpu", "cpu"),
        ("generic", None),
    ]


def test_an_environment_that_is_asked_for_wins(tmp_path):
    run(tmp_path, result(X, Reason.REGRESSED, found="cpu"), level="cpu-x86_64")
    proposal = pending_proposals(tmp_path)[X]
    assert (proposal.environment, proposal.judged_against) == ("cpu-x86_64", "cpu")


def test_an_environment_out_of_the_project_is_refused(tmp_path):
    with pytest.raises(UserError, match="outside-project"):
        run(tmp_path, result(X, Reason.NEW), level="../elsewhere")
    assert list(tmp_path.iterdir()) == []


def test_a_case_judged_by_the_baseline_of_another_never_replaces_it(tmp_path):
    assert run(tmp_path, result(X, Reason.REGRESSED, found="generic", borrowed=Y)) == []


@pytest.mark.parametrize(("git", "commit"), [(None, ""), (replace(GIT, dirty=True), "1a2b3c4d-dirty")])
def test_the_commit_says_when_it_is_not_what_ran(tmp_path, git, commit):
    run(tmp_path, result(X, Reason.NEW), git=git)
    assert pending_proposals(tmp_path)[X].entry.commit == commit


def test_a_run_with_nothing_to_say_writes_nothing(tmp_path):
    run(tmp_path, result(X, Reason.IDENTICAL))
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_changes_no_proposal_leaves_the_file_as_it_is(tmp_path):
    run(tmp_path, result(X, Reason.NEW))
    file = tmp_path / ".precreg/proposals/unit/a.json"
    before = file.stat().st_ino, file.read_bytes()
    run(tmp_path, result(X, Reason.NEW))
    assert (file.stat().st_ino, file.read_bytes()) == before


@pytest.mark.parametrize(
    ("before", "after", "slug"),
    [
        (PROPOSALS_SCHEMA, "precreg-proposals/9", "future-schema"),
        (PROPOSALS_SCHEMA, "precreg-proposals/1", "unreadable-proposals"),
        ('"verdict": "new"', '"verdict": "fine"', "unreadable-proposals"),
        ('"inputs": ["i0", "i1"]', '"inputs": ["i0"]', "unreadable-proposals"),
        ('"cases"', '"case', "unreadable-proposals"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path, before, after, slug):
    run(tmp_path, result(X, Reason.NEW))
    file = tmp_path / ".precreg/proposals/unit/a.json"
    file.write_text(file.read_text().replace(before, after))
    with pytest.raises(UserError, match=rf"^\.precreg/proposals/unit/a\.json:.* error\[{slug}\]"):
        pending_proposals(tmp_path)


def identical(id: str, **changes):
    """Return a result with the bits of a baseline that another environment accepted."""
    given = result(id, Reason.IDENTICAL, found="generic")
    return replace(given, baseline=replace(given.baseline, entry=replace(given.baseline.entry, **changes)))


THERE = {"fingerprint": "aaaaaaaa"}
OTHER = replace(ENVIRONMENT, fingerprint="bbbbbbbb")


def test_bits_that_were_seen_again_wait_with_their_environments(tmp_path):
    run(tmp_path, identical(X, **THERE), identical(Y, **THERE), identical(Z, fingerprint=ENVIRONMENT.fingerprint))
    assert {id: each.seen for id, each in seen_again(tmp_path).items()} == {
        X: [ENVIRONMENT.fingerprint],
        Y: [ENVIRONMENT.fingerprint],
    }
    update_proposals(tmp_path, [identical(X, **THERE)], OTHER, GIT)
    assert {id: each.seen for id, each in seen_again(tmp_path).items()} == {
        X: [ENVIRONMENT.fingerprint, "bbbbbbbb"],
        Y: [ENVIRONMENT.fingerprint],
    }
    assert pending_proposals(tmp_path) == {}
    assert not (tmp_path / "baselines").exists()


def test_an_environment_that_the_baseline_knows_by_now_waits_no_longer(tmp_path):
    run(tmp_path, identical(X, **THERE), identical(Y, **THERE))
    update_proposals(tmp_path, [identical(X, **THERE), identical(Y, **THERE)], OTHER, GIT)
    run(tmp_path, identical(X, **THERE, seen=[ENVIRONMENT.fingerprint]))
    run(tmp_path, identical(Y, **THERE, seen=[ENVIRONMENT.fingerprint, "bbbbbbbb"]))
    assert {id: each.seen for id, each in seen_again(tmp_path).items()} == {X: ["bbbbbbbb"]}


def test_what_was_seen_of_a_replaced_baseline_is_forgotten_and_of_a_case_that_is_gone(tmp_path):
    run(tmp_path, identical(X, **THERE), identical(Y, **THERE))
    changed = replace(identical(X, **THERE, inputs=["j0", "j1"]), verdict=result(X, Reason.STALE).verdict)
    update_proposals(tmp_path, [changed], ENVIRONMENT, GIT, gone=[Y])
    assert seen_again(tmp_path) == {}
    assert not (tmp_path / SEEN_FILE).exists()


def test_a_result_that_regressed_keeps_what_was_seen_of_its_baseline(tmp_path):
    """What another environment gave of the accepted bits stays true, whatever the code gives now."""
    run(tmp_path, identical(X, **THERE))
    run(tmp_path, replace(identical(X, **THERE), verdict=result(X, Reason.REGRESSED).verdict))
    assert list(seen_again(tmp_path)) == [X]


@pytest.mark.parametrize(
    "given",
    [
        identical(X),
        identical(X, fingerprint="aaaaaaaa", seen=["6f2a90c1"]),
        identical(X, fingerprint="aaaaaaaa", definition="1:bb"),
        identical(X, fingerprint="aaaaaaaa", inputs=["i0", "i2"]),
        replace(identical(X, **THERE), acceptable=True),
        replace(identical(X, **THERE), baseline_id=Y),
        replace(identical(X, **THERE), verdict=result(X, Reason.WITHIN_TOLERANCE).verdict),
        replace(identical(X, **THERE), baseline=None),
    ],
)
def test_other_bits_and_known_environments_are_not_seen_again(given):
    assert is_seen_again(identical(X, **THERE), ENVIRONMENT)
    assert not is_seen_again(given, ENVIRONMENT)


def test_a_proposal_says_that_its_baseline_is_of_the_same_environment(tmp_path):
    known = replace(identical(X, **THERE, seen=["6f2a90c1"]), acceptable=True)
    run(tmp_path, known, replace(identical(Y, **THERE), acceptable=True))
    assert {id: each.same_as for id, each in pending_proposals(tmp_path).items()} == {X: "aaaaaaaa", Y: ""}
