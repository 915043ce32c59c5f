import sys
from pathlib import Path

import pytest

import precreg
from precreg.errors import UserError
from precreg.suite.computations import INSTALLED_MODULES, locate_target
from precreg.types.case import Location
from tests.test_architecture import imports, parse

WHERE = Location("suites/unit/deep/s.yaml", 2)


@pytest.fixture
def find(write):
    """Return the function from a target and files to the path found, relative to the project."""

    def find(target, files):
        project = write(files)
        found = locate_target(target, "suites/unit/deep", project, WHERE)
        return found and found.relative_to(project).as_posix()

    return find


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["suites/unit/deep/m.py", "suites/unit/m.py", "m.py"], "suites/unit/deep/m.py"),
        (["suites/unit/m.py", "suites/m.py", "m.py"], "suites/unit/m.py"),
        (["suites/m.py", "m.py"], "suites/m.py"),
        (["m.py", "m/__init__.py"], "m/__init__.py"),
    ],
)
def test_the_nearest_folder_wins(find, paths, found):
    assert find("m:f", dict.fromkeys(paths, "def f(): ...\n")) == found


def test_a_module_in_a_package_without_init(find):
    assert find("a.b.m:f", {"suites/a/b/m.py": "def f(): ...\n"}) == "suites/a/b/m.py"


@pytest.mark.parametrize("target", ["numpy:arctan2", "os.path:join", "json:JSONDecoder.decode"])
def test_an_installed_module_is_not_imported_to_be_found(find, target):
    assert find(target, {}) is None


@pytest.mark.parametrize(
    "text",
    [
        "def f(): ...",
        "async def f(): ...",
        "class f: ...",
        "f = lambda x: x",
        "f: object = print",
        "a, (f, b) = 1, (2, 3)",
        "from math import floor as f",
        "import f",
        "if True:\n    def f(): ...",
        "try:\n    from x import f\nexcept ImportError:\n    f = None",
        "from math import *",
        "def __getattr__(name): ...",
        "def broken(:",
    ],
)
def test_every_way_to_give_a_module_a_name(find, text):
    assert find("m:f", {"m.py": text}) == "m.py"


@pytest.mark.parametrize("text", ["", "def g():\n    f = 1", "class A:\n    def f(self): ...", "f", "f()"])
def test_names_that_a_module_does_not_have(find, text):
    with pytest.raises(UserError) as caught:
        find("m:f", {"m.py": text})
    assert (caught.value.slug, caught.value.file, caught.value.line) == ("missing-function", WHERE.file, 2)
    assert "function=f in m.py" in caught.value.message


@pytest.mark.parametrize(
    ("target", "slug", "says"),
    [
        ("kernls.adam:f", "missing-module", "module=kernls.adam in suites/unit/deep/, suites/unit/, suites/ or ./"),
        ("kernls.adam:f", "missing-module", 'did you mean "kernels.adam"?'),
        ("kernels.adm:f", "missing-module", 'did you mean "kernels.adam"?'),
        ("kernels.adam:swaped", "missing-function", 'did you mean "swapped"?'),
        ("kernels.adam", "bad-value", "'kernels.adam'"),
        ("kernels/adam.py:f", "bad-value", "'kernels/adam.py:f'"),
        ("../adam:f", "bad-value", "'../adam:f'"),
        (":f", "bad-value", "':f'"),
        ("__main__:f", "missing-module", "module=__main__"),
        (f"{'m' * 300}:f", "missing-module", "module=mmm"),
    ],
)
def test_what_is_refused(find, target, slug, says):
    with pytest.raises(UserError) as caught:
        find(target, {"suites/unit/kernels/adam.py": "def swapped(): ...\n"})
    assert (caught.value.slug, caught.value.file, caught.value.line) == (slug, WHERE.file, 2)
    assert says in caught.value.message


def test_a_changed_module_is_read_again(write):
    project = write({"m.py": "def g(): ...\n"})
    with pytest.raises(UserError):
        locate_target("m:f", "suites/unit", project, WHERE)
    (project / "m.py").write_text("def f(): ...\n")
    assert locate_target("m:f", "suites/unit", project, WHERE) == project / "m.py"


@pytest.mark.parametrize(
    ("name", "says"),
    [("statistics", "is one of Python's own"), ("yaml", "precreg itself imports"), ("numpy", "precreg itself imports")],
)
@pytest.mark.parametrize("path", ["{}.py", "{}/__init__.py", "suites/unit/{}/inner.py"])
def test_a_module_with_the_name_of_one_that_is_loaded_would_not_run(find, name, says, path):
    target = f"{name}.inner:f" if "inner" in path else f"{name}:f"
    with pytest.raises(UserError) as caught:
        find(target, {path.format(name): "def f(): ...\n"})
    assert (caught.value.slug, caught.value.file, caught.value.line) == ("taken-name", WHERE.file, 2)
    assert says in caught.value.message


def test_the_projects_own_package_is_what_is_installed():
    root = Path(precreg.__file__).parent.parent
    assert (
        locate_target("precreg.suite.computations:locate_target", "suites/unit", root, WHERE)
        == root / "precreg/suite/computations.py"
    )


def test_every_package_that_is_imported_is_taken():
    names = {name for path in Path(precreg.__file__).parent.rglob("*.py") for name, _ in imports(parse(path))}
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == INSTALLED_MODULES
