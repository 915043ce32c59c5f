"""What of a module's text is the code of a function: all that it uses, and nothing else."""

import pytest

from precreg.baseline.integrity.code import ProjectCode

MODULE = '''\
"""A module."""
import numpy as np
from math import pi
from shared import scale, other
import whole

FACTOR = 2
UNUSED = 3


def exact(x):
    """Exact."""
    return helper(x) * FACTOR * pi


def helper(x):
    from late import twice

    return scale(np.abs(twice(x)), whole.f)


def subject(x):
    return x * UNUSED * other
'''
FILES = {
    "suites/unit/k.py": MODULE,
    "suites/shared.py": "LIMIT = 9\nother = 5\n\n\ndef scale(x, f):\n    return f(x, LIMIT)\n",
    "suites/late.py": "def twice(x):\n    return x\n\n\ndef thrice(x):\n    return x\n",
    "suites/whole.py": "from deep.er import g as f\n",
    "suites/deep/__init__.py": "",
    "suites/deep/er.py": "from . import near\n\n\ndef g(x, limit):\n    return near.h(x)\n",
    "suites/deep/near.py": "def h(x):\n    return x\n",
}


@pytest.fixture
def code(tmp_path):
    """Return a function that gives the code of k:exact after one replacement in a file."""

    def code(path="suites/unit/k.py", before="", after=""):
        for name, text in FILES.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        text = (tmp_path / path).read_text()
        assert before in text
        (tmp_path / path).unlink()
        (tmp_path / path).write_text(text.replace(before, after, 1))
        return ProjectCode(tmp_path).of("k:exact", "suites/unit")

    return code


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("suites/unit/k.py", '    """Exact."""\n', "    # exact\n"),
        ("suites/unit/k.py", '"""A module."""', "\n\n# a comment"),
        ("suites/unit/k.py", "UNUSED = 3", "UNUSED = 4"),
        ("suites/unit/k.py", "return x * UNUSED", "return  x + UNUSED"),
        ("suites/unit/k.py", "FACTOR * pi", "FACTOR  *  pi"),
        ("suites/shared.py", "other = 5", "other = 6"),
        ("suites/late.py", "thrice(x):\n    return x", "thrice(x):\n    return 3 * x"),
        ("suites/shared.py", "other = 5", 'other = 5\n"""Another one."""'),
        ("suites/shared.py", "other = 5", "other = 5\nif TYPE_CHECKING:\n    import numpy"),
        ("suites/deep/near.py", "def h(x)", "def unused(x):\n    return x\n\n\ndef h(x)"),
    ],
)
def test_what_it_does_not_use_and_how_it_is_written_do_not_count(code, path, before, after):
    assert code(path, before, after) == code()


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("suites/unit/k.py", "* FACTOR", "+ FACTOR"),
        ("suites/unit/k.py", "FACTOR = 2", "FACTOR = 4"),
        ("suites/unit/k.py", "np.abs(twice(x))", "twice(x)"),
        ("suites/unit/k.py", "import numpy as np", "import cupy as np"),
        ("suites/unit/k.py", "from math import pi", "pi = 3"),
        ("suites/unit/k.py", "UNUSED = 3", "helper.__code__ = exact.__code__"),
        ("suites/unit/k.py", "UNUSED = 3", "for name in dir(): globals()[name] = abs"),
        ("suites/unit/k.py", "UNUSED = 3", "if FACTOR:\n    FACTOR = 5"),
        ("suites/unit/k.py", "def exact(x):", "@np.vectorize\ndef exact(x):"),
        ("suites/unit/k.py", "def exact(x):", "def exact(x:"),
        ("suites/shared.py", "LIMIT = 9", "LIMIT = 8"),
        ("suites/shared.py", "LIMIT = 9", "LIMIT = 9\nif TYPE_CHECKING:\n    pass\nelse:\n    LIMIT = 8"),
        ("suites/shared.py", "LIMIT = 9", "LIMIT = 9\nif TYPE_CHECKING:\n    LIMIT.real = 8"),
        ("suites/late.py", "    return x", "    return 2 * x"),
        ("suites/shared.py", "f(x, LIMIT)", "x"),
        ("suites/deep/near.py", "return x", "return 2 * x"),
        ("suites/deep/near.py", "def h(x)", "def __getattr__(name):\n    return len\n\n\ndef h(x)"),
        ("suites/whole.py", "as f\n", "as f\n\nf = len\n"),
        ("suites/deep/er.py", "near.h(x)", "x"),
        ("suites/deep/__init__.py", "", "import math\nmath.pi = 3\n"),
    ],
)
def test_whatever_it_uses_counts(code, path, before, after):
    assert code(path, before, after) != code()


def test_moving_it_does_not_count_and_what_is_above_the_project_is_not_read(tmp_path):
    (tmp_path / "above.py").write_text("f = 1\n")
    project = tmp_path / "project"
    for folder in ("suites/unit", "suites/model"):
        (project / folder).mkdir(parents=True)
        (project / folder / "k.py").write_text(
            "from ....above import f\nfrom near import g\n\n\ndef e():\n    return f, g\n"
        )
        (project / folder / "near.py").write_text("def g():\n    return 1\n")
    one, other = (ProjectCode(project).of("k:e", folder) for folder in ("suites/unit", "suites/model"))
    assert one == other
    assert "Return" in one


@pytest.mark.parametrize("use", ["n = m\n\n\ndef e():\n    return n.f()\n", "def e():\n    return vars(m)\n"])
def test_all_of_a_module_counts_where_it_is_used_for_more_than_one_attribute(use, tmp_path):
    (tmp_path / "k.py").write_text(f"import m\n\n{use}")
    (tmp_path / "m.py").write_text("f = len\n")
    before = ProjectCode(tmp_path).of("k:e", "suites")
    (tmp_path / "m.py").write_text("f = len\ng = 1\n")
    assert ProjectCode(tmp_path).of("k:e", "suites") != before


def test_a_class_in_the_place_of_a_function_and_what_is_installed(tmp_path):
    (tmp_path / "k.py").write_text("class C:\n    @staticmethod\n    def f(x):\n        return x\n")
    before = ProjectCode(tmp_path).of("k:C.f", "suites")
    (tmp_path / "k.py").unlink()
    (tmp_path / "k.py").write_text("class C:\n    @staticmethod\n    def f(x):\n        return -x\n")
    assert before
    assert ProjectCode(tmp_path).of("k:C.f", "suites") != before
    assert ProjectCode(tmp_path).of("numpy:mean", "suites") == ""
