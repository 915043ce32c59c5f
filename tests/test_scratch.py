import subprocess

from precreg.scratch import make_scratch_folder


def test_git_does_not_see_what_is_in_it(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    make_scratch_folder(tmp_path / "a" / "reports")
    (tmp_path / "a" / "reports" / "record.json").write_text("{}")
    seen = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert seen.stdout == ""


def test_a_folder_that_is_there_stays_as_it_is(tmp_path):
    make_scratch_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
