"""Permissions without handwork: what a run prints, what the commands write, and what never changes an exit code."""

import json
import re

import pytest

from tests.baseline.integrity import demo
from tests.baseline.integrity.demo import CASE
from tests.baseline.integrity.test_tricks import TRICKS
from tests.e2e.command import git, precreg

WHY = ("--reason", "the device is coarser")
BRANCH = {"CI": "true", "CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    demo.make(folder)
    return folder


@pytest.fixture
def project(template, tmp_path):
    """The project of demo.py on a branch of its own, in which nothing is changed yet."""
    found = demo.copy(template, tmp_path)
    git(found.root, "switch", "-q", "-c", "coarser")
    return found


def run(project, *arguments, **variables):
    return precreg(project.root, "run", "--strict", *arguments, **variables)


def allow(project, *arguments, code=0):
    done = precreg(project.root, "allow", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def findings(project):
    record = json.loads(project.read("reports/record.json"))
    return {(each["kind"], each["about"]): each["allowed"] for each in record.get("findings", [])}


def allowed(project):
    return project.read("baselines/allow.yaml")


def test_what_a_run_prints_can_be_pasted(project):
    TRICKS["raise a bound of the project"].done(project)
    done = run(project, "--against", "main...")
    assert done.returncode == 1
    printed = re.search(r"^allow .*:\n((?: {10}.*\n)+)", done.stdout, re.MULTILINE)[1]
    project.write("baselines/allow.yaml", "allow:\n" + printed.replace("WHY", "so be it"))
    done = run(project, "--against", "main...")
    assert done.returncode == 0, done.stdout
    assert set(findings(project).values()) == {"so be it"}
    assert "allow     " not in done.stdout


@pytest.mark.parametrize(
    "name", ["raise rtol", "remove a suite", "draw fewer seeds", "rename a suite", "raise the budget"]
)
def test_one_command_permits_all_findings_of_the_last_run(project, name):
    TRICKS[name].done(project)
    assert run(project, "--against", "main...").returncode == 1
    assert "entr" in allow(project, *WHY)
    run(project, "--against", "main...")
    assert set(findings(project).values()) == {WHY[1]}


def test_the_same_without_a_run(project):
    TRICKS["raise a bound of the project"].done(project)
    TRICKS["draw fewer seeds"].done(project)
    assert "allowed seeds_lowered of unit/mean: the device is coarser\n" in allow(project, "--against", "main...", *WHY)
    assert run(project, "--against", "main...").returncode == 0
    assert "0 entries added to baselines/allow.yaml" in allow(project, "--against", "auto", *WHY)


def test_a_pattern_permits_some(project):
    TRICKS["raise a bound of the project"].done(project)
    TRICKS["remove a suite"].done(project)
    run(project, "--against", "main...")
    allow(project, "unit/mean", *WHY)
    assert run(project, "--against", "main...").returncode == 1
    assert findings(project)[("case_removed", "unit/mean")] == WHY[1]
    assert None in findings(project).values()


def test_a_pattern_without_a_finding_lists_what_there_is(project):
    TRICKS["remove a suite"].done(project)
    run(project, "--against", "main...")
    said = allow(project, "unit/maen", *WHY, code=2)
    assert "error[nothing-to-allow]" in said
    assert 'did you mean "unit/mean"?; there is: case_removed of unit/mean' in said


def test_one_kind_is_permitted_before_it_is_found(project):
    command = ("unit/mean*", "--change", "creep", *WHY)
    assert "1 entry added" in allow(project, *command)
    assert allowed(project) == 'allow:\n  - case: "unit/mean*"\n    change: creep\n    reason: the device is coarser\n'
    assert "0 entries added to baselines/allow.yaml, 1 was there" in allow(
        project, "unit/mean*", "--change", "creep", *WHY
    )


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        ((), "missing-reason"),
        (("--reason", " "), "missing-reason"),
        (WHY, "nothing-to-allow"),
        (("--record", "gone.json", *WHY), "nothing-to-allow"),
        (("--change", "creep", *WHY), "bad-value"),
        (("unit/mean", "--change", "creap", *WHY), "bad-value"),
        (("unit/mean", "--change", "case_introduced", *WHY), "bad-value"),
        (("--against", "nowhere", *WHY), "unknown-revision"),
        (("--prune", "unit/mean"), "bad-value"),
        (("--prune", *WHY), "bad-value"),
    ],
)
def test_mistakes_are_named_and_write_nothing(project, arguments, slug):
    said = allow(project, *arguments, code=2)
    assert f"error[{slug}]" in said
    assert "Traceback" not in said
    assert git(project.root, "status", "--porcelain") == ""


def test_a_run_without_a_base_has_nothing_to_allow(project):
    TRICKS["remove a suite"].done(project)
    assert run(project).returncode == 0
    said = allow(project, *WHY, code=2)
    assert "that run, against no base, has none" in said
    assert "precreg run --against main..." in said


def test_ci_writes_no_permissions(project):
    TRICKS["remove a suite"].done(project)
    run(project, "--against", "main...")
    for arguments in (WHY, ("--prune",)):
        done = precreg(project.root, "allow", *arguments, CI="true")
        assert (done.returncode, "error[accept-in-ci]" in done.stderr) == (2, True)


def changed_kernel(project):
    project.change("suites/unit/kernels.py", "dtype=np.float32", "dtype=x.dtype")
    run(project)


def test_accept_permits_the_changes_that_it_makes_and_names_the_others(project):
    changed_kernel(project)
    TRICKS["take another standard"].done(project)
    done = precreg(project.root, "baseline", "accept", "unit/mean/*", "--allow", "half the bandwidth", "--confirm", "0")
    assert done.returncode == 0, done.stderr
    assert "not allowed: bound_loosened" in done.stdout
    assert "allowed baseline_changed of unit/mean/float16" in done.stdout
    run(project, "--against", "main...")
    found = findings(project)
    assert found[("baseline_changed", CASE)] == "half the bandwidth"
    assert {allowed for (kind, _), allowed in found.items() if kind == "bound_loosened"} == {None}


def test_a_mistake_in_the_file_stops_an_accept_before_it_stores_anything(project):
    changed_kernel(project)
    project.write("baselines/allow.yaml", "alow: []\n")
    before = project.read(demo.MEANS)
    done = precreg(project.root, "baseline", "accept", "unit/mean/*", "--allow", "half the bandwidth", "--confirm", "0")
    assert (done.returncode, "error[bad-allowance]" in done.stderr) == (2, True)
    assert project.read(demo.MEANS) == before


def merged(project):
    """Permit a change, merge it into main, and go on with the next branch."""
    TRICKS["remove a suite"].done(project)
    allow(project, "--against", "main...", *WHY)
    project.commit()
    git(project.root, "switch", "-q", "main")
    git(project.root, "merge", "-q", "coarser")


@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_an_entry_that_is_left_over_never_changes_the_exit_code(project, strict):
    merged(project)
    done = precreg(project.root, "run", *strict, **BRANCH)
    assert done.returncode == 0, done.stdout
    assert "told     baselines/allow.yaml   allowance_unused" in done.stdout
    git(project.root, "switch", "-q", "-c", "next")
    allow(project, "unit/copy", "--change", "exact_dropped", *WHY)
    done = precreg(
        project.root, "run", *strict, CI="true", CI_MERGE_REQUEST_DIFF_BASE_SHA=git(project.root, "rev-parse", "main")
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("allowance_unused") == 2
    assert "is merged" in done.stdout
    assert "nothing uses that" in done.stdout


def test_what_is_merged_is_pruned_and_what_is_not_stays(project):
    merged(project)
    git(project.root, "switch", "-q", "-c", "next")
    allow(project, "unit/copy", "--change", "exact_dropped", *WHY)
    shown = allow(project, "--prune")
    assert "removed case_removed of unit/mean, merged: the device is coarser\n1 entry removed" in shown
    assert "unit/copy" in allowed(project)
    assert "unit/mean" not in allowed(project)
    assert "0 entries removed" in allow(project, "--prune")
    git(project.root, "checkout", "-q", "--", ".")
    git(project.root, "switch", "-q", "main")
    allow(project, "--prune")
    assert not (project.root / "baselines/allow.yaml").exists()


def test_nothing_is_pruned_where_no_default_branch_is_known(project):
    """HEAD in its place would count every committed entry as merged."""
    git(project.root, "checkout", "-q", "-b", "other")
    allow(project, "unit/mean", "--change", "bound_loosened", *WHY)
    project.commit()
    git(project.root, "branch", "-q", "-D", "main")
    before = project.read("baselines/allow.yaml")
    done = precreg(project.root, "allow", "--prune")
    assert (done.returncode, "expected a default branch" in done.stderr) == (2, True), done.stderr
    assert project.read("baselines/allow.yaml") == before
    done = precreg(project.root, "allow", "--change", "creep", *WHY, "")
    assert (done.returncode, "got an empty text" in done.stderr) == (2, True), done.stderr
