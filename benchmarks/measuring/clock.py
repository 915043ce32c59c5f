"""Medians of interleaved rounds on a machine that others use too: noisy samples are told and taken again."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep
from typing import NamedTuple

PAUSE = 0.2
"""Seconds until a noisy sample is taken again."""
RETAKEN = 5.0
"""Samples of calls that take longer are not taken again."""
QUIET = 0.2
"""A sample is quiet while others use at most so many cores."""
ENOUGH, LONG = 3, 20.0
"""A call gets no further rounds once it has so many samples and has taken so many seconds."""


class Measured(NamedTuple):
    """The median of the quiet samples, in seconds a call; of all samples where none was quiet."""

    seconds: float
    quiet: int
    samples: int


class Sample(NamedTuple):
    """Seconds a call took, and how many cores others used meanwhile."""

    seconds: float
    others: float


def busy_cores() -> float | None:
    """Return the seconds that all cores have worked since the start of the machine, those that a host took too."""
    try:
        fields = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    except OSError:
        return None
    user, nice, system, _, _, interrupt, soft, steal = map(int, fields)
    return (user + nice + system + interrupt + soft + steal) / os.sysconf("SC_CLK_TCK")


def own_cores() -> float:
    """Return the seconds that this process and its living children have worked."""
    return sum(_worked(pid) for pid in ["self", *_children()]) / os.sysconf("SC_CLK_TCK")


def processor_time() -> float:
    """Return the seconds that this process has worked, and the first thread of each of its living children."""
    return process_time() + sum(_scheduled(pid) for pid in _children()) / 1e9


def _children() -> list[str]:
    return [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]


def _scheduled(pid: str) -> int:
    # In nanoseconds, where the other counters tick a hundred times a second.
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except OSError:
        return 0


def _worked(pid: str) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def load_of_others(seconds: float = 1.0) -> float | None:
    """Return how many cores others use while we sleep; None where the system does not say."""
    before = busy_cores()
    own = own_cores()
    sleep(seconds)
    after = busy_cores()
    return None if before is None or after is None else max(0.0, after - before - own_cores() + own) / seconds


def sample(call: Callable[[], object], window: float, *, by_processor: bool = False) -> Sample:
    """Call again and again for so many seconds; a slow call is made once."""
    gc.collect()
    before, own, calls, worked = busy_cores(), own_cores(), 0, processor_time()
    begun = perf_counter()
    while (taken := perf_counter() - begun) < window or calls == 0:
        call()
        calls += 1
    spent = processor_time() - worked if by_processor else taken
    after = busy_cores()
    others = 0.0 if before is None or after is None else after - before - own_cores() + own
    return Sample(spent / calls, others / taken)


class Clock:
    """Times calls in turn; waits for quiet moments, `patience` seconds in all.

    A sample takes `window` seconds or one call: much less than 0.2 is little, for the system's counters tick a hundred
    times a second. `by_processor` takes processor time, which other work lengthens less.
    """

    def __init__(self, rounds: int, patience: float, window: float, *, by_processor: bool = False) -> None:
        self._rounds = rounds
        self._patience = patience
        self._window = window
        self._by_processor = by_processor

    def medians(self, calls: Mapping[str, Callable[[], object]]) -> dict[str, Measured]:
        """Time every call once a round, so that a slow moment of the machine meets each of them."""
        taken: dict[str, list[Sample]] = {name: [] for name in calls}
        for _ in range(self._rounds):
            for name, call in calls.items():
                if not _settled(taken[name]):
                    taken[name].append(self._quiet_sample(call))
        return {name: _measured(samples) for name, samples in taken.items()}

    def _quiet_sample(self, call: Callable[[], object]) -> Sample:
        best = sample(call, self._window, by_processor=self._by_processor)
        while best.others > QUIET and best.seconds < RETAKEN and self._patience > 0:
            begun = perf_counter()
            sleep(PAUSE)
            again = sample(call, self._window, by_processor=self._by_processor)
            best = min(best, again, key=lambda one: one.others)
            self._patience -= perf_counter() - begun
        return best


def _settled(samples: list[Sample]) -> bool:
    return len(samples) >= ENOUGH and sum(one.seconds for one in samples) > LONG


def _measured(samples: list[Sample]) -> Measured:
    quiet = [one.seconds for one in samples if one.others <= QUIET]
    return Measured(median(quiet or [one.seconds for one in samples]), len(quiet), len(samples))
