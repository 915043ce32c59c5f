"""The base of a run is the commit that its name means: no other one by a tag, a replaced object or a variable."""

import json
import os
import re

import pytest

from tests.baseline.integrity import demo
from tests.e2e.command import git, precreg

BOUND = ("suites/unit/mean.yaml", "mean_rel_error: 1", "mean_rel_error: 2")
FOUND = "FINDING  unit/mean   bound_loosened"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    demo.make(folder)
    return folder


@pytest.fixture
def work(template, tmp_path):
    """Return the project on a branch that loosens a bound."""
    project = demo.copy(template, tmp_path / "work")
    git(project.root, "checkout", "-q", "-b", "faster")
    project.change(*BOUND)
    project.head = project.commit()
    return project


def record(project):
    return json.loads(project.read("reports/record.json"))


def kinds(project):
    return [finding["kind"] for finding in record(project)["findings"]]


def test_a_branch_and_a_tag_of_one_name_are_refused_with_their_full_names(work):
    git(work.root, "tag", "main", work.head)
    for option in (("--against", "main"), ("--pair", "main"), ("--changed-since", "main"), ("--against", "main...")):
        done = precreg(work.root, "run", *option)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout
        assert "error[ambiguous-revision]" in done.stderr
        assert "which means refs/tags/main and refs/heads/main" in done.stderr
        assert "such as refs/heads/main" in done.stderr
    assert FOUND in precreg(work.root, "run", "--against", "refs/heads/main").stdout
    assert kinds(work) == ["bound_loosened"]
    precreg(work.root, "run", "--against", "refs/tags/main")
    assert kinds(work) == [], "the tag names the branch's own commit"


@pytest.mark.parametrize(
    ("command", "name", "meanings"),
    [
        (("branch", "origin/main"), "origin/main", "refs/heads/origin/main and refs/remotes/origin/main"),
        (("tag", "origin/main"), "origin/main", "refs/tags/origin/main and refs/remotes/origin/main"),
        (("branch", "heads/main"), "heads/main~0", "refs/heads/main and refs/heads/heads/main"),
        (("update-ref", "refs/heads/origin", "HEAD"), "origin", "refs/heads/origin and refs/remotes/origin/HEAD"),
    ],
)
def test_other_ambiguous_names_are_refused(work, command, name, meanings):
    git(work.root, "update-ref", "refs/remotes/origin/main", "main")
    git(work.root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    assert FOUND in precreg(work.root, "run", "--against", "origin/main").stdout
    git(work.root, *command)
    done = precreg(work.root, "run", "--against", name)
    assert (done.returncode, f"which means {meanings}" in done.stderr) == (2, True), done.stderr


def test_a_branch_that_is_called_like_a_short_id_is_refused(work):
    short = work.base[:7]
    git(work.root, "update-ref", f"refs/heads/{short}", work.head)
    done = precreg(work.root, "run", "--against", short)
    assert f"which means refs/heads/{short} and {work.base}" in done.stderr
    assert FOUND in precreg(work.root, "run", "--against", work.base).stdout


def test_a_file_in_the_folder_of_git_does_not_take_the_place_of_a_branch(work):
    (work.root / ".git" / "main").write_text(f"{work.head}\n")
    done = precreg(work.root, "run", "--against", "main")
    assert "which means refs/heads/main and .git/main" in done.stderr


def replaced_commit(work):
    git(work.root, "replace", work.base, work.head)


def replaced_tree(work):
    git(work.root, "replace", f"{work.base}^{{tree}}", f"{work.head}^{{tree}}")


def replaced_file(work):
    git(work.root, "replace", f"{work.base}:{BOUND[0]}", f"{work.head}:{BOUND[0]}")


def other_replacement(work):
    """Let another namespace have the replacement, which a variable names."""
    git(work.root, "update-ref", f"refs/other/{work.base}", work.head)
    return {"GIT_REPLACE_REF_BASE": "refs/other/"}


@pytest.mark.parametrize("replace", [replaced_commit, replaced_tree, replaced_file, other_replacement])
@pytest.mark.parametrize("base", ["main", "main...", "id"])
def test_a_replaced_object_does_not_judge(work, replace, base):
    variables = replace(work) or {}
    base = work.base if base == "id" else base
    done = precreg(work.root, "run", "--against", base, **variables)
    assert FOUND in done.stdout, done.stdout + done.stderr
    assert record(work)["against"] == work.base
    assert record(work)["git"]["dirty"] is False


@pytest.mark.parametrize("way", ["info/grafts", "variable", "replace --graft"])
def test_a_graft_does_not_move_the_merge_base(work, way, tmp_path):
    """Pretend that main grew out of the branch: then its merge base with HEAD would be HEAD."""
    root, variables = work.root, {}
    graft = f"{git(root, 'rev-parse', 'main')} {work.head}\n"
    if way == "info/grafts":
        (root / ".git" / "info").mkdir(exist_ok=True)
        (root / ".git" / "info" / "grafts").write_text(graft)
    elif way == "variable":
        (tmp_path / "grafts").write_text(graft)
        variables = {"GIT_GRAFT_FILE": str(tmp_path / "grafts")}
    else:
        git(root, "replace", "--graft", "main", work.head)
    done = precreg(root, "run", "--against", "main", **variables)
    assert FOUND in done.stdout, done.stdout + done.stderr
    assert record(work)["against"] == work.base
    assert "grafts" not in done.stderr


def test_variables_of_git_do_not_name_another_repository(work, template, tmp_path):
    """Let the variables name a repository in which the loose bound is the branch main."""
    other = demo.copy(template, tmp_path / "other")
    other.change(*BOUND)
    other.commit()
    folder = other.root / ".git"
    for variables in (
        {"GIT_DIR": str(folder)},
        {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(work.root)},
        {"GIT_COMMON_DIR": str(folder)},
        {"GIT_NAMESPACE": "other", "GIT_INDEX_FILE": str(folder / "index"), "GIT_OBJECT_DIRECTORY": str(folder)},
    ):
        done = precreg(work.root, "run", "--against", "main", **variables)
        assert FOUND in done.stdout, done.stdout + done.stderr
        found = record(work)
        assert (found["against"], found["git"]["commit"], found["git"]["branch"]) == (work.base, work.head, "faster")


def test_a_monitor_of_files_hides_no_change(work, tmp_path):
    """A hook that says that no file changed would hide a reference that changed."""
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\nprintf 'token\\0'\n")
    monitor.chmod(0o755)
    git(work.root, "config", "core.fsmonitor", str(monitor))
    git(work.root, "status")
    os.remove(tmp_path / "ran")
    work.change("suites/shared.py", "astype('float64')", "astype('float32')")
    done = precreg(work.root, "run", "--against", "main")
    assert "reference_changed" in done.stdout, done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()
    assert "unit/mean/float16-n=16" in precreg(work.root, "list", "--changed-since", "HEAD").stdout


def test_a_branch_that_is_behind_gets_no_finding_about_the_work_of_others(template, tmp_path):
    """Main goes on: others tighten a bound, accept other baselines, and add and remove suites."""
    work = demo.copy(template, tmp_path / "work")
    root = work.root
    git(root, "checkout", "-q", "-b", "mine")
    work.write("note.md", "mine")
    work.head = work.commit()
    git(root, "checkout", "-q", "main")
    work.change("suites/unit/mean.yaml", "mean_rel_error: 1", "mean_rel_error: 0.9")
    work.change("suites/unit/kernels.py", "dtype=np.float32) / len(x)", "dtype=np.float32) * (1 / len(x))")
    work.write("suites/unit/more.yaml", demo.COPY.replace("suite: copy", "suite: more"))
    git(root, "rm", "-q", "suites/unit/device.yaml", "baselines/generic/unit/device.json")
    work.accept()
    tip = work.commit()
    git(root, "checkout", "-q", "mine")
    for asked in ("main", "main...", "refs/heads/main", work.base):
        done = precreg(root, "run", "--against", asked)
        assert (done.returncode, kinds(work)) == (0, []), done.stdout + done.stderr
        assert record(work)["against"] == work.base
    assert precreg(root, "run", "--against", tip).returncode == 1, "an id is that commit"
    assert precreg(root, "run", "--changed-since", "main").stdout == "no case depends on what changed since main\n"

    # GitLab merges the result for the pipeline: then the target itself is the base.
    git(root, "checkout", "-q", "--detach")
    git(root, "merge", "-q", "--no-edit", "main")
    job = {"CI": "true", "CI_PROJECT_DIR": str(root), "CI_MERGE_REQUEST_DIFF_BASE_SHA": work.base}
    done = precreg(root, "run", CI_MERGE_REQUEST_TARGET_BRANCH_SHA=tip, **job)
    assert (done.returncode, kinds(work), record(work)["against"]) == (0, [], tip), done.stdout + done.stderr
    done = precreg(root, "run", "--against", "main", **job)
    assert (done.returncode, kinds(work), record(work)["against"]) == (0, [], tip), done.stdout + done.stderr


def test_the_other_version_of_a_pair_is_no_replacement(work):
    """The base's kernel is replaced by the present one, so that the two versions would be the same."""
    root, kernel = work.root, "suites/unit/kernels.py"
    work.change(kernel, "len(x)).astype(x.dtype)", "len(x)).astype(np.float16).astype(x.dtype)")
    work.head = work.commit()
    git(root, "replace", f"{work.base}:{kernel}", f"{work.head}:{kernel}")
    asked = ("unit/mean/float32-n=32", "--pair", "main", "--jobs", "1", "--max-seeds", "8")
    done = precreg(root, "run", *asked)
    assert (done.returncode, "FAILED   unit/mean/float32-n=32" in done.stdout) == (1, True), done.stdout + done.stderr
    assert record(work)["pair"] == work.base


def test_hooks_and_monitors_of_the_settings_do_not_run(work, tmp_path):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "monitor"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran-{name}'\n")
        (hooks / name).chmod(0o755)
    for name, value in (("core.hooksPath", hooks), ("core.fsmonitor", hooks / "monitor")):
        git(work.root, "config", name, str(value))
    git(work.root, "config", "diff.external", str(hooks / "monitor"))
    asked = ("unit/copy", "--against", "main", "--pair", "main", "--jobs", "1", "--max-seeds", "8")
    done = precreg(work.root, "run", *asked, GIT_EXTERNAL_DIFF=str(hooks / "monitor"))
    assert FOUND in done.stdout, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("ran")] == []


@pytest.mark.parametrize("command", [("history", "prune", "--keep", "1", "--keep-commit"), ("drift", "--anchor")])
def test_commands_on_histories_refuse_an_ambiguous_name(work, command):
    git(work.root, "tag", "main", work.head)
    precreg(work.root, "run")
    assert precreg(work.root, "history", "add", "--create", "reports").returncode == 0
    done = precreg(work.root, *command, "main")
    assert "which means refs/tags/main and refs/heads/main" in done.stderr, done.stdout + done.stderr


def test_reports_name_the_commit_and_the_way_to_it(work):
    git(work.root, "tag", "v1", "main")
    short = work.base[:8]
    for asked, shown in (
        ("main", f"{short} (merge base of main and HEAD)"),
        ("v1...", f"{short} (merge base of v1 and HEAD)"),
        ("v1", f"{short} (v1)"),
        ("HEAD~1", f"{short} (HEAD~1)"),
        (work.base[:10], short),
    ):
        done = precreg(work.root, "run", "--against", asked)
        assert f", against {shown}\n" in done.stdout.splitlines(keepends=True)[0]
        assert f", against `{shown}`, " in work.read("reports/summary.md")
        # Words beside a commit are translated.
    written = rf'>against</span></dt><dd><code>(<span data-text="\d+">)?{re.escape(shown)}</'
    assert re.search(written, work.read("reports/report.html"))
    done = precreg(work.root, "run", "unit/copy", "--pair", "main", "--jobs", "1", "--max-seeds", "8")
    shown = f"{short} (merge base of main and HEAD)"
    assert f", paired with {shown}\n" in done.stdout.splitlines(keepends=True)[0], done.stdout + done.stderr
    assert f", paired with `{shown}`, " in work.read("reports/summary.md")


def test_shards_that_were_judged_by_one_commit_merge(work):
    for part, asked in (("1/2", "main"), ("2/2", work.base)):
        precreg(work.root, "run", "--against", asked, "--shard", part, "--output", f"part{part[0]}")
    done = precreg(work.root, "report", "part1", "part2", "--output", "whole")
    assert FOUND in done.stdout, done.stdout + done.stderr
    merged = json.loads(work.read("whole/record.json"))
    assert (merged["against"], len(merged["results"])) == (work.base, 10)


def test_the_other_side_of_a_merge_that_is_under_way_belongs_to_the_present_work(template, tmp_path):
    """Otherwise the target's own changes were findings while its conflicts are resolved."""
    project = demo.copy(template, tmp_path / "work")
    root = project.root
    git(root, "checkout", "-q", "-b", "other")
    (root / "mine.md").write_text("mine\n")
    project.commit()
    git(root, "checkout", "-q", "main")
    project.change(*BOUND)
    project.commit()
    git(root, "checkout", "-q", "other")
    git(root, "merge", "-q", "--no-commit", "main")
    assert FOUND not in precreg(root, "run", "--against", "main").stdout
    git(root, "commit", "-q", "-m", "merged")
    assert FOUND not in precreg(root, "run", "--against", "main").stdout
