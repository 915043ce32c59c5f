import pytest

from precreg.errors import UserError
from precreg.storage.files import resolve_inside


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
