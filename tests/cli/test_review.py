"""The walk through what waits, each answer, and the same by flags: in this process, with answers from a text."""

import json
import shutil

import click
import pytest
from click.testing import CliRunner

from precreg.baseline.proposal_file import pending_proposals
from precreg.baseline.review import diff_proposals
from precreg.baseline.store import read_all_entries
from precreg.cli.review import ANSWERS, read_accept_terms, review_interactively
from tests.e2e.command import OUTSIDE
from tests.scaled import A, B, Project


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    project = Project(folder)
    project.accepted(1.0, "first version")
    project.accepted(1.2, "second version", "--confirm", "0")
    Project(folder, name="t").proposed(1.44)
    return folder


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    """Two cases with baselines and with proposals that are worse; another suite with two that are new."""
    monkeypatch.delenv("CI", raising=False)
    shutil.copytree(made, tmp_path / "copy")
    project = Project(tmp_path / "copy")
    project.scale(1.44)
    return project


C, D = "unit/t/n=64", "unit/t/n=65"


def walked(project, *answers, reruns=0, patterns=()):
    """Walk with these answers, one a line; return what was printed."""

    @click.command()
    def command():
        review_interactively(read_accept_terms(project.folder, None, reruns), diff_proposals(project.folder, patterns))

    done = CliRunner(env=dict.fromkeys(OUTSIDE)).invoke(command, input="".join(f"{answer}\n" for answer in answers))
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done.output


def accepted(project):
    return {
        place.id: entry for place, entry in read_all_entries(project.folder).items() if entry.reason != "second version"
    }


def test_each_proposal_is_shown_with_before_after_evidence_and_past(project):
    shown = walked(project, "s", "s", "s", "s")
    assert "1 of 4\nunit/s/n=64: regressed, to be stored in baselines/generic/unit/s.json\n" in shown
    assert "  worse   out  mean_abs_error   " in shown
    assert " (1.2 times)\n" in shown
    assert "  evidence    out: " in shown
    assert ": first version\n" in shown
    assert ": second version (not run again)\n" in shown
    assert "  cumulative  accepting it exceeds the budget: " in shown
    assert "3 of 4\nunit/t/n=64: new, " in shown
    assert shown.endswith("0 accepted, 0 rejected, 4 left to wait\n")
    assert list(pending_proposals(project.folder)) == [A, B, C, D]


def test_what_is_accepted_is_stored_at_once_with_the_reason_and_the_last_reason_is_offered(project):
    shown = walked(project, "accept", "a cheaper sine", "a", "", "reject", "q")
    assert "reason [a cheaper sine]: " in shown
    assert {id: entry.reason for id, entry in accepted(project).items()} == dict.fromkeys([A, B], "a cheaper sine")
    assert list(pending_proposals(project.folder)) == [D]
    assert shown.endswith("2 accepted, 1 rejected, 1 left to wait\n")


def test_the_last_of_a_suite_is_accepted_without_a_question_about_others(project):
    shown = walked(project, "s", "s", "s", "l", "new cases")
    assert "not shown yet" not in shown
    assert list(accepted(project)) == [D]


def test_no_reason_is_none(project):
    shown = walked(project, "a", "", "  ", "q")
    assert "error[missing-reason]" in shown
    assert accepted(project) == {}


def test_details_show_every_metric_and_ask_again(project):
    shown = walked(project, "d", "q")
    assert shown.count("unit/s/n=64: regressed") == 2
    assert "  same    out  match_ratio" in shown
    assert accepted(project) == {}


def test_all_of_one_suite_are_accepted_together_if_that_is_meant(project):
    shown = walked(project, "s", "r", "l", "n", "l", "y", "new cases")
    assert "accept 2 of unit/t, 1 of them not shown yet? [y/N]: " in shown
    assert list(accepted(project)) == [C, D]
    assert list(pending_proposals(project.folder)) == [A], "what was skipped is left alone"
    assert shown.endswith("2 accepted, 1 rejected, 1 left to wait\n")


def test_another_answer_is_told_what_there_is(project):
    shown = walked(project, "maybe", "", "quit")
    for answer, meaning in ANSWERS.items():
        assert f"  {answer:8} {meaning}\n" in shown
    assert len({answer[0] for answer in ANSWERS}) == len(ANSWERS), "the first letter is enough"


def test_the_end_of_input_leaves_what_was_accepted_and_says_so(project):
    shown = walked(project, "a", "why", "s")
    assert "\n1 accepted, 0 rejected, 3 left to wait\n" in shown
    assert list(accepted(project)) == [A]


def test_what_does_not_repeat_is_not_accepted_and_the_walk_goes_on(project):
    project.scale(1.7)
    shown = walked(project, "a", "why", "r", "s", reruns=1, patterns=["unit/s/*"])
    assert "running 1 case again, once: figures moved" in shown
    assert "error[unconfirmed-loss]" in shown
    assert "the proposal of unit/s/n=64 but rerun 1 of 1 differs: regressed against the proposal" in shown
    assert shown.endswith("0 accepted, 1 rejected, 1 left to wait\n")
    assert accepted(project) == {}


def test_what_repeats_is_accepted_and_that_is_kept(project):
    shown = walked(project, "a", "why", "q", reruns=2)
    assert f"accepted {A} in baselines/generic/unit/s.json (2 reruns: the same bits)\n" in shown
    assert accepted(project)[A].confirmation == "2 reruns: the same bits"


def test_what_a_run_replaced_meanwhile_is_not_accepted_unseen(project):
    shown = []

    @click.command()
    def command():
        changes = diff_proposals(project.folder, [A])
        project.proposed(1.7)
        review_interactively(read_accept_terms(project.folder, None, 0), changes)

    shown = CliRunner(env=dict.fromkeys(OUTSIDE)).invoke(command, input="a\nwhy\nq\n").output
    assert f"expected the proposal of {A} as it was reviewed, but a run replaced it meanwhile" in shown
    assert accepted(project) == {}


def test_without_a_terminal_flags_decide(project):
    done = project.run("baseline", "review")
    assert (done.exit_code, "error[not-a-terminal]" in done.output) == (2, True)
    flags = ("--accept", "unit/s/*", "--reject", "unit/*5", "--reason", "cheaper", "--confirm", 0)
    done = project.run("baseline", "review", *flags)
    assert done.exit_code == 0, done.output
    assert f"accepted {A} in baselines/generic/unit/s.json (not run again)\n" in done.output
    assert f"rejected {B}\nrejected {D}\n" in done.output, "what both name is rejected"
    assert list(accepted(project)) == [A]
    assert list(pending_proposals(project.folder)) == [C]


@pytest.mark.parametrize(
    ("flags", "slug"),
    [
        (("--accept", "unit/s/*"), "missing-reason"),
        (("--accept", "unit/u/*", "--reason", "why"), "no-proposal"),
        (("--accept", "unit/s/*", "--reject", "unit/u/*", "--reason", "why"), "no-proposal"),
        (("--accept", "*", "--reason", "why", "--environment", "../elsewhere"), "outside-project"),
    ],
)
def test_what_flags_ask_wrongly_changes_nothing(project, flags, slug):
    done = project.run("baseline", "review", *flags)
    assert (done.exit_code, f"error[{slug}]" in done.output) == (2, True)
    assert accepted(project) == {}
    assert len(pending_proposals(project.folder)) == 4


def test_json_has_every_proposal_with_its_evidence(project):
    document = json.loads(project.run("baseline", "review", "--json").stdout)
    assert document["schema"] == "precreg-review/1"
    first, *_, last = document["proposals"]
    assert (first["case"], first["verdict"], first["file"]) == (A, "regressed", "baselines/generic/unit/s.json")
    assert first["to_confirm"] is True
    (moved,) = (metric for metric in first["metrics"] if metric["metric"] == "mean_abs_error")
    assert (moved["kind"], moved["ratio"]) == ("worse", pytest.approx(1.2, rel=1e-3))
    assert moved["after"] == pytest.approx(1.2 * moved["before"], rel=1e-3)
    assert first["evidence"][0]["reason"] == "regressed"
    assert [value["reason"] for value in first["accepted"]] == ["first version", "second version"]
    assert first["creep"]["beyond_budget"] is True
    assert (last["case"], last["verdict"], last["accepted"], last["creep"]) == (D, "new", [], None)
    assert last["to_confirm"] is False
    (one,) = json.loads(project.run("baseline", "review", "--json", A).stdout)["proposals"]
    assert one == first


def test_accepting_says_before_that_it_will_creep(project):
    done = project.run("baseline", "accept", A, "--reason", "cheaper")
    assert done.exit_code == 0
    assert f"{A}: accepting it exceeds the budget: " in done.stderr
    assert "runs then fail unless baselines/allow.yaml allows it" in done.stderr


def test_of_several_that_are_accepted_none_is_where_one_does_not_repeat(project):
    project.scale(1.7)
    done = project.run("baseline", "accept", "--all", "--reason", "cheaper", "--confirm", 1)
    assert done.exit_code == 2
    assert "running 2 cases again, once: figures moved" in done.stdout
    assert f"not confirmed either: {B}" in done.stderr
    assert accepted(project) == {}


def test_the_list_shows_how_far_each_crept_and_everything_accepted(project):
    project.run("baseline", "accept", A, "--reason", "cheaper", "--confirm", 0)
    shown = project.run("baseline", "list", "--creep").stdout
    place, creep, first, _, last, other, *_ = shown.splitlines()
    assert place == f"{A} in baselines/generic/unit/s.json"
    assert "  cumulative  " in creep
    assert " times (at least " in creep
    assert first.endswith(": first version")
    assert last.endswith(": cheaper (not run again)")
    assert other.startswith(B)


def test_a_person_is_asked_on_their_own_machine_alone(project):
    done = project.run("baseline", "review", "--accept", "*", "--reason", "why", CI="true")
    assert "error[accept-in-ci]" in done.output
