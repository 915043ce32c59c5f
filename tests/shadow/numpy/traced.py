"""Trace a function on arrays, for the tests of the engine of numpy."""

from types import SimpleNamespace

import numpy as np

from precreg.shadow import Detail, Recorder
from precreg.shadow.numpy import NumpyEngine


def trace(function, *arrays, detail=Detail.OWN, arithmetic=None):
    """Return the plain result, its shadow, the shares, and the recorder of a traced call."""
    recorder = Recorder(detail)
    with NumpyEngine(recorder, arithmetic) as engine:
        result = function(*(engine.wrap(array) for array in arrays))
        shadow = engine.shadow_of(result)
        shares = engine.shares({"out": result}).get("out", {})
        plain = engine.unwrap(result)
    return SimpleNamespace(
        out=plain, shadow=shadow, shares=shares, operations=recorder.operations, events=recorder.events, engine=engine
    )


def as_float64(function, *arrays):
    """Run a function whose source names no dtype in float64."""
    return function(*(array.astype(np.float64) if array.dtype.kind in "fV" else array for array in arrays))


def distance(one, other):
    """Return the relative difference of two arrays."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    size = np.linalg.norm(other)
    return float(np.linalg.norm(one - other) / size) if size else float(np.linalg.norm(one - other))
