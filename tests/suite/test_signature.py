"""Inputs and params fit the arguments of a suite's functions; where the source is not certain, nothing is refused."""

import pytest

from precreg.errors import UserError
from precreg.suite.expand import load_cases

SUITE = "suite: s\nsubject: computed:same\nreference: kernels:exact\n"
INPUTS = "inputs: {x: {shape: [2], dtype: float32, normal: {}}, y: {shape: [2], dtype: float32, normal: {}}}\n"


def _load(write, source: str, rest: str = INPUTS):
    return load_cases(write({"suites/unit/computed.py": source}, s=SUITE + rest))


@pytest.mark.parametrize(
    "source",
    [
        "def same(x, y): return x\n",
        "def same(x, /, *, y): return x\n",
        "def same(x, y, eps=1e-5): return x\n",
        "def same(x, y, *, eps=None): return x\n",
        "def same(**arrays): return arrays['x']\n",
        "def same(x, **others): return x\n",
        # The source alone does not show which arguments these take.
        "from functools import wraps\n\n\n@wraps(print)\ndef same(a, b): return a\n",
        "def same(a): return a\n\n\nsame = print\n",
        "if True:\n    def same(x, y): return x\nelse:\n    def same(a, b): return a\n",
        "try:\n    from fast import same\nexcept ImportError:\n    def same(a, b): return a\n",
        "def same(a, b): return a\n\n\ndef same(x, y): return x\n",
        "class same:\n    def __init__(self, a): pass\n",
        "same = lambda a, b: a\n",
        "from functools import partial\n\nsame = partial(print, sep='')\n",
        "def __getattr__(name): return print\n",
        "from math import *\n\n\ndef same(a, b): return a\n",
        "def same(x, y)\n    return x\n",
    ],
)
def test_a_function_that_may_take_the_inputs_is_not_refused(write, source):
    assert [case.name for case in _load(write, source)] == ["default"]


@pytest.mark.parametrize(
    ("source", "rest", "message", "hint"),
    [
        (
            "def same(x, weight): return x\n",
            INPUTS,
            "expected an argument of subject same(x, weight) in suites/unit/computed.py:1 but got y in inputs:",
            "write weight: in place of y:",
        ),
        (
            "def same(x): return x\n",
            INPUTS,
            "but got y in inputs:",
            "remove y: from inputs:, or add the argument",
        ),
        (
            "def same(x, y, z): return x\n",
            INPUTS,
            "expected a value of z for subject same(x, y, z)",
            "add z: to inputs: or params:",
        ),
        (
            "def same(x, y, *, epsilon): return x\n",
            INPUTS + "params: {epsilom: 1}\n",
            'epsilom in params:; did you mean "epsilon"?',
            "write epsilon: in place of epsilom:",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_a_run(write, source, rest, message, hint):
    with pytest.raises(UserError) as caught:
        _load(write, source, rest)
    assert caught.value.slug == "bad-arguments"
    assert message in caught.value.message
    assert hint in caught.value.hint
