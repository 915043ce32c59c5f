"""Traces made by hand."""

import numpy as np

from precreg.shadow.alignment import SketchedTrace, sketch_of
from precreg.types import ErrorSize, Operation, Site, Trace, TracedArray, TracedOutput


def operation(number, name="add", *, own=0.0, total=None, dtype="float32", inputs=("float32",), **more):
    """Return an operation of line `number` with errors of these sizes, as relative ones or whole; None is unknown."""
    fields = {
        "engine": "numpy",
        "site": Site("k.py", number, f"line {number}"),
        "shape": (2, 3),
        "inputs": tuple(TracedArray(each, (2, 3)) for each in inputs),
        "own": ErrorSize(own) if isinstance(own, float | int) else own,
        "total": own if total is None and isinstance(own, ErrorSize) else ErrorSize(total or own or 0.0),
    }
    return Operation(number=number, name=name, dtype=dtype, **{**fields, **more})


def output(name="out", **more):
    return TracedOutput(name=name, **{"dtype": "float32", "shape": (2, 3), **more})


def trace(operations=(), **more):
    return Trace(case="unit/s/c", **{"dtype": "float32", "operations": tuple(operations), **more})


def sketched(*steps, operands=()):
    """Return the sketched trace of steps (name, value, sources), and of the operands of each if they are given."""
    operations = [
        operation(number, name, sources=tuple(sources), shape=np.shape(value))
        for number, (name, value, sources) in enumerate(steps, 1)
    ]
    given = tuple(tuple(map(sketch_of, each)) for each in operands)
    return SketchedTrace(tuple(operations), tuple(sketch_of(np.asarray(value)) for _, value, _ in steps), given)
