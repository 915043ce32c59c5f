"""Where does this run?

Variables show a CI job, its project and its merge base. A label names the environment of a baseline, and its
fingerprint is the digest of all facts that can change the bits of a result. Facts are effects, read from the libraries
that compute: the kernels in use, and not the variable that may have chosen them.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from os.path import realpath
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.types import Environment, SourceLinks


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


# The variables of the templates that links of reports are made of, and their examples.
SOURCE_URL_VARIABLE, COMMIT_URL_VARIABLE = "PRECREG_SOURCE_URL", "PRECREG_COMMIT_URL"
_SOURCE_URL = "https://git.example.org/group/project/-/blob/{commit}/{path}#L{line}"
_COMMIT_URL = "https://git.example.org/group/project/-/commit/{commit}"


def source_links(environ: Mapping[str, str]) -> SourceLinks | None:
    """Return the templates of links to lines and commits, from variables, or from GitLab or GitHub in CI.

    Return None if neither is known. Raises UserError (bad-value) for a template of another scheme than http and https.
    """
    source, commit = _server_links(environ)
    source = _url_template(environ, SOURCE_URL_VARIABLE, _SOURCE_URL) or source
    commit = _url_template(environ, COMMIT_URL_VARIABLE, _COMMIT_URL) or commit
    if not source and not commit:
        return None
    from precreg.types import SourceLinks

    return SourceLinks(source, commit)


def _server_links(environ: Mapping[str, str]) -> tuple[str, str]:
    if gitlab := environ.get("CI_PROJECT_URL"):
        return f"{gitlab}/-/blob/{{commit}}/{{path}}#L{{line}}", f"{gitlab}/-/commit/{{commit}}"
    server, repository = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_REPOSITORY")
    if server and repository:
        place = f"{server}/{repository}"
        return f"{place}/blob/{{commit}}/{{path}}#L{{line}}", f"{place}/commit/{{commit}}"
    return "", ""


def _url_template(environ: Mapping[str, str], variable: str, example: str) -> str:
    template = environ.get(variable, "").strip()
    # Any other scheme, such as javascript:, would run code of the template in the reader's browser.
    if template and not re.match(r"https?://[^\s/{}]+/\S*\Z", template):
        message = f"expected a URL such as {example} but got {variable}={template}"
        raise UserError("bad-value", message, hint=f"set the variable like this: {variable}={example}")
    return template


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
OPENBLAS_KERNEL_VARIABLE = "OPENBLAS_CORETYPE"
# Libraries read these to use the kernels of another processor, which changes the bits of their results.
KERNEL_VARIABLES = (
    OPENBLAS_KERNEL_VARIABLE,
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
    from msgspec.structs import replace

    from precreg.types import Environment, facts_fingerprint

    limit_blas_threads()
    chosen = label or os.environ.get(LABEL_VARIABLE) or f"cpu-{_machine()}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", chosen):
        expected = "at most 200 letters, digits, points, dashes and underscores"
        raise UserError(
            "bad-value",
            f"expected an environment label of {expected} but got environment={chosen}",
            hint="write such a label: --environment npu-910b, or PRECREG_ENVIRONMENT=npu-910b",
        )
    facts = _facts()
    here = Environment(chosen, environment_chain(chosen), "", facts, former_fingerprints(facts))
    return replace(here, fingerprint=facts_fingerprint(here.decisive))


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


def former_fingerprints(facts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the fingerprints that stored baselines may have for an environment, from `former_descriptions`."""
    from precreg.types import facts_fingerprint

    return tuple(map(facts_fingerprint, former_descriptions(facts)))


def _facts() -> dict[str, str]:
    import numpy as np

    blas = _loaded_openblas()
    cpu = _cpu()
    facts = {
        # Python computes with the C library's functions, and a patch release repairs errors alone.
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": np.__version__,
        "blas": _blas(),
        "kernels": _kernels(blas, cpu),
        "threads": _threads(blas),
        "cpu_features": _cpu_features(),
        "libc": _libc(),
        "libm": _libm(),
        # From here on facts explain, and have no effect on the fingerprint (see FACTS_WITHOUT_EFFECT_ON_BITS).
        "cpu": cpu,
        "python_version": platform.python_version(),
        "thread_variables": _thread_variables(),
        "os": f"{platform.system()} {platform.release()}",
    }
    if variables := _variables_set(KERNEL_VARIABLES):
        facts["kernel_variables"] = variables
    return facts | _torch(cpu)


class _LoadedBlas(NamedTuple):
    """Hold the OpenBLAS in use: its name and version, the processor that its kernels are for, and its threads."""

    version: str
    core: str
    threads: int


def _loaded_openblas() -> _LoadedBlas | None:
    """Read the state of the OpenBLAS that numpy multiplies matrices with; None for any other BLAS."""
    import ctypes

    # threadpoolctl reads the same of more libraries, and takes 30 ms where this takes 0.2 ms.
    # The search covers numpy's module and the libraries that it links to. So this finds numpy's own BLAS,
    # even if a project has loaded scipy's or torch's, too.
    try:
        library = ctypes.CDLL(_numpy_core().__file__)
    except (OSError, AttributeError, TypeError):
        return None
    # numpy's wheels rename the symbols since 1.26, and builds with 64-bit integers have suffixes.
    for prefix, suffix in product(("scipy_openblas", "openblas"), ("64_", "_64", "")):
        names = (f"{prefix}_get_{name}{suffix}" for name in ("config", "corename", "num_threads"))
        try:
            config, core, threads = (getattr(library, name) for name in names)
        except AttributeError:
            continue
        config.restype = core.restype = ctypes.c_char_p
        # "OpenBLAS 0.3.31  USE64BITINT DYNAMIC_ARCH ..."
        version = " ".join(config().decode(errors="replace").split()[:2])
        return _LoadedBlas(version, core().decode(errors="replace"), threads())
    return None


def _kernels(blas: _LoadedBlas | None, cpu: str) -> str:
    """Return the kernels of BLAS. Libraries that do not reveal theirs choose by the processor and by variables."""
    revealed = set() if blas is None else {OPENBLAS_KERNEL_VARIABLE}
    chosen = f"not readable: {cpu}" if blas is None else f"{blas.version} {blas.core}"
    # A project may compute with other libraries than BLAS, so their variables count wherever they are set.
    return " ".join(filter(None, (chosen, _variables_set(name for name in KERNEL_VARIABLES if name not in revealed))))


def _threads(blas: _LoadedBlas | None) -> str:
    """Return the number of threads of BLAS; with a BLAS that does not reveal it, the variables that may limit it."""
    return f"not readable: {_thread_variables()}" if blas is None else str(blas.threads)


def _torch(cpu: str) -> dict[str, str]:
    """Return the facts of torch if it is installed. Importing torch to read its kernels would take seconds."""
    if find_spec("torch") is None:
        return {}
    from importlib.metadata import version

    # torch reads these two, in this order, and otherwise uses all cores.
    set_threads = (os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ)
    threads = next(set_threads, f"all of {os.cpu_count()} cores")
    return {"torch": version("torch"), "torch_kernels": f"not readable: {cpu}", "torch_threads": threads}


def _thread_variables() -> str:
    return _variables_set(THREAD_VARIABLES) or f"all of {os.cpu_count()} cores"


def former_descriptions(facts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the facts that precreg may have stored for an environment while texts of variables were facts.

    Other texts that give the same threads and kernels stood for the same environment. The texts that are set come
    first.
    """
    kept = {name: facts[name] for name in ("numpy", "blas", "cpu", "cpu_features", "libc", "torch") if name in facts}
    threads, kernels = [facts["thread_variables"]], [facts.get("kernel_variables", "")]
    count, core = facts["threads"], facts["kernels"].split(" ")[2:]
    # Without a known BLAS, or with torch, each text may have an effect of its own.
    if count.isdecimal() and "torch" not in facts:
        assigned = [f"{name}={count}" for name in THREAD_VARIABLES]
        threads += [" ".join(assigned), *assigned, f"all of {count} cores"]
        # Further words are variables of other libraries, which the former text would have, too.
        kernels += [f"{OPENBLAS_KERNEL_VARIABLE}={core[0]}"] if len(core) == 1 else []
    for limits, chosen in product(dict.fromkeys(threads), dict.fromkeys(kernels)):
        described = {**kept, "python": facts["python_version"], "threads": limits}
        yield described | ({"kernels": chosen} if chosen else {})


def _blas() -> str:
    from numpy import show_config

    blas = show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas.get('version', 'unknown')}"


def _numpy_core() -> ModuleType:
    import numpy as np

    # numpy 2 renamed its private module.
    numpy_1 = np.__version__.startswith("1.")
    return import_module("numpy.core._multiarray_umath" if numpy_1 else "numpy._core._multiarray_umath")


def _cpu_features() -> str:
    """List the instruction sets in use by numpy, after NPY_DISABLE_CPU_FEATURES."""
    # No public function returns the features in use rather than those present.
    core = _numpy_core()
    known = [*core.__cpu_baseline__, *core.__cpu_dispatch__]
    return " ".join(name for name in known if core.__cpu_features__.get(name))


def _cpu() -> str:
    """Return the processor's model; without one, the architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            # x86 has "model name", arm64 "CPU part". The first processor of the list suffices.
            described = re.search(r"^(?:model name|CPU part)\s*:\s*(.+)$", file.read(4096), re.MULTILINE)
    except OSError:
        described = None
    return described[1] if described else _machine()


def _libc() -> str:
    # macOS and musl have no such name.
    names = getattr(os, "confstr_names", {})
    return (os.confstr("CS_GNU_LIBC_VERSION") or "unknown") if "CS_GNU_LIBC_VERSION" in names else "unknown"


# Results of each function in the digest. With 1024, turning FMA off in glibc 2.36 (GLIBC_TUNABLES) changes 11 of the
# 3072 results; the loop takes a millisecond.
_LIBM_ARGUMENTS = 1024
_GOLDEN_RATIO = 0.6180339887498949


def _libm() -> str:
    """Return a digest of results of libm, which computes elementary functions for Python and numpy's scalar loops."""
    # libm chooses its code by the processor, too, and no function reveals the choice. Other code rounds few results
    # differently, so a few hundred arguments are needed. Multiples of the golden ratio, modulo 1, lie evenly.
    arguments = [0.01 + 9 * (index * _GOLDEN_RATIO % 1.0) for index in range(_LIBM_ARGUMENTS)]
    results = array("d", [value for function in (math.exp, math.sin, math.cos) for value in map(function, arguments)])
    return hashlib.sha256(results.tobytes()).hexdigest()[:8]


def _variables_set(variables: Iterable[str]) -> str:
    return " ".join(f"{name}={os.environ[name]}" for name in variables if name in os.environ)
