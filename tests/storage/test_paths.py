import random
from fnmatch import fnmatchcase

import pytest

from precreg.errors import UserError
from precreg.storage.files import files_matching, pattern_matches, resolve_inside


def test_paths_inside_the_project_are_resolved(tmp_path):
    assert resolve_inside(tmp_path, "suites/../a.npy") == tmp_path.resolve() / "a.npy"
    assert resolve_inside(tmp_path, tmp_path / "a.npy") == tmp_path.resolve() / "a.npy"
    assert resolve_inside(tmp_path, ".") == tmp_path.resolve()


@pytest.mark.parametrize("path", ["../a.npy", "/etc/passwd", "link/a.npy", "circle/a.npy", "a\0b"])
def test_paths_that_leave_the_project_are_refused(tmp_path, path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to(tmp_path)
    (project / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "circle").symlink_to(project / "circle")
    with pytest.raises(UserError) as caught:
        resolve_inside(project, path, file="suites/unit/a.yaml", line=3)
    assert (caught.value.slug, caught.value.file, caught.value.line) == ("outside-project", "suites/unit/a.yaml", 3)


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("src/**", ("src/a", "src/a/b.c", "src/.a"), ("srcs/a", "src", "a/src/b")),
        ("src/*.c", ("src/a.c", "src/.c"), ("src/a/b.c", "src/a.h", "src/a.cc")),
        ("**/x.c", ("x.c", "a/x.c", "a/b/x.c"), ("ax.c", "x.h")),
        ("**/**/**/x.c", ("x.c", "a/b/c/d/x.c"), ("a/y.c",)),
        ("a/**/x.c", ("a/x.c", "a/b/x.c"), ("x.c", "b/a/x.c")),
        ("a", ("a", "a/b", "a/b/c"), ("ab", "b/a")),
        ("src/op?", ("src/op1", "src/op1/a.c"), ("src/op", "src/op/")),
        ("[!a].c", ("b.c", "].c"), ("a.c", "/.c")),
        ("[a-c].c", ("a.c", "b.c"), ("d.c", "-.c")),
        ("[z-a].c", (), ("z.c", "-.c", "m.c")),
        ("[^a]", ("^", "a"), ("b",)),
        ("[[]", ("[",), ("]", "a")),
        ("[\\d&&~|]", ("\\", "d", "&", "~", "|"), ("5", "")),
        ("[]", ("[]",), ("x", "")),
        ("[!]", ("[!]",), ("x",)),
        ("a.c", ("a.c",), ("abc",)),
        ("(a|b)+", ("(a|b)+",), ("a", "ab")),
        ("**", ("x", "x/y"), ()),
        ("a\nb*", ("a\nb\n",), ("a\nc",)),
    ],
)
def test_a_pattern_matches_whole_paths(pattern, matched, others):
    assert [path for path in matched if not pattern_matches(pattern, path)] == []
    assert [path for path in others if pattern_matches(pattern, path)] == []


def test_names_match_as_in_python():
    """`**` and slashes apart, the wildcards are those of fnmatch, whatever stands between brackets."""
    chance = random.Random(3)
    for _ in range(20_000):
        pattern = "".join(chance.choices("ab-]![*?^\\&|~.#(", k=chance.randrange(1, 9)))
        path = "".join(chance.choices("ab-]![^\\&|~.#(", k=chance.randrange(1, 5)))
        if "**" not in pattern:
            assert pattern_matches(pattern, path) == fnmatchcase(path, pattern), (pattern, path)


def test_files_that_match_are_those_that_git_would_list(tmp_path):
    for path in ("src/a.c", "src/deep/b.c", "src/.hidden/c.c", "src/*.c", "other/d.c"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert sorted(files_matching(tmp_path, "src/*.c")) == ["src/*.c", "src/a.c"]
    assert sorted(files_matching(tmp_path, "**/*.c")) == ["other/d.c", "src/*.c", "src/a.c", "src/deep/b.c"]
    assert sorted(files_matching(tmp_path, "src")) == ["src/*.c", "src/a.c", "src/deep/b.c"]
    assert list(files_matching(tmp_path, "src/a.c")) == ["src/a.c"]
    assert list(files_matching(tmp_path, "nowhere/**")) == []
