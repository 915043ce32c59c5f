"""How many runs do strategies need to find two fragile modules among 61 of a transformer in float16?

Strategies: precreg's search over the trace's shares; the first or last N layers of `polygraphy debug precision`, by its
modes linear and bisect (Polygraphy 0.53, whose own command needs TensorRT); greedy; and delta debugging (Zeller and
Hildebrandt, Simplifying and isolating failure-inducing input, 2002). Each run is the whole case on both seeds.
Usage: python -m benchmarks.precision_bisection
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

FRAGILE_NORM, FRAGILE_WEIGHTS = "blocks.1.norm1", "blocks.3.attention.weights"

TORCH = '''\
import torch
from torch import nn


class Norm(nn.Module):
    """LayerNorm by E[x^2] - E[x]^2, on activations that are shifted."""

    def __init__(self, width, shift):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.shift = shift

    def forward(self, x):
        x = x + self.shift
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        return (x - mean) / torch.sqrt(variance + 1e-3) * self.weight + self.bias


class Weights(nn.Module):
    """The weights of attention: a softmax over products of queries and keys, which have a common offset."""

    def __init__(self, offset):
        super().__init__()
        self.offset = offset

    def forward(self, q, k):
        logits = q @ k.mT * 0.2 + self.offset
        raised = torch.exp(logits - logits.amax(-1, keepdim=True))
        return raised / raised.sum(-1, keepdim=True)


class Attention(nn.Module):
    def __init__(self, width, offset):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.weights = Weights(offset)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(self.weights(q, k) @ v)


class Block(nn.Module):
    def __init__(self, width, offset, shift):
        super().__init__()
        self.norm1 = Norm(width, shift)
        self.attention = Attention(width, offset)
        self.norm2 = Norm(width, 0.0)
        self.up = nn.Linear(width, 2 * width)
        self.gelu = nn.GELU()
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    def __init__(self, width=64, depth=6, offset=400.0, shift=20.0):
        super().__init__()
        self.blocks = nn.ModuleList(
            Block(width, offset if place == 3 else 0.0, shift if place == 1 else 0.0) for place in range(depth)
        )
        self.head = nn.Linear(width, width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
'''

TORCH_SUITE = """\
suite: net
subject:
  torch: k:Net
  dtype: float16
OPTIONS
inputs:
  x: {shape: [8, 16, 64], dtype: float16, normal: {}}
tolerance: {rtol: 0, atol: 1000, mean_abs_error: 1e-3}
seeds: 2
"""

Decide = Callable[[Sequence[str]], bool]


class Attempt(NamedTuple):
    """The parts that a strategy chose, and the runs it needed; None if it chose none."""

    chosen: tuple[str, ...] | None
    runs: int


class Counted:
    """Decide whether parts are enough, count the runs, and run no set twice."""

    def __init__(self, decide: Decide) -> None:
        self._decide, self._known = decide, dict[frozenset[str], bool]()

    def __call__(self, members: Sequence[str]) -> bool:
        """Return whether the members are enough."""
        key = frozenset(members)
        if key not in self._known:
            self._known[key] = self._decide(members)
        return self._known[key]

    @property
    def runs(self) -> int:
        """Return the number of runs so far."""
        return len(self._known)


def polygraphy_linear(layers: Sequence[str], decide: Decide) -> Attempt:
    """Mark one more layer from the start at each run, from none, until the marked ones are enough."""
    counted = Counted(decide)
    enough = next((count for count in range(len(layers) + 1) if counted(layers[:count])), None)
    return Attempt(None if enough is None else tuple(layers[:enough]), counted.runs)


def polygraphy_bisect(layers: Sequence[str], decide: Decide) -> Attempt:
    """Halve the number of marked layers from the start, beginning with all of them, as its BisectMarker does."""
    counted, good, bad, marked = Counted(decide), len(layers) + 1, 0, len(layers)
    while True:
        if counted(layers[:marked]):
            good, rounded = marked, math.floor
        else:
            bad, rounded = marked, math.ceil
        before, marked = marked, rounded((good + bad) / 2)
        if before == marked or abs(good - bad) <= 1 or marked > len(layers):
            return Attempt(tuple(layers[:good]) if good <= len(layers) else None, counted.runs)


def greedy(layers: Sequence[str], error: Callable[[Sequence[str]], float], limit: float) -> Attempt:
    """Add the layer that lowers the error most, until it is below the limit: each step tries every layer."""
    chosen: list[str] = []
    runs, best = 1, error(())
    while best > limit and len(chosen) < len(layers):
        tried = {each: error([*chosen, each]) for each in layers if each not in chosen}
        runs += len(tried)
        chosen.append(min(tried, key=lambda each: tried[each]))
        best = tried[chosen[-1]]
    return Attempt(tuple(chosen) if best <= limit else None, runs)


def delta_debugging(layers: Sequence[str], decide: Decide) -> Attempt:
    """Minimize the set of layers by ddmin: subsets first, then complements, in ever finer parts."""
    counted, chosen, parts = Counted(decide), list(layers), 2
    if not counted(chosen):
        return Attempt(None, counted.runs)
    while len(chosen) > 1:
        size = math.ceil(len(chosen) / parts)
        subsets = [chosen[start : start + size] for start in range(0, len(chosen), size)]
        complements = [[each for each in chosen if each not in subset] for subset in subsets]
        found = next((subset for subset in subsets if counted(subset)), None)
        if found is not None:
            chosen, parts = found, 2
        elif (left := next((each for each in complements if counted(each)), None)) is not None:
            chosen, parts = left, max(parts - 1, 2)
        elif parts >= len(chosen):
            break
        else:
            parts = min(2 * parts, len(chosen))
    return Attempt(tuple(chosen), counted.runs)


def write_network(folder: Path) -> None:
    """Write a project with the transformer and its suite."""
    place = folder / "suites/unit"
    place.mkdir(parents=True)
    (place / "k.py").write_text(TORCH)
    (place / "net.yaml").write_text(TORCH_SUITE.replace("OPTIONS\n", ""))


def compare_strategies(folder: Path) -> dict[str, tuple[Attempt, int]]:
    """Return, by strategy, its attempt and the bytes by which the results of the chosen modules grow."""
    from precreg.diagnose import PrecisionRequest, bisect_precision
    from precreg.diagnose.precision.kinds import TorchModules
    from precreg.diagnose.precision.trials import CaseTrials
    from precreg.environment import detect_environment
    from precreg.shadow import Recorder, TraceSettings, trace_case
    from precreg.suite import load_cases

    (case,) = load_cases(folder)
    environment = detect_environment(None)
    found = bisect_precision(case, folder, PrecisionRequest(environment))
    source, trials = TorchModules(case, folder, "float32"), CaseTrials(folder, environment, None)
    limit = found.trials[0].limit or 0.0

    def error(members: Sequence[str]) -> float:
        value = trials.run(source.altered(source.setting(members).keys), members).value
        return math.inf if value is None else value

    def decide(members: Sequence[str]) -> bool:
        return error(members) <= limit

    error(())
    # In the order in which the modules begin to run.
    trace = trace_case(case, folder, 0, Recorder(), TraceSettings(chain=environment.chain))
    order = [part.name for part in source.parts(trace, "out")]
    last = order[::-1]
    attempts = {
        "precreg, with the proof": Attempt(found.kept, len(found.trials) + 1),
        "polygraphy bisect forward": polygraphy_bisect(order, decide),
        "polygraphy bisect reverse": polygraphy_bisect(last, decide),
        "polygraphy linear forward": polygraphy_linear(order, decide),
        "polygraphy linear reverse": polygraphy_linear(last, decide),
        "greedy": greedy(order, error, limit),
        "delta debugging": delta_debugging(order, decide),
    }
    bytes_of = {part.name: part.result_bytes for part in found.parts}
    return {name: (each, sum(bytes_of[part] for part in each.chosen or ())) for name, each in attempts.items()}


def main() -> None:
    """Print the runs of each strategy, the modules that it chose, and their cost."""
    with TemporaryDirectory() as folder:
        write_network(Path(folder))
        for name, (attempt, cost) in compare_strategies(Path(folder)).items():
            chosen = "none" if attempt.chosen is None else f"{len(attempt.chosen):2} modules"
            print(f"{name:26} {attempt.runs:4} runs  {chosen}  +{cost:,} B of results")


if __name__ == "__main__":
    main()
