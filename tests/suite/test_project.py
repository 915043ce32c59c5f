import pytest

from precreg.errors import UserError
from precreg.storage.files import find_project, path_beside_suite
from precreg.suite.expand import load_cases
from precreg.types.case import Location

WHERE = Location("suites/unit/s.yaml", 7)


def test_the_nearest_folder_with_suites_is_the_project(write):
    outer = write({"inner/suites/unit/x.yaml": "", "inner/src/deep/x.py": "", "other/x.py": ""})
    assert find_project(outer / "inner/src/deep") == outer / "inner"
    assert find_project(outer / "inner") == outer / "inner"
    assert find_project(outer / "other") == outer


def test_a_project_of_hand_written_tests_alone_is_known_by_what_its_tests_made(write):
    outer = write({"suites/unit/x.yaml": "", "alone/.precreg/x.json": "", "alone/tests/x.py": ""})
    assert find_project(outer / "alone/tests") == outer, "a folder with suites/ anywhere above comes first"
    (outer / "suites").rename(outer / "others")
    assert find_project(outer / "alone/tests") == outer / "alone"


def test_without_suites_there_is_no_project(tmp_path):
    with pytest.raises(UserError) as caught:
        find_project(tmp_path)
    assert caught.value.slug == "no-project"
    assert str(tmp_path) in caught.value.message


def test_a_path_beside_the_suite_is_relative_to_the_project(tmp_path):
    assert path_beside_suite(tmp_path, "suites/unit", "data/x.npy", WHERE) == "suites/unit/data/x.npy"
    assert path_beside_suite(tmp_path, "suites/unit", "../../data/x.npy", WHERE) == "data/x.npy"


@pytest.mark.parametrize("path", ["a\0b.npy", "x" * 2000])
def test_a_path_that_no_file_system_takes(tmp_path, path):
    with pytest.raises(UserError) as caught:
        path_beside_suite(tmp_path, "suites/unit", path, WHERE)
    assert (caught.value.slug, caught.value.line) == ("bad-value", 7)
    assert repr(path[:60]) in caught.value.message


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../x.npy", "a/../../../../x.npy", "link/x.npy"])
def test_a_path_that_leaves_the_project_is_refused(tmp_path, path):
    project = tmp_path / "project"
    (project / "suites/unit").mkdir(parents=True)
    (project / "suites/unit/link").symlink_to(tmp_path)
    with pytest.raises(UserError) as caught:
        path_beside_suite(project, "suites/unit", path, WHERE)
    assert (caught.value.slug, caught.value.file, caught.value.line) == ("outside-project", WHERE.file, 7)
    assert path in caught.value.message


def test_links_in_a_circle_do_not_lead_into_the_project(write):
    project = write(s="suite: s\nsubject: numpy:sin\ngolden: {files: circle/x.npy}\n")
    (project / "suites/unit/circle").symlink_to("circle")
    assert find_project(project / "suites/unit/circle") == project
    with pytest.raises(UserError) as caught:
        load_cases(project)
    assert (caught.value.slug, caught.value.line) == ("outside-project", 3)
