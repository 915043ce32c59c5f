"""`precreg bisect` by the real command: commits, releases made here as wheels, variables and flags; log and resume."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from math import ceil, log2

import pytest

from tests.e2e.bisected import COMMITS, GUILTY, sixty_commits
from tests.e2e.command import PATIENCE_S, change, environ, git, precreg, repository, started, with_suite
from tests.e2e.fork_server import write_command

SUITE = """\
suite: s
subject: k:softmax
reference: k:exact
inputs:
  x: {shape: [5, 7], dtype: float32, normal: {mean: 0, std: 1}}
seeds: 3
tolerance: {rtol: 1e-2, atol: 1e-2}
"""
KERNEL = """\
import numpy as np


def softmax(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def exact(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)
"""
SUBJECT = "def softmax(x):\n    e = np.exp(x)"
WORSE = SUBJECT.replace("np.exp(x)", "np.exp(x.astype('float16')).astype('float32')")


@pytest.fixture(scope="module")
def sixty(tmp_path_factory):
    """The repository of 60 commits; tests copy it, or leave it as it is."""
    folder = tmp_path_factory.mktemp("sixty") / "project"
    folder.mkdir()
    return sixty_commits(folder)


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path / "project", SUITE, KERNEL))


def commit(project, path, before, after, message="change"):
    change(project / path, before, after)
    git(project, "commit", "-qam", message)


def bisected(project, *arguments, code=0, **variables):
    """Run the command, and return its JSON."""
    done = precreg(project, "bisect", *arguments, "--json", "-", **variables)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def verdicts(found):
    return [(step["verdict"], step["evidence"]) for step in found["ends"] + found["steps"]]


def test_of_sixty_commits_the_guilty_one_is_found_with_file_function_and_operation(sixty):
    project, commits = sixty
    before = git(project, "rev-parse", "HEAD"), git(project, "status", "--porcelain")
    found = bisected(project, "unit/norm", "--good", commits[0])
    assert found["status"] == "found"
    assert found["commit"]["commit"] == commits[GUILTY]
    assert found["commit"]["subject"] == f"refactoring {GUILTY}"
    skipped = sum(step["verdict"] == "cannot_run" for step in found["steps"])
    assert len(found["steps"]) <= ceil(log2(COMMITS)) + skipped
    # The commit also moved and renamed the helper, renamed the variables, and added a blank line.
    (change_,) = found["changes"]
    assert change_ == {
        "level": "operation",
        "file": "ops/normalization.py",
        "function": "layer_norm",
        "line": 11,
        "bad": "mean_of_rows_2(x * x) - mu * mu",
        "good": "mean_of_rows_2(d * d)",
    }
    assert (found["proof"]["verdict"], found["proof"]["evidence"]) == ("good", "good_bits")
    # Bits decide all steps between the ends: no paired test runs.
    assert {step["evidence"] for step in found["steps"]} <= {"good_bits", "bad_bits", "failure"}
    assert (git(project, "rev-parse", "HEAD"), git(project, "status", "--porcelain")) == before
    assert len(git(project, "worktree", "list").splitlines()) == 1
    assert not (project / ".git" / "BISECT_LOG").exists()


@pytest.fixture(scope="module")
def eight(sixty, tmp_path_factory):
    """The search among eight of the 60 commits: the finished process, and its log, which later searches replace."""
    project, commits = sixty
    file, log = (tmp_path_factory.mktemp("eight") / name for name in ("found.json", "log"))
    done = precreg(project, "bisect", "unit/norm", "--good", commits[32], "--bad", commits[40], "--json", file)
    shutil.copy(project / json.loads(file.read_text())["log"], log)
    return done, log


def test_the_text_names_the_line_and_the_proof(sixty, eight):
    _, commits = sixty
    done, _ = eight
    assert done.returncode == 0, done.stderr
    assert f'unit/norm/float32: first bad commit {commits[GUILTY][:12]} "refactoring 37"' in done.stdout
    assert "to blame: ops/normalization.py:11, layer_norm (operation)" in done.stdout
    assert "- mean_of_rows_2(d * d)\n" in done.stdout
    assert "+ mean_of_rows_2(x * x) - mu * mu\n" in done.stdout
    assert "proof: with this undone the bad version is good: bits of the good version" in done.stdout


def test_git_bisect_run_finds_the_same_commit(sixty, tmp_path):
    project, commits = sixty
    own = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(own))
    # The commit in the middle of these cannot be imported.
    git(own, "bisect", "start", commits[42], commits[20])
    write_command(tmp_path / "precreg", "precreg", PATIENCE_S)
    command = (tmp_path / "precreg", "bisect", "unit/norm", "--good", commits[20], "--step")
    done = subprocess.run(
        ["git", "bisect", "run", *command], cwd=own, env=environ(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(own, "rev-parse", "refs/bisect/bad") == commits[GUILTY]


def test_a_step_has_the_exit_codes_of_git_bisect_run(project):
    first = git(project, "rev-parse", "HEAD")

    def code(*arguments):
        return precreg(project, "bisect", "unit/s", "--step", *arguments).returncode

    assert code("--good", first) == 0
    change(project / "suites/unit/k.py", SUBJECT, WORSE)
    assert code("--good", first) == 1
    change(project / "suites/unit/k.py", "import numpy as np", "import nothing_of_that_name")
    assert code("--good", first) == 125
    (project / "suites/unit/s.yaml").unlink()
    assert code("--good", first) == 125
    assert code("--good", "no-such-revision") == 128


def test_the_log_is_one_that_git_can_replay(sixty, eight, tmp_path):
    project, commits = sixty
    _, log = eight
    own = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(own))
    git(own, "bisect", "replay", str(log))
    assert git(own, "rev-parse", "refs/bisect/bad") == commits[GUILTY]


def test_a_killed_search_goes_on_with_its_steps(sixty, tmp_path):
    project, commits = sixty
    own = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(own))
    words = ("bisect", "unit/norm", "--good", commits[0])
    process = subprocess.Popen(
        [sys.executable, "-m", "precreg", *words], cwd=own, env=environ(), stderr=subprocess.PIPE, text=True
    )
    # Two ends and two steps.
    printed = [process.stderr.readline() for _ in range(4)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = bisected(own, *words[1:], "--resume")
    assert found["commit"]["commit"] == commits[GUILTY]
    assert len(printed) == 4
    assert [step["logged"] for step in found["steps"]][:2] == [True, True]
    assert not all(step["logged"] for step in found["steps"])
    again = bisected(own, *words[1:], "--resume")
    assert all(step["logged"] for step in again["steps"])
    assert again["changes"] == found["changes"]
    # The worktrees of the killed process are gone, too.
    assert len(git(own, "worktree", "list").splitlines()) == 1


def test_a_search_that_never_began_cannot_go_on(project):
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", SUBJECT, WORSE)
    done = precreg(project, "bisect", "unit/s", "--good", first, "--resume")
    assert (done.returncode, "error[nothing-to-resume]" in done.stderr) == (2, True)


def test_changes_that_are_not_committed_are_found_as_a_commit_of_their_own(project):
    first = git(project, "rev-parse", "HEAD")
    change(project / "suites/unit/k.py", SUBJECT, WORSE)
    (project / "suites/unit/more.py").write_text("MORE = 1\n")
    state = git(project, "status", "--porcelain")
    found = bisected(project, "unit/s", "--good", first, "--bad", ".")
    assert found["commit"]["subject"] == "changes of the working tree that are not committed"
    assert found["changes"][0]["good"] == "np.exp(x)"
    assert git(project, "status", "--porcelain") == state
    assert git(project, "rev-parse", "HEAD") == first
    # The committed version has no change at all.
    done = precreg(project, "bisect", "unit/s", "--good", first)
    assert "error[bad-bisection]" in done.stderr


def test_versions_that_do_not_differ_are_no_error(project):
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", "import numpy as np", "import numpy as np  # fast")
    found = bisected(project, "unit/s", "--good", first, code=1)
    assert found["status"] == "no_difference"


SUM = "return e / e.sum(-1, keepdims=True)\n\n\ndef exact"
# The sum from the other end: other bits, and no loss.
OTHER_SUM = SUM.replace("e.sum", "e[:, ::-1].sum")


def test_a_harmless_change_of_bits_is_found_by_bits(project):
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", SUM, SUM.replace("e.sum", "(1 * e).sum"), "same bits")
    commit(project, "suites/unit/k.py", "(1 * e).sum", "e[:, ::-1].sum", "other bits")
    guilty = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", "import numpy as np", "import numpy as np  # later")
    found = bisected(project, "unit/s", "--good", first)
    assert (found["rule"], found["commit"]["commit"]) == ("bits", guilty)
    assert bisected(project, "unit/s", "--good", first, "--rule", "loss", code=1)["status"] == "no_loss"


def test_a_loss_behind_a_harmless_change_is_found_by_paired_tests(project):
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", SUM, OTHER_SUM, "harmless")
    harmless = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", SUBJECT, WORSE, "worse")
    found = bisected(project, "unit/s", "--good", first)
    assert found["rule"] == "loss"
    assert found["commit"]["parent"] == harmless
    (step,) = found["steps"]
    assert (step["version"], step["verdict"], step["evidence"]) == (harmless, "good", "fresh_seeds")
    assert step["seeds"] >= 20
    # Undoing the loss alone gives neither the bits of the good version nor those of the bad one.
    assert (found["proof"]["evidence"], found["changes"][0]["good"]) == ("fresh_seeds", "np.exp(x)")


def test_a_good_version_that_is_bad_or_cannot_run_is_no_measure(project):
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", SUBJECT, SUBJECT.replace("np.exp(x)", "2 * np.exp(x) + 1"))
    bad = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", "2 * np.exp(x) + 1", "3 * np.exp(x) + 1")
    found = bisected(project, "unit/s", "--good", bad, code=2)
    assert (found["status"], found["ends"][0]["reason"]) == ("good_is_bad", "out_of_tolerance")
    commit(project, "suites/unit/k.py", "import numpy as np", "import nothing_here")
    found = bisected(project, "unit/s", "--good", first, code=2)
    assert found["status"] == "bad_fails"
    broken = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", "import nothing_here", "import numpy as np")
    assert bisected(project, "unit/s", "--good", broken, code=2)["status"] == "good_fails"


def test_repeats_that_differ_are_no_measure(project):
    commit(project, "suites/unit/k.py", SUBJECT, SUBJECT.replace("np.exp(x)", "np.exp(x) + np.float32(id(x) % 7e-6)"))
    restless = SUBJECT.replace("np.exp(x)", "np.exp(x) + np.random.default_rng().random(x.shape, 'float32') * 1e-3")
    text = (project / "suites/unit/k.py").read_text()
    (project / "suites/unit/k.py").write_text(re.sub(r"def softmax\(x\):\n.*\n", restless + "\n", text))
    git(project, "commit", "-qam", "random")
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", "* 1e-3", "* 2e-3")
    assert bisected(project, "unit/s", "--good", first, code=2)["status"] == "nondeterministic"


def test_only_skipped_commits_are_candidates(project):
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", "import numpy as np", "import nothing_here", "broken")
    commit(project, "suites/unit/k.py", SUBJECT, WORSE, "worse")
    commit(project, "suites/unit/k.py", "import nothing_here", "import numpy as np", "mended")
    found = bisected(project, "unit/s", "--good", first, code=2)
    assert found["status"] == "candidates"
    assert [each["subject"] for each in found["candidates"]] == ["mended", "worse", "broken"]


def test_a_commit_that_crashes_is_skipped(project):
    first = git(project, "rev-parse", "HEAD")
    crash = SUBJECT.replace("    e =", "    import os\n\n    os.abort()\n    e =")
    commit(project, "suites/unit/k.py", SUBJECT, crash, "crashes")
    commit(project, "suites/unit/k.py", crash, WORSE, "worse")
    found = bisected(project, "unit/s", "--good", first, code=2)
    (step,) = found["steps"]
    assert (step["verdict"], step["reason"], step["message"]) == ("cannot_run", "crashed", "killed by SIGABRT")
    assert [each["subject"] for each in found["candidates"]] == ["worse", "crashes"]


def test_a_version_that_no_paired_test_can_judge_is_skipped_and_counted(project):
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", SUM, OTHER_SUM, "harmless")
    commit(project, "suites/unit/k.py", SUBJECT, WORSE, "worse")
    done = precreg(project, "bisect", "unit/s", "--good", first, "--max-seeds", "0")
    assert done.returncode == 2
    assert "one of 2 commits is to blame, and all but the last were skipped" in done.stdout
    assert "1 step for 2 versions, 1 skipped" in done.stdout
    assert "skipped" in done.stderr
    assert "not_clear" in done.stderr


def test_bounds_on_analyzers_and_on_a_benchmark_do_not_condemn_the_good_version(project):
    change(project / "suites/unit/s.yaml", "atol: 1e-2}", "atol: 1e-2, classes.kl_divergence: 9, rms_error_ratio: 9}")
    text = (project / "suites/unit/s.yaml").read_text() + "analyzers: [classes]\nbenchmark: k:exact\n"
    (project / "suites/unit/s.yaml").write_text(text)
    git(project, "commit", "-qam", "more bounds")
    first = git(project, "rev-parse", "HEAD")
    assert precreg(project, "run", "--ci").stdout.count("out_of_tolerance") == 0
    commit(project, "suites/unit/k.py", SUBJECT, WORSE)
    assert bisected(project, "unit/s", "--good", first)["rule"] == "loss"


def test_a_suite_that_lacked_the_case_is_judged_by_the_present_definition(project):
    (project / "suites/unit/s.yaml").rename(project / "suites/unit/old.yaml")
    change(project / "suites/unit/old.yaml", "suite: s", "suite: old")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "another name")
    first = git(project, "rev-parse", "HEAD")
    commit(project, "suites/unit/k.py", SUBJECT, WORSE, "worse")
    guilty = git(project, "rev-parse", "HEAD")
    (project / "suites/unit/old.yaml").rename(project / "suites/unit/s.yaml")
    change(project / "suites/unit/s.yaml", "suite: old", "suite: s")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "renamed")
    assert bisected(project, "unit/s", "--good", first)["commit"]["commit"] == guilty


def test_a_changed_param_is_found_in_the_suite(project):
    text = (project / "suites/unit/s.yaml").read_text() + "params: {shift: 0.0}\n"
    (project / "suites/unit/s.yaml").write_text(text)
    kernel = KERNEL.replace("(x):", "(x, shift):").replace("np.exp(x)", "np.exp(x) + shift")
    (project / "suites/unit/k.py").write_text(kernel)
    git(project, "commit", "-qam", "with a param")
    first = git(project, "rev-parse", "HEAD")
    change(project / "suites/unit/s.yaml", "shift: 0.0", "shift: 0.001")
    commit(project, "suites/unit/k.py", "import numpy as np", "import numpy as np  # why")
    found = bisected(project, "unit/s", "--good", first)
    (change_,) = found["changes"]
    assert (change_["level"], change_["file"]) == ("lines", "suites/unit/s.yaml")
    assert (change_["good"], change_["bad"]) == ("params: {shift: 0.0}", "params: {shift: 0.001}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected one of --good REVISION, --package"),
        (("--bad", "HEAD"), "expected --good REVISION but got none"),
        (("--good", "HEAD"), "expected two commits but got good=HEAD and bad=HEAD"),
        (("--good", "HEAD", "--bad", "HEAD~1"), "whose order is the other way round"),
        (("--good", "side", "--bad", "HEAD"), "expected a good commit that is an ancestor of the bad one"),
        (("--good", "HEAD~1", "--package", "numpy==1..2"), "but got --good and --package"),
        (("--package", "numpy"), "expected NAME==GOOD..BAD but got package='numpy'"),
        (("--package", "numpy==x..2"), "expected a version but got 'x'"),
        (("--package", "numpy==2.0..2.0.0"), "expected two releases"),
        (("--variable", "NAME"), "expected NAME=VALUE but got variable='NAME'"),
        (("--flags", "-O3"), "has a subject of kind=python"),
    ],
)
def test_a_mistake_has_one_clear_message(project, arguments, words):
    git(project, "branch", "side")
    commit(project, "suites/unit/k.py", SUBJECT, WORSE)
    git(project, "checkout", "-q", "side")
    (project / "other.txt").write_text("aside\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "aside")
    git(project, "checkout", "-q", "main")
    done = precreg(project, "bisect", "unit/s", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def wheel(folder, name, version, code, requires=()):
    """Write a wheel of one module, as a build backend would."""
    info, tag = f"{name}-{version}.dist-info", "py3-none-any"
    needed = "".join(f"Requires-Dist: {each}\n" for each in requires)
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as archive:
        for path, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, content)


GOOD_EXP = "import numpy as np\n\n\ndef {name}(x):\n    return np.exp(x)\n"
BAD_EXP = GOOD_EXP.replace("np.exp(x)", "np.exp(x.astype('float16')).astype(x.dtype)")


@pytest.fixture
def releases(tmp_path):
    """A project of two packages, with nine and five releases. beta loses precision in 1.3, and 1.2 cannot be used."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, "gone", "0.1", "ANY = 1\n")
    for minor in range(9):
        needed = ["gone", "numpy>=1"] if minor < 5 else ()
        wheel(wheels, "alpha", f"1.{minor}", GOOD_EXP.format(name="alpha") + f"\n\nRELEASE = {minor}\n", needed)
    for minor in range(7):
        code = (BAD_EXP if minor >= 3 else GOOD_EXP).format(name="beta")
        wheel(wheels, "beta", f"1.{minor}", code, ["numpy>=99"] if minor == 2 else ())
    wheel(wheels, "beta", "1.4rc1", "raise ImportError('no candidate is tried')\n")
    kernel = KERNEL.replace(
        SUBJECT, "def softmax(x):\n    import alpha\n    import beta\n\n    e = beta.beta(x) * 1 + 0 * alpha.alpha(x)"
    )
    project = repository(with_suite(tmp_path / "project", SUITE, kernel))
    return project, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}


def test_of_two_packages_the_guilty_release_is_found(releases):
    project, variables = releases
    ranges = ("--package", "alpha==1.0..1.8", "--package", "beta==1.0..1.6")
    done = started(project, "bisect", "unit/s", *ranges, "--json", "-", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["releases"] == [{"package": "beta", "good": "1.1", "bad": "1.3", "candidates": ["1.2"]}]
    skipped = [step for step in found["steps"] if step["verdict"] == "cannot_run"]
    assert [step["version"] for step in skipped] == ["alpha==1.0 beta==1.2"]
    assert "beta 1.2 needs numpy>=99" in skipped[0]["message"]
    proof = found["proof"]
    assert (proof["version"], proof["verdict"], proof["evidence"]) == ("alpha==1.8 beta==1.1", "good", "good_bits")
    # The environment of the tests has neither package, and still has none.
    assert subprocess.run([sys.executable, "-c", "import beta"], capture_output=True, check=False).returncode == 1
    again = started(project, "bisect", "unit/s", *ranges, "--resume", "--json", "-", **variables)
    assert all(step["logged"] for step in json.loads(again.stdout)["steps"])


def test_an_unknown_package_or_release_and_no_pip_have_one_message(releases):
    project, variables = releases
    for package, words in (
        ("gamma==1.0..2.0", "expected pip to list the releases of package=gamma but: "),
        ("beta==1.0..1.7", "expected a release of beta but got 1.7; near it are 1.0, 1.1, "),
    ):
        done = started(project, "bisect", "unit/s", "--package", package, **variables)
        assert (done.returncode, "error[no-releases]" in done.stderr) == (2, True)
        assert words in done.stderr


def test_the_smallest_set_of_variables_is_found(project):
    code = (
        "def softmax(x):\n    import os\n\n    worse = {'A', 'C'} <= {*os.environ}\n"
        "    e = np.exp(x.astype('float16' if worse else x.dtype)).astype('float32')"
    )
    commit(project, "suites/unit/k.py", SUBJECT, code)
    names = [word for name in "ABCD" for word in ("--variable", f"{name}=1")]
    found = bisected(project, "unit/s", *names)
    assert found["settings"] == ["A=1", "C=1"]
    assert found["proof"]["version"] == "B=1 D=1"
    assert found["proof"]["verdict"] == "good"
    assert bisected(project, "unit/s", "--variable", "B=1", code=1)["status"] == "no_difference"


PROGRAM = """\
#include <stdio.h>
int main(int count, char **words) {
    float x[64], total = 0;
    FILE *in = fopen(words[1], "rb"), *out = fopen(words[2], "wb");
    if (!in || fread(x, sizeof(float), 64, in) != 64) return 1;
    for (int k = 0; k < 64; k++) {
#ifdef ROUGH
        total += (int)(x[k] * 256) / 256.0f;
#else
        total += x[k];
#endif
    }
    fwrite(&total, sizeof(float), 1, out);
    return fclose(out);
}
"""
PROGRAM_SUITE = """\
suite: s
subject:
  command: ["{build}/kernel", "{inputs.x}", "{outputs.out}"]
  inputs: {x: {format: bin}}
  outputs: {out: {format: bin, dtype: float32, shape: [1]}}
  build: {command: [cc, -O1, kernel.c, -o, "{build}/kernel"], sources: [kernel.c], produces: kernel}
reference: k:exact
inputs:
  x: {shape: [64], dtype: float32, normal: {mean: 0, std: 1}}
seeds: 5
tolerance: {rtol: 10, atol: 10}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_guilty_flag_of_a_compiler_is_found(tmp_path):
    kernel = "def exact(x):\n    return x.sum()[None]\n"
    project = with_suite(tmp_path / "project", PROGRAM_SUITE, kernel)
    (project / "suites/unit/kernel.c").write_text(PROGRAM)
    repository(project)
    found = bisected(project, "unit/s", "--flags", "-g -DROUGH -Wall")
    assert found["settings"] == ["-DROUGH"]
    assert found["proof"]["verdict"] == "good"
