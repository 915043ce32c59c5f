"""compare() beside what others compare arrays with, in one run: speed, small arrays, peak memory, and the goals.

First it is checked that all find the same. What others use the machine for meanwhile is measured: noisy samples are
retaken while patience lasts, and a median of noisy samples alone is marked ~. Peers that are not there are named:
pip install 'precreg[benchmark]'. With --before CHECKOUT, a checkout of an earlier commit with its cores built, table A
has its times, too; its figures must be those of now.
On a machine with other work, --processor-time measures one thread in processor time.
Usage: python benchmarks/measure.py [--elements N] [--rounds N] [--tables abc] [--before CHECKOUT] [--processor-time]
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from measuring.agreement import disagreements
from measuring.child import Task, peak_over_inputs, remote_call
from measuring.clock import Clock, Measured, load_of_others
from measuring.data import Pair, draw, shaped
from measuring.goals import (
    ALONE,
    IDENTICAL,
    LIMIT,
    NAN,
    NUMPY,
    OURS,
    SUBNORMAL,
    instructions,
    memory_goals,
    small_goals,
    speed_goals,
)
from measuring.limit import compile_probe, reading, with_numpy
from measuring.peers import PEERS, Peer, assert_close, missing, ours, ours_in, public_call, public_figures, versions

from precreg.measure import select_backend

THREADS = (1, 2)
NUMPY_FORM = {"PRECREG_FORM": "numpy"}
SMALL = (100, 1000, 10_000, 100_000, 1_000_000)
FAILING = 100_000
DTYPES = ("float32", "float64")
Calls = dict[tuple[str, int], Callable[[], object]]


class Settings(NamedTuple):
    """What was asked for on the command line."""

    elements: int
    rounds: int
    patience: float
    window: float
    tables: str
    before: Path | None
    processor_time: bool

    @property
    def threads(self) -> tuple[int, ...]:
        """The numbers of threads to measure: processor time does not show a second thread."""
        return THREADS[:1] if self.processor_time else THREADS


def settings() -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=50_000_000, help="of tables A and C (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each call (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=300, help="seconds for quiet moments (default: %(default)s)")
    parser.add_argument("--window", type=float, default=0.2, help="seconds of a sample (default: %(default)s)")
    parser.add_argument("--tables", default="abc", help="which to print (default: %(default)s)")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--processor-time", action="store_true", help="measure one thread in processor time")
    return Settings(**vars(parser.parse_args()))


def present() -> dict[str, Peer]:
    """Return the peers that can be asked."""
    return {name: peer for name, peer in PEERS.items() if not missing(peer)}


def machine() -> str:
    """Return what the figures depend on."""
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "")
    others = load_of_others()
    load = "load of others unknown" if others is None else f"others use {others:.2f} cores"
    return f"{model or platform.machine()}, {os.cpu_count()} cores, {instructions()}; {load}"


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def check_agreement(pair: Pair, peers: Mapping[str, Peer]) -> int:
    """Raise SystemExit unless all peers find what we find; return how many figures were held against each other."""
    expected = ours(pair, digest=False)()
    found = {name: peer.prepare(pair)() for name, peer in peers.items()}
    wrong = [line for name, figures in found.items() for line in disagreements(name, figures, expected)]
    if wrong:
        raise SystemExit("\n".join(["results do not agree:", *wrong]))
    return sum(map(len, found.values()))


def calls_of_ours(asked: Settings, dtype: str, ordinary: Pair) -> Iterator[tuple[str, Callable[[], object], int]]:
    """Yield what we are timed at: label, call and number of threads."""
    n = asked.elements
    pairs = {
        OURS: ordinary,
        f"{IDENTICAL}, and digest": draw("identical", n, dtype),
        SUBNORMAL: draw("subnormal", n, dtype),
        NAN: draw("spoiled", n, dtype),
        "two dimensions": shaped(ordinary, 2),
        "four dimensions": shaped(ordinary, 4),
    }
    for threads in asked.threads:
        yield ALONE, ours(ordinary, threads, digest=False), threads
        yield IDENTICAL, ours(pairs[f"{IDENTICAL}, and digest"], threads, digest=False), threads
        for label, pair in pairs.items():
            yield label, ours(pair, threads, digest="digest" in label), threads


def add_earlier(calls: Calls, asked: Settings, dtype: str, children: ExitStack) -> None:
    """Add the calls of the earlier checkout, each in a process; raise SystemExit if its figures differ from ours."""
    if asked.before is None:
        return
    checkout = str(asked.before.resolve())
    for label, kind in ((OURS, "ordinary"), (IDENTICAL, "identical")):
        for threads in asked.threads:
            prepare = partial(ours_in, checkout=checkout, threads=threads, digest=label == OURS)
            call = children.enter_context(remote_call(Task(prepare, kind, asked.elements, dtype, checkout=checkout)))
            earlier, now = call(), calls[label, threads]()
            if earlier != now:
                raise SystemExit(f"{label}, {threads} thread(s): {checkout} gives other figures")
            calls[f"before: {label}", threads] = call


def table_a(asked: Settings, dtype: str, clock: Clock) -> None:
    """Print what large arrays cost."""
    pair, peers = draw("ordinary", asked.elements, dtype), present()
    figures = check_agreement(draw("failing", min(asked.elements, FAILING), dtype), peers)
    figures += check_agreement(pair, peers)
    probe = compile_probe()
    calls: Calls = {(LIMIT, threads): reading(probe or with_numpy, pair, threads) for threads in asked.threads}
    calls |= {(label, threads): call for label, call, threads in calls_of_ours(asked, dtype, pair)}
    calls |= {(name, 1): peer.prepare(pair) for name, peer in peers.items()}
    if "torch.testing.assert_close" in peers and not asked.processor_time:
        calls["torch.testing.assert_close", 2] = assert_close(pair, threads=2)
    with ExitStack() as children:
        for threads in asked.threads:
            task = Task(partial(ours, threads=threads, digest=False), "ordinary", asked.elements, dtype, NUMPY_FORM)
            calls[NUMPY, threads] = children.enter_context(remote_call(task))
        add_earlier(calls, asked, dtype, children)
        for label, threads in calls:
            if label not in PEERS or threads > 1:  # the others were called to see whether they agree
                calls[label, threads]()
        times = clock.medians(calls)
    print(f"\nA. {asked.elements:,} elements, float32 against {dtype}; {figures} figures of peers agree with ours")
    rates = (pair.nbytes / times[LIMIT, threads].seconds / 1e9 for threads in asked.threads)
    how = "C, -O3 -march=native" if probe else "numpy: there is no C compiler"
    numbers = " and ".join(map(str, asked.threads))
    print(f"   read limit, by {how}: {' and '.join(f'{rate:.1f}' for rate in rates)} GB/s with {numbers} thread(s)")
    print_speed(times, {label for label, _ in calls if label not in PEERS}, asked.threads)
    print(*speed_goals({name: time.seconds for name, time in times.items()}), sep="\n")


def print_speed(times: Mapping[tuple[str, int], Measured], own: set[str], numbers: tuple[int, ...]) -> None:
    """Print milliseconds, the share of the read limit of as many threads, and how many times we go into it."""
    columns = "".join(f" | {f'{threads} thread(s), ms':>15} {'of limit':>8} {'/ ours':>8}" for threads in numbers)
    print(f"{'':34}{columns}")
    for label in dict.fromkeys([*(label for label, _ in times if label in own), *PEERS]):
        print(f"{label:34}" + "".join(f" | {_cell(times, label, threads)}" for threads in numbers).rstrip())


def _cell(times: Mapping[tuple[str, int], Measured], label: str, threads: int) -> str:
    """Return the cell of a label; that of one thread, where it has no more, beside our time with more."""
    if (label, 1) not in times:
        return missing(PEERS[label])[:40] if threads == 1 else ""
    mine, limit = times[OURS, threads], times[LIMIT, threads]
    time = times.get((label, threads), times[label, 1])
    mark = "" if time.quiet else "~"
    shown = f"{mark}{time.seconds * 1e3:.1f}" if (label, threads) in times else ""
    share = f"{limit.seconds / time.seconds:.1%}" if label not in PEERS else ""
    return f"{shown:>15} {share:>8} {time.seconds / mine.seconds:8.2f}"


def table_b(asked: Settings, clock: Clock) -> None:
    """Print what small arrays cost, in microseconds, one thread or as many as compare() takes by itself."""
    names = ("np.testing.assert_allclose", "np.allclose")
    print("\nB. small arrays, float32 against float32, through the public call")
    columns = f"{'elements':>34} {'ours, us':>10} {'and figures':>12}"
    print(columns, *(f"{name + ', us':>31} {'/ ours':>8}" for name in names))
    goals: list[str] = []
    for n in (size for size in SMALL if size <= asked.elements):
        pair = draw("ordinary", n, "float32")
        check_agreement(pair, {name: PEERS[name] for name in names})
        calls: dict[str, Callable[[], object]] = {name: PEERS[name].prepare(pair) for name in names}
        calls = {"ours": public_call(pair), "figures": public_figures(pair), **calls}
        times = {name: time.seconds for name, time in clock.medians(calls).items()}
        peers = (f"{times[name] * 1e6:31.1f} {times[name] / times['ours']:8.2f}" for name in names)
        print(f"{n:34,} {times['ours'] * 1e6:10.1f} {times['figures'] * 1e6:12.1f}", *peers)
        goals += small_goals(n, times)
    print(*goals, sep="\n")


def table_c(asked: Settings) -> None:
    """Print peak memory over the inputs, each call in a fresh process."""
    print(f"\nC. peak memory over the inputs, {asked.elements:,} elements\n{'':34} {'MB':>10} {'of inputs':>10}")
    for label, task in memory_tasks(asked.elements):
        peak = peak_over_inputs(task)
        inputs = task.n * (4 + (8 if task.reference_dtype == "float64" else 4))
        goal = memory_goals(peak) if label not in PEERS else ""
        print(f"{label:34} {peak / 1e6:10.1f} {peak / inputs:10.2f}  {goal}".rstrip())
    for label, peer in PEERS.items():
        if reason := missing(peer):
            print(f"{label:34} {reason}")


def memory_tasks(n: int) -> Iterator[tuple[str, Task]]:
    """Yield whose memory is measured: ours in all forms, and peers."""
    for dtype in DTYPES:
        for threads in THREADS:
            label = f"{OURS}, {dtype}, {threads} thr."
            yield label, Task(partial(ours, threads=threads), "ordinary", n, dtype)
        yield f"numpy form, {dtype}", Task(partial(ours, digest=False), "ordinary", n, dtype, NUMPY_FORM)
    for label, peer in present().items():
        yield label, Task(peer.prepare, "ordinary", n, "float32")


def main(asked: Settings) -> None:
    """Print the tables asked for."""
    clock = Clock(asked.rounds, asked.patience, asked.window, by_processor=asked.processor_time)
    served = select_backend().__module__.rpartition(".")[2]
    print(f"{versions()}\n{machine()}\ncompare() by {served}; ~ marks what was never measured in a quiet moment")
    if asked.processor_time:
        print("processor time of one thread")
    if "a" in asked.tables:
        for dtype in DTYPES:
            table_a(asked, dtype, clock)
    if "b" in asked.tables:
        table_b(asked, clock)
    if "c" in asked.tables:
        table_c(asked)


if __name__ == "__main__":
    main(settings())
