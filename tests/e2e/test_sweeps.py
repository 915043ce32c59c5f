"""A sweep of 558 variants, from its first baseline to its history, as a hardware team and its CI use it."""

import csv
import json
import xml.etree.ElementTree as ElementTree

import pytest

from tests.e2e.command import git, precreg, repository
from tests.sweep import COLUMNS, SUITE, sweep_rows, write_sweep

TABLE = "suites/unit/sweep.csv"


def with_sweep(folder, rows, suite=SUITE):
    write_sweep(folder / TABLE, rows)
    (folder / "suites/unit/eltwise.yaml").write_text(suite)
    return folder


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A project with the accepted baselines of the sweep."""
    project = repository(with_sweep(tmp_path_factory.mktemp("sweep"), sweep_rows()))
    first = precreg(project, "run")
    assert first.returncode == 2, first.stdout + first.stderr
    assert "558 proposed" in first.stdout
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first sweep").returncode == 0
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "baselines")
    return project


@pytest.fixture
def project(accepted, tmp_path):
    """A copy of the project."""
    git(tmp_path, "clone", "-q", str(accepted), "copy")
    return tmp_path / "copy"


def edit(project, changes=(), removed=(), added=()):
    """Write the table anew, as the next sweep would."""
    with (project / TABLE).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 558
    for key, cells in dict(changes).items():
        (row,) = (row for row in rows if (row["op"], row["dtype"], row["range"]) == key)
        row |= cells
    kept = [row for row in rows if (row["op"], row["dtype"], row["range"]) not in removed]
    write_sweep(project / TABLE, [*kept, *added])


def verdicts(project):
    """Return the reasons by case of the last run, without the identical cases."""
    record = json.loads((project / "reports/record.json").read_text())
    found = {result["id"]: result["verdict"]["reason"] for result in record["results"]}
    return {id.removeprefix("unit/eltwise/"): reason for id, reason in found.items() if reason != "identical"}


def test_an_equal_table_is_identical(project):
    edit(project)
    done = precreg(project, "run")
    assert (done.returncode, verdicts(project)) == (0, {}), done.stdout
    assert "558 passed" in done.stdout
    assert "exit 0: nothing regressed" in done.stdout


def test_three_planted_losses_are_found_and_nothing_else(project):
    edit(
        project,
        {
            ("exp", "bfloat16", "half"): {"mean_abs_ulp": "0.5"},
            ("tanh", "float16", "one"): {"max_abs_ulp": "7.0"},
            ("negative", "float32", "ten"): {"n_exact": "255"},
        },
    )
    done = precreg(project, "run", "--ci")
    assert done.returncode == 1
    assert verdicts(project) == dict.fromkeys(
        ("bfloat16-exp-half", "float16-tanh-one", "float32-negative-ten"), "regressed"
    )
    assert "equal_share moved (1 -> 0.9961), by figures alone" in " ".join(done.stdout.split())
    failures = ElementTree.parse(project / "reports/junit.xml").getroot().iter("failure")
    assert len([*failures]) == 3
    assert "by figures alone" in (project / "reports/report.html").read_text()
    assert "| mean_ulp | 0.5 | 0.2486 | 2.01 | 1.1 |" in (project / "reports/summary.md").read_text()


def test_an_improvement_is_proposed_and_the_weaker_power_said(project):
    edit(project, {("exp", "bfloat16", "half"): {"mean_abs_ulp": "0.125", "max_abs_ulp": "0.25"}})
    done = precreg(project, "run")
    assert (done.returncode, verdicts(project)) == (0, {"bfloat16-exp-half": "improved"})
    assert "1 case judged by figures alone: a table has no arrays" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("1 case judged by figures alone")
    shown = precreg(project, "baseline", "diff")
    assert "unit/eltwise/bfloat16-exp-half: improved" in shown.stdout
    taken = precreg(project, "baseline", "accept", "unit/eltwise/bfloat16-exp-half", "--reason", "fused kernel")
    assert taken.returncode == 0, taken.stderr
    assert precreg(project, "run").returncode == 0
    assert verdicts(project) == {}


def test_a_row_that_is_gone_fails_until_its_baseline_is_removed(project):
    edit(project, removed={("sqrt", "float16", "one")})
    for arguments in ((), ("eltwise/float16-sqrt",)):
        done = precreg(project, "run", *arguments)
        assert (done.returncode, verdicts(project)) == (1, {"float16-sqrt-one": "missing_output"})
        assert "has no row of this case, and its baseline has one" in done.stdout
    assert precreg(project, "baseline", "prune").returncode == 0
    assert precreg(project, "run").returncode == 0
    assert verdicts(project) == {}


def test_a_new_row_needs_a_baseline(project):
    row = dict(zip(COLUMNS, ("gelu", "float16", "one", "256", "200", "1.5", "0.3"), strict=True))
    edit(project, added=[row])
    assert precreg(project, "run").returncode == 2
    assert verdicts(project) == {"float16-gelu-one": "new"}
    assert precreg(project, "run", "--ci").returncode == 1


def test_empty_cells_and_nan_never_pass(project):
    edit(
        project,
        {("exp", "bfloat16", "half"): {"mean_abs_ulp": ""}, ("exp", "bfloat16", "one"): {"max_abs_ulp": "nan"}},
    )
    done = precreg(project, "run")
    assert done.returncode == 1
    assert verdicts(project) == {"bfloat16-exp-half": "missing_output", "bfloat16-exp-one": "non_finite_mismatch"}
    assert f"the row has no figure of mean_ulp ({TABLE}:3): its cell is empty" in done.stdout
    assert f"max_ulp is nan ({TABLE}:4)" in done.stdout


def test_another_number_of_elements_is_another_shape(project):
    edit(project, {("exp", "bfloat16", "half"): {"n": "512"}})
    assert precreg(project, "run").returncode == 1
    assert verdicts(project) == {"bfloat16-exp-half": "shape_mismatch"}


def test_bounds_judge_rows(project):
    suite = project / "suites/unit/eltwise.yaml"
    suite.write_text(SUITE + "tolerance: {float32: {max_ulp: 0.1}}\n")
    done = precreg(project, "run", "float32-exp-half")
    assert (done.returncode, verdicts(project)) == (1, {"float32-exp-half": "out_of_tolerance"})


def test_a_shared_bound_that_no_column_meets_is_counted(project):
    (project / "suites/tolerances.yaml").write_text("default: {max_abs_error: 1}\n")
    done = precreg(project, "run")
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert f"{TABLE} has no figure of max_abs_error, so nothing checks the bounds of suites/tolerances.yaml:1" in text


def test_changed_since_selects_the_sweep_by_its_table(project):
    assert precreg(project, "run", "--changed-since", "HEAD").returncode == 0
    edit(project, {("exp", "bfloat16", "half"): {"mean_abs_ulp": "0.5"}})
    done = precreg(project, "run", "--changed-since", "HEAD")
    assert (done.returncode, verdicts(project)) == (1, {"bfloat16-exp-half": "regressed"})


def test_a_pair_compares_with_the_table_of_the_commit(project):
    edit(project, {("exp", "bfloat16", "half"): {"mean_abs_ulp": "0.5"}})
    done = precreg(project, "run", "--pair", "HEAD", "--jobs", "2", "eltwise/bfloat16-exp")
    assert (done.returncode, verdicts(project)) == (1, {"bfloat16-exp-half": "regressed"}), done.stdout + done.stderr


def test_a_merge_request_is_judged_by_its_base(project):
    git(project, "config", "user.name", "Ada")
    git(project, "config", "user.email", "ada@example.org")
    edit(project, {("exp", "bfloat16", "half"): {"mean_abs_ulp": "0.5"}})
    git(project, "commit", "-qam", "another sweep")
    done = precreg(project, "run", "--against", "HEAD~1")
    assert (done.returncode, verdicts(project)) == (1, {"bfloat16-exp-half": "regressed"}), done.stdout


def test_a_table_that_git_does_not_have_is_judged_by_the_base_too(accepted, tmp_path):
    git(tmp_path, "clone", "-q", str(accepted), "copy")
    project = tmp_path / "copy"
    git(project, "config", "user.name", "Ada")
    git(project, "config", "user.email", "ada@example.org")
    (project / ".gitignore").write_text("*.csv\nreports/\n.precreg/\n")
    git(project, "rm", "-q", "--cached", TABLE)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "the job writes the table")
    done = precreg(project, "run", "--against", "HEAD")
    assert (done.returncode, verdicts(project)) == (0, {}), done.stdout


def test_the_history_of_ten_sweeps_shows_a_step(project):
    row = ("exp", "bfloat16", "half")
    for number in range(10):
        # Each night another 0.1 %, and a step of 8 % after the fifth: within the allowed growth of one sweep.
        value = 0.24855 * (1 + 0.001 * (number % 3)) * (1.08 if number >= 5 else 1.0)
        edit(project, {row: {"mean_abs_ulp": repr(value)}})
        git(
            project, "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-am", f"n{number}"
        )
        assert precreg(project, "run", "eltwise/bfloat16-exp-half").returncode == 0
        added = precreg(project, "history", "add", "--create", "reports")
        assert added.returncode == 0, added.stderr
    done = precreg(project, "drift")
    assert "bfloat16-exp-half" in done.stdout, done.stdout + done.stderr
    assert "mean_ulp" in done.stdout


def test_every_other_command_reads_the_sweep(project):
    for arguments in (("list",), ("power", "eltwise/bfloat16-exp-half"), ("explain", "unit/eltwise/bfloat16-exp-half")):
        done = precreg(project, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
    assert "figures alone, whose noise is unknown" in precreg(project, "power", "bfloat16-exp-half").stdout
    assert "recorded outputs have no inputs to perturb" in precreg(project, "calibrate", "bfloat16-exp-half").stderr
    assert "a subject of kind table computes by itself" in precreg(project, "faults", "bfloat16-exp-half").stdout
