"""Changed lines: which lines of the accepted version a change touched, and where they are now."""

from precreg.diagnose.changed_lines import ChangedLines, compare_lines

BEFORE = ["a", "b", "c", "d"]


def test_a_replaced_line_changed_and_has_a_present_line():
    found = compare_lines(BEFORE, ["a", "B", "c", "d"])
    assert found.changed == {2}
    assert found.present == {1: 1, 2: 2, 3: 3, 4: 4}


def test_an_inserted_line_touches_its_neighbours():
    found = compare_lines(BEFORE, ["a", "b", "new", "c", "d"])
    assert found.changed == {2, 3}
    assert found.present == {1: 1, 2: 3, 3: 3, 4: 5}


def test_a_removed_line_changed_and_is_nowhere():
    found = compare_lines(BEFORE, ["a", "c", "d"])
    assert found.changed == {2}
    assert 2 not in found.present


def test_files_are_compared_by_their_path_in_both_trees(tmp_path):
    for name, text in (("old", "x = 1\ny = 2\n"), ("new", "# more\nx = 1\ny = 3\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.py").write_text(text)
    lines = ChangedLines(tmp_path / "old", tmp_path / "new")
    file = str(tmp_path / "old/k.py")
    assert lines.has_changed(file, 2, 2)
    site = lines.present_site(file, 2, tmp_path / "new")
    assert (site.file, site.line, site.code) == ("k.py", 3, "y = 3")
    assert not lines.has_changed("/elsewhere/numpy.py", 1, 9)
    assert lines.present_site("/elsewhere/numpy.py", 1, tmp_path) is None
    assert not lines.has_changed(str(tmp_path / "old/gone.py"), 1, 1)
