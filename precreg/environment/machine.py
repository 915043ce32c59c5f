"""What the variables of an automatic run say: that no person is there, what the project is called, what is merged.

How many processors there are to work with.

Where a run takes place: a label that baselines are kept under, and the facts that can change a result's bits.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from os.path import realpath
from pathlib import Path

from precreg.errors import UserError
from precreg.types import FACTS_WITHOUT_EFFECT_ON_BITS, Environment


def in_ci(environ: Mapping[str, str]) -> bool:
    """Tell whether the variable CI says that this is an automatic run."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def project_name(project: Path, environ: Mapping[str, str]) -> str:
    """Return what a project is called: like its folder, but in a GitLab job like its repository.

    A runner may give each job a folder of its own, and the shards of a run are of one project.
    """
    root, name = environ.get("CI_PROJECT_DIR"), environ.get("CI_PROJECT_NAME")
    return name if root and name and realpath(root) == realpath(project) else project.name


def merge_request_base(project: Path, environ: Mapping[str, str]) -> str | None:
    """Return the commit that a merge request's job in GitLab is to be held against; None in any other run.

    It is the merge base of the request; where GitLab has merged the result for the pipeline, HEAD has the target's last
    commit in it, and that is the base. A project outside the job's repository is none of the request's.
    """
    root = environ.get("CI_PROJECT_DIR")
    if root and not Path(realpath(project)).is_relative_to(realpath(root)):
        return None
    merged = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA")
    return merged or environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") or None


def on_default_branch(environ: Mapping[str, str]) -> bool:
    """Tell whether this is a job of GitLab on the default branch, where merge requests have been merged."""
    branch = environ.get("CI_COMMIT_BRANCH")
    return bool(branch) and branch == environ.get("CI_DEFAULT_BRANCH")


def count_processors() -> int:
    """Count the processors that this process may use: in a container they are often fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


LABEL_VARIABLE = "PRECREG_ENVIRONMENT"

THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

KERNEL_VARIABLES = (
    "OPENBLAS_CORETYPE",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "BLIS_ARCH_TYPE",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
)
"""By which libraries are told to compute as on another processor."""


_MACHINES = {"amd64": "x86_64", "aarch64": "arm64"}


def detect_environment(label: str | None = None) -> Environment:
    """Describe this machine; the label is the one given, else that of PRECREG_ENVIRONMENT, else cpu-<machine>.

    Raises UserError (bad-value) for a label that cannot be the name of a folder.
    """
    limit_blas_threads()
    chosen = label or os.environ.get(LABEL_VARIABLE) or f"cpu-{_machine()}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", chosen):
        expected = "letters, digits, points, dashes and underscores"
        raise UserError("bad-value", f"expected an environment label of {expected} but got environment={chosen}")
    facts = _facts()
    return Environment(chosen, environment_chain(chosen), _fingerprint(facts), facts)


def limit_blas_threads() -> None:
    """Let BLAS use one thread, unless the user set any of its variables or numpy is already there to have read them.

    Sums split over threads differ in their bits. Workers inherit the variables, so a case has the same bits in this
    process and in any number of workers; and several workers do not fight over the cores.
    """
    if "numpy" not in sys.modules and not any(name in os.environ for name in THREAD_VARIABLES):
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


def _machine() -> str:
    machine = platform.machine().lower()
    return _MACHINES.get(machine, machine)


def environment_chain(label: str) -> tuple[str, ...]:
    """Return the levels at which an environment's baselines are looked for: its label, its family, and generic."""
    return tuple(dict.fromkeys((label, label.partition("-")[0], "generic")))


def _fingerprint(facts: dict[str, str]) -> str:
    decisive = sorted((name, fact) for name, fact in facts.items() if name not in FACTS_WITHOUT_EFFECT_ON_BITS)
    return hashlib.sha256(repr(decisive).encode()).hexdigest()[:8]


def _facts() -> dict[str, str]:
    import numpy as np

    facts = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": _blas(),
        "cpu": _cpu(),
        "cpu_features": _cpu_features(),
        "libc": _libc(),
        "threads": _threads(),
        "os": f"{platform.system()} {platform.release()}",
    }
    if kernels := _set(KERNEL_VARIABLES):
        facts["kernels"] = kernels
    if find_spec("torch") is not None:
        from importlib.metadata import version

        facts["torch"] = version("torch")
    return facts


def _blas() -> str:
    from numpy import show_config

    blas = show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas.get('version', 'unknown')}"


def _cpu_features() -> str:
    """Name the instruction sets that numpy chooses between and uses, after NPY_DISABLE_CPU_FEATURES."""
    import numpy as np

    numpy_1 = np.__version__.startswith("1.")
    core = import_module("numpy.core._multiarray_umath" if numpy_1 else "numpy._core._multiarray_umath")
    known = [*core.__cpu_baseline__, *core.__cpu_dispatch__]
    return " ".join(name for name in known if core.__cpu_features__.get(name))


def _cpu() -> str:
    """Return the model of the processor, by which BLAS chooses its kernels; the machine where it has no name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            described = re.search(r"^(?:model name|CPU part)\s*:\s*(.+)$", file.read(4096), re.MULTILINE)
    except OSError:
        described = None
    return described[1] if described else _machine()


def _libc() -> str:
    names = getattr(os, "confstr_names", {})
    return (os.confstr("CS_GNU_LIBC_VERSION") or "unknown") if "CS_GNU_LIBC_VERSION" in names else "unknown"


def _threads() -> str:
    return _set(THREAD_VARIABLES) or f"all of {os.cpu_count()} cores"


def _set(variables: Iterable[str]) -> str:
    return " ".join(f"{name}={os.environ[name]}" for name in variables if name in os.environ)
