"""What differs between two versions of a statement or an expression?"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Literal

# - constant: numbers, texts or truth values differ
# - conversion: one of them names a dtype, or converts, and the other does not
# - order: the same names, numbers and operators in another arrangement
# - operator: another arithmetic operator or comparison
# - function: another function is called
# - index: other indices, slices or bounds of a loop
# - operand: another name replaces a name
# - dropped, added: a part is gone, or new
# - expression: several of these at once
ChangeKind = Literal[
    "constant", "conversion", "order", "operator", "function", "index", "operand", "dropped", "added", "expression"
]

_DTYPES = frozenset(
    {
        *("float16", "float32", "float64", "half", "single", "double", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
        *("int8", "int16", "int32", "f16", "f32", "bf16"),
    }
)
_CONVERSIONS = _DTYPES | {"astype", "to", "dtype", "view", "type", "cast", "asarray"}


# Ways to write another order of the same steps.
_REVERSALS = frozenset(
    {("name", "reversed"), ("name", "sorted"), ("attribute", "flip"), ("attribute", "ascontiguousarray")}
)


def change_kind(before: str, now: str) -> ChangeKind:
    """Compare two sources; an empty one is a part that one version lacks."""
    former, present = _parsed(before), _parsed(now)
    if former is None or present is None:
        return "expression"
    first, second = Counter(_tokens(former)), Counter(_tokens(present))
    gone, new = first - second, second - first
    words = {text for kind, text in (*gone, *new) if kind in ("name", "attribute")}
    if words & _CONVERSIONS and words <= _CONVERSIONS | _held(gone, new):
        return "conversion"
    if all(token in _REVERSALS for token in (*gone, *new)):
        return "order"
    if not gone:
        return "added"
    if not new:
        return "dropped"
    return _replaced({kind for kind, _ in (*gone, *new)}, former, present)


def _replaced(kinds: set[str], before: ast.AST, now: ast.AST) -> ChangeKind:
    """Name a change that replaces some tokens by others, by their kinds."""
    if any(isinstance(node, ast.Subscript | ast.Slice) for tree in (before, now) for node in ast.walk(tree)):
        return "index"
    if kinds == {"constant"}:
        return "constant"
    if kinds == {"operator"}:
        return "operator"
    if kinds <= {"attribute"}:
        return "function"
    if kinds <= {"name"}:
        return "operand"
    return "expression"


def _held(gone: Counter[tuple[str, str]], new: Counter[tuple[str, str]]) -> frozenset[str]:
    """Return the modules that a conversion names, such as np."""
    return frozenset(text for _, text in (*gone, *new) if text in ("np", "numpy", "torch", "ml_dtypes"))


def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text.strip())
    except (SyntaxError, ValueError):
        return None


def _tokens(tree: ast.AST) -> list[tuple[str, str]]:
    """Return names, attributes, numbers and operators with their kinds."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.append(("name", node.id))
        elif isinstance(node, ast.Attribute):
            found.append(("attribute", node.attr))
        elif isinstance(node, ast.keyword) and node.arg:
            found.append(("attribute", node.arg))
        elif isinstance(node, ast.Constant):
            found.append(("constant", repr(node.value)))
        elif isinstance(node, ast.operator | ast.unaryop | ast.cmpop):
            found.append(("operator", type(node).__name__))
    return found
