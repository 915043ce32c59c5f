"""Install the releases of a package one after the other, and store the outputs of the watched functions.

    python collect.py numpy FOLDER                 # all releases with a wheel for this Python
    python collect.py numpy FOLDER 2.3.5 2.4.0     # only these

Each release has a virtual environment of its own, which is deleted after use. FOLDER/numpy/2.3.5/all/ then has
outputs.npz and facts.json, and FOLDER/numpy/2.3.5/baseline/ those without the SIMD loops that numpy chooses by the CPU.
A release that FOLDER already has is not computed again, so an interrupted collection goes on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from packaging.version import Version

HERE = Path(__file__).parent
FIRST_RELEASE = {"numpy": "1.23.2", "scipy": "1.9.2", "onnxruntime": "1.15.0"}
# One thread and the same kernels of OpenBLAS, so that sums have one order on every machine with AVX2.
ONE_ORDER = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_L2_SIZE": "512",
}


def released_versions(package: str) -> list[str]:
    """Return the final releases of a package that have a wheel for this Python, oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--only-binary=:all:"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"^Available versions: (.*)$", printed, re.MULTILINE)[1].split(", ")  # type: ignore[index]
    first = Version(FIRST_RELEASE[package])
    return sorted((text for text in found if Version(text) >= first), key=Version)


def companions(package: str, release: str) -> list[str]:
    """Return the other packages of an environment: the same numpy for all releases that run with it."""
    if package == "numpy":
        return []
    # scipy 1.9 refuses numpy 1.26.
    old = package == "scipy" and Version(release) < Version("1.10")
    return [f"numpy=={'1.25.2' if old else '1.26.4'}"]


def install(package: str, release: str, folder: Path) -> Path:
    """Create an environment with one release; return its Python.

    Raises:
        subprocess.CalledProcessError: if pip finds no wheel.

    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--only-binary=:all:"]
    subprocess.run([*command, f"{package}=={release}", *companions(package, release)], check=True)
    return python


def compute_in(python: Path, package: str, folder: Path, disabled: list[str]) -> dict[str, object]:
    """Run compute.py in an environment, without some CPU features of numpy; return its facts."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **ONE_ORDER, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    if disabled:
        environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(disabled)
    subprocess.run([str(python), str(HERE / "compute.py"), package, str(folder)], check=True, env=environment)
    facts: dict[str, object] = json.loads((folder / "facts.json").read_text())
    return facts


def collect(package: str, release: str, folder: Path) -> None:
    """Compute the outputs of one release: with all CPU features, and for numpy without those beyond its baseline."""
    place = folder / package / release
    environment = folder / f"environment-{package}"
    shutil.rmtree(environment, ignore_errors=True)
    try:
        python = install(package, release, environment)
        if package == "onnxruntime":
            shutil.copytree(folder / "models", place / "all" / "models", dirs_exist_ok=True)
        facts = compute_in(python, package, place / "all", [])
        shutil.rmtree(place / "all" / "models", ignore_errors=True)
        if package == "numpy":
            compute_in(python, package, place / "baseline", list(map(str, facts["dispatch"])))  # type: ignore[call-overload]
    finally:
        shutil.rmtree(environment, ignore_errors=True)
    print(f"{package} {release}: {len(facts['missing'])} missing", flush=True)  # type: ignore[arg-type]


def main(package: str, folder: Path, releases: list[str]) -> None:
    """Collect releases; name those that failed, and go on."""
    if package == "onnxruntime":
        from models import write_models

        write_models(folder / "models")
    for release in releases or released_versions(package):
        if (folder / package / release / "all" / "facts.json").exists():
            continue
        try:
            collect(package, release, folder)
        except subprocess.CalledProcessError as error:
            print(f"{package} {release}: failed with exit code {error.returncode}", flush=True)
            shutil.rmtree(folder / package / release, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3:])
