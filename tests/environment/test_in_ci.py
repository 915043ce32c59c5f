import pytest

from precreg.environment.machine import in_ci, project_name


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, False), ({"CI": ""}, False), ({"CI": "0"}, False), ({"CI": "False"}, False), ({"CI": "true"}, True)],
)
def test_in_ci(environ, expected):
    assert in_ci(environ) is expected


def test_a_project_is_called_like_its_folder_and_in_gitlab_like_its_repository(tmp_path):
    here = tmp_path / "0"
    (here / "part").mkdir(parents=True)
    in_gitlab = {"CI_PROJECT_DIR": str(here), "CI_PROJECT_NAME": "norms"}
    assert project_name(here, {}) == "0"
    assert project_name(here, in_gitlab) == "norms"
    assert project_name(here / "part", in_gitlab) == "part", "the folder is the repository's own, and always the same"
    assert project_name(tmp_path, in_gitlab) == tmp_path.name
