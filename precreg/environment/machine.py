"""Where does this run?

Variables show a CI job, its project and its merge base. A label names the environment of a baseline, and its
fingerprint is the digest of all facts that can change the bits of a result.
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
from typing import TYPE_CHECKING

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.types import Environment


def in_ci(environ: Mapping[str, str]) -> bool:
    """Return whether the variable CI marks an automatic run."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def project_name(project: Path, environ: Mapping[str, str]) -> str:
    """Return the project's name: its folder's, or in a GitLab job its repository's."""
    # A runner may give each job another folder, and the shards of one run must have one project name.
    root, name = environ.get("CI_PROJECT_DIR"), environ.get("CI_PROJECT_NAME")
    return name if root and name and realpath(root) == realpath(project) else project.name


def merge_request_base(project: Path, environ: Mapping[str, str]) -> str | None:
    """Return the base commit of a GitLab merge request job; None in any other run."""
    # A project outside the job's repository is not part of its merge request.
    root = environ.get("CI_PROJECT_DIR")
    if root and not Path(realpath(project)).is_relative_to(realpath(root)):
        return None
    # GitLab sets the target's commit only in pipelines for merged results. There HEAD already contains that commit,
    # so it is the base. In all other pipelines the base is the merge base of the request.
    merged = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA")
    return merged or environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") or None


def on_default_branch(environ: Mapping[str, str]) -> bool:
    """Return whether this is a GitLab job on the default branch, after merge requests were merged."""
    branch = environ.get("CI_COMMIT_BRANCH")
    return bool(branch) and branch == environ.get("CI_DEFAULT_BRANCH")


def count_processors() -> int:
    """Count the processors available to this process; a container often has fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


LABEL_VARIABLE = "PRECREG_ENVIRONMENT"
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# Libraries read these to use the kernels of another processor, which changes the bits of their results.
KERNEL_VARIABLES = (
    "OPENBLAS_CORETYPE",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "BLIS_ARCH_TYPE",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
)
# Operating systems report one architecture under several names; a baseline's folder needs one.
_MACHINES = {"amd64": "x86_64", "aarch64": "arm64"}


def detect_environment(label: str | None = None) -> Environment:
    """Describe this machine under the given label, otherwise PRECREG_ENVIRONMENT, otherwise cpu-<machine>.

    Raises:
        UserError: bad-value, for a label that is not usable as a folder name.
    """
    from precreg.types import Environment

    limit_blas_threads()
    chosen = label or os.environ.get(LABEL_VARIABLE) or f"cpu-{_machine()}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", chosen):
        expected = "letters, digits, points, dashes and underscores"
        raise UserError("bad-value", f"expected an environment label of {expected} but got environment={chosen}")
    facts = _facts()
    return Environment(chosen, environment_chain(chosen), _fingerprint(facts), facts)


def limit_blas_threads() -> None:
    """Set BLAS to one thread, unless the user set one of its variables or numpy is already imported."""
    # Sums split over threads differ in their bits. Workers inherit the variables, so a case has the same bits in this
    # process and in any number of workers, and workers do not compete for cores. Once numpy is imported, BLAS has read
    # its variables, and a change would only make the fingerprint wrong.
    if "numpy" not in sys.modules and not any(name in os.environ for name in THREAD_VARIABLES):
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


def _machine() -> str:
    machine = platform.machine().lower()
    return _MACHINES.get(machine, machine)


def environment_chain(label: str) -> tuple[str, ...]:
    """Return the environments whose baselines apply, in order: the label, its family, and generic."""
    return tuple(dict.fromkeys((label, label.partition("-")[0], "generic")))


def _fingerprint(facts: dict[str, str]) -> str:
    # Eight digits keep a baseline readable. A project has few environments, so collisions are improbable.
    from precreg.types import FACTS_WITHOUT_EFFECT_ON_BITS

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
        "threads": _variables_set(THREAD_VARIABLES) or f"all of {os.cpu_count()} cores",
        "os": f"{platform.system()} {platform.release()}",
    }
    if kernels := _variables_set(KERNEL_VARIABLES):
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
    """List the instruction sets in use by numpy, after NPY_DISABLE_CPU_FEATURES."""
    import numpy as np

    # numpy 2 renamed its private module. No public function returns the features in use rather than those present.
    numpy_1 = np.__version__.startswith("1.")
    core = import_module("numpy.core._multiarray_umath" if numpy_1 else "numpy._core._multiarray_umath")
    known = [*core.__cpu_baseline__, *core.__cpu_dispatch__]
    return " ".join(name for name in known if core.__cpu_features__.get(name))


def _cpu() -> str:
    """Return the processor's model, by which BLAS chooses its kernels; without a model, the architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            # x86 has "model name", arm64 "CPU part". The first processor of the list suffices.
            described = re.search(r"^(?:model name|CPU part)\s*:\s*(.+)$", file.read(4096), re.MULTILINE)
    except OSError:
        described = None
    return described[1] if described else _machine()


def _libc() -> str:
    # libm, a part of glibc, computes exp and sin for numpy's scalar loops; macOS and musl have no such name.
    names = getattr(os, "confstr_names", {})
    return (os.confstr("CS_GNU_LIBC_VERSION") or "unknown") if "CS_GNU_LIBC_VERSION" in names else "unknown"


def _variables_set(variables: Iterable[str]) -> str:
    return " ".join(f"{name}={os.environ[name]}" for name in variables if name in os.environ)
