import pytest

from precreg.errors import UserError
from precreg.vcs.hook import Push, Tip, parse_git_pushes, parse_pre_commit_push, pushed_tips

A, B, C, NONE = "a" * 40, "b" * 40, "c" * 64, "0" * 40


def test_a_branch_a_new_one_and_a_deletion():
    text = f"refs/heads/x {A} refs/heads/y {B}\nHEAD~1 {A} refs/heads/new {NONE}\n(delete) {NONE} refs/heads/old {B}\n"
    assert parse_git_pushes(text) == [
        Push(A, "refs/heads/y", B),
        Push(A, "refs/heads/new", ""),
        Push("", "refs/heads/old", B),
    ]


def test_what_a_user_typed_may_have_spaces_and_ids_may_be_long():
    assert parse_git_pushes(f"main@{{1 day ago}} {C} refs/heads/x {'0' * 64}\n") == [Push(C, "refs/heads/x", "")]


def test_nothing_is_pushed():
    assert parse_git_pushes("") == []


@pytest.mark.parametrize("line", ["", "refs/heads/x", f"x {A} y", f"x {A} y main", f"x {A[1:]} y {B}", f"x {A} y -{B}"])
def test_other_lines_are_refused(line):
    with pytest.raises(UserError) as caught:
        parse_git_pushes(f"{line}\n")
    assert caught.value.slug == "not-a-push"


def test_variables_of_pre_commit():
    names = {"PRE_COMMIT": "1", "PRE_COMMIT_FROM_REF": A, "PRE_COMMIT_TO_REF": B}
    names |= {"PRE_COMMIT_LOCAL_BRANCH": "refs/heads/x", "PRE_COMMIT_REMOTE_BRANCH": "refs/heads/y"}
    assert parse_pre_commit_push(names) == [Push(B, "refs/heads/y", A)]


@pytest.mark.parametrize("empty", [{}, {"PRE_COMMIT_FROM_REF": "", "PRE_COMMIT_TO_REF": ""}])
def test_pre_commit_on_the_first_push_names_the_branch_alone(empty):
    names = {"PRE_COMMIT": "1", "PRE_COMMIT_LOCAL_BRANCH": "refs/heads/x", **empty}
    assert parse_pre_commit_push(names) == [Push("refs/heads/x", "refs/heads/x", "")]


def test_pre_commit_by_hand_means_all_of_head():
    assert parse_pre_commit_push({"PRE_COMMIT": "1"}) == [Push("HEAD", "HEAD", "")]


def test_outside_of_git_and_of_pre_commit():
    with pytest.raises(UserError) as caught:
        parse_pre_commit_push({"PRE_COMMIT_FROM_REF": A})
    assert caught.value.slug == "not-a-push"


def test_a_commit_is_looked_at_once_and_a_deletion_never():
    pushes = [Push(A, "refs/heads/x", B), Push("", "refs/heads/old", B), Push("v1", "refs/tags/v1", "")]
    assert pushed_tips(pushes, {A: A, "v1": A}) == [Tip(A, ("refs/heads/x", "refs/tags/v1"), (B, ""))]


def test_what_is_no_commit_is_left_out():
    assert pushed_tips([Push("key", "refs/tags/key", "")], {}) == []


@pytest.mark.parametrize(
    ("targets", "is_tag"),
    [(["refs/tags/v1"], True), (["refs/tags/v1", "refs/heads/x"], False), (["refs/for/main"], False)],
)
def test_a_tip_is_a_tag_where_no_other_ref_names_it(targets, is_tag):
    assert Tip(A, tuple(targets), ("",) * len(targets)).is_tag is is_tag
