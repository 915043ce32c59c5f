"""Folders of dumps: how fast are they compared, beside reading their bytes, and within how much memory?

Folders of .npy files in float32, an actual one and its reference: many small tensors, some of medium size, few large
ones. Each way runs in a process of its own, and the seconds include its start. The files are dropped from the page
cache before each way (`disk`), or were just read (`cache`). Reading is measured twice: `read` is a loop of raw reads,
and `load` a loop of np.load, the floor of a Python program that has both arrays and does nothing with them. `ratio` is
the speed of precreg compare over that of raw reads, `of load` over that of np.load; the goal is 0.5 or more of each.
The memory is the peak of RssAnon of the process and its workers together: the record of all pairs is a part of it, so
that it is given for each pair, too. The median of several rounds counts, and ways alternate.

`allclose` loads each pair and calls np.allclose, `compare -j 0` is precreg in one process. `CPU ratio` is the processor
time of the second over that of the first, the median over the rounds: it depends little on what else the machine does.
Its goal is 1.5 at most for tensors of 32 x 32. The columns `--json` and `--report` are the processor time of precreg
compare with this option over its processor time without, the median over the rounds; they have no goal.
Usage: python -m benchmarks.dump_folders FOLDER [--rounds N] [--scale S]
"""

from __future__ import annotations

import argparse
import compileall
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

import precreg
from benchmarks.large_files import Run, measure

GOAL = 0.5
NOISE = 1e-6
READ = """\
import os, sys
buffer = bytearray(8 << 20)
for folder in sys.argv[1:]:
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
"""
LOAD = """\
import os, sys
import numpy
for folder in sys.argv[1:]:
    for name in sorted(os.listdir(folder)):
        numpy.load(os.path.join(folder, name))
"""

OUTPUTS = {"--json": "record.json", "--report": "report.html"}
ALLCLOSE = """\
import os, sys
import numpy
actual, reference = sys.argv[1:]
for name in sorted(os.listdir(actual)):
    sides = (numpy.load(os.path.join(folder, name)) for folder in (actual, reference))
    assert numpy.allclose(*sides, rtol=1e-5, atol=1e-8), name
"""


class Folders(NamedTuple):
    """Hold the number of tensors of each side, and the elements of each tensor."""

    tensors: int
    elements: int


SIZES = (Folders(10_000, 1 << 10), Folders(10_000, 1 << 14), Folders(10_000, 1 << 16), Folders(16, 1 << 23))


def make(folder: Path, folders: Folders) -> list[Path]:
    """Write random numbers and neighbours of them, and return the files."""
    random = np.random.default_rng(folders.elements)
    sides = folder / "actual", folder / "reference"
    for side in sides:
        side.mkdir(parents=True)
    files = []
    for tensor in range(folders.tensors):
        reference = random.standard_normal(folders.elements, dtype=np.float32)
        noise = random.uniform(-NOISE, NOISE, folders.elements)
        for side, array in zip(sides, ((reference * (1 + noise)).astype(np.float32), reference), strict=True):
            files.append(side / f"layers.{tensor}.npy")
            np.save(files[-1], array)
    return files


def ways(folder: Path) -> dict[str, list[str]]:
    """Return the command of each way."""
    sides = [str(folder / "actual"), str(folder / "reference")]
    compare = [sys.executable, "-m", "precreg", "compare", *sides, "--rtol", "1e-5", "--atol", "1e-8"]
    codes = {"read": READ, "load": LOAD, "allclose": ALLCLOSE}
    loops = {name: [sys.executable, "-c", code, *sides] for name, code in codes.items()}
    outputs = {option: [*compare, option, str(folder / name)] for option, name in OUTPUTS.items()}
    return {**loops, "compare": compare, "compare -j 0": [*compare, "-j", "0"], **outputs}


def report(folders: Folders, size: int, where: str, runs: dict[str, list[Run]]) -> str:
    """Return a line with the medians."""
    seconds = {name: median(run.seconds for run in found) for name, found in runs.items()}
    ratio, of_load = (seconds[way] / seconds["compare"] for way in ("read", "load"))
    memory = max(run.anonymous for run in runs["compare"])
    figures = f"{seconds['read']:8.2f} {seconds['load']:8.2f} {seconds['compare']:10.2f} {ratio:6.2f} {of_load:8.2f}"
    figures += f" {processor_ratio(runs, 'compare -j 0', 'allclose'):10.2f}"
    outputs = "".join(f" {processor_ratio(runs, option, 'compare'):8.2f}" for option in OUTPUTS)
    goal = "reached" if min(ratio, of_load) >= GOAL else "NOT REACHED"
    of_pair = f"{memory / 1e6:8.0f} {memory / folders.tensors / 1e3:9.1f}"
    return (
        f"{folders.tensors:8,} {folders.elements:10,} {size / 1e9:6.2f} {where:6} {figures} {of_pair}{outputs}  {goal}"
    )


def processor_ratio(runs: dict[str, list[Run]], way: str, peer: str) -> float:
    """Return the processor time of a way over the time of its peer, the median over the rounds."""
    return median(ours.processor / other.processor for ours, other in zip(runs[way], runs[peer], strict=True))


def main(folder: Path, rounds: int, scale: float) -> None:
    """Make the folders one after the other, compare them, delete them."""
    # As an installed package has it. Where Python may write no bytecode, each process would compile precreg anew.
    compileall.compile_dir(Path(precreg.__file__).parent, quiet=1)
    columns = f"{'read, s':>8} {'load, s':>8} {'compare, s':>10} {'ratio':>6} {'of load':>8} {'CPU ratio':>10}"
    print(
        f"{'tensors':>8} {'elements':>10} {'GB':>6} {'from':6} {columns} {'MB':>8} {'kB a pair':>9} "
        f"{'--json':>8} {'--report':>8}"
    )
    for each in SIZES:
        folders = each._replace(tensors=max(2, int(each.tensors * scale)))
        with tempfile.TemporaryDirectory(dir=folder) as name:
            files = make(Path(name), folders)
            size = sum(file.stat().st_size for file in files)
            for where in ("disk", "cache"):
                runs = measure(ways(Path(name)), files if where == "disk" else (), rounds)
                print(report(folders, size, where, runs), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each way (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="fewer tensors, for a first look")
    main(**vars(parser.parse_args()))
