"""Which parts of precreg work on this machine?

`precreg doctor` checks the compiled cores, the results of measuring and arithmetic, versions, git, project and history.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import click

from precreg.cli.console import show_report
from precreg.cli.history import history_option
from precreg.errors import UserError

# The compiled cores, by the modules that load them; each lies beside its module, as `_core`.
CORES = {"core": "precreg.measure.compiled", "arithmetic core": "precreg.arithmetic.native"}
# Required packages whose versions explain differences best: they compute, or store results.
REQUIRED_PACKAGES = ("numpy", "ml_dtypes", "msgspec", "sqlalchemy")
# Packages that may be missing, and their use.
OPTIONAL_PACKAGES = {
    "matplotlib": "precreg visualize draws PNG with it (precreg[plots])",
    "psycopg": "histories are stored in PostgreSQL with it (precreg[postgresql])",
    "torch": "subjects of the kind torch compute with it (precreg[torch])",
    "onnxruntime": "subjects of the kind onnx compute with it (precreg[onnx])",
    "pyarrow": "tables of figures are read from Parquet files with it (precreg[parquet])",
}
NO_ACCELERATORS = "none found by nvidia-smi, npu-smi, cnmon and /proc/driver/nvidia; all cases compute on the processor"


class DoctorFinding(NamedTuple):
    """Hold one line of the report. `absent` marks an optional part that is missing."""

    name: str
    state: Literal["ok", "absent", "broken"]
    says: str


@click.command("doctor")
@history_option
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_obj
def doctor_command(given: Path | None, /, place: str | None, as_json: bool) -> None:
    """Check the backends and their results, versions, git, and the project and its history.

    Exit codes: 2 a required part is broken; 0 otherwise.
    """
    found = examine_installation(given, place)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode([finding._asdict() for finding in found]), indent=2))
    else:
        width = max(len(finding.name) for finding in found)
        for finding in found:
            # The word and not a colour alone, because reports of installations are pasted into issues.
            state = "broken: " if finding.state == "broken" else ""
            show_report(f"{finding.name:{width}}  {state}{finding.says}\n")
    sys.exit(2 if any(finding.state == "broken" for finding in found) else 0)


def examine_installation(given: Path | None, place: str | None) -> list[DoctorFinding]:
    """Check everything. `given` is the project and `place` the history, if the options name them."""
    from precreg.environment import limit_blas_threads
    from precreg.storage import find_project

    # First, because numpy reads the number of threads once, and the environment must equal a run's.
    limit_blas_threads()
    found = [*_measuring(), *_arithmetic(), *_versions()]
    try:
        project = find_project(given or Path.cwd())
    except UserError as problem:
        # Without a project precreg still compares arrays; a project that was named must be there.
        named: Literal["absent", "broken"] = "absent" if given is None else "broken"
        return [*found, _git(Path.cwd()), DoctorFinding("project", named, problem.message)]
    here = DoctorFinding("project", "ok", str(project))
    return [*found, _git(project), here, _baselines(project), _history(project, place)]


def _measuring() -> Iterator[DoctorFinding]:
    """Yield the state of the compiled core, and the backend's results beside the reference implementation's."""
    from precreg.measure import BACKENDS, select_backend
    from precreg.quality import self_test_measure

    yield _core("core")
    try:
        backend = select_backend()
    except UserError as problem:
        yield DoctorFinding("measuring", "broken", problem.message)
        return
    name = next(name for name, each in BACKENDS.items() if each is backend)
    try:
        measured, wrong = self_test_measure(backend)
    # A core that was built from other sources than the package may raise anything.
    except Exception as problem:
        yield DoctorFinding("measuring", "broken", f"the backend {name} raises {problem!r}; reinstall precreg")
        return
    if wrong:
        yield DoctorFinding("measuring", "broken", f"the backend {name} differs: {'; '.join(wrong)}")
    else:
        says = f"the backend {name} gives the reference implementation's figures for {measured} adversarial pairs"
        yield DoctorFinding("measuring", "ok", says)


def _arithmetic() -> Iterator[DoctorFinding]:
    """Yield the state of the arithmetic core, and the backend's results beside known results."""
    from precreg.arithmetic import native_backend
    from precreg.quality import self_test_arithmetic

    yield _core("arithmetic core")
    try:
        name = "numpy" if native_backend() is None else "native"
        checked, wrong = self_test_arithmetic()
    except UserError as problem:
        yield DoctorFinding("arithmetic", "broken", problem.message)
        return
    except Exception as problem:  # as above
        yield DoctorFinding("arithmetic", "broken", f"the backend raises {problem!r}; reinstall precreg")
        return
    if wrong:
        yield DoctorFinding("arithmetic", "broken", f"the backend {name} is wrong in {'; '.join(wrong)}")
    else:
        yield DoctorFinding("arithmetic", "ok", f"the backend {name} gives {checked} known results")


def _core(name: str) -> DoctorFinding:
    loader = CORES[name]
    # find_spec distinguishes a core that was not built from one that does not load.
    if find_spec(f"{loader.rpartition('.')[0]}._core") is None:
        return DoctorFinding(name, "absent", "not built: no C++ compiler was there when precreg was installed")
    try:
        core = import_module(loader)._core
    except ImportError as problem:
        return DoctorFinding(name, "broken", f"built, but does not load: {problem}")
    return DoctorFinding(name, "ok", f"{core.instruction_set}, {core.__file__}")


def _versions() -> Iterator[DoctorFinding]:
    from precreg import __version__
    from precreg.environment import count_processors, detect_environment, find_accelerators

    yield DoctorFinding("precreg", "ok", f"{__version__}, {Path(__file__).parents[1]}")
    yield DoctorFinding("python", "ok", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield DoctorFinding("processors", "ok", str(count_processors()))
    try:
        here = detect_environment()
    except UserError as problem:
        yield DoctorFinding("environment", "broken", problem.message)
    else:
        facts = (f"{name} {here.facts[name]}" for name in ("kernels", "threads", "cpu_features", "libm"))
        yield DoctorFinding("environment", "ok", f"{here.label}, {here.fingerprint}: {', '.join(facts)}")
    found = find_accelerators()
    yield DoctorFinding("accelerators", "ok" if found else "absent", ", ".join(map(str, found)) or NO_ACCELERATORS)
    for name in REQUIRED_PACKAGES:
        yield DoctorFinding(name, "ok", version(name))
    for name, purpose in OPTIONAL_PACKAGES.items():
        try:
            yield DoctorFinding(name, "ok", version(name))
        except PackageNotFoundError:
            yield DoctorFinding(name, "absent", f"not installed; {purpose}")


def _git(folder: Path) -> DoctorFinding:
    from precreg.vcs import git_state, run_git

    try:
        # git is optional too: comparing arrays needs none.
        says = run_git(folder, "--version").stdout.strip().removeprefix("git version ")
    except UserError:
        return DoctorFinding(
            "git", "absent", "not installed; reports name no commit, and nothing is checked before a push"
        )
    try:
        state = git_state(folder)
    except UserError as problem:
        return DoctorFinding("git", "broken", problem.message)
    return DoctorFinding("git", "ok", f"{says}; {f'commit {state.commit[:8]}' if state else 'no commit here'}")


def _baselines(project: Path) -> DoctorFinding:
    """Return the number of baselines, and of those in the form of earlier versions. Damaged files are broken."""
    from precreg.baseline import count_unchecked_entries, read_all_entries, single_files

    try:
        number, unchecked = len(read_all_entries(project)), count_unchecked_entries(project)
        former = len(single_files(project))
    except UserError as problem:
        place = f"{problem.file}:{problem.line}: " if problem.line else f"{problem.file}: "
        return DoctorFinding("baselines", "broken", f"{place if problem.file else ''}{problem.message}")
    if not number:
        return DoctorFinding("baselines", "absent", "none yet; precreg baseline accept stores the first")
    counted = "1 baseline" if number == 1 else f"{number} baselines"
    missing = f", {unchecked} without a checksum: precreg baseline checksum adds it" if unchecked else ""
    files = "1 file" if former == 1 else f"{former} files"
    older = f", {files} of an earlier version: precreg baseline migrate rewrites them" if former else ""
    return DoctorFinding("baselines", "ok", f"{counted}{missing}{older}")


def _history(project: Path, place: str | None) -> DoctorFinding:
    from precreg.cli.history import open_project_history

    try:
        with open_project_history(project, place) as history:
            count = len(history.runs())
    except UserError as problem:
        # A history is optional, but one that the user named must be there.
        if problem.slug == "missing-history" and place is None:
            return DoctorFinding("history", "absent", "none yet; precreg history add --create begins one")
        return DoctorFinding(
            "history", "broken", f"{problem.file}: {problem.message}" if problem.file else problem.message
        )
    return DoctorFinding("history", "ok", f"{count} {'run' if count == 1 else 'runs'}")
