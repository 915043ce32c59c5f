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


NETWORK = """\
from torch import nn


class Network(nn.Module):
    def __init__(self, width=4):
        super().__init__()

    def forward(self, x, mask=None): return x


class Other(Network):
    pass


class Called(nn.Module):
    def __call__(self, x, y): return x

    def forward(self, x): return x


def make(): return Network()


def make_wide(width): return Network(width)


def attend(x, weight): return x
"""
ONE = "inputs: {x: {shape: [2], dtype: float32, normal: {}}}\n"


def _load_torch(write, subject: str, rest: str):
    text = f"suite: s\nsubject: {{torch: 'network:{subject}}}\nreference: kernels:exact\n"
    return load_cases(write({"suites/unit/network.py": NETWORK}, s=text + rest))


@pytest.mark.parametrize(
    ("subject", "rest"),
    [
        ("Network'", ONE),
        ("Network', arguments: {width: 8}", ONE),
        ("Network'", INPUTS.replace("y:", "mask:")),
        # Another class, a method `__call__`, and functions that may make a module: only a run shows what they take.
        ("Other'", INPUTS),
        ("Called'", INPUTS),
        ("make'", INPUTS),
        ("make_wide', arguments: {width: 8}", INPUTS),
        ("attend'", INPUTS.replace("y:", "weight:")),
    ],
)
def test_a_module_that_may_take_the_inputs_is_not_refused(write, subject, rest):
    assert [case.name for case in _load_torch(write, subject, rest)] == ["default"]


@pytest.mark.parametrize(
    ("subject", "rest", "message", "hint"),
    [
        ("Network'", INPUTS, "subject Network.forward(self, x, mask=None) in suites/unit/network.py:8", "remove y:"),
        (
            "Network', arguments: {width: 8}",
            ONE.replace("x:", "input:"),
            "but got input",
            "write x: in place of input:",
        ),
        ("attend'", INPUTS, "subject attend(x, weight)", "write weight: in place of y:"),
        ("attend'", ONE, "expected a value of weight for subject attend(x, weight)", "add weight:"),
    ],
)
def test_inputs_that_a_module_does_not_take_are_refused_before_a_run(write, subject, rest, message, hint):
    with pytest.raises(UserError) as caught:
        _load_torch(write, subject, rest)
    assert caught.value.slug == "bad-arguments"
    assert message in caught.value.message
    assert hint in caught.value.hint
