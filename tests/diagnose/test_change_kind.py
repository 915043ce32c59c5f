"""Kinds of change: two sources of one expression, and the word for their difference."""

import pytest

from precreg.diagnose.change_kind import change_kind

PAIRS = {
    ("np.sqrt(v + 1e-5)", "np.sqrt(v + 1e-3)"): "constant",
    ("np.exp(x)", "np.exp(x).astype(np.float16)"): "conversion",
    ("x.sum(axis=-1)", "x.sum(axis=-1, dtype=np.float16)"): "conversion",
    ("k", "k.astype(bfloat16).astype(f32)"): "conversion",
    ("(a * b) * c", "a * (b * c)"): "order",
    ("rate * (m / d)", "(rate * m) / d"): "order",
    ("range(taps)", "reversed(range(taps))"): "order",
    ("a + b", "a - b"): "operator",
    ("np.rint(x)", "np.floor(x)"): "function",
    ("x[:, 1:]", "x[:, 2:]"): "index",
    ("b * b", "a * a"): "operand",
    ("norm + eps", "norm"): "dropped",
    ("norm", "np.minimum(norm, 3)"): "added",
    ("np.sqrt(np.sum(b * b))", "np.abs(b).mean() * 7.8"): "expression",
    ("", "x[3] = x[2]"): "added",
    ("for x in y:", "while z:"): "expression",
}


@pytest.mark.parametrize("pair", PAIRS)
def test_the_difference_has_a_word(pair):
    assert change_kind(*pair) == PAIRS[pair]
