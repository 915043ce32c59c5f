"""Which operation does a trace name for a fault in a transformer of 12 blocks, and in ResNet-50?

`python -m benchmarks.shadow.planted` prints a table. Faults of rounding are named by the first loss, faults of a
formula by lining the operations of subject and reference up. `--network` and `--precision` choose rows, which take a
minute each in ResNet-50; `--batch` and `--side` make its images fewer and smaller.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from precreg.shadow import Detail, Recorder, TraceSettings, find_first_loss, trace_case
from precreg.suite import load_cases
from precreg.types import Case, Trace

ROOT = Path(__file__).parent.parent.parent
NETWORKS = ("transformer", "resnet50")
PRECISIONS = ("float32", "bfloat16")
# The fault, the way in which it is named, and the layer of the block that has it.
FAULTS = {
    "narrow norm": ("rounding", {"transformer": "norm", "resnet50": "bn2"}),
    "narrow accumulator": ("rounding", {"transformer": "down", "resnet50": "conv3"}),
    "cast hop": ("rounding", {"transformer": "down", "resnet50": "conv3"}),
    "epsilon dropped": ("formula", {"transformer": "norm", "resnet50": "bn2"}),
    "wrong scale": ("formula", {"transformer": "attention", "resnet50": "conv3"}),
    "stale buffer": ("formula", {"transformer": "down", "resnet50": "conv3"}),
}
BLOCK = {"transformer": "model.blocks.7", "resnet50": "model.layer3.2"}

SUITE = """\
suite: {suite}
subject: {{torch: "networks.faulty:make", arguments: {arguments}}}
reference: {{torch: "networks.faulty:make", arguments: {exact}, dtype: float64}}
inputs:
  {inputs}
seeds: 1
"""
INPUTS = {
    "transformer": "tokens: {{shape: [{batch}, {places}], dtype: int64, integers: {{low: 0, high: 512}}}}",
    "resnet50": "images: {{shape: [{batch}, 3, {size}, {size}], dtype: {precision}, normal: {{}}}}",
}


class Sizes(NamedTuple):
    """The sizes of the inputs and of the transformer."""

    batch: int = 4
    places: int = 32
    width: int = 256
    size: int = 128


class Named(NamedTuple):
    """The operation that a trace names for one fault: its module, its line, and the expected module."""

    network: str
    precision: str
    fault: str
    way: str
    operation: str
    module: str
    code: str
    expected: str

    @property
    def is_right(self) -> bool:
        """Return whether the operation lies in the layer with the fault."""
        return self.module == self.expected or self.module.startswith(f"{self.expected}.")


def write_project(folder: Path, sizes: Sizes) -> Path:
    """Write a project with a suite for each network, precision and fault, and one without a fault."""
    shutil.copytree(ROOT / "suites/networks", folder / "suites/networks")
    shutil.copy(Path(__file__).with_name("faulty.py"), folder / "suites/networks")
    (folder / "suites/unit").mkdir()
    for network in NETWORKS:
        for precision in PRECISIONS:
            for fault in ("none", *FAULTS):
                suite = f"{network}_{precision}_{fault.replace(' ', '_')}"
                text = _suite(suite, network, precision, fault, sizes)
                (folder / f"suites/unit/{suite}.yaml").write_text(text)
    return folder


def _suite(suite: str, network: str, precision: str, fault: str, sizes: Sizes) -> str:
    given = {"network": network, "precision": precision, "fault": fault, "of": fault}
    if network == "transformer":
        given |= {"width": sizes.width, "places": sizes.places}
    inputs = INPUTS[network].format(**sizes._asdict(), precision=precision)
    exact = {**given, "fault": "none"}
    return SUITE.format(suite=suite, arguments=_flow(given), exact=_flow(exact), inputs=inputs)


def _flow(values: dict[str, object]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}"


def trace_of(case: Case, project: Path, precision: str) -> Trace:
    """Trace a case without shares, with the model's precision as the normal one."""
    return trace_case(case, project, 0, Recorder(Detail.OWN), TraceSettings(dtype=precision, shares=False))


def name_fault(case: Case, project: Path) -> Named:
    """Trace one case, and return the operation that the trace names."""
    network, precision, fault = case.suite.split("_", 2)
    fault = fault.replace("_", " ")
    trace = trace_of(case, project, precision)
    way, layers = FAULTS.get(fault, ("rounding", {}))
    expected = f"{BLOCK[network]}.{layers[network]}" if layers else ""
    found, name = None, ""
    if way == "formula" and trace.formula is not None and trace.formula.first is not None:
        found, name = trace.formula.first.site, trace.formula.first.name
    if way == "rounding" and (loss := find_first_loss(trace)) is not None:
        found, name = loss.operation.site, f"{loss.operation.name} ({loss.reason}, {loss.cause})"
    place = ("", "") if found is None else (found.module, found.code)
    return Named(network, precision, fault, way, name, *place, expected)


def name_faults(folder: Path, sizes: Sizes, networks: Sequence[str], precisions: Sequence[str]) -> Iterator[Named]:
    """Name the faults of some networks and precisions."""
    project = write_project(folder, sizes)
    for case in load_cases(project):
        network, precision, _ = case.suite.split("_", 2)
        if network in networks and precision in precisions:
            yield name_fault(case, project)


def main() -> None:
    """Print the table; exit with 1 if a fault is not named, or if a network without one has a first loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="networks as small as the tests have them")
    parser.add_argument("--network", action="append", choices=NETWORKS)
    parser.add_argument("--precision", action="append", choices=PRECISIONS)
    parser.add_argument("--batch", type=int, default=Sizes().batch)
    parser.add_argument("--side", type=int, default=Sizes().size, help="pixels of an image along each side")
    given = parser.parse_args()
    sizes = Sizes(2, 16, 64, 32) if given.small else Sizes(batch=given.batch, size=given.side)
    wrong = 0
    print("| network | precision | fault | named | line | right |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for each in name_faults(Path(folder), sizes, given.network or NETWORKS, given.precision or PRECISIONS):
            wrong += not each.is_right
            where = f"{each.operation} in {each.module}" if each.operation else "nothing"
            cells = (
                each.network,
                each.precision,
                each.fault,
                where,
                f"`{each.code}`",
                "yes" if each.is_right else "NO",
            )
            print(f"| {' | '.join(cells)} |", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
