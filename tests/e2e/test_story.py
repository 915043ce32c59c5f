"""Three developers, three branches, one repository: a loss, an improvement and a renamed suite, merged in turn.

Nobody edits JSON or allow.yaml: commands resolve the conflict, write the permissions, and remove them again.
"""

import json

import pytest

from tests.e2e.command import change, git, precreg

KERNELS = """\
import numpy as np


def total(x):
    return np.sum(x, axis=1, dtype=np.float32)


def average(x):
    result = np.zeros(len(x), np.float16)
    for column in x.T:
        result += column.astype(np.float16)
    return (result / x.shape[1]).astype(np.float32)


def exact_total(x):
    return np.sum(x, axis=1)


def exact_average(x):
    return np.sum(x, axis=1) / x.shape[1]
"""
SUITE = """\
suite: {name}
subject: kernels:{name}
reference: kernels:exact_{name}
matrix: {{n: [64, 256]}}
inputs:
  x: {{shape: [64, $n], dtype: float32, uniform: {{low: 0, high: 1}}}}
tolerance: {{rtol: 0.1, atol: 0.1, max_ulp: 1e+9}}
"""
NARROW_TOTAL = "    return np.cumsum(x, axis=1, dtype=np.float16)[:, -1].astype(np.float32)\n"
WIDE_AVERAGE = "    return np.sum(x, axis=1, dtype=np.float32) / np.float32(x.shape[1])\n"
TOTALS = "baselines/generic/unit/total.json"
AGAINST = ("--against", "main...")


class Developer:
    """A clone of the common repository, with its branch."""

    def __init__(self, folder, name, origin):
        self.folder, self.name = folder, name
        git(folder.parent, "clone", "-q", str(origin), str(folder))
        git(folder, "config", "user.name", name)
        git(folder, "config", "user.email", f"{name.lower()}@example.org")

    def begins(self, branch):
        git(self.folder, "switch", "-q", "main")
        git(self.folder, "pull", "-q", "--ff-only")
        git(self.folder, "switch", "-q", "-c", branch)

    def does(self, *words, code=0):
        done = precreg(self.folder, *words)
        assert done.returncode == code, f"{self.name}: {words}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def commits(self, message):
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", message)

    def pushes(self):
        git(self.folder, "push", "-q", "--force", "origin", "HEAD")

    def rebases(self):
        """Rebase onto the present main, and return the files with conflicts."""
        git(self.folder, "fetch", "-q", "origin", "main:main")
        try:
            git(self.folder, "rebase", "-q", "main")
        except Exception:
            return git(self.folder, "diff", "--name-only", "--diff-filter=U").split()
        return []


class Forge:
    """The common repository, and a clone in which the pipelines of merge requests run and merge."""

    def __init__(self, folder, origin):
        self.folder = folder
        git(folder.parent, "clone", "-q", str(origin), str(folder))
        git(folder, "config", "user.name", "Forge")
        git(folder, "config", "user.email", "forge@example.org")

    def _run(self, *words, **variables):
        done = precreg(self.folder, "run", *words, CI="true", CI_PROJECT_DIR=str(self.folder), **variables)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 1), done.stdout + done.stderr
        record = json.loads((self.folder / "reports/record.json").read_text())
        found = record.get("findings", [])
        standing = {
            (each["kind"], each["about"]): "told" if not each.get("fails", True) else each["allowed"] for each in found
        }
        verdicts = {result["id"]: result["verdict"]["reason"] for result in record["results"]}
        return done.returncode, standing, verdicts

    def merge_request(self, branch):
        """Return exit code, findings by kind and place with their standing, and the reason of each case."""
        git(self.folder, "fetch", "-q", "origin")
        git(self.folder, "switch", "-q", "--detach", f"origin/{branch}")
        base = git(self.folder, "merge-base", "origin/main", "HEAD")
        return self._run(CI_MERGE_REQUEST_DIFF_BASE_SHA=base)

    def merges(self, branch):
        """Merge a branch, and return what the pipeline of the default branch says, also with --strict."""
        git(self.folder, "switch", "-q", "main")
        git(self.folder, "reset", "-q", "--hard", "origin/main")
        git(self.folder, "merge", "-q", "--no-ff", "-m", f"Merge {branch}", f"origin/{branch}")
        git(self.folder, "push", "-q", "origin", "main")
        return self._run("--strict", CI_COMMIT_BRANCH="main", CI_DEFAULT_BRANCH="main")


@pytest.fixture
def shared(tmp_path):
    """Ada, Ben and Cleo with a clone each, two accepted suites on main, and the place where merge requests run."""
    origin = tmp_path / "origin.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(origin))
    ada = Developer(tmp_path / "ada", "Ada", origin)
    git(ada.folder, "switch", "-q", "-c", "main")
    place = ada.folder / "suites/unit"
    place.mkdir(parents=True)
    (place / "kernels.py").write_text(KERNELS)
    for name in ("total", "average"):
        (place / f"{name}.yaml").write_text(SUITE.format(name=name))
    (ada.folder / ".gitignore").write_text("__pycache__/\n/reports/\n")
    ada.does("run", code=2)
    ada.does("baseline", "accept", "--all", "--reason", "first version")
    ada.commits("Two kernels")
    git(ada.folder, "push", "-q", "-u", "origin", "main")
    ben, cleo = (Developer(tmp_path / name.lower(), name, origin) for name in ("Ben", "Cleo"))
    return ada, ben, cleo, Forge(tmp_path / "forge", origin)


def test_three_branches_are_merged_in_turn(shared):
    ada, ben, cleo, forge = shared
    kernels = "suites/unit/kernels.py"
    for developer, branch in ((ada, "cheap-total"), (ben, "wide-average"), (cleo, "rename")):
        developer.begins(branch)

    # Ada makes a kernel cheaper and worse. The run before the commit proposes, and the merge base judges.
    change(ada.folder / kernels, "    return np.sum(x, axis=1, dtype=np.float32)\n", NARROW_TOTAL)
    ada.does("run", code=1)
    ada.commits("Totals in float16")
    ada.pushes()
    code, findings, verdicts = forge.merge_request("cheap-total")
    assert (code, findings) == (1, {})
    assert {verdicts["unit/total/n=64"], verdicts["unit/total/n=256"]} == {"regressed"}
    # She accepts without permission first: the gate still judges by the merge base, and names the change.
    ada.does("baseline", "accept", "--all", "--reason", "half the bandwidth, agreed on Monday")
    ada.commits("Accept the loss")
    ada.pushes()
    code, findings, verdicts = forge.merge_request("cheap-total")
    assert code == 1
    assert findings == {("baseline_changed", f"unit/total/n={n}"): None for n in (64, 256)}
    # The run prints the entry, and one command writes it.
    shown = ada.does("run", *AGAINST, code=1)
    for case in ("unit/total/n=256", "unit/total/n=64"):
        assert f"          - case: {case}\n            change: baseline_changed\n            reason: WHY\n" in shown
    shown = ada.does("allow", "--reason", "half the bandwidth, agreed on Monday")
    assert "allowed baseline_changed of unit/total: half the bandwidth, agreed on Monday" in shown
    ada.commits("Permit the loss")
    ada.pushes()
    assert forge.merge_request("cheap-total") == (
        0,
        {("baseline_changed", f"unit/total/n={n}"): "half the bandwidth, agreed on Monday" for n in (64, 256)},
        dict.fromkeys(("unit/average/n=256", "unit/average/n=64", "unit/total/n=256", "unit/total/n=64"), "identical"),
    )
    # On the default branch the entry is left over: a warning, with --strict, too.
    code, findings, _ = forge.merges("cheap-total")
    assert (code, findings) == (0, {("allowance_unused", "baselines/allow.yaml"): "told"})

    # Ben makes another kernel better, and also changes a case of Ada's suite: he lets it add in blocks.
    change(ben.folder / kernels, KERNELS.partition("def average(x):\n")[2].partition("\n\n\n")[0] + "\n", WIDE_AVERAGE)
    change(
        ben.folder / kernels,
        "dtype=np.float32)\n\n\ndef average",
        "dtype=np.float64).astype(np.float32)\n\n\ndef average",
    )
    assert "improved" in ben.does("run")
    shown = ben.does("baseline", "accept", "--all", "--allow", "float32 sums, and float64 totals", *AGAINST)
    assert "allowed baseline_changed of unit/average: float32 sums, and float64 totals" in shown
    ben.commits("Averages in float32, totals in float64")
    ben.pushes()
    code, findings, _ = forge.merge_request("wide-average")
    every = {("baseline_changed", f"unit/{suite}/n={n}") for suite in ("average", "total") for n in (64, 256)}
    assert (code, set(findings)) == (0, every)
    assert None not in findings.values()

    # Main has Ada's total by now: Ben's rebase ends in a conflict of the kernel, the baseline and the permissions.
    conflicts = ben.rebases()
    assert set(conflicts) == {kernels, TOTALS, "baselines/allow.yaml"}
    assert "error[conflicted-baseline]" in precreg(ben.folder, "run").stderr
    # Picking some hunks of one side and some of the other is no way out.
    mixed = mixture((ben.folder / TOTALS).read_text())
    (ben.folder / TOTALS).write_text(mixed)
    done = precreg(ben.folder, "run")
    assert (done.returncode, "error[mixed-baseline]" in done.stderr) == (2, True), done.stderr
    assert f"{TOTALS}:" in done.stderr
    # He takes main's side of all three, makes his change to the kernel again, runs, and accepts.
    git(ben.folder, "checkout", "--ours", "--", kernels, TOTALS, "baselines/allow.yaml")
    change(ben.folder / kernels, KERNELS.partition("def average(x):\n")[2].partition("\n\n\n")[0] + "\n", WIDE_AVERAGE)
    git(ben.folder, "add", "-A")
    git(ben.folder, "-c", "core.editor=true", "rebase", "--continue")
    assert ben.does("allow", "--prune").startswith("removed baseline_changed of unit/total, merged: half the bandwidth")
    ben.does("run", *AGAINST, code=1)
    ben.does("allow", "--reason", "float32 sums")
    ben.commits("Permissions after the rebase")
    ben.pushes()
    code, findings, verdicts = forge.merge_request("wide-average")
    assert (code, findings) == (0, {("baseline_changed", f"unit/average/n={n}"): "float32 sums" for n in (64, 256)})
    assert set(verdicts.values()) == {"identical"}
    code, findings, _ = forge.merges("wide-average")
    assert (code, set(findings.values())) == (0, {"told"})

    # Cleo renames a suite on a branch that is behind.
    suite = cleo.folder / "suites/unit/average.yaml"
    change(suite, "suite: average", "suite: row_mean")
    git(cleo.folder, "mv", str(suite), str(suite.with_name("row_mean.yaml")))
    cleo.commits("Rename a suite")
    cleo.pushes()
    renamed = [("case_renamed", f"unit/row_mean/n={n}") for n in (64, 256)]
    code, findings, _ = forge.merge_request("rename")
    assert (code, findings) == (1, dict.fromkeys(renamed))
    assert cleo.rebases() == []
    assert "0 removed, 2 renamed" in cleo.does("baseline", "prune")
    cleo.does("run", *AGAINST, code=1)
    assert "removed baseline_changed of unit/average" in cleo.does("allow", "--prune")
    cleo.does("allow", "unit/row_mean", "--reason", "the name that the papers use")
    cleo.commits("Baselines follow their suite")
    cleo.pushes()
    code, findings, verdicts = forge.merge_request("rename")
    assert (code, findings) == (0, dict.fromkeys(renamed, "the name that the papers use"))
    assert set(verdicts.values()) == {"identical"}
    code, findings, verdicts = forge.merges("rename")
    assert (code, findings) == (0, {("allowance_unused", "baselines/allow.yaml"): "told"})
    assert set(verdicts) == {f"unit/{suite}/n={n}" for suite in ("row_mean", "total") for n in (64, 256)}

    # The last permission goes, and with it the file.
    ada.begins("tidy")
    ada.does("allow", "--prune")
    assert not (ada.folder / "baselines/allow.yaml").exists()
    ada.commits("No permission is left")
    ada.pushes()
    assert forge.merge_request("tidy")[:2] == (0, {})
    assert forge.merges("tidy")[:2] == (0, {})
    assert reasons(forge.folder) == {
        "unit/row_mean": ["float32 sums, and float64 totals"] * 2,
        "unit/total": ["half the bandwidth, agreed on Monday"] * 2,
    }


def mixture(text):
    """Resolve a conflict by the first side of every second hunk, and the other side of the rest."""
    lines, side, hunk = [], None, 0
    for line in text.splitlines(keepends=True):
        if line.startswith("<<<<<<< "):
            side, hunk = 0, hunk + 1
        elif line.startswith("=======") and side is not None:
            side = 1
        elif line.startswith(">>>>>>> "):
            side = None
        elif side is None or side == hunk % 2:
            lines.append(line)
    assert hunk > 1
    return "".join(lines)


def reasons(folder):
    """Return the reasons of all baselines by suite."""
    found = {}
    for file in sorted((folder / "baselines/generic/unit").glob("*.json")):
        document = json.loads(file.read_text())
        found[document["suite"]] = [case["reason"] for case in document["cases"].values()]
    return found
