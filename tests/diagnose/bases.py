"""Bases for tests: a Python function, its inputs, and a search of its rewrites."""

from pathlib import Path
from time import monotonic

import numpy as np

from precreg.arithmetic.devices import NumpyArithmetic, simulate_array
from precreg.diagnose.bases import hypotheses_of, prepare_base
from precreg.diagnose.engine import ArrayRewriting
from precreg.diagnose.search import Base, CauseSearch
from precreg.subject import name_outputs

FOLDER = f"{Path(__file__).parents[2]}/"


def base_of(function, inputs, params=None, name="accepted"):
    """Return the base of a function that takes arrays and params by keyword."""

    def run(inputs, params, arithmetic):
        simulated = {key: simulate_array(array.copy(), arithmetic) for key, array in inputs.items()}
        return name_outputs(function(**simulated, **params))

    return Base(name, ArrayRewriting(run, NumpyArithmetic()), inputs, params or {}, FOLDER)


def search(good, bad, inputs, params=None, seconds=300):
    """CauseSearch the rewrites of one function that give the result of another one."""
    target = name_outputs(bad(**{key: array.copy() for key, array in inputs.items()}, **(params or {})))
    base = base_of(good, inputs, params)
    prepared = prepare_base(base, target)
    return CauseSearch(base, prepared.error, prepared.places, hypotheses_of(prepared), monotonic() + seconds).run()


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
