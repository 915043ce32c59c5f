"""How is a Python module read without running it?"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from precreg.storage import parse_module, telling_nodes

TELLING = (ast.Import, ast.ImportFrom, ast.Call, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.BinOp, ast.Constant)
MODULES = sorted(Path(ast.__file__).parent.glob("[a-d]*.py"))
EVERY_PLACE = b"""
@f(1)
def g(a: int = h(2), *, b=(c := 3), **d) -> k(4):
    match a:
        case {"x": 5, **rest} if i(6):
            async def m(): return [await n(7) async for o in p(8) if q(9)]
    try:
        import a.b as c
    except* r(10):
        with s(11) as t["u"]: f"{v(12):{w(13)}}"
    return lambda x=y(14): {**z(15), 1 + 2: -3}
class A(B(16), metaclass=C(17)):
    __all__: list = []
    __all__ += ["d"]
"""


@pytest.mark.parametrize("text", [EVERY_PLACE, *(path.read_bytes() for path in MODULES)], ids=lambda text: len(text))
def test_telling_nodes_are_those_that_a_plain_walk_finds(text: bytes) -> None:
    tree = parse_module(text)
    assert tree is not None
    expected = [node for node in ast.walk(tree) if isinstance(node, TELLING)]
    assert Counter(map(id, telling_nodes(tree))) == Counter(map(id, expected))
    assert expected
