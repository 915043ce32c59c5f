"""What a worker of another commit imports, in processes of their own: imports cannot be undone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from precreg.subject.module_space import TreePair

ROOT = Path(__file__).parents[2]


@pytest.fixture
def trees(tmp_path):
    """Two trees whose packages say where they are from; the working tree alone has the package `new`."""
    trees = TreePair(tmp_path / "own", tmp_path / "other")
    for tree in trees:
        for package in ("ops", "spread/part"):
            folder = tree / "src" / package
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text(f"came_from = {tree.name!r}\n")
    (trees.own / "src" / "new.py").write_text("came_from = 'own'\n")
    return trees


def moved(trees, code, path="src", folder=None, **variables):
    """Return what code prints in a process with `path` of the working tree, after it has moved."""
    begin = "from pathlib import Path\nfrom precreg.subject.module_space import TreePair, redirect_imports\n"
    begin += f"redirect_imports(TreePair(Path({str(trees.own)!r}), Path({str(trees.other)!r})))\n"
    places = [str(trees.own / path)] if path else []
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([*places, str(ROOT)]), **variables}
    done = subprocess.run(
        [sys.executable, "-c", begin + code], cwd=folder or trees.own, env=environ, capture_output=True, text=True
    )
    return done.stdout.strip() or done.stderr.splitlines()[-1]


def test_a_package_on_the_path_is_the_others(trees):
    assert moved(trees, "import ops; print(ops.came_from)") == "other"


def test_a_namespace_package_is_the_others(trees):
    assert moved(trees, "import spread.part; print(spread.part.came_from)") == "other"


def test_a_package_that_a_finder_knows_is_the_others(trees):
    finder = f"""
import sys
from importlib.machinery import PathFinder
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, path or [{str(trees.own / "src")!r}])
sys.meta_path.append(Finder)
"""
    assert moved(trees, finder + "import ops; print(ops.came_from, ops.__file__)", path="") == (
        f"other {trees.other}/src/ops/__init__.py"
    )


def test_a_module_that_the_commit_lacks_is_not_there(trees):
    assert moved(trees, "import new") == "ModuleNotFoundError: No module named 'new'"


def test_a_module_that_a_finder_knows_and_the_commit_lacks_is_refused(trees):
    finder = f"""
import sys
from importlib.util import spec_from_file_location
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return spec_from_file_location(name, {str(trees.own / "src/new.py")!r}) if name == "new" else None
sys.meta_path.append(Finder)
import new
"""
    assert moved(trees, finder, path="") == (
        f"ModuleNotFoundError: the working tree alone has {trees.own}/src/new.py, and not the commit"
    )


def test_files_and_processes_are_the_others_too(trees):
    assert moved(trees, "import os; print(os.getcwd())", folder=trees.own / "src") == str(trees.other / "src")
    show = "import os; print(os.environ['PYTHONPATH'])"
    assert moved(trees, show) == f"{trees.other}/src{os.pathsep}{ROOT}"


def test_libraries_and_the_program_itself_stay(trees):
    code = "import numpy, precreg.types; print(numpy.__file__, precreg.types.__file__)"
    plain = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert moved(TreePair(ROOT, trees.other), code, path="") == plain.strip()


@pytest.mark.parametrize(
    ("place", "there"),
    [
        ("own/src/ops", "other/src/ops"),
        ("own", "other"),
        ("own/.venv/lib/python3.11/site-packages/x", None),
        ("other/src", None),
        ("elsewhere", None),
    ],
)
def test_the_counterpart_of_a_path(trees, tmp_path, place, there):
    assert trees.counterpart(str(tmp_path / place)) == (None if there is None else tmp_path / there)
