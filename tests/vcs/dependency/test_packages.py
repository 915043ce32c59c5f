import sys

import numpy
import pytest

from precreg.storage import find_package_origin
from precreg.vcs.dependency_index import installed_from


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder on sys.path with a package, a package without __init__.py, and a module."""
    for path in ("src/precreg_test_a/__init__.py", "src/precreg_test_b/m.py", "src/precreg_test_c.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "src")])
    return tmp_path / "src"


def test_what_is_installed_from_a_folder_of_the_project(source, tmp_path):
    assert {installed_from(f"precreg_test_{name}", tmp_path) for name in "abc"} == {source}
    assert installed_from("precreg_test_a", tmp_path / "other") is None
    assert installed_from("numpy", tmp_path) is None


def test_where_a_package_comes_from(source):
    assert find_package_origin("precreg_test_a") == (
        f"{source}/precreg_test_a/__init__.py",
        (f"{source}/precreg_test_a",),
    )
    assert find_package_origin("precreg_test_b") == (None, (f"{source}/precreg_test_b",))
    assert find_package_origin("precreg_test_c") == (f"{source}/precreg_test_c.py", ())
    assert find_package_origin("numpy").file == numpy.__file__
    assert find_package_origin("precreg_test_nothing") is None


def test_another_path_is_looked_up_anew(source):
    assert find_package_origin("precreg_test_c") is not None
    sys.path.remove(str(source))
    assert find_package_origin("precreg_test_c") is None


def test_names_that_no_module_has_come_from_nowhere():
    assert find_package_origin("a/b") is None
    assert find_package_origin("__main__") is None or find_package_origin("__main__").folders == ()
