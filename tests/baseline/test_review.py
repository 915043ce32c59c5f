from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from precreg.baseline.entry import accepted_value, succeed_entry
from precreg.baseline.origin import PruneResult, prune_baselines
from precreg.baseline.proposal import update_proposals
from precreg.baseline.proposal_file import Proposal, pending_proposals, replace_proposals
from precreg.baseline.review import (
    MetricChange,
    accept_proposals,
    diff_proposals,
    reject_proposals,
)
from precreg.baseline.store import BaselineKey, lock_baselines, read_all_entries, store_entries
from precreg.baseline.suite_file import baseline_header, sums_header
from precreg.baseline.text import render_baseline, split_with_checksum
from precreg.errors import UserError
from precreg.types.record import BaselineEntry, BaselineOutput
from precreg.types.verdict import Reason
from tests.baseline.plain import render_sums
from tests.baseline.samples import ENVIRONMENT, GIT, REVIEW, entry, result, store_proposals

X, Y, Z = "unit/a/x", "unit/a/y", "model/b/z"


def signed(accepted: BaselineEntry) -> BaselineEntry:
    return replace(accepted, reason=REVIEW["reason"], author=REVIEW["author"], date=REVIEW["date"])


def files(project: Path) -> dict[str, bytes]:
    return {str(path.relative_to(project)): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def test_accepting_stores_the_proposal_with_who_when_and_why(tmp_path):
    store_proposals(tmp_path, X, Y, Z)
    accepted = accept_proposals(tmp_path, ["unit/a/*"], **REVIEW)
    assert accepted == {BaselineKey("generic", X): signed(entry()), BaselineKey("generic", Y): signed(entry())}
    assert read_all_entries(tmp_path) == accepted
    assert list(pending_proposals(tmp_path)) == [Z]


def test_what_confirms_is_asked_before_anything_is_stored_and_its_answer_is_kept(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", X): entry(error=1.0)})
    store_proposals(tmp_path, X, Y)
    before = files(tmp_path)

    def confirm(changes):
        assert [(change.place.id, change.old is None) for change in changes] == [(X, False), (Y, True)]
        assert files(tmp_path) == before
        return {X: "2 reruns: the same bits"}

    accepted = accept_proposals(tmp_path, ["*"], confirm=confirm, **REVIEW)
    assert [found.confirmation for found in accepted.values()] == ["2 reruns: the same bits", ""]
    assert accepted[BaselineKey("generic", X)].accepted == [accepted_value(entry(error=1.0))]
    assert read_all_entries(tmp_path) == accepted


def test_what_is_not_confirmed_changes_nothing(tmp_path):
    store_proposals(tmp_path, X, Y)
    before = files(tmp_path)

    def confirm(changes):
        raise UserError("unconfirmed-loss", "it does not repeat")

    with pytest.raises(UserError, match="unconfirmed-loss"):
        accept_proposals(tmp_path, ["*"], confirm=confirm, **REVIEW)
    assert files(tmp_path) == before


@pytest.mark.parametrize("other", [None, Proposal(Reason.NEW, "generic", None, entry(error=8.0))])
def test_a_proposal_that_was_replaced_while_it_was_confirmed_is_not_stored(tmp_path, other):
    store_proposals(tmp_path, X)

    def confirm(changes):
        with lock_baselines(tmp_path):
            replace_proposals(tmp_path, {X: other})
        return {}

    with pytest.raises(UserError, match=r"no-proposal.*replaced it meanwhile"):
        accept_proposals(tmp_path, [X], confirm=confirm, **REVIEW)
    assert read_all_entries(tmp_path) == {}


def test_what_is_stored_elsewhere_keeps_the_past_of_what_judged_it(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", X): entry(error=1.0)})
    update_proposals(tmp_path, [result(X, Reason.REGRESSED, error=2.0, found="generic")], ENVIRONMENT, GIT)
    (found,) = accept_proposals(tmp_path, [X], environment="cpu", **REVIEW).values()
    assert found.accepted == [accepted_value(entry(error=1.0))]


def test_a_renamed_case_keeps_its_past(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", X): succeed_entry(entry(error=2.0), entry(error=1.0))})
    prune_baselines(tmp_path, {Z: "1:aa"}, environ={})
    assert read_all_entries(tmp_path)[BaselineKey("generic", Z)].accepted == [accepted_value(entry(error=1.0))]


def test_an_environment_given_to_accept_wins(tmp_path):
    store_proposals(tmp_path, X, environment="cpu")
    accept_proposals(tmp_path, [X], environment="cpu-x86_64", **REVIEW)
    assert list(read_all_entries(tmp_path)) == [BaselineKey("cpu-x86_64", X)]


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        ({"reason": " \n"}, "missing-reason"),
        ({"environ": {"CI": "true"}}, "accept-in-ci"),
        ({"environment": "../elsewhere"}, "outside-project"),
        ({"known": [Y]}, "unknown-case"),
    ],
)
def test_what_accept_refuses_changes_nothing(tmp_path, change, slug):
    store_proposals(tmp_path, X)
    before = files(tmp_path)
    with pytest.raises(UserError, match=slug):
        accept_proposals(tmp_path, [X], **{**REVIEW, **change})
    assert files(tmp_path) == before


def test_the_environment_of_the_process_says_whether_this_is_ci(tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "1")
    store_proposals(tmp_path, X)
    with pytest.raises(UserError, match="accept-in-ci"):
        accept_proposals(tmp_path, [X], known=[X], reason="why", author="", date="")
    with pytest.raises(UserError, match="accept-in-ci"):
        prune_baselines(tmp_path, {})


def test_a_pattern_that_matches_nothing_stops_all_and_names_the_nearest(tmp_path):
    store_proposals(tmp_path, "unit/softmax/float16-4x64", X)
    before = files(tmp_path)
    for act in (
        diff_proposals,
        reject_proposals,
        lambda project, patterns: accept_proposals(project, patterns, **REVIEW),
    ):
        with pytest.raises(UserError, match='did you mean "unit/softmax/float16-4x64"'):
            act(tmp_path, [X, "unit/sofmax/float16-4x64"])
    assert files(tmp_path) == before


def test_accept_and_reject_take_no_silence_for_everything(tmp_path):
    store_proposals(tmp_path, X)
    with pytest.raises(UserError, match="no-proposal"):
        accept_proposals(tmp_path, [], **REVIEW)
    with pytest.raises(UserError, match="no-proposal"):
        reject_proposals(tmp_path, [])
    assert [change.place.id for change in diff_proposals(tmp_path)] == [X]


def test_an_id_with_characters_of_a_pattern_names_itself_alone(tmp_path):
    store_proposals(tmp_path, "unit/a/axis=[0]", "unit/a/axis=0", "unit/a/axis=1")
    assert reject_proposals(tmp_path, ["unit/a/axis=[0]"]) == ["unit/a/axis=[0]"]
    assert reject_proposals(tmp_path, ["unit/a/axis=[01]"]) == ["unit/a/axis=0", "unit/a/axis=1"]


def test_rejecting_drops_the_proposal_and_touches_no_baseline(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", X): entry(error=1.0)})
    store_proposals(tmp_path, X, Y)
    assert reject_proposals(tmp_path, [X]) == [X]
    assert list(pending_proposals(tmp_path)) == [Y]
    assert read_all_entries(tmp_path) == {BaselineKey("generic", X): entry(error=1.0)}


def test_a_conflicted_baseline_stops_accept_before_it_writes(tmp_path):
    store_proposals(tmp_path, X, Z)
    conflicted = tmp_path / "baselines/generic/unit/a.json"
    conflicted.parent.mkdir(parents=True)
    conflicted.write_text("{\n<<<<<<< HEAD\n")
    before = files(tmp_path)
    with pytest.raises(UserError, match=r"^baselines/generic/unit/a.json:2: error\[conflicted-baseline\]"):
        accept_proposals(tmp_path, ["*"], **REVIEW)
    assert files(tmp_path) == before


def test_diff_shows_the_means_that_accepting_would_change(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", X): entry(error=0.25)})
    update_proposals(tmp_path, [result(X, Reason.REGRESSED, error=1.0, found="generic")], ENVIRONMENT, GIT)
    (change,) = diff_proposals(tmp_path, ["unit/*"])
    assert (change.place, change.verdict, change.old) == (
        BaselineKey("generic", X),
        Reason.REGRESSED,
        entry(error=0.25),
    )
    (row,) = change.metrics
    assert row == MetricChange("out", "mean_abs_error", 0.25, 1.0)
    assert (row.ratio, row.kind) == (4.0, "worse")


def test_diff_shows_the_baseline_that_judged_where_the_new_one_goes_elsewhere(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", X): entry(error=0.25)})
    run = [result(X, Reason.REGRESSED, error=1.0, found="generic")]
    update_proposals(tmp_path, run, ENVIRONMENT, GIT, environment_level="cpu-x86_64")
    (change,) = diff_proposals(tmp_path)
    assert (change.place.environment, change.old) == ("cpu-x86_64", entry(error=0.25))


def test_diff_compares_the_seeds_that_both_have(tmp_path):
    output = BaselineOutput("float16", (8,), ["d0"], {"mean_abs_error": [0.125]})
    store_entries(tmp_path, {BaselineKey("generic", X): replace(entry(), inputs=["i0"], outputs={"out": output})})
    both = replace(output, digests=["d0", "d1"], metrics={"mean_abs_error": [0.25, 100.0]})
    store_proposals(tmp_path, X, entry=replace(entry(), outputs={"out": both, "extra": both}))
    assert diff_proposals(tmp_path)[0].metrics == (
        MetricChange("out", "mean_abs_error", 0.125, 0.25),
        MetricChange("extra", "mean_abs_error", None, 50.125),
    )


def test_the_mean_of_the_largest_numbers_is_no_overflow(tmp_path):
    store_proposals(tmp_path, X, entry=entry(error=sys.float_info.max))
    assert diff_proposals(tmp_path)[0].metrics[0].new == sys.float_info.max


@pytest.mark.parametrize(
    ("metric", "old", "new", "kind"),
    [
        ("mean_ulp", 1.0, 2.0, "worse"),
        ("mean_ulp", 2.0, 1.0, "better"),
        ("match_ratio", 0.5, 1.0, "better"),
        ("match_ratio", 1.0, 0.5, "worse"),
        ("bias", -2.0, 1.0, "better"),
        ("bias", 1.0, -2.0, "worse"),
        ("bias", 1.0, -1.0, "same"),
        ("mean_ulp", None, 1.0, "new"),
        ("mean_ulp", 1.0, None, "gone"),
        ("mean_ulp", None, None, "same"),
    ],
)
def test_the_kind_of_a_change_follows_the_metric(metric, old, new, kind):
    assert MetricChange("out", metric, old, new).kind == kind


@pytest.mark.parametrize(
    ("metric", "old", "new", "ratio"),
    [("mean_ulp", 2.0, 3.0, 1.5), ("mean_ulp", None, 1.0, None), ("bias", 1.0, -81.0, 81.0)],
)
def test_a_ratio_is_above_one_where_an_error_grew(metric, old, new, ratio):
    assert MetricChange("out", metric, old, new).ratio == ratio


def test_pruning_removes_what_no_case_is_called_in_every_environment(tmp_path):
    kept, gone = BaselineKey("generic", X), (BaselineKey("cpu", Y), BaselineKey("generic", Y))
    store_entries(tmp_path, dict.fromkeys([kept, *gone], entry("1:aa")))
    assert prune_baselines(tmp_path, {X: "1:bb"}, environ={}) == PruneResult(gone, {})
    assert read_all_entries(tmp_path) == {kept: entry("1:aa")}


def test_pruning_moves_the_entry_of_a_renamed_case(tmp_path):
    former, kept = BaselineKey("generic", X), BaselineKey("generic", Y)
    store_entries(tmp_path, {former: entry("1:aa", 1.0), kept: entry("1:bb", 2.0)})
    pruned = prune_baselines(tmp_path, {Z: "1:aa", Y: "1:bb"}, environ={})
    assert pruned == PruneResult((), {former: BaselineKey("generic", Z)})
    assert read_all_entries(tmp_path) == {BaselineKey("generic", Z): entry("1:aa", 1.0), kept: entry("1:bb", 2.0)}


def test_two_orphans_of_one_definition_do_not_move_to_one_place(tmp_path):
    store_entries(
        tmp_path, {BaselineKey("generic", X): entry("1:aa", 1.0), BaselineKey("generic", Y): entry("1:aa", 2.0)}
    )
    pruned = prune_baselines(tmp_path, {Z: "1:aa"}, environ={})
    assert pruned == PruneResult((BaselineKey("generic", Y),), {BaselineKey("generic", X): BaselineKey("generic", Z)})


def test_an_orphan_does_not_replace_the_entry_of_its_namesake(tmp_path):
    orphan, kept = BaselineKey("generic", X), BaselineKey("generic", Y)
    store_entries(tmp_path, {orphan: entry("1:aa", 1.0), kept: entry("1:aa", 2.0)})
    assert prune_baselines(tmp_path, {Y: "1:aa"}, environ={}) == PruneResult((orphan,), {})
    assert read_all_entries(tmp_path) == {kept: entry("1:aa", 2.0)}


def die_at(event_number: int, project: Path) -> None:
    """Accept in this process, and be killed at its nth change of the file system."""
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        changes = event in ("os.rename", "os.remove", "os.mkdir") or (event == "open" and "x" in str(arguments[1]))
        if changes and str(project) in str(arguments[0]):
            seen += 1
            if seen == event_number:
                os.kill(os.getpid(), 9)

    sys.addaudithook(hook)
    accept_proposals(project, ["*"], **REVIEW)
    os._exit(0)


def test_a_kill_at_any_moment_of_accept_loses_nothing_and_accept_finishes_it(tmp_path):
    moments = 0
    exit_code = -9
    while exit_code == -9:
        moments += 1
        project = tmp_path / str(moments)
        project.mkdir()
        store_proposals(project, X, Y, Z)
        child = multiprocessing.get_context("fork").Process(target=die_at, args=(moments, project))
        child.start()
        child.join()
        exit_code = child.exitcode
        stored = {place.id for place in read_all_entries(project)}
        assert stored | set(pending_proposals(project)) == {X, Y, Z}
        if exit_code == -9 and pending_proposals(project):
            accept_proposals(project, list(pending_proposals(project)), **REVIEW)
        assert read_all_entries(project) == dict.fromkeys(
            (BaselineKey("generic", Z), BaselineKey("generic", X), BaselineKey("generic", Y)), signed(entry())
        )
        assert pending_proposals(project) == {}
    assert exit_code == 0
    assert moments > 10


IDS = [X, Y, Z, "unit/a/xy", "model/b/x"]
DEFINITIONS = ["1:aa", "1:bb", "1:cc"]


class StoreAgainstModel(RuleBasedStateMachine):
    """Whatever is accepted, rejected and pruned in whatever order: the files hold what two dicts hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.project = Path(self.folder.name)
        self.accepted: dict[BaselineKey, BaselineEntry] = {}
        self.pending: dict[str, tuple[str, BaselineEntry]] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(
        id=st.sampled_from(IDS),
        environment=st.sampled_from(["cpu", "generic"]),
        definition=st.sampled_from(DEFINITIONS),
    )
    def propose(self, id, environment, definition):
        store_proposals(self.project, id, entry=entry(definition), environment=environment)
        self.pending[id] = (environment, entry(definition))

    @rule(pattern=st.sampled_from([*IDS, "*", "unit/*", "*/x"]))
    def accept(self, pattern):
        chosen = self.matching(pattern)
        if self.refused(chosen, lambda: accept_proposals(self.project, [pattern], **REVIEW)):
            return
        for id in chosen:
            environment, proposed = self.pending.pop(id)
            place = BaselineKey(environment, id)
            self.accepted[place] = succeed_entry(signed(proposed), self.accepted.get(place))

    @rule(pattern=st.sampled_from([*IDS, "*", "model/*"]))
    def reject(self, pattern):
        chosen = self.matching(pattern)
        if not self.refused(chosen, lambda: reject_proposals(self.project, [pattern], known=IDS)):
            for id in chosen:
                del self.pending[id]

    @rule(known=st.dictionaries(st.sampled_from(IDS), st.sampled_from(DEFINITIONS)))
    def prune(self, known):
        pruned = prune_baselines(self.project, known, environ={})
        gone = {place: self.accepted.pop(place) for place in list(self.accepted) if place.id not in known}
        assert {*pruned.removed, *pruned.renamed} == set(gone)
        for former, place in pruned.renamed.items():
            assert place not in self.accepted
            assert (place.environment, known[place.id]) == (former.environment, gone[former].definition)
            self.accepted[place] = gone[former]
        for place in pruned.removed:
            free = {id for id in known if BaselineKey(place.environment, id) not in self.accepted}
            assert all(known[id] != gone[place].definition for id in free)

    def matching(self, pattern: str) -> list[str]:
        middle = pattern.strip("*")
        if "*" not in pattern:
            return [id for id in self.pending if id == pattern]
        return [id for id in self.pending if (id.endswith(middle) if pattern[0] == "*" else id.startswith(middle))]

    def refused(self, chosen: list[str], act) -> bool:
        if chosen:
            act()
            return False
        with pytest.raises(UserError, match="no-proposal"):
            act()
        return True

    @invariant()
    def files_hold_the_model(self):
        assert read_all_entries(self.project) == self.accepted
        assert {id: (p.environment, p.entry) for id, p in pending_proposals(self.project).items()} == self.pending

    @invariant()
    def files_are_sorted_and_nothing_else_is_left(self):
        expected: dict[tuple[str, str], dict[str, BaselineEntry]] = {}
        for place, accepted in self.accepted.items():
            expected.setdefault((place.environment, place.suite), {})[place.name] = accepted
        texts = {}
        for (environment, suite), cases in expected.items():
            parts = {name: split_with_checksum(case) for name, case in sorted(cases.items())}
            header = baseline_header(environment, suite)
            shown, sums = f"{environment}/{suite}.json", f"{environment}/{suite}.sums"
            texts[shown] = render_baseline(header, {name: part.shown for name, part in parts.items()}).encode()
            each = {name: {part.checksum: part.sums} for name, part in parts.items()}
            texts[sums] = render_sums(sums_header(environment, suite), each).encode()
        found = files(self.project / "baselines")
        found.pop(".gitattributes", None)
        assert found == texts


TestStoreAgainstModel = StoreAgainstModel.TestCase
TestStoreAgainstModel.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
