"""Which commit made a case worse?

git itself chooses the commits: `git bisect` runs in a temporary worktree, so the user's files, index, HEAD and own
bisection stay as they are. Another worktree has the good commit, for paired tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from precreg.diagnose.bisection.judgement import VersionJudge
from precreg.diagnose.bisection.log import SearchLog
from precreg.diagnose.bisection.process import CodeVersion
from precreg.diagnose.bisection.undo import Undoing
from precreg.errors import UserError
from precreg.run import checked_out_version
from precreg.subject import TreePair
from precreg.types import Bisection, BisectionStep, Case, GuiltyCommit
from precreg.vcs import changed_files_since_commit, checkout_commit, commit_of, run_git, run_git_bytes, worktree_root

# The name of the user's files with all changes that are not committed.
WORKING_TREE = "."
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
# A line of `git rev-list --bisect-all`; names of branches come before the distance.
_DISTANCE = re.compile(r"^([0-9a-f]+) \(.*dist=(\d+)\)$", re.MULTILINE)
_UNCOMMITTED = "changes of the working tree that are not committed"
_WORDS = {"good": "good", "bad": "bad", "cannot_run": "skip", "unclear": "skip"}

Report = Callable[[BisectionStep], None]


class CommitRange(NamedTuple):
    """The ends of a search, as commits."""

    good: str
    bad: str


def commit_range(project: Path, good: str, bad: str) -> CommitRange:
    """Return the commits of both ends; `.` is the working tree.

    Raises UserError: bad-bisection, if the good one is not an ancestor of the bad one, or the same; no-git,
    unknown-revision, ambiguous-revision.
    """
    first = commit_of(project, good)
    last = snapshot(project) if bad == WORKING_TREE else commit_of(project, bad)
    if first == last:
        raise UserError(
            "bad-bisection", f"expected two commits but got good={good} and bad={bad}: both are {first[:8]}"
        )
    if run_git(project, "merge-base", "--is-ancestor", first, last).returncode:
        message = f"expected a good commit that is an ancestor of the bad one but got good={good} and bad={bad}"
        if run_git(project, "merge-base", "--is-ancestor", last, first).returncode == 0:
            message += ", whose order is the other way round"
        raise UserError("bad-bisection", message)
    return CommitRange(first, last)


def snapshot(project: Path) -> str:
    """Return HEAD, or a commit of the working tree on top of HEAD if files differ; no branch and no index changes."""
    head, root = commit_of(project, "HEAD"), worktree_root(project)
    changed = changed_files_since_commit(root, head)
    if not changed:
        return head
    with checkout_commit(root, head) as tree:
        for name in changed:
            own, copy = root / name, tree / name
            if own.is_symlink() or own.is_file():
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.unlink(missing_ok=True)
                if own.is_symlink():
                    copy.symlink_to(own.readlink())
                else:
                    copy.write_bytes(own.read_bytes())
                    copy.chmod(own.stat().st_mode)
            elif copy.is_file() and not own.exists():
                copy.unlink()
        run_git_bytes(tree, "add", "--all")
        stored = run_git_bytes(tree, "write-tree").decode().strip()
        # Without a time, so that the same files give the same commit, and an interrupted search goes on.
        who = "precreg <precreg> 0 +0000"
        written = f"tree {stored}\nparent {head}\nauthor {who}\ncommitter {who}\n\n{_UNCOMMITTED}\n".encode()
        return run_git_bytes(tree, "hash-object", "-t", "commit", "-w", "--stdin", given=written).decode().strip()


def search_commits(
    case: Case, project: Path, judge: VersionJudge, ends: CommitRange, log: SearchLog, report: Report
) -> Bisection:
    """Search the first bad commit, and the smallest part of it whose undoing restores the result.

    Raises UserError: no-checkout, no-git, not-writable.
    """
    root = worktree_root(project)
    between = run_git_bytes(root, "rev-list", f"{ends.good}..{ends.bad}").split()
    found = Bisection(
        case=case.id, kind="commits", status="found", good=ends.good, bad=ends.bad, versions=len(between), log=log.shown
    )
    with _checkout(project, ends.good) as good, _checkout(project, ends.bad) as moving:
        judged = judge.judge_ends(good.version(ends.good), moving.version(ends.bad))
        for step in judged.steps:
            report(step)
        found = replace(found, rule=judged.rule, ends=judged.steps)
        if judged.status is not None:
            return replace(found, status=judged.status)
        log.note([f"git bisect start '{ends.bad}' '{ends.good}'"])
        git = GitBisect(moving, judge, log, report)
        commits = git.run(ends)
        guilty = tuple(guilty_commit(root, commit) for commit in commits)
        found = replace(found, steps=tuple(git.steps))
        if len(guilty) > 1:
            return replace(found, status="candidates", candidates=guilty)
        (commit,) = guilty
        narrowed = Undoing(judge, log, moving.version(commit.commit), moving.tree, commit.parent).narrow()
        return replace(found, commit=commit, narrowings=narrowed.levels, changes=narrowed.changes, proof=narrowed.proof)


class _Candidate(NamedTuple):
    """A commit that may be the first bad one; the distance is 0 for the one that is bad."""

    commit: str
    distance: int


class _Checkout(NamedTuple):
    """A temporary worktree, and the project's folder in it."""

    tree: Path
    project: Path
    trees: TreePair

    def version(self, name: str) -> CodeVersion:
        """Return the version of this name, which the worktree has at present."""
        return CodeVersion(name, self.project, self.trees)


@contextmanager
def _checkout(project: Path, commit: str) -> Iterator[_Checkout]:
    with checked_out_version(project, commit, commit) as version:
        yield _Checkout(version.trees.other, version.project, version.trees)


class GitBisect:
    """`git bisect` in a temporary worktree, which has a bisection of its own."""

    def __init__(self, checkout: _Checkout, judge: VersionJudge, log: SearchLog, report: Report) -> None:
        self._checkout, self._judge, self._log, self._report = checkout, judge, log, report
        self.steps: list[BisectionStep] = []

    def run(self, ends: CommitRange) -> list[str]:
        """Return the first bad commit; several if one of them is to blame, and only the last one could be judged."""
        # git moves HEAD to a commit of its own choice, which is far from the middle after a skipped one.
        self._git("start", "--no-checkout", ends.bad, ends.good)
        while True:
            candidates, skipped = self._candidates(), self._refs("refs/bisect/skip-*")
            left = [each for each in candidates if each.distance and each.commit not in skipped]
            if not left:
                return [each.commit for each in candidates]
            # The first one in order of time, so that a search takes the same way again.
            commit = max(left, key=lambda each: each.distance).commit
            step = self._log.known(commit)
            if step is None:
                self._check_out(commit)
                step = self._judge.judge(self._checkout.version(commit))
                self._log.take(step, f"git bisect {_WORDS[step.verdict]} {commit}")
            self.steps.append(step)
            self._report(step)
            self._git(_WORDS[step.verdict], commit)

    def _candidates(self) -> list[_Candidate]:
        """Return the commits that may be the first bad one, newest first, with git's measure of their balance."""
        # The distance is the number of commits on the smaller side. The bad commit has no bad side left to judge.
        bad = self._commits("--max-count=1", "refs/bisect/bad")[0]
        known = ("refs/bisect/bad", "--not", "--glob=refs/bisect/good-*")
        order = self._commits("--topo-order", *known)
        measured = run_git_bytes(self._checkout.tree, "rev-list", "--bisect-all", *known).decode()
        distances = {commit: int(distance) for commit, distance in _DISTANCE.findall(measured)}
        return [_Candidate(commit, 0 if commit == bad else max(1, distances[commit])) for commit in order]

    def _check_out(self, commit: str) -> None:
        # Programs of one commit may have left files in the way of the next one.
        run_git_bytes(self._checkout.tree, *_NO_HOOKS, "checkout", "--quiet", "--force", "--detach", commit)
        run_git_bytes(self._checkout.tree, "clean", "--quiet", "--force", "-d")

    def _git(self, *words: str) -> None:
        run_git(self._checkout.tree, *_NO_HOOKS, "bisect", *words)

    def _commits(self, *words: str) -> list[str]:
        return run_git_bytes(self._checkout.tree, "rev-list", *words).decode().split()

    def _refs(self, pattern: str) -> set[str]:
        return {*run_git_bytes(self._checkout.tree, "for-each-ref", "--format=%(objectname)", pattern).decode().split()}


def guilty_commit(root: Path, commit: str) -> GuiltyCommit:
    """Return what git knows about a commit. Raises UserError: no-git."""
    form = "--format=%s%x00%an <%ae>%x00%aI%x00%P"
    shown = run_git_bytes(root, "show", "--no-patch", form, commit).decode(errors="replace").strip("\n")
    subject, author, date, parents = shown.split("\0")
    # A merge is compared with the branch that it went into.
    parent = parents.split()[0]
    names = run_git_bytes(root, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", parent, commit, "--")
    files = tuple(name for name in names.decode(errors="replace").split("\0") if name)
    return GuiltyCommit(commit, subject, author, date, parent, files)
