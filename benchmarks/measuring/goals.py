"""The goals beside the results: ratios of one run, and milliseconds at the read limit of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

OURS, ALONE, LIMIT, NUMPY = "every metric, and digest", "every metric", "read limit", "numpy form, every metric"
IDENTICAL, SUBNORMAL, NAN = "bit-identical", "subnormal", "a tenth NaN or infinite"
FASTER = {
    "np.allclose": 1.8,
    "torch.testing.assert_close": 8.0,
    "msprobe, six metrics": 40.0,
    "Polygraphy, CompareFunc.simple": 60.0,
    "naive numpy script": 80.0,
}
NUMPY_FASTER = {"msprobe, six metrics": 5.0, "naive numpy script": 10.0}
# AVX-512: 90 ms with one thread and 50 ms with two, where reading takes 26 ms. AVX2: the shares that a prototype had.
SHARES = {"AVX-512": (0.29, 0.52), "AVX2": (0.10, 0.18)}
IDENTICAL_SHARE = 0.7
SLOWDOWN = 10.0
MEMORY = 16e6
FEW = 1000
Times = Mapping[tuple[str, int], float]


def instructions() -> str:
    """Return the widest instructions of this processor that the goals know."""
    try:
        flags = Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
    except OSError:
        return "unknown instructions"
    return "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "neither AVX2 nor AVX-512"


def speed_goals(times: Times) -> Iterator[str]:
    """Yield a line for every goal of large arrays."""
    for peer, goal in FASTER.items():
        yield at_least(goal, _ratio(times, (peer, 1), (OURS, 1)), f"times as fast as {peer}, one thread")
    for peer, goal in NUMPY_FASTER.items():
        yield at_least(goal, _ratio(times, (peer, 1), (NUMPY, 1)), f"times as fast as {peer}: the numpy form")
    for threads, goal in enumerate(SHARES.get(instructions(), ()), start=1):
        share = _ratio(times, (LIMIT, 1), (OURS, threads))
        yield at_least(goal, share, f"of what one thread can read, {threads} thread(s){_reached_at(times, goal)}")
    identical = f"of the limit, bit-identical{_reached_at(times, IDENTICAL_SHARE)}"
    yield at_least(IDENTICAL_SHARE, _ratio(times, (LIMIT, 1), (IDENTICAL, 1)), identical)
    slow = _ratio(times, (SUBNORMAL, 1), (ALONE, 1))
    yield at_most(SLOWDOWN, slow, "times the time of ordinary numbers, subnormal ones")
    slow = _ratio(times, (NAN, 1), (ALONE, 1))
    yield at_most(SLOWDOWN, slow, "times the time of ordinary numbers, a tenth NaN or infinite")


def small_goals(n: int, times: Mapping[str, float]) -> Iterator[str]:
    """Yield the goal of an array of so many elements."""
    peer = "np.testing.assert_allclose" if n <= FEW else "np.allclose"
    yield at_most(1.0, times["ours"] / times[peer], f"of the time of {peer}, {n:,} elements")


def memory_goals(peak: float) -> str:
    """Return the goal of memory."""
    return f"goal {MEMORY / 1e6:.0f} MB: {'reached' if peak <= MEMORY else 'NOT REACHED'}"


def _reached_at(times: Times, share: float) -> str:
    return f": {times[LIMIT, 1] / share * 1e3:.3g} ms here" if (LIMIT, 1) in times else ""


def _ratio(times: Times, above: tuple[str, int], below: tuple[str, int]) -> float | None:
    return times[above] / times[below] if above in times and below in times else None


def at_least(goal: float, value: float | None, what: str) -> str:
    """Return the line of a goal that larger values reach; None is what could not be measured."""
    return _line(f"at least {goal:g}", value, what, value is not None and value >= goal)


def at_most(goal: float, value: float | None, what: str) -> str:
    """Return the line of a goal that smaller values reach; None is what could not be measured."""
    return _line(f"at most {goal:g}", value, what, value is not None and value <= goal)


def _line(goal: str, value: float | None, what: str, reached: bool) -> str:
    verdict = "not measured" if value is None else "reached" if reached else "NOT REACHED"
    return f"   goal: {verdict:12} {'' if value is None else f'{value:.3g}':>7} {what} ({goal})"
