"""One rule for patterns in every command, and a pattern that matches nothing says what there is."""

import json

import pytest

from tests.e2e.command import precreg, repository, with_suite
from tests.e2e.test_bad_input import clear

SUITE = """\
suite: fir
subject: k:same
reference: k:same
matrix: {dtype: [float32, float64], taps: [1, 2, 3, 4, 5, 6]}
inputs: {x: {shape: 4, dtype: $dtype, normal: {}}}
params: {n: $taps}
"""
KERNEL = "def same(x, n):\n    return x * n\n"
SELECTING = {
    "run": ["run"],
    "list": ["list"],
    "explain": ["explain"],
    "power": ["power"],
    "calibrate": ["calibrate", "--jobs", "0"],
    "faults": ["faults", "--jobs", "0"],
    "selftest": ["selftest", "--jobs", "0"],
}
OF_PROPOSALS = {
    "diff": ["baseline", "diff"],
    "review": ["baseline", "review", "--json"],
    "accept": ["baseline", "accept", "--reason", "why", "--confirm", "0"],
    "reject": ["baseline", "reject"],
    "review --accept": ["baseline", "review", "--reason", "why", "--accept"],
    "review --reject": ["baseline", "review", "--reject"],
}
OTHERS = {"baselines": ["baseline", "list"], "drift": ["drift"], "hindsight": ["drift", "--hindsight"]}


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """A project whose twelve cases wait as proposals."""
    project = repository(with_suite(tmp_path_factory.mktemp("waiting"), SUITE, KERNEL, name="fir"))
    precreg(project, "run")
    return project


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A project with baselines and one run in its history, and without proposals."""
    project = repository(with_suite(tmp_path_factory.mktemp("accepted"), SUITE, KERNEL, name="fir"))
    precreg(project, "run")
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first", "--confirm", "0").returncode == 0
    assert precreg(project, "run").returncode == 0
    assert precreg(project, "history", "add", "reports", "--create").returncode == 0
    return project


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A project without a suite, a record, a proposal, a baseline or a history."""
    project = tmp_path_factory.mktemp("empty")
    (project / "suites" / "unit").mkdir(parents=True)
    return repository(project)


def is_named(done, slug):
    """Assert that a message has the nearest name, and the first ten of twelve names."""
    clear(done, slug, 'did you mean "fir"?', "there are 12: ", " and 2 more")
    assert done.stderr.count("unit/fir/float") == 10


@pytest.mark.parametrize("command", SELECTING.values(), ids=SELECTING)
@pytest.mark.parametrize("pattern", ["fri", "*fri*"])
def test_a_pattern_that_matches_no_case(waiting, command, pattern):
    is_named(precreg(waiting, *command, pattern), "nothing-selected")
    is_named(precreg(waiting, *command, "fir", pattern), "nothing-selected")


@pytest.mark.parametrize("command", OF_PROPOSALS.values(), ids=OF_PROPOSALS)
def test_a_pattern_that_matches_no_proposal(waiting, command):
    before = {path: path.read_bytes() for path in waiting.glob(".precreg/proposals/*/*.json")}
    is_named(precreg(waiting, *command, "fri"), "no-proposal")
    clear(precreg(waiting, *command, ""), "no-proposal", "pattern=;", "there are 12: ")
    assert before == {path: path.read_bytes() for path in waiting.glob(".precreg/proposals/*/*.json")}
    assert not (waiting / "baselines").exists()


@pytest.mark.parametrize("command", OTHERS.values(), ids=OTHERS)
def test_a_pattern_that_matches_no_baseline_and_no_series(accepted, command):
    is_named(precreg(accepted, *command, "fri"), "nothing-selected")


@pytest.mark.parametrize("command", OF_PROPOSALS.values(), ids=OF_PROPOSALS)
def test_where_nothing_waits_no_advice_leads_back_to_the_run(accepted, command):
    for project_pattern in ("fir", "*"):
        done = precreg(accepted, *command, project_pattern)
        clear(done, "no-proposal", f"expected a proposal that waits and matches {project_pattern} but there is none")
        assert "run the cases" not in done.stderr
        assert "precreg run" not in done.stderr


@pytest.mark.parametrize("command", [*SELECTING.values()], ids=[*SELECTING])
def test_an_empty_project(empty, command):
    clear(precreg(empty, *command, "fir"), "empty-project", "suites/unit/NAME.yaml")


@pytest.mark.parametrize(
    ("command", "slug"),
    [
        (["baseline", "accept", "--all", "--reason", "why"], "no-proposal"),
        (["baseline", "accept", "--improved", "--reason", "why"], "no-proposal"),
        (["baseline", "accept", "--seen"], "no-proposal"),
        (["baseline", "reject", "fir"], "no-proposal"),
        (["baseline", "list", "fir"], "nothing-selected"),
        (["report", "reports"], "missing-file"),
        (["drift", "fir"], "missing-history"),
        (["history", "list"], "missing-history"),
        (["history", "prune", "--keep", "1"], "missing-history"),
        (["history", "export"], "missing-history"),
        (["run"], "empty-project"),
        (["power"], "empty-project"),
        (["calibrate", "--jobs", "0"], "empty-project"),
        (["selftest", "--jobs", "0"], "empty-project"),
    ],
)
def test_an_empty_project_without_a_pattern(empty, command, slug):
    clear(precreg(empty, *command), slug)


def test_an_empty_project_is_listed_with_the_next_step(empty):
    done = precreg(empty, "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 cases" in done.stderr
    assert "docs/suites.md" in done.stderr
    assert precreg(empty, "baseline", "diff").stdout == "0 proposals\n"
    done = precreg(empty, "baseline", "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no baseline" in done.stderr


MATCHING = {
    "fir*": 12,
    "unit/fir/*": 12,
    "float32*": 6,
    "float3?-taps=[12]": 2,
    "float64-taps": 6,
    "unit/fir/float32-taps=1": 1,
}


@pytest.mark.parametrize(("pattern", "number"), MATCHING.items())
def test_a_pattern_means_the_same_in_every_command(waiting, accepted, pattern, number):
    def lines(project, *command):
        done = precreg(project, *command, pattern)
        # A history of one run has too few to judge a drift.
        assert done.returncode == (2 if command == ("drift",) else 0), done.stderr
        return done.stdout.splitlines()

    ids = lines(waiting, "list")
    assert len(ids) == number
    assert [line for line in lines(waiting, "explain") if line.startswith("unit/fir/")] == [
        line for line in lines(waiting, "explain") if line.endswith("(suites/unit/fir.yaml:1)")
    ]
    assert [line.split()[0] for line in lines(waiting, "explain") if line.startswith("unit/fir/")] == ids
    assert [each["case"] for each in json.loads("\n".join(lines(waiting, "power", "--json")))["cases"]] == ids
    review = json.loads("\n".join(lines(waiting, "baseline", "review", "--json")))
    assert [each["case"] for each in review["proposals"]] == ids
    assert lines(waiting, "baseline", "diff")[-1] == f"{number} proposal{'s' * (number > 1)}"
    assert [line.split()[0] for line in lines(accepted, "baseline", "list")] == ids
    lines(accepted, "drift")
    results = json.loads((accepted / "reports/drift/drift.json").read_text())["results"]
    assert sorted({each["case"] for each in results}) == sorted(ids)


def test_accepting_a_part_accepts_all_that_contain_it_and_an_id_itself_alone(tmp_path):
    project = repository(with_suite(tmp_path, SUITE.replace("5, 6", "5, 11"), KERNEL, name="fir"))
    precreg(project, "run")
    one = precreg(project, "baseline", "accept", "unit/fir/float32-taps=1", "--reason", "why", "--confirm", "0")
    assert [line.split()[1] for line in one.stdout.splitlines()] == ["unit/fir/float32-taps=1"]
    # The case has no proposal any more, and its id is a part of one that waits.
    clear(
        precreg(project, "baseline", "accept", "unit/fir/float32-taps=1", "--reason", "why", "--confirm", "0"),
        "no-proposal",
        "pattern=unit/fir/float32-taps=1",
    )
    rest = precreg(project, "baseline", "accept", "float32", "--reason", "why", "--confirm", "0")
    assert len(rest.stdout.splitlines()) == 5, rest.stdout + rest.stderr


def test_options_that_leave_nothing_together_and_a_change_that_touches_nothing(waiting):
    clear(
        precreg(waiting, "run", "fir", "--tier", "model"), "nothing-selected", "no case has all of them", "there are 12"
    )
    clear(
        precreg(waiting, "calibrate", "--jobs", "0", "--changed-since", "HEAD"),
        "nothing-selected",
        "none of them depends on a change since HEAD",
    )
