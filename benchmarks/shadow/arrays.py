"""How much time and memory does a trace of numpy kernels take over the plain computation?

`python -m benchmarks.shadow.arrays [ROUNDS]` prints a table: for each kernel and size the milliseconds of a plain call,
and for each level of a trace its processor time over that of the plain call. `shares` has the backward pass, too. The
last columns are peaks of the memory that numpy allocates, in arrays of the input's size: of the plain call, and of the
trace with shares. Each time has the start of the trace, which the last line shows alone. All figures are medians, with
one thread. Goal: 10 times the time.
"""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

SIZES = ((64, 256), (512, 1024))
LEVELS = ("outputs", "totals", "own", "shares")


def softmax(x: Any) -> Any:
    """Compute softmax over the last axis."""
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    """Normalize the last axis."""
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered * centered).mean(-1, keepdims=True)
    return centered / np.sqrt(variance + np.float32(1e-5))


def gelu(x: Any) -> Any:
    """Compute the tanh form of GELU."""
    return np.float32(0.5) * x * (1 + np.tanh(np.float32(0.7978846) * (x + np.float32(0.044715) * x * x * x)))


def adam(x: Any, m: Any, v: Any, gradient: Any) -> Any:
    """Take one step of Adam."""
    m = np.float32(0.9) * m + np.float32(0.1) * gradient
    v = np.float32(0.999) * v + np.float32(0.001) * gradient * gradient
    return x - np.float32(1e-3) * m / (np.sqrt(v) + np.float32(1e-8))


def linear(x: Any, weight: Any) -> Any:
    """Multiply by a matrix."""
    return x @ weight


def attention(q: Any, k: Any, v: Any) -> Any:
    """Attend with one head."""
    return softmax(q @ k.T / np.float32(np.sqrt(q.shape[-1]))) @ v


def inputs(name: str, shape: tuple[int, int]) -> list[Any]:
    """Return the seeded inputs of a kernel in float32."""
    random = np.random.default_rng(0)
    count = {"adam": 4, "attention": 3}.get(name, 1)
    found = [random.standard_normal(shape).astype(np.float32) for _ in range(count)]
    if name == "adam":
        found[2] = found[2] ** 2
    if name == "linear":
        found.append(random.standard_normal((shape[1], shape[1])).astype(np.float32))
    return found


KERNELS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (softmax, layer_norm, gelu, adam, linear, attention)
}


def trace(kernel: Callable[..., Any], arrays: list[Any], level: str) -> None:
    """Call a kernel under a trace."""
    from precreg.shadow import Detail, Recorder
    from precreg.shadow.numpy import NumpyEngine

    detail = {"outputs": Detail.OUTPUTS, "totals": Detail.TOTALS}.get(level, Detail.OWN)
    with NumpyEngine(Recorder(detail)) as engine:
        if level != "shares":
            engine.tape = engine.operations.tape = None
        result = kernel(*map(engine.wrap, arrays))
        if level == "shares":
            engine.shares({"out": result})


def start() -> None:
    """Start a trace, and end it."""
    from precreg.shadow import Recorder
    from precreg.shadow.numpy import NumpyEngine

    with NumpyEngine(Recorder()):
        pass


def seconds(call: Callable[[], object], rounds: int) -> float:
    """Return the median processor time of a call, each time over enough calls for 10 ms."""
    call()
    started = time.process_time()
    call()
    times = max(int(0.01 / max(time.process_time() - started, 1e-6)), 1)
    found = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(times):
            call()
        found.append((time.process_time() - started) / times)
    return median(found)


def peak(call: Callable[[], object]) -> int:
    """Return the peak of the bytes that a call allocates."""
    tracemalloc.start()
    call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{'kernel':11}{'size':>9}{'plain ms':>10}" + "".join(f"{level:>9}" for level in LEVELS) + "  memory")
    for shape in SIZES:
        for name, kernel in KERNELS.items():
            arrays = inputs(name, shape)
            plain = seconds(partial(kernel, *arrays), rounds)
            ratios = [seconds(partial(trace, kernel, arrays, level), rounds) / plain for level in LEVELS]
            peaks = [peak(partial(kernel, *arrays)), peak(partial(trace, kernel, arrays, "shares"))]
            memory = "".join(f"{each / arrays[0].nbytes:8.1f}" for each in peaks)
            shown = f"{name:11}{'x'.join(map(str, shape)):>9}{plain * 1e3:10.3f}"
            print(shown + "".join(f"{each:8.1f}x" for each in ratios) + memory, flush=True)
    print(f"start of a trace: {seconds(start, rounds) * 1e3:.3f} ms")


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # Threads of BLAS start with numpy, so the variable has to stand before.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "benchmarks.shadow.arrays", *sys.argv[1:]],
            {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    main()
