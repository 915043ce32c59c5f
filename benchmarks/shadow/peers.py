"""How much time, memory and disk does a trace take beside Polygraphy and msprobe on the same model?

`python -m benchmarks.shadow.peers [ROUNDS] [--model NAME]` prints two tables. It needs the extra `onnx`, torch, and the
peers: `pip install polygraphy mindstudio-probe`. A peer that is not installed is named, and left out.

- ONNX: ResNet-50 in ONNX Runtime. Polygraphy marks all values as outputs, runs the model with and without optimization,
  and compares each value. Both sides are float32.
- torch: the networks of `benchmarks.shadow.networks`. msprobe dumps statistics or tensors of each function (L1), or of
  functions and modules (mix). A second dump and a comparison would follow, and are not counted.

First the norms that both sides see are compared. Then each figure is measured in a process of its own with one thread:
processor time over the plain run's, the growth of the peak of resident memory in MB, and MB of written files.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.shadow import networks
from precreg.shadow import Detail, Recorder
from precreg.shadow.recorder import Observed
from precreg.subject import Call

ONNX_MODEL = "resnet50.onnx"
ONNX_WAYS = ("plain", "Polygraphy", "totals", "own", "shares")
TORCH_WAYS = (
    "plain",
    "layers",
    "operations",
    "msprobe L1 statistics",
    "msprobe mix statistics",
    "msprobe L1 tensor",
    "msprobe mix tensor",
    "totals",
    "own",
    "shares",
)
DETAILS = {"totals": Detail.TOTALS, "own": Detail.OWN, "shares": Detail.OWN}
PEERS = {"Polygraphy": ("polygraphy", "polygraphy"), "msprobe": ("msprobe", "mindstudio-probe")}
# Norms are of float32, and added up in another order.
RTOL = 1e-4

Found = dict[str, float]


class Norms:
    """Keep the norm of each floating value that a trace sees, under the module or node that made it."""

    def __init__(self) -> None:
        self.all: list[tuple[str, float]] = []

    def see(self, observed: Observed) -> None:
        """Add the norm of one operation's result."""
        if observed.operation.phase == "forward" and observed.operation.dtype == "float32":
            values = np.asarray(observed.actual, np.float64)
            self.all.append((observed.operation.site.module, float(np.linalg.norm(values))))


@contextmanager
def silence() -> Iterator[None]:
    """Drop what a peer prints, as all of them print much."""
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        yield


# ONNX


def images() -> Any:
    """Return the input of the ONNX model."""
    return np.random.default_rng(0).standard_normal((2, 3, 96, 96)).astype(np.float32)


def write_onnx(folder: Path) -> Found:
    """Export ResNet-50 of the shipped suites, and return its size."""
    sys.path.insert(0, str(networks.ROOT / "suites"))
    from networks.onnx_resnet import exported, resnet50

    return {"bytes": (folder / ONNX_MODEL).write_bytes(exported(resnet50()).SerializeToString())}


def run_onnx(folder: Path) -> dict[str, Any]:
    """Load the model as precreg does, run it, and return its outputs."""
    from precreg.subject.onnx import bind_inputs, make_session, read_model, run_feeds

    model = read_model(ONNX_MODEL, folder, folder)
    session = make_session(model, {})
    feeds = bind_inputs(session, Call({"x": images()}, {}, folder, folder), model.name)
    return run_feeds(session, feeds, [each.name for each in session.get_outputs()]).values


def trace_onnx(folder: Path, recorder: Recorder, *, shares: bool = False) -> Any:
    """Load and trace the model."""
    from precreg.shadow.onnx import trace_onnx_call

    return trace_onnx_call({"model": ONNX_MODEL}, Call({"x": images()}, {}, folder, folder), recorder, shares=shares)


def run_polygraphy(folder: Path) -> tuple[Any, Any]:
    """Return all values of two runs, and their comparison."""
    import onnxruntime
    from polygraphy import constants
    from polygraphy.backend.onnx import BytesFromOnnx, ModifyOutputs, OnnxFromPath
    from polygraphy.backend.onnxrt import OnnxrtRunner
    from polygraphy.comparator import Comparator, SimpleCompareFunc

    every = BytesFromOnnx(ModifyOutputs(OnnxFromPath(str(folder / ONNX_MODEL)), outputs=constants.MARK_ALL))

    def session(level: str) -> Callable[[], Any]:
        options = onnxruntime.SessionOptions()
        # Its own loader takes all threads.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        return lambda: onnxruntime.InferenceSession(every(), options, providers=["CPUExecutionProvider"])

    runners = [OnnxrtRunner(session(level), name=level) for level in ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL")]
    with silence():
        results = Comparator.run(runners, data_loader=[{"x": images()}])
        return results, Comparator.compare_accuracy(results, compare_func=SimpleCompareFunc(rtol=1e-3, atol=1e-3))


def check_onnx(folder: Path) -> Found:
    """Compare the values of a trace with those of Polygraphy, and both with the plain outputs."""
    norms = Norms()
    traced = trace_onnx(folder, Recorder(Detail.TOTALS, [norms]))
    results, _ = run_polygraphy(folder)
    optimized, plain = (results[at][1][0] for at in (0, 1))
    logits, exact = run_onnx(folder)["logits"], traced.shadows["logits"]
    for each in (optimized["logits"], plain["logits"], exact):
        np.testing.assert_allclose(logits, each, rtol=0, atol=RTOL * np.abs(exact).max())
    known = np.array([np.linalg.norm(np.asarray(each, np.float64)) for each in plain.values()])
    found = sum(bool(np.isclose(known, norm, rtol=RTOL).any()) for _, norm in norms.all)
    return {"equal norms": found, "of the trace's values": len(norms.all), "values of Polygraphy": len(known)}


def measure_onnx(folder: Path, way: str) -> Found:
    """Return the time and memory of one way."""
    for module in ("onnxruntime", "polygraphy.comparator" if way == "Polygraphy" else "precreg.shadow.onnx"):
        importlib.import_module(module)
    before, started = networks.resident_mb(), time.process_time()
    if way == "plain":
        run_onnx(folder)
    elif way == "Polygraphy":
        run_polygraphy(folder)
    else:
        trace_onnx(folder, Recorder(DETAILS[way]), shares=way == "shares")
    return {"time": time.process_time() - started, "memory": networks.peak_mb() - before, "files": 0.0}


# torch


def dump_msprobe(folder: Path, level: str, task: str, compute: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that computes one step under msprobe, which writes its files below a folder."""
    import torch

    with silence():
        from msprobe.pytorch import PrecisionDebugger

        debugger = PrecisionDebugger(task=task, level=level, dump_path=str(folder))

    def step(module: Any, function: Callable[[], Any]) -> Any:
        with silence():
            debugger.start(module)
            found = function()
            debugger.stop()
            debugger.step()
        return found

    # The first step wraps the functions of torch.
    step(torch.nn.Identity(), lambda: torch.ones(2) * 2)
    return lambda: step(*compute())


def measure_torch(folder: Path, name: str, way: str) -> Found:
    """Return the time, the memory and the written files of one way."""
    if not way.startswith("msprobe"):
        found = networks.run(name, way)
        return {"time": found["time"], "memory": found["memory"], "files": 0.0}
    module, x, compute = prepared(name)
    _, level, task = way.split()
    step = dump_msprobe(folder, level, task, lambda: (module, lambda: compute(module, x)))
    before, started = networks.resident_mb(), time.process_time()
    step()
    took, memory = time.process_time() - started, networks.peak_mb() - before
    return {"time": took, "memory": memory, "files": written_bytes(folder) / 1e6}


def prepared(name: str) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    """Return a network after a first run."""
    import torch

    torch.set_num_threads(1)
    module, x, compute = networks.make(name)
    compute(module, x)
    return module, x, compute


def written_bytes(folder: Path) -> int:
    """Return the bytes of the files of the second step."""
    return sum(each.stat().st_size for each in folder.glob("step1/**/*") if each.is_file())


def check_torch(folder: Path, name: str) -> Found:
    """Compare the norms of modules that msprobe writes with those of a trace."""
    from precreg.shadow.torch import TorchEngine

    module, x, compute = prepared(name)
    norms = Norms()
    with TorchEngine(Recorder(Detail.TOTALS, [norms]), module, shares=False):
        compute(module, x)
    seen: dict[str, list[float]] = {}
    for path, norm in norms.all:
        # The result of a layer may be that of a layer inside.
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            seen.setdefault(".".join(parts[:end]), []).append(norm)
    dump_msprobe(folder, "mix", "statistics", lambda: (module, lambda: compute(module, x)))()
    (file,) = folder.glob("step1/*/dump.json")
    compared = equal = 0
    for key, entry in json.loads(file.read_text())["data"].items():
        layer = re.fullmatch(r"Module\.(.+)\.\w+\.forward\.0", key)
        if layer is not None and layer[1] in seen:
            compared += 1
            equal += bool(np.isclose(seen[layer[1]], entry["output"][0]["Norm"], rtol=RTOL).any())
    return {"equal norms": equal, "of layers that both see": compared}


# The tables


def missing(way: str) -> str:
    """Return the package that a way needs and that is not installed."""
    module, package = PEERS.get(way.split()[0], ("numpy", ""))
    return "" if importlib.util.find_spec(module) else package


def child(*arguments: str) -> Found:
    """Return the figures of one way from a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.shadow.peers", "--child", *arguments]
    done = subprocess.run(command, cwd=networks.ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_child(name: str, way: str, folder: Path) -> Found:
    """Return the figures of one way in this process."""
    if way == "write":
        return write_onnx(folder)
    if name == ONNX_MODEL:
        return check_onnx(folder) if way == "check" else measure_onnx(folder, way)
    with tempfile.TemporaryDirectory() as written:
        return check_torch(Path(written), name) if way == "check" else measure_torch(Path(written), name, way)


def print_table(name: str, ways: tuple[str, ...], rounds: int, folder: Path) -> None:
    """Check one model, and print a row for each way."""
    lacking = next((each for each in map(missing, ways) if each), "")
    if not lacking:
        checked = child(name, "check", str(folder))
        print(f"{name}: {', '.join(f'{value:.0f} {key}' for key, value in checked.items())}", flush=True)
        if checked["equal norms"] != list(checked.values())[1]:
            sys.exit(f"{name}: the trace and the peer saw other values")
    plain = 0.0
    for way in ways:
        if missing(way):
            print(f"{name:27} {way:24} not installed: {missing(way)}", flush=True)
            continue
        rows = [child(name, way, str(folder)) for _ in range(rounds)]
        found = {key: median(row[key] for row in rows) for key in rows[0]}
        plain = found["time"] if way == "plain" else plain
        sizes = f"{found['memory']:7.0f} MB memory {found['files']:7.1f} MB files"
        print(f"{name:27} {way:24} {found['time'] / plain:5.1f}x {sizes}", flush=True)


def main() -> None:
    """Print the tables, or the figures of one way as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = (ONNX_MODEL, *networks.NETWORKS)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--model", action="append", choices=names)
    if sys.argv[1:2] == ["--child"]:
        name, way, folder = sys.argv[2:]
        print(json.dumps(run_child(name, way, Path(folder))))
        return
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in given.model or names:
            if name == ONNX_MODEL:
                # A process inherits the peak of memory of its parent, so this one stays small.
                child(name, "write", made)
            print_table(name, ONNX_WAYS if name == ONNX_MODEL else TORCH_WAYS, given.rounds, folder)


if __name__ == "__main__":
    main()
