import ast

import pytest

from precreg.baseline.integrity.code import imported_names, patched_attributes


def found(text):
    tree = ast.parse(text).body
    return [*patched_attributes(tree, imported_names(tree))]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import numpy as np\nnp.sum = len", "np.sum"),
        ("import a.b\na.b.c = 1", "a.b.c"),
        ("from ref import norm\nnorm.__code__ = len.__code__", "norm.__code__"),
        ("def f():\n    import ref\n    ref.norm, x = 1, 2", "ref.norm"),
        ("import ref\ndel ref.norm", "ref.norm"),
        ("import ref\nref.count += 1", "ref.count"),
        ("import ref\nfor ref.norm in (len,): pass", "ref.norm"),
        ("import ref\nwith open('a') as ref.norm: pass", "ref.norm"),
        ("import ref\nsetattr(ref, 'norm', len)", "setattr(ref, 'norm', len)"),
        ("import ref\ndelattr(ref.norm, 'x')", "delattr(ref.norm, 'x')"),
    ],
)
def test_what_is_put_into_something_imported(text, named):
    assert found(text) == [named]


@pytest.mark.parametrize(
    "text",
    [
        "import ref\ny = ref.norm",
        "import ref\nref.norm(3).x",
        "class A:\n    def __init__(self):\n        self.x = 1",
        "import os\nos.environ['A'] = '1'",
        "x = object()\nsetattr(x, 'a', 1)",
        "import ref\nref = 3",
    ],
)
def test_what_is_read_or_ones_own_is_none(text):
    assert found(text) == []
