"""Which accelerators does this machine have, and which versions do their drivers and toolkits have?

The answers come from files and from the vendors' own tools, and no library of a vendor is loaded. A machine without
the files and tools has no accelerator. Each format is as its vendor's tool prints it:

- NVIDIA: /proc/driver/nvidia (the README of the Linux driver, "Using the /proc File System Interface"), otherwise
  `nvidia-smi --query-gpu`; CUDA's version.json.
- Ascend: the table of `npu-smi info`, whose first row of a device has its name; ascend_toolkit_install.info of CANN.
- Cambricon: `cnmon info`, a name and a value a line; version.txt of Neuware, "Neuware Version 3.9.0".
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from precreg.types import Environment

# A tool that takes longer hangs in its driver, and its accelerator is of no use.
TOOL_TIMEOUT_S = 5.0
# More text than any tool prints for a machine's accelerators; version files are far shorter.
_MAX_CHARACTERS = 1 << 20


class Accelerator(NamedTuple):
    """Hold a model of accelerator with its family, the number on this machine, and versions by name."""

    family: str
    model: str
    number: int
    versions: Mapping[str, str]

    def __str__(self) -> str:
        """Return it as a person reads it: "2 cuda NVIDIA H100 (driver 550.54.15)"."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.number} {self.family} {self.model}" + (f" ({versions})" if versions else "")


def find_accelerators(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> tuple[Accelerator, ...]:
    """Return the accelerators of this machine, sorted by family and model; files are below `root`."""
    found = (*_nvidia(root, environ), *_ascend(root, environ), *_cambricon(root, environ))
    return tuple(sorted(found, key=lambda each: (each.family, each.model)))


def with_accelerators(environment: Environment) -> Environment:
    """Add the accelerators of this machine to the facts of an environment; they explain, and leave its fingerprint."""
    from msgspec.structs import replace

    from precreg.types import EXPLAINING_PREFIX

    # A case that computes on one of them has facts of its own, which its kind of subject gives.
    found = ", ".join(map(str, find_accelerators()))
    facts = {**environment.facts, f"{EXPLAINING_PREFIX}accelerators": found}
    return replace(environment, facts=facts) if found else environment


def _nvidia(root: Path, environ: Mapping[str, str]) -> Iterator[Accelerator]:
    driver = root / "proc/driver/nvidia"
    # "Model: 		 NVIDIA H100 80GB HBM3" in a file for each GPU.
    about = (_read(path) for path in sorted(driver.glob("gpus/*/information")))
    models = [model for text in about if (model := _match(r"^Model:\s*(.+?)\s*$", text))]
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug ...", or "... Module for x86_64  570.124.06".
    version = _match(r"^NVRM version:.*?\s(\d{3,}\.\d+(?:\.\d+)?)\b", _read(driver / "version"))
    if not models:
        # Some containers have no such files.
        query = ("--query-gpu=name,driver_version", "--format=csv,noheader")
        rows = [line.rpartition(",") for line in _printed("nvidia-smi", *query, environ=environ).splitlines()]
        models = [name.strip() for name, _, _ in rows if name.strip()]
        version = next((number.strip() for _, _, number in rows), version)
    toolkit = _home(root, environ, "CUDA_HOME", "usr/local/cuda") / "version.json"
    cuda = _match(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([\d.]+)"', _read(toolkit))
    yield from _counted("cuda", models, driver=version, CUDA=cuda)


def _ascend(root: Path, environ: Mapping[str, str]) -> Iterator[Accelerator]:
    text = _printed("npu-smi", "info", environ=environ)
    # "| 0     910B3               | OK            | 90.6 ...": the rows of chips have a number in place of the name.
    names = re.findall(r"^\|\s*\d+\s+(\S*[A-Za-z]\S*)\s*\|", text, re.M)
    models = [f"Ascend{name.removeprefix('Ascend')}" for name in names]
    version = _match(r"\bVersion:\s*(\S+)", text)
    home = _home(root, environ, "ASCEND_HOME_PATH", "usr/local/Ascend/ascend-toolkit/latest")
    notes = (_read(path) for path in sorted(home.glob("*-linux/ascend_toolkit_install.info")))
    cann = next(filter(None, (_match(r"^version=(\S+)", text) for text in notes)), "")
    yield from _counted("npu", models, driver=version, CANN=cann)


def _cambricon(root: Path, environ: Mapping[str, str]) -> Iterator[Accelerator]:
    text = _printed("cnmon", "info", environ=environ)
    models = re.findall(r"^\s*Product Name\s*:\s*(.+?)\s*$", text, re.M)
    version = _match(r"^\s*Driver(?: Version)?\s*:\s*v?([\d.]+)", text)
    toolkit = _home(root, environ, "NEUWARE_HOME", "usr/local/neuware") / "version.txt"
    yield from _counted("mlu", models, driver=version, CNToolkit=_match(r"([\d.]*\d)", _read(toolkit)))


def _counted(family: str, models: list[str], **versions: str) -> Iterator[Accelerator]:
    known = {name: version for name, version in versions.items() if version}
    yield from (Accelerator(family, model, count, known) for model, count in Counter(models).items())


def _home(root: Path, environ: Mapping[str, str], variable: str, usual: str) -> Path:
    return Path(environ[variable]) if environ.get(variable) else root / usual


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.M)
    return found[1] if found else ""


def _read(path: Path) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MAX_CHARACTERS)
    except OSError:
        return ""


def _printed(tool: str, *arguments: str, environ: Mapping[str, str]) -> str:
    """Return the output of a tool on PATH; empty if it is absent, fails or hangs."""
    path = shutil.which(tool, path=environ.get("PATH"))
    if path is None:
        return ""
    try:
        process = subprocess.Popen(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError:
        return ""
    try:
        text, _ = process.communicate(timeout=TOOL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # Nobody waits for the end: a tool that hangs in its driver cannot be killed.
        process.kill()
        return ""
    return text.decode(errors="replace")[:_MAX_CHARACTERS] if process.returncode == 0 else ""
