"""Which commit a run is held against: as it is asked for, and as GitLab's variables name it."""

import subprocess

import pytest

from precreg.environment.machine import merge_request_base, on_default_branch
from precreg.errors import UserError
from precreg.vcs import base_commit
from tests.e2e.command import git

BASE = "CI_MERGE_REQUEST_DIFF_BASE_SHA"
TARGET = "CI_MERGE_REQUEST_TARGET_BRANCH_SHA"


@pytest.fixture
def branched(project):
    """Let a branch have one commit, and main another one, after the first."""
    root = project.root
    git(root, "checkout", "-q", "-b", "faster")
    project.write("note", "on the branch")
    project.commit()
    git(root, "checkout", "-q", "main")
    project.write("other", "on main")
    project.tip = project.commit()
    git(root, "checkout", "-q", "faster")
    return project


def base_of(project, asked, environ=None):
    """Return the commit of a base."""
    return base_commit(project.root, asked, environ or {}).commit


def test_a_branch_and_dots_mean_the_merge_base_and_all_else_that_commit(branched):
    git(branched.root, "tag", "v1", branched.tip)
    assert base_commit(branched.root, "main", {}) == ("main", branched.base, True)
    assert base_commit(branched.root, "main...", {}) == ("main", branched.base, True)
    assert base_commit(branched.root, "refs/heads/main", {}) == ("refs/heads/main", branched.base, True)
    assert base_commit(branched.root, "v1", {}) == ("v1", branched.tip, False)
    assert base_of(branched, "v1...") == branched.base
    assert [base_of(branched, text) for text in ("main^0", "main~1", "main@{0}", branched.tip[:12])] == [
        *(branched.tip, branched.base, branched.tip, branched.tip)
    ]
    assert base_commit(branched.root, "HEAD", {}).is_merge_base is False
    assert base_of(branched, branched.base, {BASE: branched.tip}) == branched.base, "the option wins"


def test_a_branch_of_a_remote_means_its_merge_base(branched, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clones") / "whole"
    git(branched.root, "clone", "-q", "--branch", "faster", str(branched.root), str(clone))
    assert base_commit(clone, "origin/main", {}) == ("origin/main", branched.base, True)
    git(clone, "checkout", "-q", "-b", "mine", "--track", "origin/main")
    git(clone, "checkout", "-q", "faster")
    assert base_commit(clone, "mine@{upstream}", {}).commit == branched.base


def test_a_merge_requests_pipeline_names_its_base(branched):
    assert base_of(branched, "auto", {BASE: branched.base}) == branched.base
    assert base_of(branched, "auto", {BASE: branched.base, TARGET: ""}) == branched.base
    merged = {BASE: branched.base, TARGET: branched.tip}
    assert base_of(branched, "auto", merged) == branched.tip, "HEAD is merged with it in that pipeline"
    assert base_commit(branched.root, "off", merged) is None


def test_elsewhere_there_is_no_base(branched, tmp_path_factory):
    assert base_commit(branched.root, "auto", {"CI": "true", "CI_COMMIT_BRANCH": "main"}) is None
    outside = tmp_path_factory.mktemp("outside")
    inside = {BASE: branched.base, "CI_PROJECT_DIR": str(branched.root)}
    assert merge_request_base(outside, inside) is None, "a project that a test makes is none of the request's"
    assert merge_request_base(branched.root / "suites", inside) == branched.base


def test_the_default_branch_is_known_by_two_variables():
    assert on_default_branch({"CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"})
    assert not on_default_branch({"CI_COMMIT_BRANCH": "faster", "CI_DEFAULT_BRANCH": "main"})
    assert not on_default_branch({"CI_DEFAULT_BRANCH": ""})


@pytest.mark.parametrize("asked", ["nowhere", "nowhere...", "--upload-pack=x", ""])
def test_an_unknown_revision_is_a_clear_error(project, asked):
    with pytest.raises(UserError) as caught:
        base_commit(project.root, asked, {})
    assert caught.value.slug == "unknown-revision"


def test_a_shallow_clone_says_that_it_is_one(branched, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clones") / "shallow"
    url = f"file://{branched.root}"
    command = ["git", "clone", "-q", "--depth", "1", "--no-single-branch", url, str(clone)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(UserError, match="this clone is shallow") as caught:
        base_commit(clone, "auto", {BASE: branched.base})
    assert caught.value.slug == "unknown-revision"
    with pytest.raises(UserError, match="this clone is shallow") as caught:
        base_commit(clone, "origin/main...", {})
    assert caught.value.slug == "no-merge-base"


def test_branches_without_a_common_commit_are_a_clear_error(project):
    git(project.root, "checkout", "-q", "--orphan", "elsewhere")
    project.commit()
    with pytest.raises(UserError, match="have a commit in common") as caught:
        base_commit(project.root, "main...", {})
    assert caught.value.slug == "no-merge-base"
