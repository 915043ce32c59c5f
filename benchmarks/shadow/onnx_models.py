"""How long does the trace of an ONNX model take, and how much memory does it hold?

`OMP_NUM_THREADS=1 python -m benchmarks.shadow.onnx_models MODEL.onnx --input x=2,3,64,64` prints the times of loading
and running the model, of its trace with and without shares, and the most bytes of values that a trace holds at once,
beside those of a dump of all values.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from precreg.shadow import Detail, Recorder
from precreg.shadow.onnx import trace_onnx_call
from precreg.shadow.recorder import Observed
from precreg.subject import Call
from precreg.subject.onnx import bind_inputs, make_session, read_model, run_feeds


class HeldBytes:
    """Count the bytes of all values of a run, which a dump of all layers would hold."""

    def __init__(self) -> None:
        self.all = 0

    def see(self, observed: Observed) -> None:
        """Add the result of one operation."""
        self.all += np.asarray(observed.actual).nbytes


def main() -> None:
    """Print the table of one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--input", action="append", required=True, metavar="NAME=SIZE,SIZE")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    folder = options.model.resolve().parent
    inputs = dict(_draw(each) for each in options.input)
    call = Call(inputs, {}, folder, folder)
    spec = {"model": options.model.name}

    def load_and_run() -> None:
        model = read_model(spec["model"], folder, folder)
        session = make_session(model, {})
        run_feeds(session, bind_inputs(session, call, model.name), [each.name for each in session.get_outputs()])

    plain = _median(load_and_run, options.repeats)
    print(f"load and run: {plain:.3f} s")
    for label, detail, shares in (
        ("totals", Detail.TOTALS, False),
        ("own errors", Detail.OWN, False),
        ("own errors and shares", Detail.OWN, True),
    ):
        took = _median(partial(_trace, spec, call, detail, shares), options.repeats)
        print(f"trace, {label}: {took:.3f} s, {took / plain:.1f} times")
    held = HeldBytes()
    found = trace_onnx_call(spec, call, Recorder(listeners=[held]))
    print(f"values held: {found.held / 1e6:.2f} MB, shadows included; a dump of all values: {held.all / 1e6:.2f} MB")


def _trace(spec: dict[str, str], call: Call, detail: Detail, shares: bool) -> None:
    trace_onnx_call(spec, call, Recorder(detail), shares=shares)


def _draw(text: str) -> tuple[str, NDArray[np.float32]]:
    name, _, sizes = text.partition("=")
    shape = [int(size) for size in sizes.split(",")]
    return name, np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _median(function: Callable[[], object], repeats: int) -> float:
    function()
    times = []
    for _ in range(repeats):
        started = perf_counter()
        function()
        times.append(perf_counter() - started)
    return statistics.median(times)


if __name__ == "__main__":
    main()
