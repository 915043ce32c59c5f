"""Two large .npy files, compared within how much memory, and how fast: beside a plain read of the same files.

The files are float32 and made of random numbers, block by block; they are deleted afterwards. The page cache drops them
before each run, so that all ways begin at the disk. The ways alternate: a round runs each of them once. `of read` is
the speed of a way over the speed of the plain read in the same round. The direct read passes the page cache by, as
precreg does with arrays of 1 GiB and more (O_DIRECT), and `of direct` has its speed as the divisor. Seconds and ratios
are medians over the rounds, memory is the largest of them. RssAnon is the memory of the process itself, goal at most
256 MB at any size. RssFile are pages of files that it has mapped, which the system takes back when others need memory.
Usage: python benchmarks/large_files.py FOLDER [--gigabytes N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter, sleep
from typing import NamedTuple

import numpy as np

GOAL = 256e6
INTERVAL = 0.02
BLOCK = 1 << 22
NOISE = 1e-6
RTOL, ATOL = "1e-5", "1e-8"
PLAIN = "plain read, two threads"
DIRECT = "direct read, two threads"
COMPARE = [sys.executable, "-m", "precreg", "compare"]
CALL = """\
import sys
import numpy as np
from precreg.measure.comparison import compare_arrays
actual, reference = (np.load(path, mmap_mode="r") for path in sys.argv[1:3])
found = compare_arrays(actual, reference, rtol=1e-5, atol=1e-8)
assert found.counts["n"] == actual.size and found.metrics["match_ratio"] == 1, found.metrics
"""
# The goal for the speed of a comparison, relative to a plain read of the same files.
READ_GOAL = 0.9
# Buffers of 8 MiB: with 1 MiB the plain read of files on a disk took 1.9 times as long, and flattered our ratio.
READ = """\
import mmap, os, sys
from concurrent.futures import ThreadPoolExecutor

def read(path):
    # A mapping begins at a page, as direct reads need it.
    buffer, size = mmap.mmap(-1, 8 << 20), 0
    file = os.open(path, os.O_RDONLY | FLAG)
    while size < os.path.getsize(path):
        size += os.preadv(file, [buffer], size)
    return size

with ThreadPoolExecutor(2) as pool:
    assert list(pool.map(read, sys.argv[1:3])) == [os.path.getsize(path) for path in sys.argv[1:3]]
"""


class Run(NamedTuple):
    """Hold the seconds and the processor seconds of a process, the peaks of its memory in bytes, and its failure."""

    seconds: float
    processor: float
    anonymous: int
    mapped: int
    failure: str


def make(paths: tuple[Path, Path], elements: int) -> None:
    """Write random numbers and neighbours of them."""
    random = np.random.default_rng(elements)
    header = {"descr": "<f4", "fortran_order": False, "shape": (elements,)}
    with paths[0].open("wb") as actual, paths[1].open("wb") as reference:
        for file in (actual, reference):
            np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, elements, BLOCK):
            n = min(BLOCK, elements - start)
            values = random.standard_normal(n, dtype=np.float32)
            values.tofile(reference)
            (values * (1 + random.uniform(-NOISE, NOISE, n))).astype(np.float32).tofile(actual)
        for file in (actual, reference):
            file.flush()
            os.fsync(file.fileno())


def drop_from_cache(paths: Iterable[Path]) -> None:
    """Let the next read begin at the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def memory(pid: int) -> dict[str, int]:
    """Return RssAnon and RssFile of a process and all that it started, in bytes; nothing once it is gone."""
    total = {"RssAnon": 0, "RssFile": 0}
    with suppress(OSError):
        children = [
            child for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()
        ]
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        own = {
            name: int(rest.split()[0]) * 1024
            for name, _, rest in (line.partition(":") for line in lines)
            if name in total
        }
        parts = [own, *(memory(int(child)) for child in children)]
        return {name: sum(part.get(name, 0) for part in parts) for name in total}
    return total


def watch(command: list[str]) -> Run:
    """Run a command and look at its memory again and again."""
    peaks = memory(0)
    begun, before = perf_counter(), processor_seconds()
    with tempfile.TemporaryFile() as shown:
        process = subprocess.Popen(command, stdout=shown, stderr=subprocess.STDOUT)
        watcher = Thread(target=_keep_peaks, args=(process, peaks))
        watcher.start()
        code = process.wait()
        taken, busy = perf_counter() - begun, processor_seconds() - before
        watcher.join()
        shown.seek(0)
        failure = shown.read().decode(errors="replace")[-2000:] if code else ""
    return Run(taken, busy, peaks["RssAnon"], peaks["RssFile"], failure)


def processor_seconds() -> float:
    """Return the processor time of all ended children, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _keep_peaks(process: subprocess.Popen[bytes], peaks: dict[str, int]) -> None:
    while process.poll() is None:
        now = memory(process.pid)
        peaks.update({name: max(peak, now[name]) for name, peak in peaks.items()})
        sleep(INTERVAL)


def ways(paths: tuple[Path, Path]) -> dict[str, list[str]]:
    """Return the commands, the plain read among them."""
    files = [str(path) for path in paths]
    return {
        PLAIN: [sys.executable, "-c", READ.replace("FLAG", "0"), *files],
        DIRECT: [sys.executable, "-c", READ.replace("FLAG", "os.O_DIRECT"), *files],
        "compare() of memory maps": [sys.executable, "-c", CALL, *files],
        "precreg compare": [*COMPARE, *files, "--rtol", RTOL, "--atol", ATOL],
    }


def measure(commands: Mapping[str, list[str]], read: Sequence[Path], rounds: int) -> dict[str, list[Run]]:
    """Run each command once a round; the files in `read` leave the cache before each run."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            drop_from_cache(read)
            run = watch(command)
            if run.failure:
                raise SystemExit(f"expected exit 0 of: {' '.join(command)}\n{run.failure}")
            runs[name].append(run)
    return runs


def report(size: int, runs: dict[str, list[Run]]) -> None:
    """Print a line for each way."""
    columns = (
        f"{'s':>8} {'CPU, s':>8} {'GB/s':>6} {'of read':>8} {'of direct':>10} {'RssAnon, MB':>12} {'RssFile, MB':>12}"
    )
    rounds = len(runs[PLAIN])
    print(f"two files of {size / 2e9:.2f} GB; rounds: {rounds}; goal {READ_GOAL} of the speed of the read")
    print(f"{'':26} {columns}")
    for name, found in runs.items():
        seconds, processor = (median(getattr(run, field) for run in found) for field in ("seconds", "processor"))
        of_read, of_direct = (
            median(read.seconds / run.seconds for read, run in zip(runs[way], found, strict=True))
            for way in (PLAIN, DIRECT)
        )
        anonymous, mapped = (max(getattr(run, field) for run in found) for field in ("anonymous", "mapped"))
        speeds = f"{seconds:8.2f} {processor:8.2f} {size / seconds / 1e9:6.2f} {of_read:8.2f} {of_direct:10.2f}"
        figures = f"{speeds} {anonymous / 1e6:12.1f} {mapped / 1e6:12.1f}"
        print(f"{name:26} {figures}  {verdict(name, anonymous, of_read)}".rstrip())


def verdict(name: str, anonymous: int, of_read: float) -> str:
    """Return which of the two goals are reached; nothing for a read."""
    if name in (PLAIN, DIRECT):
        return ""
    memory = "reached" if anonymous <= GOAL else "NOT REACHED"
    speed = "reached" if of_read >= READ_GOAL else "NOT REACHED"
    return f"goal {GOAL / 1e6:.0f} MB: {memory}; goal {READ_GOAL}: {speed}"


def main(folder: Path, gigabytes: float, rounds: int) -> None:
    """Make the files, compare them, delete them."""
    needed, free = 2.1e9 * gigabytes, shutil.disk_usage(folder).free
    if free < needed:
        raise SystemExit(f"expected {needed / 1e9:.1f} GB free in {folder}, found {free / 1e9:.1f}")
    with tempfile.TemporaryDirectory(dir=folder) as name:
        paths = Path(name, "actual.npy"), Path(name, "reference.npy")
        make(paths, int(gigabytes * 1e9) // 4)
        report(sum(path.stat().st_size for path in paths), measure(ways(paths), paths, rounds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of each file (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each way (default: %(default)s)")
    main(**vars(parser.parse_args()))
