"""How much time and memory does a trace of a network take over the plain run, and does its shadow equal a float64 run?

`python -m benchmarks.shadow.networks [ROUNDS]` prints a table. Each figure is from a process of its own with one
thread: processor time over the plain run's, and the growth of the peak of resident memory, in MB. Tools that dump and
compare keep copies. `layers` copies the output of each module, containers included. For a backward pass it copies the
gradients of these outputs and of all weights, too. `operations` copies each result that is no view, of both passes: a
trace sees these values. Goals: 6 times the time for own errors; less memory than a dump.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent.parent
NETWORKS = ("resnet50", "encoder", "decoder with backward pass")
WAYS = ("plain", "layers", "operations", "outputs", "totals", "own", "shares")


def make(name: str) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    """Return a module with seeded weights, its input, and the function that computes."""
    import torch

    sys.path.insert(0, str(ROOT / "suites"))
    torch.manual_seed(0)
    if name == "resnet50":
        from networks.resnet import resnet50

        return resnet50().eval(), torch.randn(4, 3, 96, 96), evaluate
    if name == "encoder":
        layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, norm_first=True)
        torch.backends.mha.set_fastpath_enabled(False)
        encoder = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        return encoder.eval(), torch.randn(4, 64, 256), evaluate
    from networks.gpt import gpt

    return gpt().train().requires_grad_(), torch.randint(0, 256, (4, 32)), train


def evaluate(module: Any, x: Any) -> Any:
    """Return the output, or the first one, without a graph of derivatives."""
    import torch

    with torch.no_grad():
        found = module(x)
    return next(iter(found.values())) if isinstance(found, dict) else found


def train(module: Any, tokens: Any) -> Any:
    """Return the gradient of one weight after a backward pass."""
    module.zero_grad(set_to_none=True)
    module.logits(tokens)[0].square().mean().backward()
    return next(module.parameters()).grad


def run(name: str, way: str) -> dict[str, Any]:
    """Return the processor time and the peak memory of one way, and the difference of its shadow from a float64 run."""
    import torch

    from precreg.shadow import Detail, Recorder
    from precreg.shadow.torch import TorchEngine

    torch.set_num_threads(1)
    module, x, compute = make(name)
    compute(module, x)
    with TorchEngine(Recorder()):
        # The first dispatch mode of a process imports torch._dynamo.
        torch.ones(2) * 2
    before, started = resident_mb(), time.process_time()
    found: dict[str, Any] = {}
    if way == "plain":
        compute(module, x)
    elif way in DUMPS:
        kept: list[Any] = []
        with DUMPS[way](module, kept):
            compute(module, x)
        if way == "layers":
            kept += [each.grad.clone() for each in module.parameters() if each.grad is not None]
        found["kept MB"] = sum(each.nbytes for each in kept) / 1e6
    else:
        detail = {"outputs": Detail.OUTPUTS, "totals": Detail.TOTALS}.get(way, Detail.OWN)
        with TorchEngine(Recorder(detail), module, shares=way == "shares") as engine:
            result = compute(module, x)
        if way == "shares":
            traced = time.process_time()
            found["sum of shares"] = sum(engine.shares({"out": result})["out"].values())
            found["way back"] = (time.process_time() - traced) / (traced - started)
        found["twins MB"] = engine.twins.peak_bytes / 1e6
    found |= {"time": time.process_time() - started, "memory": peak_mb() - before}
    if way == "own":
        wide = copy.deepcopy(module).double()
        exact = compute(wide, x.double() if x.is_floating_point() else x)
        found["difference"] = float((engine.twins.of(result) - exact).norm() / exact.norm())
        found["low error"] = float((result.double() - exact).norm() / exact.norm())
    return found


@contextmanager
def dump_layers(module: Any, kept: list[Any]) -> Iterator[None]:
    """Copy the tensor that each module returns, containers included, and its gradient when that is known."""

    def keep(_module: Any, _inputs: Any, out: Any) -> None:
        if hasattr(out, "clone"):
            kept.append(out.detach().clone())
            if out.requires_grad:
                out.register_hook(lambda gradient: kept.append(gradient.clone()))

    hooks = [each.register_forward_hook(keep) for each in module.modules()]
    yield
    for hook in hooks:
        hook.remove()


@contextmanager
def dump_operations(_module: Any, kept: list[Any]) -> Iterator[None]:
    """Copy each floating result of an operation of torch, those of a backward pass included, apart from views."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Dump(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if not func.is_view:
                made = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
                kept.extend(each.detach().clone() for each in made if each.is_floating_point())
            return result

    with Dump():
        yield


DUMPS = {"layers": dump_layers, "operations": dump_operations}


def resident_mb() -> float:
    """Return the resident memory in MB, which is the peak from now on: imports have higher ones by chance."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """Return the peak of resident memory in MB."""
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found) / 1024


def main() -> None:
    """Print the table, or the figures of one way as JSON."""
    if len(sys.argv) == 3:
        print(json.dumps(run(sys.argv[1], sys.argv[2])))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name in NETWORKS:
        plain = 0.0
        for way in WAYS:
            command = [sys.executable, "-m", "benchmarks.shadow.networks", name, way]
            all_found = [
                json.loads(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True).stdout)
                for _ in range(rounds)
            ]
            found = {key: median(each[key] for each in all_found) for key in all_found[0]}
            plain = found["time"] if way == "plain" else plain
            further = "  ".join(f"{key} {value:.3g}" for key, value in found.items() if key not in ("time", "memory"))
            shown = f"{name:27} {way:10} {found['time'] / plain:5.1f}x  {found['memory']:7.0f} MB  {further}"
            print(shown, flush=True)


if __name__ == "__main__":
    main()
