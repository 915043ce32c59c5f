"""Measure the collected outputs, and store the figures: python measure.py FOLDER.

FOLDER is that of collect.py. figures/PACKAGE.csv gets a row for each function and dtype in its first release, and in
each later release that changed bits, the shape or the dtype of the output. For all other releases the row before
applies, because equal bits have equal errors. figures/releases.json describes the releases and the machine.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from packaging.version import Version

import precreg
from compute import result_name
from exact import exact_result
from functions import Function, watched_functions

FIGURES = Path(__file__).parent / "figures"
PACKAGES = ("numpy", "scipy", "onnxruntime")
METRICS = ("max_ulp", "mean_ulp", "rms_ulp", "rms_error")
COLUMNS = ("release", "dispatch", "function", "dtype", "output", "n", "changed", *METRICS)


def measured_row(actual: Any, exact: Any) -> dict[str, str]:
    """Measure an output against the exact result: its dtype, its number of elements, and the metrics in 6 digits."""
    metrics = precreg.compare(actual, exact).metrics
    figures = {name: f"{metrics[name]:.6g}" if name in metrics else "" for name in METRICS}
    return {"output": str(actual.dtype), "n": str(actual.size), **figures}


def changed_elements(actual: Any, before: Any) -> int:
    """Count the elements with other bits; all of them if the shape or the dtype is another one."""
    if before.shape != actual.shape or before.dtype != actual.dtype:
        return int(actual.size)
    width = actual.dtype.itemsize
    bytes_of = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, width) for array in (actual, before)]
    return int((bytes_of[0] != bytes_of[1]).any(axis=1).sum())


def collected_releases(folder: Path) -> list[str]:
    """Return the releases that were collected, oldest first."""
    return sorted((place.parent.parent.name for place in folder.glob("*/all/facts.json")), key=Version)


def rows_of(
    function: Function, dtype: str, folder: Path, releases: list[str], dispatch: str
) -> Iterator[dict[str, str]]:
    """Yield the rows of one function and dtype. A release that lacks it has a row without figures."""
    exact = exact_result(function, dtype)
    before: Any = None
    missing = False
    for release in releases:
        with np.load(folder / release / dispatch / "outputs.npz", allow_pickle=False) as outputs:
            name = result_name(function, dtype)
            actual = outputs.get(name)
        place = {"release": release, "dispatch": dispatch, "function": function.name, "dtype": dtype}
        if actual is None:
            if not missing:
                yield {**place, "output": "missing"}
            before, missing = None, True
            continue
        changed = None if before is None else changed_elements(actual, before)
        if changed is None or changed:
            yield {**place, "changed": "" if changed is None else str(changed), **measured_row(actual, exact)}
        before, missing = actual, False


def measure_package(package: str, folder: Path) -> None:
    """Write the figures of one package."""
    releases = collected_releases(folder)
    dispatches = ("all", "baseline") if package == "numpy" else ("all",)
    rows = [
        row
        for function in watched_functions(package)
        for dtype in function.dtypes
        for dispatch in dispatches
        for row in rows_of(function, dtype, folder, releases, dispatch)
    ]
    FIGURES.mkdir(exist_ok=True)
    with (FIGURES / f"{package}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{package}: {len(releases)} releases, {len(rows)} rows")


def describe_releases(folder: Path) -> dict[str, Any]:
    """Return the releases of each package, the numpy of its environments, and the machine.

    Raises:
        ValueError: if two releases had other inputs; their errors could not be compared.

    """
    described: dict[str, Any] = {"cpu": cpu_name(), "packages": {}}
    for package in PACKAGES:
        releases = collected_releases(folder / package)
        facts = [json.loads((folder / package / release / "all" / "facts.json").read_text()) for release in releases]
        if len({fact["inputs"] for fact in facts}) > 1:
            raise ValueError(f"{package}: the inputs differ between releases")
        described["packages"][package] = {
            "releases": releases,
            "numpy": {release: fact["numpy"] for release, fact in zip(releases, facts, strict=True)},
            "inputs": facts[0]["inputs"] if facts else "",
        }
    return described


def cpu_name() -> str:
    """Return the vendor, family and model of the CPU, and its widest vector instructions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines) if value}
    widest = next(name for name in ("avx512f", "avx2", "sse2") if name in facts["flags"].split())
    return f"{facts['vendor_id']} family {facts['cpu family']} model {facts['model']} with {widest}"


def main(folder: Path) -> None:
    """Measure all packages that were collected."""
    for package in PACKAGES:
        measure_package(package, folder / package)
    (FIGURES / "releases.json").write_text(json.dumps(describe_releases(folder), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
