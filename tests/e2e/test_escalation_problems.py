"""`--pair auto` where the accepted version does not run, draws, or give what the present one does: said, and judged."""

import json
import shutil

import pytest

from tests.e2e.command import change, git, precreg, repository, with_suite
from tests.e2e.test_escalation import AUTO, EQUAL, KERNEL, LOSS, SUBJECT, SUITE, accept, commit, ends, kernel, results

NOWHERE = "0123456789abcdef0123456789abcdef01234567"
HEAD_LINE = "def softmax(x):\n"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A repository of one suite with committed baselines."""
    return made(tmp_path_factory.mktemp("accepted"))


@pytest.fixture
def project(accepted, tmp_path):
    """A copy of the repository."""
    return shutil.copytree(accepted, tmp_path / "project", symlinks=True)


def made(tmp_path, suite=SUITE, text=KERNEL):
    folder = repository(with_suite(tmp_path / "project", suite, text))
    accept(folder)
    return folder


def merge_request(folder, base, *arguments):
    return precreg(folder, "run", "--jobs", "1", *arguments, CI="true", CI_MERGE_REQUEST_DIFF_BASE_SHA=base)


def after_base(folder, broken, fixed):
    """Commit a broken kernel as the base, then the present one; return the base."""
    whole = kernel(folder).read_text()
    kernel(folder).write_text(whole.replace(*broken))
    base = commit(folder, "the base")
    kernel(folder).write_text(whole.replace(SUBJECT, fixed))
    commit(folder, "the change")
    return base


def judged_by_baseline(folder, done, problem):
    """Check that the run says why, without a traceback, and that the stored baseline judges every changed case."""
    assert "Traceback" not in done.stderr
    assert "judged by the stored baseline: unit/s/" in done.stdout, done.stdout + done.stderr
    assert problem in done.stdout
    changed = [each for each in results(folder).values() if each["paired"]]
    assert changed
    for each in changed:
        assert problem in each["paired"]["problem"]
        assert (each["paired"]["judged"], each["verdict"]["reason"]) == (False, "within_tolerance")


BROKEN = {
    "lacks the function": ((HEAD_LINE, "def other(x):\n"), "subject_error there: expected a function of k"),
    "has other parameters": ((HEAD_LINE, "def softmax(x, axis):\n"), "missing 1 required positional argument: 'axis'"),
    "does not compile": ((HEAD_LINE, "def softmax(x)\n"), "subject_error there: SyntaxError: expected ':'"),
    "raises": ((HEAD_LINE, HEAD_LINE + "    raise ValueError('no')\n"), "subject_error there: ValueError: no"),
    "crashes": ((HEAD_LINE, HEAD_LINE + "    import os; os._exit(7)\n"), "crashed there: exited with code 7"),
    "is killed": (
        (HEAD_LINE, HEAD_LINE + "    import os; os.kill(os.getpid(), 11)\n"),
        "crashed there: killed by SIGSEGV",
    ),
    "gives another dtype": (
        (SUBJECT, SUBJECT.replace("e / e.sum(-1, keepdims=True)", "(e / e.sum(-1, keepdims=True)).astype('float64')")),
        "it gives no out there, or another shape or dtype",
    ),
    "gives another shape": (
        (SUBJECT, SUBJECT.replace("e / e.sum(-1, keepdims=True)", "(e / e.sum(-1, keepdims=True))[:1]")),
        "it gives no out there, or another shape or dtype",
    ),
    "names its outputs": (
        (SUBJECT, SUBJECT.replace("e / e.sum(-1, keepdims=True)", "{'y': e / e.sum(-1, keepdims=True)}")),
        "it lacks y",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_base_that_cannot_compute_a_case_leaves_it_to_its_baseline(project, name):
    broken, problem = BROKEN[name]
    base = after_base(project, broken, EQUAL)
    done = merge_request(project, base, "--against", "off")
    assert done.returncode == 0, done.stdout + done.stderr
    judged_by_baseline(project, done, problem)


def test_a_base_that_hangs_ends_at_the_timeout_of_the_case(tmp_path):
    project = made(tmp_path, SUITE + "timeout: 2\n")
    base = after_base(project, (HEAD_LINE, HEAD_LINE + "    import time; time.sleep(600)\n"), EQUAL)
    done = merge_request(project, base, "--against", "off")
    assert done.returncode == 0, done.stdout + done.stderr
    judged_by_baseline(project, done, "timed_out there: exceeded its timeout of 2 s")


def test_a_base_that_hangs_on_fresh_inputs_alone_leaves_the_cases_own_inputs(tmp_path):
    own = tmp_path / "own"
    keep = f"    open({str(own)!r}, 'a').write(f'{{x.tobytes()!r}}, ')\n"
    hang = f"    import time\n\n    time.sleep(600 * (x.tobytes() not in eval(open({str(own)!r}).read())))\n"
    project = made(tmp_path, SUITE + "timeout: 2\n", KERNEL.replace(HEAD_LINE, HEAD_LINE + keep))
    base = after_base(project, (keep, hang), EQUAL)
    done = merge_request(project, base, "--against", "off")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not tested on fresh inputs: unit/s/rows=5: timed_out there: exceeded its timeout of 6 s" in done.stdout


def test_a_base_that_needs_a_module_that_git_ignores_is_said_to_lack_it(project):
    (project / ".gitignore").write_text("__pycache__/\nbuilt.py\n")
    (project / "suites/unit/built.py").write_text("FACTOR = 1\n")
    change(kernel(project), "import numpy as np\n", "import numpy as np\n\nimport built\n")
    base = commit(project, "needs a build")
    change(kernel(project), SUBJECT, LOSS)
    done = merge_request(project, base, "--against", "off")
    assert done.returncode == 0, done.stdout + done.stderr
    judged_by_baseline(project, done, "No module named 'built'")


def test_a_base_whose_code_lies_in_a_submodule_is_said_to_lack_it(tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    (library / "ops.py").write_text("def total(e):\n    return e.sum(-1, keepdims=True)\n")
    repository(library)
    text = KERNEL.replace("import numpy as np\n", "import numpy as np\n\nfrom lib.ops import total\n")
    folder = with_suite(tmp_path / "project", SUITE, text.replace(SUBJECT, SUBJECT.replace(SUM, "total(e)")))
    repository(folder)
    git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "suites/unit/lib")
    accept(folder)
    changed = "def total(e):\n    return e.reshape(len(e), 8, 5).sum(-1).sum(-1, keepdims=True)\n"
    (folder / "suites/unit/lib/ops.py").write_text(changed)
    done = precreg(folder, *AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    judged_by_baseline(folder, done, "No module named 'lib.ops'")


SUM = "e.sum(-1, keepdims=True)"


def test_cases_of_one_version_only_are_said_and_the_others_paired(project):
    base = git(project, "rev-parse", "HEAD")
    change(project / "suites/unit/s.yaml", "[2, 5]", "[5, 9]")
    change(kernel(project), SUBJECT, LOSS)
    done = merge_request(project, base)
    assert done.returncode == 1, done.stdout + done.stderr
    assert ends(project) == {"unit/s/rows=5": ("regressed", "worse"), "unit/s/rows=9": ("new", None)}
    record = json.loads((project / "reports/record.json").read_text())
    findings = {(each["kind"], each["about"]) for each in record["findings"]}
    assert findings == {("case_removed", "unit/s/rows=2"), ("case_introduced", "unit/s/rows=9")}


@pytest.mark.parametrize("place", ["suites/unit/t.yaml", "suites/unit/deep/s.yaml"])
def test_a_suite_that_moved_is_paired(project, place):
    base = git(project, "rev-parse", "HEAD")
    (project / place).parent.mkdir(exist_ok=True)
    git(project, "mv", "suites/unit/s.yaml", place)
    if place.count("/") == 3:
        git(project, "mv", "suites/unit/k.py", "suites/unit/deep/k.py")
    change((project / place).with_name("k.py"), SUBJECT, LOSS)
    done = merge_request(project, base)
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(each["paired"]["commit"] == base for each in results(project).values())


def test_a_base_before_the_first_suite_leaves_the_commit_of_the_baseline(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README").write_text("empty\n")
    base = git(repository(folder), "rev-parse", "HEAD")
    with_suite(folder, SUITE, KERNEL)
    accept(folder)
    accepted = git(folder, "rev-parse", "HEAD")
    change(kernel(folder), SUBJECT, LOSS)
    done = merge_request(folder, base)
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(each["paired"]["commit"] == accepted for each in results(folder).values())


def test_an_absent_merge_base_is_an_error_and_without_it_the_commit_of_the_baseline_judges(project):
    accepted = git(project, "rev-parse", "HEAD")
    change(kernel(project), SUBJECT, LOSS)
    done = merge_request(project, NOWHERE)
    assert (done.returncode, "error[unknown-revision]" in done.stderr) == (2, True)
    assert "GIT_DEPTH: 0" in done.stderr
    done = merge_request(project, NOWHERE, "--against", "off")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"no merge base: expected a commit but got revision='{NOWHERE}'" in done.stderr
    assert all(each["paired"]["commit"] == accepted for each in results(project).values())


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--max-seeds", "-1", "-1 is not in the range"),
        ("--max-seeds", "1.5", "'1.5' is not a valid integer"),
        ("--pair-seconds", "-1", "-1.0 is not in the range"),
        ("--pair-run-seconds", "-0.1", "-0.1 is not in the range"),
        ("--pair-run-seconds", "soon", "'soon' is not a valid float"),
        ("--pair-run-seconds", "nan", "nan is not a time"),
    ],
)
def test_a_budget_below_zero_is_refused(project, option, value, told):
    done = precreg(project, *AUTO, option, value)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    "budget", [("--max-seeds", f"{10**30}"), ("--pair-seconds", "inf", "--pair-run-seconds", "1e308")]
)
def test_a_budget_without_end_ends_when_the_case_is_clear(project, budget):
    change(kernel(project), SUBJECT, LOSS)
    done = precreg(project, *AUTO, *budget)
    assert done.returncode == 1, done.stdout + done.stderr


def test_a_repository_without_a_commit_is_judged_by_its_baselines(tmp_path):
    folder = with_suite(tmp_path / "project", SUITE, KERNEL)
    git(folder, "init", "-q", "-b", "main")
    precreg(folder, "run")
    precreg(folder, "baseline", "accept", "*", "--reason", "first")
    change(kernel(folder), SUBJECT, EQUAL)
    done = precreg(folder, *AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    judged_by_baseline(folder, done, "does not have any commits yet")


def test_a_checkout_that_git_cannot_write_leaves_cases_to_their_baselines(project):
    change(kernel(project), SUBJECT, LOSS)
    # In place of the folder, because a test may run as root, whom no permission stops.
    (project / ".git/worktrees").write_text("a file\n")
    done = precreg(project, *AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    judged_by_baseline(project, done, "git cannot check the commit out")


def test_a_repository_that_lost_an_object_is_judged_by_its_baselines(project):
    change(kernel(project), SUBJECT, LOSS)
    lost = git(project, "rev-parse", "HEAD:suites/unit/k.py")
    (project / ".git/objects" / lost[:2] / lost[2:]).unlink()
    done = precreg(project, *AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    judged_by_baseline(project, done, "unable to read")
    assert "the commit is not known: expected git to read the repository" in done.stdout


def test_a_present_version_that_fails_on_fresh_inputs_alone_is_an_error(project):
    fails = EQUAL.replace("e = np.exp(x)", "e = np.exp(x)\n    if x.max() > 2.9:\n        raise ValueError('large')")
    change(kernel(project), SUBJECT, fails)
    done = precreg(project, *AUTO)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "ValueError: large, on a fresh input that" in done.stdout
    assert results(project)["unit/s/rows=5"]["verdict"]["reason"] == "subject_error"
    assert not results(project)["unit/s/rows=5"]["acceptable"]


def test_a_reference_that_fails_on_fresh_inputs_leaves_the_cases_own_inputs(project):
    change(kernel(project), SUBJECT, EQUAL)
    change(
        kernel(project), "def exact(x):\n", "def exact(x):\n    if x.max() > 2.9:\n        raise ValueError('large')\n"
    )
    done = precreg(project, *AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "not tested on fresh inputs: unit/s/rows=5: reference_error on fresh inputs: ValueError: large" in done.stdout
    )


def test_a_case_whose_regressions_are_off_is_not_paired(tmp_path):
    """Its bits changed, but no output has anything that fresh inputs could judge."""
    project = made(tmp_path, SUITE + "tolerance: {regression: off, rtol: 1e-4}\n")
    change(kernel(project), SUBJECT, LOSS)
    done = precreg(project, *AUTO)
    assert (done.returncode, "side by side" in done.stderr) == (0, False), done.stdout + done.stderr
    done = precreg(project, "run", "--pair", "HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(each["paired"]["clear"] and each["paired"]["end"] is None for each in results(project).values())
