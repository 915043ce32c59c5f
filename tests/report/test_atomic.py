"""Files that are the old ones or the new ones."""

import pytest

from precreg.errors import UserError
from precreg.report import atomic


def test_the_folder_is_made_and_nothing_is_left_beside_the_file(tmp_path):
    atomic.write(tmp_path / "a" / "b" / "x.txt", "é\n")
    assert (tmp_path / "a" / "b" / "x.txt").read_bytes() == "é\n".encode()
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [".gitignore", "x.txt"]


def test_a_file_in_the_way_of_the_folder_is_a_mistake_of_the_user(tmp_path):
    (tmp_path / "reports").write_text("in the way")
    with pytest.raises(UserError) as raised:
        atomic.write(tmp_path / "reports" / "x.txt", "new")
    assert (raised.value.slug, raised.value.file) == ("not-writable", str(tmp_path / "reports" / "x.txt"))


def test_a_read_only_folder_is_a_mistake_of_the_user(unprivileged):
    unprivileged.chmod(0o500)
    with pytest.raises(UserError, match="Permission denied"):
        atomic.write(unprivileged / "x.txt", "new")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "x.txt"
    target.mkdir()  # a folder cannot be replaced by a file
    with pytest.raises(UserError) as raised:
        atomic.write(target, "new")
    assert raised.value.slug == "not-writable"
    assert list(tmp_path.iterdir()) == [target]
