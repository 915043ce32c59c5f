"""`precreg doctor`: what works here. Looking is done in examining.py, so that nothing is imported in vain.

What works here: measuring and arithmetic, versions, what may be installed besides, git, project and history.
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

from precreg.cli.history import history_option
from precreg.errors import UserError


@click.command("doctor")
@history_option
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_obj
def doctor_command(given: Path | None, /, place: str | None, as_json: bool) -> None:
    """Say what measures here and whether it measures right, what is installed, and what of a project is found.

    Exit codes: 2 something that is needed is broken; 0 otherwise.
    """
    found = examine_installation(given, place)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode([finding._asdict() for finding in found]), indent=2))
    else:
        width = max(len(finding.name) for finding in found)
        for finding in found:
            state = f"{finding.state}: " if finding.state == BROKEN_STATE else ""
            click.echo(f"{finding.name:{width}}  {state}{finding.says}")
    sys.exit(2 if any(finding.state == BROKEN_STATE for finding in found) else 0)


BROKEN_STATE = "broken"


CORES = {"core": "precreg.measure.compiled", "arithmetic core": "precreg.arithmetic.native"}
"""The compiled cores, by the modules that load them; each lies beside its module, as `_core`."""


REQUIRED_PACKAGES = ("numpy", "ml_dtypes", "msgspec", "sqlalchemy")
"""Of what is always installed, that whose version explains most."""


OPTIONAL_PACKAGES = {
    "matplotlib": "precreg visualize draws PNG with it (precreg[plots])",
    "psycopg": "histories are kept in PostgreSQL with it (precreg[postgresql])",
    "torch": "precreg itself does without; suites may ask for it",
}
"""What may be installed besides, and what for."""


class DoctorFinding(NamedTuple):
    """One line of what was found; `absent` is what is not needed, or not here."""

    name: str
    state: Literal["ok", "absent", "broken"]
    says: str


def examine_installation(given: Path | None, place: str | None) -> list[DoctorFinding]:
    """Look at everything. `given` is the project and `place` the history, where they were named."""
    found = [*_measuring(), *_arithmetic(), *_versions()]
    try:
        project = _project(given)
    except UserError as problem:
        named: Literal["absent", "broken"] = "absent" if given is None else "broken"
        return [*found, _git(Path.cwd()), DoctorFinding("project", named, problem.message)]
    return [*found, _git(project), DoctorFinding("project", "ok", str(project)), _history(project, place)]


def _project(given: Path | None) -> Path:
    from precreg.storage import find_project

    return find_project(given or Path.cwd())


def _measuring() -> Iterator[DoctorFinding]:
    """Tell which form serves, why it is not the compiled one, and whether it measures right."""
    from precreg.measure import BACKENDS, select_backend
    from precreg.quality import self_test_measure

    yield _core("core")
    try:
        serving = select_backend()
    except UserError as problem:
        yield DoctorFinding("measuring", "broken", problem.message)
        return
    name = next(name for name, each in BACKENDS.items() if each is serving)
    try:
        measured, wrong = self_test_measure(serving)
    except Exception as problem:  # whatever a core does that was built from other sources than the package
        yield DoctorFinding("measuring", "broken", f"the form {name} raises {problem!r}; install precreg anew")
        return
    if wrong:
        yield DoctorFinding("measuring", "broken", f"the form {name} differs from the plain one; {'; '.join(wrong)}")
    else:
        yield DoctorFinding(
            "measuring", "ok", f"the form {name} serves; {measured} adversarial pairs as in the plain one"
        )


def _arithmetic() -> Iterator[DoctorFinding]:
    """Tell which form rounds and adds for simulated devices, and whether it gives what is known."""
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
        yield DoctorFinding("arithmetic", "broken", f"it raises {problem!r}; install precreg anew")
        return
    if wrong:
        yield DoctorFinding("arithmetic", "broken", f"the form {name} is wrong in {'; '.join(wrong)}")
    else:
        yield DoctorFinding("arithmetic", "ok", f"the form {name} serves; {checked} results as known")


def _core(name: str) -> DoctorFinding:
    loader = CORES[name]
    if find_spec(f"{loader.rpartition('.')[0]}._core") is None:
        return DoctorFinding(name, "absent", "not built: no C++ compiler was there when precreg was installed")
    try:
        core = import_module(loader)._core
    except ImportError as problem:
        return DoctorFinding(name, "broken", f"built, but it cannot be loaded: {problem}")
    return DoctorFinding(name, "ok", f"{core.instruction_set}, {core.__file__}")


def _versions() -> Iterator[DoctorFinding]:
    from precreg import __version__
    from precreg.environment import count_processors

    yield DoctorFinding("precreg", "ok", f"{__version__}, {Path(__file__).parents[1]}")
    yield DoctorFinding("python", "ok", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield DoctorFinding("processors", "ok", str(count_processors()))
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


def _history(project: Path, place: str | None) -> DoctorFinding:
    from precreg.cli.history import open_project_history

    try:
        with open_project_history(project, place) as history:
            count = len(history.runs())
    except UserError as problem:
        if problem.slug == "missing-history" and place is None:
            return DoctorFinding("history", "absent", "none yet; precreg history add --create begins one")
        return DoctorFinding(
            "history", "broken", f"{problem.file}: {problem.message}" if problem.file else problem.message
        )
    return DoctorFinding("history", "ok", f"{count} {'run' if count == 1 else 'runs'}")
