"""`--pair auto`: a run pairs cases whose bits changed with the accepted version, in real repositories."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.e2e.command import change, environ, git, precreg, repository, started, with_suite

# With five seeds, the default, the baseline itself finds these losses.
SUITE = """\
suite: s
subject: k:softmax
reference: k:exact
seeds: 1
matrix: {rows: [2, 5]}
inputs:
  x: {shape: [$rows, 40], dtype: float32, normal: {mean: 0, std: 1}}
"""
KERNEL = """\
import numpy as np


def softmax(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def exact(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def scalar(x):
    return np.exp(x).sum(dtype=x.dtype)
"""
SUBJECT = "    e = np.exp(x)\n    return e / e.sum(-1, keepdims=True)\n\n\ndef exact"
# Over 600 seeds, the mean |error| is 1.16, 1.09 and 1.00 times the accepted one, with standard errors below 0.01. The
# baseline of one seed sees none of them.
LOSS = SUBJECT.replace("np.exp(x)", "np.exp(x - x[:, :1])")
HALVES = "(e[:, :20].sum(-1, keepdims=True) + e[:, 20:].sum(-1, keepdims=True))"
SMALL_LOSS = SUBJECT.replace("e.sum(-1, keepdims=True)", HALVES)
EQUAL = SUBJECT.replace("e.sum(-1, keepdims=True)", "e.reshape(len(e), 8, 5).sum(-1).sum(-1, keepdims=True)")
AUTO = ("run", "--jobs", "1", "--no-ci")


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A repository of one suite with committed baselines, and a later commit that changes no case."""
    folder = repository(with_suite(tmp_path_factory.mktemp("accepted"), SUITE, KERNEL))
    accept(folder)
    (folder / "README").write_text("later\n")
    commit(folder, "later")
    return folder


@pytest.fixture
def project(accepted, tmp_path):
    """A copy of the repository."""
    return shutil.copytree(accepted, tmp_path / "project", symlinks=True)


def accept(folder):
    precreg(folder, "run")
    assert precreg(folder, "baseline", "accept", "*", "--reason", "first").returncode == 0
    commit(folder, "accepted")


def commit(folder, message):
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


def kernel(folder):
    return folder / "suites/unit/k.py"


def results(folder):
    return {each["id"]: each for each in json.loads((folder / "reports/record.json").read_text())["results"]}


def ends(folder):
    return {
        id: (each["verdict"]["reason"], each["paired"] and each["paired"]["end"])
        for id, each in results(folder).items()
    }


def test_a_small_loss_is_found_by_pairing_with_the_commit_that_first_has_the_baseline(project):
    accepted = git(project, "rev-parse", "HEAD~1")
    change(kernel(project), SUBJECT, LOSS)
    done = precreg(project, *AUTO)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        f"2 cases with other bits: running {accepted[:8]} side by side, at most 10240 seeds and 20 s a case"
        in done.stderr
    )
    assert f"2 of 2 cases judged by {accepted[:8]}, run side by side" in done.stdout
    assert re.search(rf"grew 1\.\d+x over {accepted[:8]} on \d+ fresh seeds", done.stdout)
    for result in results(project).values():
        assert (result["verdict"]["reason"], result["paired"]["end"]) == ("regressed", "worse")
        assert result["paired"]["commit"] == accepted
    assert len(git(project, "worktree", "list").splitlines()) == 1


def test_an_equal_rewrite_passes(project):
    change(kernel(project), SUBJECT, EQUAL)
    done = precreg(project, *AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    # Two sums of two rows may have the same bits by luck.
    assert set(ends(project).values()) <= {
        ("within_tolerance", "clear"),
        ("not_clear", "not_clear"),
        ("identical", None),
    }


def test_a_run_without_changed_bits_checks_nothing_out_and_off_pairs_nothing(project):
    done = precreg(project, *AUTO)
    assert (done.returncode, "side by side" in done.stderr) == (0, False)
    change(kernel(project), SUBJECT, LOSS)
    done = precreg(project, *AUTO, "--pair", "off")
    assert (done.returncode, done.stdout.count("pair ")) == (0, 0), done.stdout
    assert all(each["paired"] is None for each in results(project).values())


def test_a_rerun_gives_the_same_verdict_from_the_cache_and_with_any_number_of_workers(project):
    change(kernel(project), SUBJECT, LOSS)
    precreg(project, *AUTO)
    first = results(project)
    assert not any(each["paired"]["cached"] for each in first.values())
    precreg(project, *AUTO)
    again = results(project)
    assert all(each["paired"]["cached"] for each in again.values())
    for path in (project / ".precreg/pairs").iterdir():
        path.unlink()
    precreg(project, "run", "--jobs", "2", "--no-ci", "rows=5")
    alone = results(project)
    for id, each in (*again.items(), *alone.items()):
        assert each["verdict"] == first[id]["verdict"]
        assert each["paired"]["figures"] == first[id]["paired"]["figures"]


def test_a_damaged_cache_is_drawn_again(project):
    change(kernel(project), SUBJECT, LOSS)
    precreg(project, *AUTO)
    first = results(project)
    for path in (project / ".precreg/pairs").iterdir():
        path.write_bytes(b"\xff\x00")
    precreg(project, *AUTO)
    assert {id: each["verdict"] for id, each in results(project).items()} == {
        id: each["verdict"] for id, each in first.items()
    }


def test_the_merge_base_is_the_accepted_version_of_a_merge_request(project):
    base = git(project, "rev-parse", "HEAD")
    git(project, "checkout", "-qb", "feature")
    change(kernel(project), SUBJECT, LOSS)
    commit(project, "a loss")
    variables = {"CI": "true", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    done = precreg(project, "run", "--jobs", "1", **variables)
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(each["paired"]["commit"] == base for each in results(project).values())
    done = precreg(project, "run", "--jobs", "1", CI="true")
    assert done.returncode == 0, "no merge request, so no change of its own"
    assert all(each["paired"] is None for each in results(project).values())


def test_a_loss_that_was_accepted_in_the_branch_is_not_held_against_it(project):
    base = git(project, "rev-parse", "HEAD")
    change(kernel(project), SUBJECT, LOSS)
    precreg(project, "run", "--pair", "off", "--jobs", "0")
    assert precreg(project, "baseline", "accept", "*", "--reason", "faster").returncode == 0
    accepted = commit(project, "faster, and accepted")
    change(kernel(project), "e.sum(-1, keepdims=True)\n\n\ndef exact", EQUAL.split(" / ")[1])
    variables = {"CI": "true", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    precreg(project, "run", "--jobs", "1", "--against", "off", **variables)
    # Two rows may have the same bits by luck.
    commits = {each["paired"]["commit"] for each in results(project).values() if each["paired"]}
    assert commits == {accepted}
    assert all(each["verdict"]["status"] == "passed" for each in results(project).values())


def test_a_push_is_paired_with_the_commit_that_it_replaces(project, tmp_path):
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    git(project, "remote", "add", "origin", str(remote))
    git(project, "push", "-q", "origin", "main")
    replaced = git(project, "rev-parse", "HEAD")
    change(kernel(project), SUBJECT, LOSS)
    pushed = commit(project, "a loss")
    done = started_with_input(project, f"refs/heads/main {pushed} refs/heads/main {replaced}\n")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"running {replaced[:8]} side by side" in done.stderr


def started_with_input(project, line):
    import subprocess
    import sys

    from tests.e2e.command import PATIENCE_S, environ

    command = [sys.executable, "-m", "precreg", "hook", "run", "origin", "url"]
    return subprocess.run(
        command, cwd=project, env=environ(), input=line, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


PROBLEMS = {
    "not committed": "no commit has its present entry in baselines/generic/unit/s.json; commit the baseline",
    "no workers": "--jobs 0 has no worker processes to run another version in",
}


def test_a_baseline_that_is_not_committed_has_no_version(tmp_path):
    folder = repository(with_suite(tmp_path / "project", SUITE, KERNEL))
    precreg(folder, "run")
    precreg(folder, "baseline", "accept", "*", "--reason", "first")
    change(kernel(folder), SUBJECT, LOSS)
    done = precreg(folder, *AUTO)
    assert (done.returncode, PROBLEMS["not committed"] in done.stdout) == (0, True), done.stdout


def test_one_process_cannot_run_two_versions(project):
    change(kernel(project), SUBJECT, LOSS)
    done = precreg(project, "run", "--jobs", "0")
    assert (done.returncode, PROBLEMS["no workers"] in done.stdout) == (0, True), done.stdout


def test_a_shallow_clone_may_lack_the_commit(project, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", str(clone))
    change(kernel(clone), SUBJECT, LOSS)
    done = precreg(clone, *AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "judged by the stored baseline: unit/s/rows=2, unit/s/rows=5: this clone is shallow" in done.stdout
    assert "GIT_DEPTH: 0" in done.stdout


def test_a_project_outside_git_is_judged_by_its_baselines(tmp_path):
    folder = with_suite(tmp_path / "project", SUITE, KERNEL)
    precreg(folder, "run")
    precreg(folder, "baseline", "accept", "*", "--reason", "first")
    change(kernel(folder), SUBJECT, LOSS)
    done = precreg(folder, *AUTO, GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert (done.returncode, "git does not give the commit" in done.stdout) == (0, True), done.stdout


def test_an_accepted_version_that_does_not_run_here_leaves_the_case_to_its_baseline(project):
    change(kernel(project), "import numpy as np\n", "import numpy as np\nimport gone_since\n")
    change(kernel(project), "import gone_since\n", "import numpy as gone_since\n")
    broken = kernel(project).read_text().replace("import numpy as gone_since", "import gone_since")
    fixed = kernel(project).read_text()
    kernel(project).write_text(broken)
    base = commit(project, "broken on this machine")
    kernel(project).write_text(fixed)
    change(kernel(project), SUBJECT, LOSS)
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    done = precreg(project, *AUTO, "--against", "off", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "judged by the stored baseline" in done.stdout
    assert "No module named 'gone_since'" in done.stdout


@pytest.mark.parametrize("option", ["--pair-seconds", "--pair-run-seconds", "--max-seeds"])
def test_a_budget_of_0_leaves_a_case_unclear_and_strict_makes_that_an_error(project, option):
    change(kernel(project), SUBJECT, LOSS)
    done = precreg(project, *AUTO, option, "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(ends(project).values()) == {("not_clear", "not_clear")}
    assert f"{option} allows more" in done.stdout
    done = precreg(project, *AUTO, option, "0", "--strict")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "exit 2: 2 cases could not be judged: 2 not clear"


def test_the_import_of_a_slow_library_uses_up_no_budget(tmp_path):
    """Two seeds of a worker that imports for two seconds take more than the 20th part of the budget each."""
    slow = tmp_path / "slow"
    imports = f"import os\nfrom time import sleep\n\nimport numpy as np\n\nsleep(2 * os.path.exists({str(slow)!r}))\n"
    text = KERNEL.replace("import numpy as np\n", imports, 1)
    folder = repository(with_suite(tmp_path / "project", SUITE.replace("[2, 5]", "[5]"), text))
    accept(folder)
    slow.touch()
    change(kernel(folder), SUBJECT, LOSS)
    done = precreg(folder, *AUTO)
    assert done.returncode == 1, done.stdout + done.stderr
    assert {reason for reason, _ in ends(folder).values()} == {"regressed"}


def test_a_subject_that_does_not_repeat_is_named(tmp_path):
    """Each call adds in another order: as good as before, and of 50 rows some have other bits in every run."""
    folder = repository(with_suite(tmp_path / "project", SUITE.replace("[2, 5]", "[50, 60]"), KERNEL))
    accept(folder)
    change(kernel(folder), SUBJECT, SUBJECT.replace("e.sum(-1", "np.take(e, rng.permutation(40), -1).sum(-1"))
    change(kernel(folder), "import numpy as np\n", "import numpy as np\n\nrng = np.random.default_rng()\n")
    done = precreg(folder, *AUTO)
    assert "out has other bits in a second run on the same inputs" in done.stdout
    assert {each["paired"]["cause"]["kind"] for each in results(folder).values()} == {"unsteady"}


def test_inputs_from_a_file_are_no_sample(tmp_path):
    suite = SUITE.replace("normal: {mean: 0, std: 1}", "file: {path: x$rows.npy}").replace("x$rows", "x")
    suite = suite.replace("matrix: {rows: [2, 5]}\n", "").replace("[$rows, 40]", "[5, 40]")
    folder = with_suite(tmp_path / "project", suite, KERNEL)
    np.save(folder / "suites/unit/x.npy", np.random.default_rng(1).normal(size=(5, 40)).astype("float32"))
    repository(folder)
    accept(folder)
    change(kernel(folder), SUBJECT, EQUAL)
    done = precreg(folder, *AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not tested on fresh inputs: unit/s/default: its inputs are the same at every seed" in done.stdout


def test_a_nan_on_fresh_inputs_alone_fails(project):
    """The run's own seed may have no input above 3.2; a hundred fresh ones do."""
    rare = SMALL_LOSS.replace("np.exp(x)", "np.where(x > 3.2, np.float32('nan'), np.exp(x))")
    change(kernel(project), SUBJECT, rare)
    done = precreg(project, *AUTO)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "differ in NaN or infinity on fresh seed" in done.stdout or "non_finite_mismatch" in done.stdout


def test_scalars_are_judged(tmp_path):
    suite = SUITE.replace("k:softmax", "k:scalar").replace("k:exact", "k:scalar").replace("[2, 5]", "[50]")
    suite += "tolerance: {rtol: 1e-4}\n"
    folder = repository(with_suite(tmp_path / "project", suite, KERNEL))
    accept(folder)
    change(kernel(folder), "np.exp(x).sum(dtype=x.dtype)", "np.cumsum(np.exp(x))[-1]")
    done = precreg(folder, *AUTO)
    assert done.returncode == 1, done.stdout + done.stderr
    assert ends(folder) == {"unit/s/rows=50": ("regressed", "worse")}


def test_a_loss_of_a_tenth_is_found_with_the_default_budget(project):
    change(kernel(project), SUBJECT, SMALL_LOSS)
    done = precreg(project, *AUTO, "--pair-seconds", "600", "--pair-run-seconds", "1200")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "regressed" in {reason for reason, _ in ends(project).values()}


def test_a_loss_on_another_machine_is_found_and_an_equal_rewrite_passes(project):
    """With numpy's dispatch turned down, bits differ from the baselines' without any change of code."""
    other = {"NPY_DISABLE_CPU_FEATURES": disabled_features(), "OPENBLAS_CORETYPE": "Prescott"}
    done = started(project, *AUTO, **other)
    assert done.returncode == 0, done.stdout + done.stderr
    change(kernel(project), SUBJECT, LOSS)
    done = started(project, *AUTO, **other)
    assert done.returncode == 1, done.stdout + done.stderr
    change(kernel(project), LOSS, EQUAL)
    done = started(project, *AUTO, **other)
    assert done.returncode == 0, done.stdout + done.stderr


def disabled_features():
    """Return the names of the features that numpy dispatches and this processor has."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))


def test_a_suite_may_leave_its_outputs_out_of_pairs(tmp_path):
    suite = f"{SUITE}tolerance:\n  regression: {{pair: off}}\n"
    folder = repository(with_suite(tmp_path / "project", suite, KERNEL))
    accept(folder)
    change(kernel(folder), SUBJECT, EQUAL)
    for pair in ("auto", "HEAD"):
        done = precreg(folder, *AUTO, "--pair", pair)
        assert done.returncode == 0, done.stdout + done.stderr
        assert {reason for reason, _ in ends(folder).values()} <= {"within_tolerance", "identical"}


RESTLESS = """\
import os


def softmax(x):
    e = np.exp(x * np.float32(1 + 1e-7 * os.urandom(1)[0]))
    return e / e.sum(-1, keepdims=True)


def exact"""


@pytest.fixture
def restless(tmp_path):
    """A project whose case gives other bits in each run, as it declares."""
    suite = f"{SUITE}deterministic: false\nrepeats: 3\n".replace("[2, 5]", "[20]")
    folder = repository(
        with_suite(tmp_path / "project", suite, KERNEL.replace(f"def softmax(x):\n{SUBJECT}", RESTLESS))
    )
    accept(folder)
    return folder


def test_a_case_that_need_not_repeat_is_paired_only_if_its_code_changed(restless):
    for _ in range(3):
        done = precreg(restless, *AUTO)
        assert "side by side" not in done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
    change(kernel(restless), "1e-7 * os", "1.01e-7 * os")
    done = precreg(restless, *AUTO, "--max-seeds", "40")
    assert "1 case with other bits" in done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(restless)["unit/s/rows=20"]["paired"]["end"] in ("clear", "not_clear")


def test_an_output_for_some_inputs_only_is_judged_where_it_is(tmp_path):
    twice = SUBJECT.replace("return e / e.sum(-1, keepdims=True)", "return outputs(x, e)")
    reference = KERNEL[KERNEL.index("def exact") : KERNEL.index("def scalar")]
    outputs = """\


def outputs(x, e):
    y = e / e.sum(-1, keepdims=True)
    return {"y": y, "z": y} if x.sum() > -1 else {"y": y}
"""
    code = KERNEL.replace(SUBJECT, twice).replace(
        reference, reference.replace("e / e.sum(-1, keepdims=True)", "outputs(x, e)")
    )
    folder = repository(
        with_suite(tmp_path / "project", SUITE.replace("matrix: {rows: [2, 5]}", "matrix: {rows: [5]}"), code + outputs)
    )
    accept(folder)
    assert set(results(folder)["unit/s/rows=5"]["tolerances"]) == {"y", "z"}
    change(kernel(folder), twice, twice.replace("np.exp(x)", "np.exp(x - x[:, :1])"))
    done = precreg(folder, *AUTO)
    assert done.returncode == 1, done.stdout + done.stderr
    assert ends(folder) == {"unit/s/rows=5": ("regressed", "worse")}


def test_a_version_without_the_nan_of_the_accepted_one_is_no_loss(tmp_path):
    """The scalar is NaN at half of all seeds, and NaN has no error that the present one could exceed."""
    nan = "np.where(x.sum() > 0, np.float32('nan'), np.exp(x).sum(dtype=x.dtype))"
    fixed = "np.exp(x[:, ::-1]).sum(dtype=x.dtype)"
    suite = SUITE.replace("k:softmax", "k:risky").replace("k:exact", "k:scalar").replace("[2, 5]", "[1]")
    code = f"{KERNEL}\n\ndef risky(x):\n    return {nan}\n"
    folder = repository(with_suite(tmp_path / "project", f"{suite}tolerance: {{rtol: 1e-4}}\n", code))
    change(kernel(folder), nan, fixed)
    done = precreg(folder, *AUTO, "--pair", "HEAD", "--max-seeds", "160")
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(folder).values()
    assert result["verdict"]["reason"] in ("not_clear", "improved")
    assert "non_finite_on_fresh_inputs" in {finding["fact"]["kind"] for finding in result["verdict"]["findings"]}


AT_ONCE = """\
import sys
import precreg.cli.run
from precreg.__main__ import main

precreg.cli.run.LOG_SECONDS = 0.0
sys.argv = ["precreg", *sys.argv[1:]]
main()
"""


def test_a_pair_prints_its_progress_every_few_seconds(project):
    change(kernel(project), SUBJECT, LOSS)
    done = precreg(project, *AUTO)
    assert "cases judged side by side" not in done.stderr, "a short pair needs no progress"
    for pair in ("auto", "HEAD"):
        for path in (project / ".precreg/pairs").iterdir():
            path.unlink()
        command = [sys.executable, "-c", AT_ONCE, *AUTO, "--pair", pair]
        done = subprocess.run(command, cwd=project, env=environ(), capture_output=True, text=True, check=False)
        own = re.findall(r"(\d) of 2 cases ran by the other version on their own seeds; \d+ s of at most", done.stderr)
        assert own == (["1", "2"] if pair == "auto" else []), done.stderr
        judged = r"\d of \d cases judged side by side, the others on (\d+) fresh seeds; \d+ s of at most \d+ s"
        looks = [int(each) for each in re.findall(judged, done.stderr)]
        assert looks == sorted(looks)
        assert looks[0] == 2, done.stderr
