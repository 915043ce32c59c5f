"""How do the costs of precreg grow with cases, processes, elements and runs, and where linearly?

Measures one axis or all. It fits y = a + b n by least squares of relative residuals, and beside it a model with a
term c n log2 n. It prints the residual of each size, and the first size that leaves the line of the smaller ones by
more than 20 %. Without such a size it extrapolates to ten times the largest size, which is no measurement.
Usage: python benchmarks/scaling.py [cases] [jobs] [workers] [elements] [runs] [--largest N] [--history FILE]
    [--charts FOLDER]
`--largest` limits every axis, and 100,000 cases take minutes. `--history` is a file of history_at_size.py, for `runs`.
`--charts` writes each curve with its line on logarithmic axes.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from html import escape
from math import ceil, floor, log2, log10
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.cluster_demo import VARIABLES
from benchmarks.history_at_size import drift_of_some, fill, one_series
from benchmarks.loopback_cluster import started_cluster
from benchmarks.many_cases import make_project, measure, megabytes
from benchmarks.small_arrays import seconds

Array = NDArray[Any]

CASES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ELEMENTS = tuple(10**power for power in range(2, 9))
RUNS = (10, 30, 100, 300, 1_000)
JOBS = (1, 2)
CASES_OF_JOBS = 1_000
# A size that is this share away from the line of the smaller sizes ends the linear range.
LINEAR_SHARE = 0.2
ROUNDS = 3


class Curve(NamedTuple):
    """Hold the measured value of each size, and the unit."""

    name: str
    unit: str
    points: dict[int, float]


class Fit(NamedTuple):
    """Hold the constant, the cost of one more, the factor of n log2 n, and the residuals as shares of the values."""

    constant: float
    each: float
    of_logarithm: float
    residuals: tuple[float, ...]

    def at(self, n: float) -> float:
        """Return the value of the model."""
        return self.constant + self.each * n + self.of_logarithm * n * log2(n)


def fit(points: dict[int, float], *, logarithm: bool = False) -> Fit:
    """Fit the model by least squares of the relative residuals: sizes span powers of ten, with equal weights."""
    sizes, values = np.array([*points], float), np.array([*points.values()])
    columns = [np.ones(len(sizes)), sizes, *([sizes * np.log2(sizes)] if logarithm else [])]
    design = np.stack(columns, axis=1) / values[:, None]
    # Columns of one scale: n log2 n is ten million times the constant's.
    scales = np.linalg.norm(design, axis=0)
    found = np.linalg.lstsq(design / scales, np.ones(len(values)), rcond=None)[0] / scales
    factors = [*found.tolist(), 0.0][:3]
    return Fit(factors[0], factors[1], factors[2], tuple((design @ found - 1).tolist()))


def end_of_linear(points: dict[int, float]) -> int | None:
    """Return the first size that is away from the line through the smaller ones; None without one."""
    sizes = [*points]
    for count in range(3, len(sizes)):
        line = fit({size: points[size] for size in sizes[:count]})
        if abs(line.at(sizes[count]) / points[sizes[count]] - 1) > LINEAR_SHARE:
            return sizes[count]
    return None


def describe(curve: Curve) -> Iterator[str]:
    """Yield the lines of a curve: the fits, a table, the end of the linear range, and the extrapolation."""
    yield f"\n{curve.name}, in {curve.unit}"
    if len(curve.points) < 3:
        yield from (f"{n:>12,} {value:12.4g}" for n, value in curve.points.items())
        return
    line = fit(curve.points)
    yield f"a + b n: a = {line.constant:.4g}, b = {line.each:.4g}"
    for (n, value), residual in zip(curve.points.items(), line.residuals, strict=True):
        yield f"{n:>12,} {value:12.4g}  the line {100 * residual:+6.1f} %"
    if len(curve.points) > 3:
        bent = fit(curve.points, logarithm=True)
        worst = max(map(abs, bent.residuals))
        yield f"a + b n + c n log2 n: {bent.constant:.4g}, {bent.each:.4g}, {bent.of_logarithm:.4g}; worst {worst:.1%}"
    end = end_of_linear(curve.points)
    if end is not None:
        yield f"leaves the line of the smaller sizes by over 20 % at {end:,}: not extrapolated"
        return
    largest = 10 * max(curve.points)
    yield f"linear within 20 %; extrapolated, not measured: {line.at(largest):.4g} at {largest:,}"


def draw(curve: Curve) -> str:
    """Return an SVG of the measured points and the line a + b n; both axes are logarithmic."""
    line, sizes = fit(curve.points), [*curve.points]
    values = [*curve.points.values()]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    first, last = floor(log10(min(sizes))), ceil(log10(max(sizes)))

    def x(n: float) -> float:
        return 60 + 400 * (log10(n) - first) / (last - first)

    def y(value: float) -> float:
        return 230 - 190 * (log10(value) - low) / (high - low)

    parts = [f'<text x="10" y="20">{escape(curve.name)}, in {escape(curve.unit)}</text>']
    for power in range(low, high + 1):
        number = f"{10.0**power:,.{max(0, -power)}f}"
        parts.append(f'<path d="M60 {y(10.0**power):.1f}H460" stroke="#ddd"/>')
        parts.append(f'<text x="54" y="{y(10.0**power) + 4:.1f}" text-anchor="end">{number}</text>')
    for power in range(first, last + 1):
        parts.append(f'<path d="M{x(10**power):.1f} 40V230" stroke="#ddd"/>')
        parts.append(f'<text x="{x(10**power):.1f}" y="248" text-anchor="middle">{10**power:,}</text>')
    # A line is curved on logarithmic axes. A line with a constant below 0 has no logarithm at its start.
    ends = log10(min(sizes)), log10(max(sizes))
    steps = [10 ** (ends[0] + (ends[1] - ends[0]) * step / 60) for step in range(61)]
    course = " ".join(f"{x(n):.1f},{y(line.at(n)):.1f}" for n in steps if line.at(n) >= 10**low)
    parts.append(f'<polyline points="{course}" fill="none" stroke="#888" stroke-width="1.5"/>')
    parts += [
        f'<circle cx="{x(n):.1f}" cy="{y(value):.1f}" r="4" fill="#1f6feb"/>' for n, value in curve.points.items()
    ]
    # A white ground, because pages with a dark scheme show the picture, too.
    ground = '<rect width="500" height="260" fill="#fff"/>'
    begin = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 500 260" font-family="sans-serif" font-size="10">'
    return "\n".join((begin, ground, *parts, "</svg>\n"))


def of_cases(largest: int, _history: Path | None) -> Iterator[Curve]:
    """Run projects of tiny cases: processor time, memory of the command, and the record."""
    sizes = [size for size in CASES if size <= largest]
    spent: dict[int, float] = {}
    peaks: dict[int, float] = {}
    records: dict[int, float] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            make_project(folder, size, 1)
            found = measure(folder, "run", "--no-cache")
            spent[size], peaks[size] = float(str(found["all_s"])), float(str(found["peak_mb"]))
            records[size] = megabytes(*(folder / "reports").glob("record.json*"))
    yield Curve("a run of n cases, processor time", "s", spent)
    yield Curve("a run of n cases, peak of the command", "MB", peaks)
    yield Curve("a run of n cases, record", "MB", records)


def of_jobs(largest: int, _history: Path | None) -> Iterator[Curve]:
    """Run one project in one process and in more."""
    size = min(CASES_OF_JOBS, largest)
    walls: dict[int, float] = {}
    spent: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as made:
        make_project(Path(made), size, 1)
        rounds: dict[int, list[tuple[float, float]]] = {jobs: [] for jobs in JOBS}
        # In turn, because other work on the machine disturbs whole seconds.
        for jobs in JOBS * ROUNDS:
            began = time.perf_counter()
            used = float(str(measure(Path(made), "run", "--no-cache", "--jobs", str(jobs))["all_s"]))
            rounds[jobs].append((used, time.perf_counter() - began))
        for jobs, measured in rounds.items():
            spent[jobs], walls[jobs] = (median(each) for each in zip(*measured, strict=True))
    yield Curve(f"a run of {size:,} cases in n processes, wall time", "s", walls)
    yield Curve(f"a run of {size:,} cases in n processes, processor time", "s", spent)


def spent_by(pid: int) -> float:
    """Return the processor time of a process, its living descendants, and the ended ones."""
    import psutil

    root = psutil.Process(pid)
    return float(sum(sum(each.cpu_times()[:4]) for each in (root, *root.children(recursive=True))))


def of_workers(largest: int, _history: Path | None) -> Iterator[Curve]:
    """Run one project on a cluster of this machine: a scheduler and workers of one thread, each a process."""
    size = min(CASES_OF_JOBS, largest)
    found: dict[str, dict[int, float]] = {"wall": {}, "command": {}, "scheduler": {}, "workers": {}}
    for number in JOBS:
        with tempfile.TemporaryDirectory() as made, started_cluster(Path(made) / "cluster", VARIABLES) as cluster:
            for each in range(number):
                cluster.worker(f"worker{each}")
            pids = [process.pid for process in cluster.processes]
            make_project(Path(made) / "project", size, 1)
            rounds: list[dict[str, float]] = []
            # The first run also imports precreg on the workers.
            for _ in range(ROUNDS + 1):
                before, began = [spent_by(pid) for pid in pids], time.perf_counter()
                ran = measure(Path(made) / "project", "run", "--no-cache", "--dask", cluster.address)
                scheduler, *workers = (spent_by(pid) - earlier for pid, earlier in zip(pids, before, strict=True))
                own, wall = float(str(ran["all_s"])), time.perf_counter() - began
                rounds.append({"wall": wall, "command": own, "scheduler": scheduler, "workers": sum(workers)})
            for part, values in found.items():
                values[number] = median(each[part] for each in rounds[1:])
    yield Curve(f"a run of {size:,} cases on n workers of a cluster, wall time", "s", found.pop("wall"))
    for part, values in found.items():
        yield Curve(f"a run of {size:,} cases on n workers of a cluster, processor time of the {part}", "s", values)


def near_pair(size: int) -> tuple[Array, Array]:
    """Draw float32 numbers, and others up to about eight ULPs away: an error of its own for each pair."""
    generator = np.random.default_rng(size)
    exact = generator.standard_normal(size, dtype=np.float32)
    noise = generator.random(size, dtype=np.float32) * np.float32(2e-6) - np.float32(1e-6)
    return exact + exact * noise, exact


def of_elements(largest: int, _history: Path | None) -> Iterator[Curve]:
    """Compare two arrays of float32 by the public call."""
    import precreg

    found: dict[int, float] = {}
    for size in (size for size in ELEMENTS if size <= largest):
        pair = near_pair(size)
        call = lambda pair=pair: precreg.compare(*pair).metrics  # noqa: E731 - bound to the arrays of this size
        found[size] = 1e6 * median(seconds(call, 0.05) for _ in range(ROUNDS))
    yield Curve("precreg.compare of n float32, processor time", "us", found)


def of_runs(largest: int, history: Path | None) -> Iterator[Curve]:
    """Grow a history of 100,000 cases, or prune a copy of one: its size, one series, and drift of 500 cases."""
    from precreg.history import open_history

    spent: dict[int, float] = {}
    series: dict[int, float] = {}
    sizes: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as made:
        place = Path(made) / "history.sqlite"
        for count in sorted((count for count in RUNS if count <= largest), reverse=history is not None):
            if history is None:
                place.unlink(missing_ok=True)
                fill(str(place), count, scattered=False)
            elif not place.exists():
                shutil.copy(history, place)
            with open_history(str(place), project="demo") as opened:
                if history is not None:
                    opened.prune(keep=count)
                began = time.process_time()
                drift_of_some(opened)
                spent[count] = time.process_time() - began
                series[count] = one_series(opened)["median_ms"]  # type: ignore[index]
            sizes[count] = place.stat().st_size / 1e6
    for name, unit, points in (
        ("drift of 500 cases over n runs, processor time", "s", spent),
        ("one case's series of n runs", "ms", series),
        ("a history of n runs of 100,000 cases, file", "MB", sizes),
    ):
        yield Curve(name, unit, dict(sorted(points.items())))


AXES: dict[str, Callable[[int, Path | None], Iterator[Curve]]] = {
    "cases": of_cases,
    "jobs": of_jobs,
    "workers": of_workers,
    "elements": of_elements,
    "runs": of_runs,
}


def main() -> None:
    """Measure the axes, and print their curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axes", nargs="*", help=f"default: all of {', '.join(AXES)}")
    parser.add_argument("--largest", type=int, default=10**8, help="largest size of an axis (default: %(default)s)")
    parser.add_argument("--history", type=Path, help="a history of enough runs, which is copied and pruned")
    parser.add_argument("--charts", type=Path, help="write each curve of three sizes and more into this folder, as SVG")
    given = parser.parse_args()
    if unknown := set(given.axes) - AXES.keys():
        parser.error(f"expected axes of {', '.join(AXES)} but got {', '.join(sorted(unknown))}")
    for axis in given.axes or AXES:
        for place, curve in enumerate(AXES[axis](given.largest, given.history), 1):
            print(*describe(curve), sep="\n", flush=True)
            if given.charts is not None and len(curve.points) > 2:
                given.charts.mkdir(parents=True, exist_ok=True)
                (given.charts / f"scaling-{axis}-{place}.svg").write_text(draw(curve), encoding="utf-8")


if __name__ == "__main__":
    main()
